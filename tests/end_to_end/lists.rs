//! `ListExecutions`: filters, pages and tokens.

use crate::plans::{RequestWords, WORK, plan, request, step};
use crate::status_details::reason;
use crate::world::World;
use escapement_tests::ScriptedWorker;
use escapement_tests::fresh_id;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{Execution, ListExecutionsRequest, ListExecutionsResponse};
use serde_json::json;
use tonic::Code;

async fn list(world: &World, request: ListExecutionsRequest) -> ListExecutionsResponse {
    world
        .orchestrator
        .plans()
        .list_executions(request)
        .await
        .unwrap()
        .into_inner()
}

/// Returns a world with four executions, oldest first: one ran well, one failed, one runs, one is queued.
async fn four_executions() -> (World, ScriptedWorker, Vec<Execution>) {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let mut ids = Vec::new();
    for n in 0..4 {
        let mut request = request(plan([step(0, WORK)]));
        let plan = request.plan.as_mut().unwrap();
        plan.name = format!("plan {}", n % 2);
        plan.tags = vec![format!("tag {n}"), "all".to_owned()];
        request.user_id = Some(format!("user {}", n / 2));
        request.parent_execution_id = (n == 0).then(|| PARENT.to_owned());
        ids.push(request.id());
        world.submit(&request).await;
        match n {
            0 => drop(worker.complete_next(json!({})).await),
            1 => {
                let assignment = worker.started().await;
                worker.fail(&assignment, "BROKEN", Severity::Error).await;
            }
            2 => drop(worker.started().await),
            _ => {}
        }
        if n < 2 {
            world.result_of(&ids[n]).await;
        }
    }
    let mut executions = Vec::new();
    for id in &ids {
        executions.push(world.execution(id).await);
    }
    (world, worker, executions)
}

const PARENT: &str = "11111111-1111-4111-8111-111111111111";

/// A filter by name, and the places of the executions that it lists.
type Case = (&'static str, fn(&mut ListExecutionsRequest), &'static [usize]);

const CASES: [Case; 17] = [
    ("none", |_| {}, &[3, 2, 1, 0]),
    ("settled", |filter| filter.set_state(State::Settled), &[1, 0]),
    ("running", |filter| filter.set_state(State::Running), &[2]),
    ("queued", |filter| filter.set_state(State::Queued), &[3]),
    ("success", |filter| filter.set_status(Status::Success), &[0]),
    ("failure", |filter| filter.set_status(Status::Failure), &[1]),
    ("partial", |filter| filter.set_status(Status::Partial), &[]),
    (
        "name",
        |filter| filter.plan_name = Some("plan 1".to_owned()),
        &[3, 1],
    ),
    (
        "part of a name",
        |filter| filter.plan_name = Some("plan".to_owned()),
        &[],
    ),
    ("tag", |filter| filter.tag = Some("tag 2".to_owned()), &[2]),
    (
        "common tag",
        |filter| filter.tag = Some("all".to_owned()),
        &[3, 2, 1, 0],
    ),
    ("part of a tag", |filter| filter.tag = Some("tag".to_owned()), &[]),
    (
        "user",
        |filter| filter.user_id = Some("user 1".to_owned()),
        &[3, 2],
    ),
    (
        "parent",
        |filter| filter.parent_execution_id = Some(PARENT.to_owned()),
        &[0],
    ),
    ("future", |filter| filter.accepted_after = Some(i64::MAX), &[]),
    ("past", |filter| filter.accepted_before = Some(1), &[]),
    (
        "two filters",
        |filter| {
            filter.user_id = Some("user 0".to_owned());
            filter.plan_name = Some("plan 1".to_owned());
        },
        &[1],
    ),
];

#[tokio::test]
async fn each_filter_lists_what_matches_newest_first() {
    let (world, _worker, executions) = four_executions().await;
    for (name, change, expected) in CASES {
        let mut filter = ListExecutionsRequest::default();
        change(&mut filter);
        let answer = list(&world, filter).await;
        let expected: Vec<_> = expected.iter().map(|at| &executions[*at].execution_id).collect();
        let listed: Vec<_> = answer
            .executions
            .iter()
            .map(|execution| &execution.execution_id)
            .collect();
        assert_eq!(listed, expected, "{name}");
        assert_eq!(answer.next_page_token, "", "{name}");
    }
}

#[tokio::test]
async fn acceptance_times_are_filtered_from_inclusive_to_exclusive() {
    let (world, _worker, executions) = four_executions().await;
    let at = executions[1].accepted_at;
    let inside = ListExecutionsRequest {
        accepted_after: Some(at),
        accepted_before: Some(at + 1),
        ..Default::default()
    };
    let listed = list(&world, inside).await.executions;
    assert!(
        listed
            .iter()
            .any(|execution| execution.execution_id == executions[1].execution_id)
    );
    assert!(listed.iter().all(|execution| execution.accepted_at == at));
    let before = ListExecutionsRequest {
        accepted_before: Some(at),
        ..Default::default()
    };
    assert!(
        list(&world, before)
            .await
            .executions
            .iter()
            .all(|execution| execution.accepted_at < at)
    );
}

#[tokio::test]
async fn a_listed_execution_is_the_execution_without_progress_result_and_certificate() {
    let (world, _worker, executions) = four_executions().await;
    let answer = list(&world, ListExecutionsRequest::default()).await;
    for (listed, execution) in answer.executions.iter().rev().zip(executions) {
        assert_eq!(
            listed,
            &Execution {
                progress: None,
                result: None,
                certificate: None,
                ..execution
            }
        );
    }
}

#[tokio::test]
async fn a_row_says_how_its_execution_ended_and_whether_a_restart_ended_it() {
    let (mut world, _worker, executions) = four_executions().await;
    world.crash_and_restart().await;
    // The one that was queued has no worker any more and stays as it is, or runs into nothing; it is not looked at.
    let rows = list(&world, ListExecutionsRequest::default()).await.executions;
    for (row, (error_code, steps_executed, interrupted)) in rows.iter().rev().zip([
        (None, 1, false),
        (Some("BROKEN"), 0, false),
        (Some("UNKNOWN_ERROR"), 0, true),
    ]) {
        let result = world.result_of(&row.execution_id).await;
        assert_eq!(row.error_code.as_deref(), error_code, "{row:?}");
        assert_eq!(row.duration_ms, Some(result.duration_ms));
        assert_eq!(
            (row.steps_executed, row.steps_total, row.interrupted),
            (Some(steps_executed), Some(1), interrupted)
        );
    }
    let live = &executions[3];
    assert_eq!(
        (
            &live.error_code,
            live.duration_ms,
            live.steps_executed,
            live.steps_total
        ),
        (&None, None, None, None)
    );
}

#[tokio::test]
async fn pages_show_each_execution_once_though_new_ones_arrive() {
    let (world, _worker, executions) = four_executions().await;
    let mut listed = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListExecutionsRequest {
            page_size: Some(1),
            page_token,
            tag: Some("all".into()),
            ..Default::default()
        };
        let page = list(&world, request).await;
        assert!(page.executions.len() <= 1);
        listed.extend(
            page.executions
                .into_iter()
                .map(|execution| execution.execution_id),
        );
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
        let mut newer = request_with_tag("all");
        newer.plan.as_mut().unwrap().name = "arrives between two pages".to_owned();
        world.submit(&newer).await;
    }
    let expected: Vec<_> = executions
        .iter()
        .rev()
        .map(|execution| execution.execution_id.clone())
        .collect();
    assert_eq!(listed, expected);
}

fn request_with_tag(tag: &str) -> escapement_wire::v1::ExecutePlanRequest {
    let mut request = request(plan([step(0, WORK)]));
    request.plan.as_mut().unwrap().tags = vec![tag.to_owned()];
    request
}

#[tokio::test]
async fn a_token_that_is_not_ours_or_for_other_filters_is_refused() {
    let (world, _worker, _) = four_executions().await;
    let first = ListExecutionsRequest {
        page_size: Some(1),
        ..Default::default()
    };
    let token = list(&world, first).await.next_page_token;
    assert_ne!(token, "");
    let other_filter = ListExecutionsRequest {
        page_token: token,
        tag: Some("all".into()),
        ..Default::default()
    };
    let nonsense = ListExecutionsRequest {
        page_token: "nonsense".into(),
        ..Default::default()
    };
    for request in [other_filter, nonsense] {
        let refused = world
            .orchestrator
            .plans()
            .list_executions(request)
            .await
            .unwrap_err();
        assert_eq!(reason(&refused, Code::InvalidArgument), "PAGE_TOKEN_INVALID");
    }
    for page_size in [0, -1, 1_001] {
        let request = ListExecutionsRequest {
            page_size: Some(page_size),
            ..Default::default()
        };
        let refused = world
            .orchestrator
            .plans()
            .list_executions(request)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "page size {page_size}");
    }
    let request = ListExecutionsRequest {
        parent_execution_id: Some("nonsense".into()),
        ..Default::default()
    };
    assert_eq!(
        world
            .orchestrator
            .plans()
            .list_executions(request)
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    let nobody = ListExecutionsRequest {
        parent_execution_id: Some(fresh_id()),
        ..Default::default()
    };
    assert!(list(&world, nobody).await.executions.is_empty());
}

#[tokio::test]
async fn a_restart_changes_neither_lists_nor_their_tokens() {
    let (mut world, _worker, _) = four_executions().await;
    let settled = |page_token: String| ListExecutionsRequest {
        page_size: Some(1),
        state: State::Settled.into(),
        accepted_before: Some(i64::MAX),
        page_token,
        ..Default::default()
    };
    let first = list(&world, settled(String::new())).await;
    let second = list(&world, settled(first.next_page_token.clone())).await;
    assert_eq!((first.executions.len(), second.executions.len()), (1, 1));
    world.crash_and_restart().await;
    assert_eq!(
        list(&world, settled(first.next_page_token)).await.executions,
        second.executions
    );
}
