//! Lists, steps, results, evidence, revisions: what is read of runs.

use crate::world::{World, call, json_of, reason, run_of};
use escapement_wire::json::from_opaque_value;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run::State;
use serde_json::json;
use std::collections::BTreeSet;
use tonic::Code;

async fn pages(world: &mut World, mut request: v1::ListRunsRequest) -> Vec<v1::Run> {
    let mut runs = Vec::new();
    loop {
        let page = world
            .client
            .list_runs(request.clone())
            .await
            .unwrap()
            .into_inner();
        runs.extend(page.runs);
        if page.next_page_token.is_empty() {
            return runs;
        }
        request.page_token = page.next_page_token;
    }
}

// S89: lists.
#[tokio::test]
async fn lists_are_ordered_by_priority_then_age_and_pages_hold_under_inserts() {
    let mut world = World::new();
    for n in 0..7 {
        let request = v1::CreateRunRequest {
            name: format!("run {n}"),
            priority: Some(1 + n % 3),
            user_id: if n == 6 { "eve" } else { "ada" }.to_owned(),
            ..run_of(json!([]))
        };
        world.finish(request).await;
    }
    let first = v1::ListRunsRequest {
        page_size: Some(3),
        user_id: "ada".to_owned(),
        ..v1::ListRunsRequest::default()
    };
    let page = world.client.list_runs(first.clone()).await.unwrap().into_inner();
    let names: Vec<&str> = page.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["run 5", "run 2", "run 4"]);
    // What comes meanwhile takes nothing from the pages behind, and stands on none of them twice.
    for _ in 0..3 {
        let request = v1::CreateRunRequest {
            priority: Some(10),
            user_id: "ada".to_owned(),
            ..run_of(json!([]))
        };
        world.finish(request).await;
    }
    let rest = v1::ListRunsRequest {
        page_token: page.next_page_token.clone(),
        ..first.clone()
    };
    let rest = pages(&mut world, rest).await;
    let names: Vec<&str> = rest.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["run 1", "run 3", "run 0"]);
    assert!(
        rest.iter()
            .all(|run| run.state() == State::Completed && run.plan_status == "completed")
    );
    let foreign = v1::ListRunsRequest {
        page_token: page.next_page_token,
        user_id: "eve".to_owned(),
        ..first
    };
    let refused = world.client.list_runs(foreign).await.unwrap_err();
    assert_eq!(reason(&refused), "PAGE_TOKEN_INVALID");
    assert_eq!(pages(&mut world, v1::ListRunsRequest::default()).await.len(), 10);
}

#[tokio::test]
async fn lists_filter_by_state_status_and_life() {
    let mut world = World::new();
    let done = world.finish(run_of(json!([]))).await;
    let failed = world.finish(run_of(json!([call("a", "fail", &[])]))).await;
    let live = world.create(run_of(json!([call("a", "hang", &[])]))).await;
    let waiting = v1::CreateRunRequest {
        autonomy_level: Some(1),
        ..run_of(json!([call("a", "echo", &[])]))
    };
    let waiting = world.create(waiting).await;
    world.reaches(&waiting.run_id, State::Waiting).await;
    world.reaches(&live.run_id, State::Running).await;
    let ids = |runs: Vec<v1::Run>| runs.into_iter().map(|run| run.run_id).collect::<BTreeSet<_>>();
    let base = v1::ListRunsRequest::default();
    let of_state = v1::ListRunsRequest {
        state: State::Failed.into(),
        ..base.clone()
    };
    let listed = pages(&mut world, of_state).await;
    assert_eq!(listed[0].error.as_ref().unwrap().code, "NO_LUCK");
    assert_eq!(ids(listed), BTreeSet::from([failed.run_id]));
    let living = v1::ListRunsRequest {
        live: true,
        ..base.clone()
    };
    let expected = BTreeSet::from([live.run_id.clone(), waiting.run_id.clone()]);
    assert_eq!(ids(pages(&mut world, living).await), expected);
    let paused = v1::ListRunsRequest {
        plan_status: "paused".to_owned(),
        ..base.clone()
    };
    assert_eq!(
        ids(pages(&mut world, paused).await),
        BTreeSet::from([waiting.run_id])
    );
    let completed = v1::ListRunsRequest {
        plan_status: "completed".to_owned(),
        ..base.clone()
    };
    assert_eq!(
        ids(pages(&mut world, completed).await),
        BTreeSet::from([done.run_id])
    );
    let linked = v1::CreateRunRequest {
        goal_id: "g-1".to_owned(),
        trigger_id: "t-1".to_owned(),
        ..run_of(json!([call("a", "fail", &[])]))
    };
    let linked = world.finish(linked).await;
    let retry = v1::RetryRunRequest {
        run_id: linked.run_id.clone(),
        ..v1::RetryRunRequest::default()
    };
    let retried = world.client.retry_run(retry).await.unwrap();
    let retried = retried.into_inner().run.unwrap();
    world.ended(&retried.run_id).await;
    let of_goal = v1::ListRunsRequest {
        goal_id: "g-1".to_owned(),
        trigger_id: "t-1".to_owned(),
        ..base.clone()
    };
    let expected = BTreeSet::from([linked.run_id, retried.run_id]);
    assert_eq!(ids(pages(&mut world, of_goal).await), expected);
    let of_another = v1::ListRunsRequest {
        goal_id: "g-2".to_owned(),
        ..base
    };
    assert!(pages(&mut world, of_another).await.is_empty());
    let status = world
        .client
        .get_runs_status(v1::GetRunsStatusRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (status.live, status.queued, status.under_way, status.ended),
        (2, 0, 1, 4)
    );
    assert_eq!(status.running_run_ids, [live.run_id]);
    assert_eq!((status.under_way_max, status.live_max), (50, 1000));
}

#[tokio::test]
async fn statistics_count_all_runs() {
    let mut world = World::new();
    world
        .finish(run_of(json!([
            call("a", "echo", &[]),
            call("b", "echo", &[]),
            call("c", "echo", &[])
        ])))
        .await;
    let two = json!([call("a", "fail", &[]), call("b", "echo", &[])]);
    world.finish(run_of(two)).await;
    let four = json!([
        call("a", "hang", &[]),
        call("b", "echo", &[]),
        call("c", "echo", &[]),
        call("d", "echo", &[])
    ]);
    let live = world.create(run_of(four)).await;
    world.reaches(&live.run_id, State::Running).await;
    let stats = world
        .client
        .get_run_stats(v1::GetRunStatsRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (stats.total, stats.completion_rate, stats.avg_steps_per_run),
        (3, 33.3, 3.0)
    );
    assert_eq!(
        stats.by_status,
        [("completed", 1), ("failed", 1), ("running", 1)]
            .map(|(a, n)| (a.to_owned(), n))
            .into()
    );
    assert!(!stats.incomplete);
}

#[tokio::test]
async fn events_are_listed_newest_first_and_in_order_and_by_any_name() {
    let mut world = World::new();
    let run = world
        .finish(run_of(json!([call("a", "echo", &[]), call("b", "echo", &[])])))
        .await;
    let request = v1::ListRunEventsRequest {
        run_id: run.run_id.clone(),
        page_size: Some(5),
        ..v1::ListRunEventsRequest::default()
    };
    for ascending in [false, true] {
        let mut sequences = Vec::new();
        let mut request = v1::ListRunEventsRequest {
            ascending,
            ..request.clone()
        };
        loop {
            let page = world
                .client
                .list_run_events(request.clone())
                .await
                .unwrap()
                .into_inner();
            assert_eq!((page.first_sequence, page.last_sequence), (1, run.last_sequence));
            sequences.extend(page.events.iter().map(|event| event.sequence));
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        let mut expected: Vec<i64> = (1..=run.last_sequence).collect();
        if !ascending {
            expected.reverse();
        }
        assert_eq!(sequences, expected);
    }
    let filtered = v1::ListRunEventsRequest {
        event_types: vec!["step:completed".to_owned(), "tool_called".to_owned()],
        step_key: "b".to_owned(),
        ascending: true,
        ..request
    };
    let page = world.client.list_run_events(filtered).await.unwrap().into_inner();
    let types: Vec<&str> = page
        .events
        .iter()
        .map(|event| event.event_type.as_str())
        .collect();
    assert_eq!(types, ["tool_called", "step_completed"]);
    let last = v1::GetRunRequest { run_id: run.run_id };
    let last = world.client.get_run(last).await.unwrap().into_inner().last_events;
    assert_eq!(last[0].event_type, "run_completed");
}

#[tokio::test]
async fn steps_are_shown_with_what_became_of_them() {
    let mut world = World::new();
    let skipped =
        json!({"key": "c", "type": "tool_call", "config": {"tool_name": "echo"}, "depends_on": ["b"]});
    let optional = json!({"key": "b", "type": "tool_call", "config": {"tool_name": "fail"}, "required": false, "metadata": {"n": 1}});
    let run = world
        .finish(run_of(json!([call("a", "echo", &[]), optional, skipped])))
        .await;
    assert_eq!((run.outcome(), run.progress), (v1::run::Outcome::Partial, 33.3));
    assert_eq!(run.step_failures[0].code, "NO_LUCK");
    let mut request = v1::ListRunStepsRequest {
        run_id: run.run_id.clone(),
        page_size: Some(2),
        ..v1::ListRunStepsRequest::default()
    };
    let first = world
        .client
        .list_run_steps(request.clone())
        .await
        .unwrap()
        .into_inner();
    request.page_token = first.next_page_token;
    let second = world.client.list_run_steps(request).await.unwrap().into_inner();
    assert!(second.next_page_token.is_empty());
    let steps = [first.steps, second.steps].concat();
    let states: Vec<_> = steps.iter().map(v1::RunStep::state).collect();
    use v1::run_step::State as Step;
    assert_eq!(states, [Step::Completed, Step::Failed, Step::Skipped]);
    assert_eq!(json_of(steps[1].spec.as_ref())["metadata"], json!({"n": 1}));
    assert_eq!(steps[1].error.as_ref().unwrap().message, "it did not work");
    assert_eq!(steps[2].reason, "dependency_failed");
    assert!(steps[0].duration_ms.unwrap() >= 0 && steps[2].started_at.is_none());
    let one = v1::GetRunStepRequest {
        run_id: run.run_id.clone(),
        step_key: "a".to_owned(),
    };
    let step = world
        .client
        .get_run_step(one)
        .await
        .unwrap()
        .into_inner()
        .step
        .unwrap();
    assert_eq!(step.attempts.len(), 1);
    assert_eq!(
        (step.attempts[0].state.as_str(), step.attempts[0].number),
        ("completed", 1)
    );
    let view = json_of(step.result_view.as_ref());
    assert_eq!(
        view,
        json!({"type": "tool_call", "tool_name": "echo", "result": {"key": "a"}})
    );
    let unknown = v1::GetRunStepRequest {
        run_id: run.run_id,
        step_key: "z".to_owned(),
    };
    let refused = world.client.get_run_step(unknown).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "UNKNOWN_STEP")
    );
    assert!(refused.message().contains("a, b, c"), "{}", refused.message());
}

// S34: one accessor.
#[tokio::test]
async fn results_are_read_wherever_they_are_before_and_after_a_kill() {
    let mut world = World::new();
    let items =
        json!([{"tool_name": "echo", "tool_args": {"n": 1}}, {"tool_name": "echo", "tool_args": {"n": 2}}]);
    let parallel = json!({"key": "both", "type": "parallel", "config": {"steps": items}});
    let run = world
        .finish(run_of(json!([
            call("big", "large", &[]),
            parallel,
            call("bad", "fail", &[])
        ])))
        .await;
    let mut world = world.killed();
    let request = |key: &str| v1::GetStepResultRequest {
        run_id: run.run_id.clone(),
        step_key: key.to_owned(),
        ..v1::GetStepResultRequest::default()
    };
    let big = world
        .client
        .get_step_result(request("big"))
        .await
        .unwrap()
        .into_inner();
    let value = big.value.unwrap();
    assert_eq!(
        from_opaque_value(&value).unwrap()["text"].as_str().unwrap().len(),
        100_000
    );
    let mut data = Vec::new();
    while data.len() < usize::try_from(big.size_bytes).unwrap() {
        let range = v1::GetStepResultRequest {
            offset: Some(i64::try_from(data.len()).unwrap()),
            length: Some(33_333),
            ..request("big")
        };
        let part = world.client.get_step_result(range).await.unwrap().into_inner();
        assert_eq!(part.sha256, big.sha256);
        data.extend(part.data);
    }
    assert_eq!(data, value.as_encoded()[..]);
    let list = world
        .client
        .get_step_result(request("both"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        from_opaque_value(&list.value.unwrap()).unwrap(),
        json!([{"n": 1}, {"n": 2}])
    );
    let second = v1::GetStepResultRequest {
        index: Some(1),
        ..request("both")
    };
    let second = world.client.get_step_result(second).await.unwrap().into_inner();
    assert_eq!(
        from_opaque_value(&second.value.unwrap()).unwrap(),
        json!({"n": 2})
    );
    let refused = world.client.get_step_result(request("bad")).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "NO_RESULT")
    );
}

#[tokio::test]
async fn evidence_has_every_attempt_in_pages() {
    let mut world = World::new();
    let steps = json!([
        call("a", "echo", &[]),
        call("b", "large", &[]),
        call("c", "fail", &[])
    ]);
    let request = v1::CreateRunRequest {
        request_id: "r-1".to_owned(),
        ..run_of(steps)
    };
    let run = world.finish(request).await;
    let mut request = v1::ListEvidenceRequest {
        run_id: run.run_id.clone(),
        page_size: Some(2),
        ..v1::ListEvidenceRequest::default()
    };
    let mut found = Vec::new();
    loop {
        let page = world
            .client
            .list_evidence(request.clone())
            .await
            .unwrap()
            .into_inner();
        found.extend(page.evidence);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let rows: Vec<_> = found
        .iter()
        .map(|one| (one.step_id.as_str(), one.status.as_str()))
        .collect();
    assert_eq!(
        rows,
        [("a", "completed"), ("b", "completed"), ("c", "failed_for_good")]
    );
    assert_eq!(json_of(found[0].input.as_ref()), json!({"key": "a"}));
    assert_eq!(
        from_opaque_value(found[0].output.as_ref().unwrap()).unwrap(),
        json!({"key": "a"})
    );
    assert!(found[1].output.is_none() && found[1].output_sha256.len() == 64);
    assert_eq!(found[2].error_stack, "NO_LUCK: it did not work");
    assert!(
        found
            .iter()
            .all(|one| one.request_id == "r-1" && one.duration_ms >= 0)
    );
}

#[tokio::test]
async fn revisions_are_found_by_digest_and_by_number() {
    let mut world = World::new();
    let first = world.finish(run_of(json!([call("a", "echo", &[])]))).await;
    let second = world
        .finish(run_of(json!([call("a", "fail", &[]), call("b", "echo", &[])])))
        .await;
    let list = v1::ListRevisionsRequest {
        run_id: first.run_id.clone(),
        ..v1::ListRevisionsRequest::default()
    };
    let listed = world.client.list_revisions(list).await.unwrap().into_inner();
    assert!(listed.next_page_token.is_empty());
    assert_eq!(listed.revisions.len(), 1);
    assert_eq!(
        (listed.revisions[0].number, listed.revisions[0].cause.as_str()),
        (1, "caller")
    );
    let of_run = v1::RevisionName {
        run_id: first.run_id.clone(),
        ..v1::RevisionName::default()
    };
    let by_digest = v1::RevisionName {
        revision_digest: first.revision_digest.clone(),
        ..v1::RevisionName::default()
    };
    for (name, is_of_run) in [(of_run.clone(), true), (by_digest, false)] {
        let request = v1::GetRevisionRequest { revision: Some(name) };
        let answer = world.client.get_revision(request).await.unwrap().into_inner();
        assert_eq!(
            answer.result.is_some(),
            is_of_run,
            "a plan without a run comes to nothing"
        );
        let revision = answer.revision.unwrap();
        assert_eq!(revision.revision_digest, first.revision_digest);
        assert_eq!(json_of(revision.document.as_ref())["steps"][0]["key"], "a");
    }
    let request = v1::DiffRevisionsRequest {
        from: Some(of_run),
        to: Some(v1::RevisionName {
            revision_digest: second.revision_digest,
            ..v1::RevisionName::default()
        }),
    };
    let diff = world.client.diff_revisions(request).await.unwrap().into_inner();
    assert_eq!((diff.identical, diff.added_steps), (false, vec!["b".to_owned()]));
    assert_eq!(diff.changed_steps[0].step_key, "a");
}

#[tokio::test]
async fn a_run_that_is_not_there_is_not_found_by_any_call() {
    let mut world = World::new();
    let run_id = "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10".to_owned();
    let mut found = Vec::new();
    macro_rules! asked {
        ($($call:ident: $request:ident,)*) => {
            $(
                let request = v1::$request { run_id: run_id.clone(), ..Default::default() };
                found.push((stringify!($call), world.client.$call(request).await.map(|_| ()).unwrap_err()));
            )*
        };
    }
    #[allow(clippy::needless_update, reason = "some requests have one field")]
    {
        asked! {
            get_run: GetRunRequest, wait_run: WaitRunRequest, watch_run: WatchRunRequest,
            list_run_events: ListRunEventsRequest, list_run_steps: ListRunStepsRequest, get_run_step: GetRunStepRequest,
            get_step_result: GetStepResultRequest, list_evidence: ListEvidenceRequest, list_revisions: ListRevisionsRequest,
            list_checkpoints: ListCheckpointsRequest, pause_run: PauseRunRequest, resume_run: ResumeRunRequest,
            cancel_run: CancelRunRequest, discard_run: DiscardRunRequest, rollback_run: RollbackRunRequest,
            fork_run: ForkRunRequest, retry_run: RetryRunRequest, create_checkpoint: CreateCheckpointRequest,
            explain_run: ExplainRunRequest, replay_run: ReplayRunRequest, export_run: ExportRunRequest,
            delete_run: DeleteRunRequest,
        }
    }
    for (call, status) in found {
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::NotFound, "RUN_NOT_FOUND"),
            "{call}"
        );
    }
}

/// Clients stop at 100 nested messages, and so does the one of these tests.
#[tokio::test]
async fn outputs_as_deep_as_they_may_be_are_read_by_every_call() {
    let mut world = World::new();
    let parallel = json!({"key": "p", "type": "parallel", "config": {
        "steps": [{"tool_name": "deep"}, {"tool_name": "deep"}]
    }});
    let run = world.finish(run_of(json!([parallel]))).await;
    assert_eq!(run.state(), State::Completed);
    let of_step = v1::GetRunStepRequest {
        run_id: run.run_id.clone(),
        step_key: "p".to_owned(),
    };
    let step = world
        .client
        .get_run_step(of_step)
        .await
        .unwrap()
        .into_inner()
        .step
        .unwrap();
    assert!(step.result_view.is_some() && step.output.is_some());
    let of_result = v1::GetStepResultRequest {
        run_id: run.run_id.clone(),
        step_key: "p".to_owned(),
        ..v1::GetStepResultRequest::default()
    };
    let result = world
        .client
        .get_step_result(of_result)
        .await
        .unwrap()
        .into_inner();
    assert!(result.value.is_some());
    let get = v1::GetRunRequest {
        run_id: run.run_id.clone(),
    };
    let shown = world.client.get_run(get).await.unwrap().into_inner();
    assert!(shown.run.unwrap().output.is_some() && !shown.last_events.is_empty());
    let events = v1::ListRunEventsRequest {
        run_id: run.run_id.clone(),
        ..v1::ListRunEventsRequest::default()
    };
    world.client.list_run_events(events).await.unwrap();
    let evidence = v1::ListEvidenceRequest {
        run_id: run.run_id,
        ..v1::ListEvidenceRequest::default()
    };
    let evidence = world.client.list_evidence(evidence).await.unwrap().into_inner();
    assert!(evidence.evidence.iter().all(|attempt| attempt.output.is_some()));
}
