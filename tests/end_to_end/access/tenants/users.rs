//! Users side by side in one namespace: what one has is nothing to another one, whatever names it, and everything to who finds all.

use super::super::credentials::{Token, world_with};
use super::neighbours::{event, firings, publish, run_to_its_end, trigger};
use super::wire::ask;
use super::{SESSION, document, run_request};
use crate::plans::{RequestWords, plan, request, step};
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::wait_for;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::watch_notices_response::Told;
use escapement_wire::v1::{
    ExecutePlanRequest, GetExecutionRequest, ListExecutionsRequest, ReadEventsRequest, SubscribeEventsRequest,
};
use serde_json::{Value, json};
use tonic::{Code, Status};

/// Two who find their own things alone, and one who finds those of everybody.
struct Users {
    world: World,
    anna: Token,
    ben: Token,
    team: Token,
}

impl Users {
    async fn new() -> Self {
        let [anna, ben, team] = ["anna", "ben", "team"].map(Token::new);
        let own = "roles = [\"submitter\"]\nuser = true";
        let entries = [
            anna.entry("anna", own),
            ben.entry("ben", own),
            team.entry("team", "roles = [\"submitter\"]"),
        ];
        let (world, _file) = world_with(&entries).await;
        Self {
            world,
            anna,
            ben,
            team,
        }
    }

    /// Saves a plan; gives its id and its digest.
    async fn save(&self, token: &Token, steps: &Value) -> (String, String) {
        let Some(What::Document(document)) = run_request("", &document(steps)).what else {
            unreachable!("it is a document");
        };
        let plan = v1::CreatePlanRequest {
            plan: Some(v1::Plan {
                goal: "g".to_owned(),
                ..Default::default()
            }),
            document: Some(document),
            ..Default::default()
        };
        let made = ask::<_, v1::CreatePlanResponse>(&self.world, token, "PlanService", "CreatePlan", plan);
        let plan = made.await.unwrap().plan.unwrap();
        (plan.plan_id, plan.revision_digest)
    }

    /// Everything that a caller may do with a revision: each with what came of it.
    async fn tried(&self, token: &Token, digest: &str) -> Vec<(&'static str, Result<(), Status>)> {
        let named = v1::RevisionName {
            revision_digest: digest.to_owned(),
            ..Default::default()
        };
        let get = v1::GetRevisionRequest {
            revision: Some(named.clone()),
        };
        let diff = v1::DiffRevisionsRequest {
            from: Some(named.clone()),
            to: Some(named),
        };
        let run = v1::CreateRunRequest {
            what: Some(What::RevisionDigest(digest.to_owned())),
            ..Default::default()
        };
        let preview = v1::PreviewRunRequest {
            run: Some(run.clone()),
        };
        let (world, runs) = (&self.world, "RunService");
        let got = ask::<_, v1::GetRevisionResponse>(world, token, runs, "GetRevision", get).await;
        let diffed = ask::<_, v1::DiffRevisionsResponse>(world, token, runs, "DiffRevisions", diff).await;
        let created = ask::<_, v1::CreateRunResponse>(world, token, runs, "CreateRun", run).await;
        let previewed = ask::<_, v1::PreviewRunResponse>(world, token, runs, "PreviewRun", preview).await;
        vec![
            ("GetRevision", got.map(drop)),
            ("DiffRevisions", diffed.map(drop)),
            ("CreateRun", created.map(drop)),
            ("PreviewRun", previewed.map(drop)),
        ]
    }

    async fn assert_hidden(&self, token: &Token, digest: &str) {
        for (call, found) in self.tried(token, digest).await {
            let refused = found.expect_err(call);
            assert_eq!(reason(&refused, Code::NotFound), "REVISION_NOT_FOUND", "{call}");
        }
    }

    async fn create_session(&self, token: &Token) {
        let session = v1::CreateSessionRequest {
            session_id: SESSION.to_owned(),
            ..Default::default()
        };
        let made = ask::<_, v1::CreateSessionResponse>(
            &self.world,
            token,
            "SessionService",
            "CreateSession",
            session,
        );
        made.await.unwrap();
    }

    /// A run of the session, up to its end.
    async fn run_in_session(&self, token: &Token) -> v1::Run {
        let request = v1::CreateRunRequest {
            session_id: SESSION.to_owned(),
            ..run_request("", &document(&json!([])))
        };
        let made = ask::<_, v1::CreateRunResponse>(&self.world, token, "RunService", "CreateRun", request);
        let wait = v1::WaitRunRequest {
            run_id: made.await.unwrap().run.unwrap().run_id,
            timeout_ms: Some(20_000),
        };
        let ended = ask::<_, v1::WaitRunResponse>(&self.world, token, "RunService", "WaitRun", wait);
        let run = ended.await.unwrap().run.unwrap();
        assert_eq!(run.state(), v1::run::State::Completed, "{run:?}");
        run
    }

    /// Returns the runs of the notices of the session up to the first one of this run.
    async fn told_until(&self, token: &Token, run_id: &str) -> Vec<String> {
        let mut runs = RunServiceClient::new(self.world.orchestrator.channel());
        let watch = v1::WatchNoticesRequest {
            session_id: SESSION.to_owned(),
            ..Default::default()
        };
        let mut told = runs.watch_notices(token.shows(watch)).await.unwrap().into_inner();
        let mut of = Vec::new();
        // Notices come in their order, from the first that the session has.
        while let Some(Told::Notice(notice)) = told.message().await.unwrap().unwrap().told {
            of.push(notice.run_id);
            if of.last().is_some_and(|told| told == run_id) {
                return of;
            }
        }
        panic!("a heartbeat came first: {of:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_run_is_told_to_who_finds_the_run() {
    let users = Users::new().await;
    let Users {
        world,
        anna,
        ben,
        team,
    } = &users;
    let mut ended = Vec::new();
    for token in [ben, anna, ben] {
        ended.push(run_to_its_end(world, token, &json!([])).await.run_id);
    }
    let of_ben = vec![ended[0].clone(), ended[2].clone()];
    let expected = [vec![ended[1].clone()], of_ben, ended];
    for (token, expected) in [anna, ben, team].into_iter().zip(expected) {
        let read = v1::ReadEventsRequest {
            wait_ms: Some(0),
            ..Default::default()
        };
        let mut runs = RunServiceClient::new(world.orchestrator.channel());
        let mut read = runs.read_events(token.shows(read)).await.unwrap().into_inner();
        let mut told = Vec::new();
        while let Some(answer) = read.message().await.unwrap() {
            told.extend(answer.event.map(|event| event.id));
        }
        assert_eq!(told, expected);
    }
}

// RUN-9.12
#[tokio::test]
async fn another_users_revision_is_not_found_whatever_names_it() {
    let users = Users::new().await;
    let Users {
        world,
        anna,
        ben,
        team,
    } = &users;
    let secret = json!([{"key": "secret", "type": "user_input", "config": {"question": "hers alone?"}}]);
    let (_, digest) = users.save(anna, &secret).await;
    users.assert_hidden(ben, &digest).await;

    // Nor does it become his by what he has of his own: a run, a saved plan or a trigger that names it.
    let below = json!([{"key": "below", "type": "sub_plan", "config": {"revision_digest": digest}}]);
    let ended = run_to_its_end(world, ben, &below).await;
    assert_eq!(ended.state(), v1::run::State::Failed, "{ended:?}");
    assert!(ended.error.unwrap().message.contains("PLAN_NOT_FOUND"));
    users.save(ben, &below).await;
    let trigger = v1::CreateTriggerRequest {
        trigger: Some(v1::Trigger {
            name: "t".to_owned(),
            config: Some(event("ping")),
            run: Some(v1::CreateRunRequest {
                what: Some(What::RevisionDigest(digest.clone())),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let refused =
        ask::<_, v1::CreateTriggerResponse>(world, ben, "TriggerService", "CreateTrigger", trigger).await;
    assert_eq!(
        reason(&refused.unwrap_err(), Code::NotFound),
        "REVISION_NOT_FOUND"
    );
    users.assert_hidden(ben, &digest).await;

    for token in [anna, team] {
        for (call, found) in users.tried(token, &digest).await {
            assert!(found.is_ok(), "{call}: {found:?}");
        }
    }
    // The same plan is his as well once he has brought it himself.
    let (_, same) = users.save(ben, &secret).await;
    assert_eq!(same, digest);
    for (call, found) in users.tried(ben, &digest).await {
        assert!(found.is_ok(), "{call}: {found:?}");
    }
}

// RUN-14.8
#[tokio::test]
async fn a_session_tells_nothing_of_whose_it_was_before() {
    let users = Users::new().await;
    let Users { world, anna, ben, .. } = &users;
    users.create_session(anna).await;
    let hers = users.run_in_session(anna).await;
    assert_eq!(users.told_until(anna, &hers.run_id).await, [&*hers.run_id]);
    let delete = v1::DeleteSessionRequest {
        session_id: SESSION.to_owned(),
        ..Default::default()
    };
    let deleted =
        ask::<_, v1::DeleteSessionResponse>(world, anna, "SessionService", "DeleteSession", delete).await;
    deleted.unwrap();

    users.create_session(ben).await;
    let his = users.run_in_session(ben).await;
    assert_eq!(
        users.told_until(ben, &his.run_id).await,
        [&*his.run_id],
        "of hers nothing"
    );

    // And what she does with what she had goes on in no session of his.
    let fork = v1::ForkRunRequest {
        run_id: hers.run_id,
        ..Default::default()
    };
    let refused = ask::<_, v1::ForkRunResponse>(world, anna, "RunService", "ForkRun", fork).await;
    assert_eq!(reason(&refused.unwrap_err(), Code::NotFound), "SESSION_NOT_FOUND");
}

// TRIG-3.4
#[tokio::test]
async fn events_reach_the_triggers_of_those_who_find_what_they_are_about() {
    let users = Users::new().await;
    let Users {
        world,
        anna,
        ben,
        team,
    } = &users;
    let everybody = [anna, ben, team];
    let mut pinged = Vec::new();
    let mut completed = Vec::new();
    for token in everybody {
        pinged.push(trigger(world, token, event("ping")).await);
        completed.push(trigger(world, token, event("run_completed")).await);
    }
    let n_firings = async |triggers: &[v1::Trigger]| {
        let mut n_firings = Vec::new();
        for (token, trigger) in everybody.into_iter().zip(triggers) {
            n_firings.push(firings(world, token, trigger).await.len());
        }
        n_firings
    };
    let by_ben = publish(world, ben, "").await.unwrap();
    assert_eq!(by_ben.len(), 1, "{by_ben:?}");
    assert_eq!(by_ben[0].trigger_id, pinged[1].trigger_id);
    assert_eq!(n_firings(&pinged).await, [0, 1, 0]);
    // What he has published is not published again for him, and is for the others.
    let by_team = publish(world, team, "").await.unwrap();
    assert_eq!(by_team.len(), 3, "{by_team:?}");
    assert_eq!(n_firings(&pinged).await, [1, 1, 1]);

    let run = run_to_its_end(world, anna, &json!([])).await;
    assert_eq!(run.state(), v1::run::State::Completed);
    let fired = async || (n_firings(&completed).await == [1, 0, 1]).then_some(());
    wait_for("hers and the team's have fired", LIMIT, fired)
        .await
        .unwrap();
    let run = run_to_its_end(world, ben, &json!([])).await;
    assert_eq!(run.state(), v1::run::State::Completed);
    let fired = async || (n_firings(&completed).await == [1, 1, 2]).then_some(());
    wait_for("his and the team's have fired", LIMIT, fired)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_goal_stands_below_no_other_users() {
    let users = Users::new().await;
    let Users {
        world,
        anna,
        ben,
        team,
    } = &users;
    let create = async |token: &Token, parent_id: &str| {
        let goal = v1::CreateGoalRequest {
            goal: Some(v1::Goal {
                title: "g".to_owned(),
                parent_id: parent_id.to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let made = ask::<_, v1::CreateGoalResponse>(world, token, "GoalService", "CreateGoal", goal).await;
        made.map(|made| made.goal.unwrap().goal_id)
    };
    let hers = create(anna, "").await.unwrap();
    let refused = create(ben, &hers).await.unwrap_err();
    assert_eq!(reason(&refused, Code::InvalidArgument), "GOAL_NOT_FOUND");
    let update = v1::UpdateGoalRequest {
        goal_id: create(ben, "").await.unwrap(),
        parent_id: Some(hers.clone()),
        ..Default::default()
    };
    let refused = ask::<_, v1::UpdateGoalResponse>(world, ben, "GoalService", "UpdateGoal", update).await;
    assert_eq!(
        reason(&refused.unwrap_err(), Code::InvalidArgument),
        "GOAL_NOT_FOUND"
    );
    for token in [anna, team] {
        create(token, &hers).await.unwrap();
    }
}

#[tokio::test]
async fn an_execution_is_found_by_who_handed_it_in_and_by_who_finds_all() {
    let users = Users::new().await;
    let Users {
        world,
        anna,
        ben,
        team,
    } = &users;
    let mut plans = world.orchestrator.plans();
    let hers = request(plan([step(0, "work")])).as_submission();
    let accepted = plans.submit_plan(anna.shows(hers.clone())).await.unwrap();
    let execution_id = accepted.into_inner().execution.unwrap().execution_id;
    let his = request(plan([step(0, "work")])).as_submission();
    plans.submit_plan(ben.shows(his)).await.unwrap();
    for (token, finds, n_listed) in [(anna, true, 1), (ben, false, 1), (team, true, 2)] {
        let get = GetExecutionRequest {
            execution_id: execution_id.clone(),
        };
        let found = plans.get_execution(token.shows(get)).await;
        match finds {
            true => assert!(found.is_ok(), "{found:?}"),
            false => assert_eq!(reason(&found.unwrap_err(), Code::NotFound), "EXECUTION_NOT_FOUND"),
        }
        let list = token.shows(ListExecutionsRequest::default());
        let listed = plans.list_executions(list).await.unwrap().into_inner();
        assert_eq!(
            (listed.executions.len(), listed.next_page_token.as_str()),
            (n_listed, "")
        );
        // Page by page the same.
        let one = ListExecutionsRequest {
            page_size: Some(1),
            ..ListExecutionsRequest::default()
        };
        let mut n_paged = 0;
        let mut page_token = String::new();
        loop {
            let page = ListExecutionsRequest {
                page_token,
                ..one.clone()
            };
            let page = plans
                .list_executions(token.shows(page))
                .await
                .unwrap()
                .into_inner();
            n_paged += page.executions.len();
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(n_paged, n_listed);
    }
    // The very same request attaches to what its own caller has handed in, and to nothing of another one.
    plans.submit_plan(anna.shows(hers.clone())).await.unwrap();
    let refused = plans.submit_plan(ben.shows(hers)).await.unwrap_err();
    assert_eq!(reason(&refused, Code::AlreadyExists), "EXECUTION_ID_IN_USE");
}

#[tokio::test]
async fn an_end_is_told_to_who_finds_the_execution() {
    let users = Users::new().await;
    let Users {
        world,
        anna,
        ben,
        team,
    } = &users;
    let mut streams = Vec::new();
    for token in [anna, ben, team] {
        let subscribe = token.shows(SubscribeEventsRequest::default());
        let subscribed = world.orchestrator.events().subscribe_events(subscribe).await;
        streams.push(subscribed.unwrap().into_inner());
    }
    let mut ended = Vec::new();
    for token in [ben, anna, ben] {
        // It ends as soon as it is accepted.
        let past = ExecutePlanRequest {
            deadline_ms: Some(1),
            ..request(plan([step(0, "work")]))
        };
        let settled = world.orchestrator.plans().execute_plan(token.shows(past)).await;
        ended.push(settled.unwrap().into_inner().result.unwrap().execution_id);
    }
    let of_ben = vec![ended[0].clone(), ended[2].clone()];
    let expected = [vec![ended[1].clone()], of_ben, ended];
    for ((token, expected), mut stream) in [anna, ben, team].into_iter().zip(expected).zip(streams) {
        let mut told = Vec::new();
        while told.len() < expected.len() {
            let next = tokio::time::timeout(LIMIT, stream.message()).await.unwrap();
            told.push(next.unwrap().unwrap().event.unwrap().id);
        }
        assert_eq!(told, expected);
        let read = ReadEventsRequest {
            wait_ms: Some(0),
            ..ReadEventsRequest::default()
        };
        let read = world.orchestrator.events().read_events(token.shows(read)).await;
        let mut read = read.unwrap().into_inner();
        let mut told = Vec::new();
        while let Some(answer) = read.message().await.unwrap() {
            told.extend(answer.event.map(|event| event.id));
        }
        assert_eq!(told, expected);
    }
}
