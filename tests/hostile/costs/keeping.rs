//! What callers may keep: plans, sessions, triggers, goals, and what operators say of actions.

use super::Kind;
use super::stage::{Stage, ask};
use crate::den::LIMIT;
use crate::large_runs::{dense_document, document, plan, profile, question, trigger, yearly};
use crate::saved;
use escapement_tests::dearest::{
    many_keys, nested_keys, sizes_condition, sizes_filter, sub_plans, values_filter,
};
use escapement_tests::plans::object;
use escapement_tests::wait_for;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::action_service_client::ActionServiceClient;
use escapement_wire::runs::v1::add_plan_step_request::Form;
use escapement_wire::runs::v1::goal_service_client::GoalServiceClient;
use escapement_wire::runs::v1::plan_service_client::PlanServiceClient;
use escapement_wire::runs::v1::session_service_client::SessionServiceClient;
use escapement_wire::runs::v1::trigger::Config;
use escapement_wire::runs::v1::trigger_service_client::TriggerServiceClient;
use serde_json::{Value, json};
use tonic::transport::Channel;

pub(super) async fn measure(stage: &mut Stage) {
    actions(stage).await;
    plans(stage).await;
    sessions(stage).await;
    triggers(stage).await;
    goals(stage).await;
}

fn kind(name: &'static str, worst: &'static str, other_max: u32) -> Kind {
    Kind {
        name,
        worst,
        engine_max: 20,
        other_max,
    }
}

async fn actions(stage: &mut Stage) {
    let actions = ActionServiceClient::new(stage.den.channel().await).max_decoding_message_size(64 << 20);
    let mut putting = actions.clone();
    let mut n = 0;
    let put = async |_| {
        let profile = Some(profile(n));
        n += 1;
        let request = v1::PutActionProfileRequest { profile };
        putting.put_action_profile(request).await.unwrap();
    };
    let kept = kind(
        "ActionService/PutActionProfile",
        "of 23 KiB, beside 200 others",
        100,
    );
    stage.cost(kept, 200, put).await;
    let request = v1::ListActionProfilesRequest {
        page_size: Some(1_000),
        page_token: String::new(),
    };
    let listed = kind("ActionService/ListActionProfiles", "a page of 4 MiB", 100);
    stage
        .cost(listed, 2, ask!(actions, list_action_profiles, request))
        .await;
    let request = v1::DeleteActionProfileRequest {
        action: profile(0).action,
    };
    let deleted = kind("ActionService/DeleteActionProfile", "of 23 KiB", 100);
    stage
        .cost(deleted, 1, ask!(actions, delete_action_profile, request))
        .await;
}

async fn plans(stage: &mut Stage) {
    let plans = PlanServiceClient::new(stage.den.channel().await).max_decoding_message_size(64 << 20);
    let large = "1 MiB: 1,024 steps, 100,000 references";
    let request = v1::CreatePlanRequest {
        plan: Some(plan(0)),
        document: Some(dense_document("saved")),
        ..v1::CreatePlanRequest::default()
    };
    let mut making = plans.clone();
    let mut plan_id = String::new();
    let make = async |_| {
        let made = making.create_plan(request.clone()).await.unwrap().into_inner();
        plan_id = made.plan.unwrap().plan_id;
    };
    stage
        .cost(kind("PlanService/CreatePlan", large, 100), 1, make)
        .await;
    let plan_id = || plan_id.clone();
    let request = v1::GetPlanRequest {
        plan_id: plan_id(),
        ..v1::GetPlanRequest::default()
    };
    stage
        .cost(
            kind("PlanService/GetPlan", large, 100),
            2,
            ask!(plans, get_plan, request),
        )
        .await;
    let request = v1::UpdatePlanRequest {
        plan_id: plan_id(),
        metadata: Some(many_keys(64 << 10)),
        ..v1::UpdatePlanRequest::default()
    };
    let updated = kind(
        "PlanService/UpdatePlan",
        "metadata of 64 KiB of one of 1 MiB",
        100,
    );
    stage.cost(updated, 1, ask!(plans, update_plan, request)).await;
    let request = v1::PutPlanDocumentRequest {
        plan_id: plan_id(),
        document: Some(dense_document("put")),
        ..v1::PutPlanDocumentRequest::default()
    };
    let put = kind("PlanService/PutPlanDocument", large, 100);
    stage.cost(put, 1, ask!(plans, put_plan_document, request)).await;
    let steps = "of 1,024 steps with 100,000 references";
    let request = v1::DeletePlanStepRequest {
        plan_id: plan_id(),
        step_key: "k3ff".to_owned(),
        ..v1::DeletePlanStepRequest::default()
    };
    let deleted = kind("PlanService/DeletePlanStep", steps, 150);
    stage
        .cost(deleted, 1, ask!(plans, delete_plan_step, request))
        .await;
    let step = |key: &str| json!({"key": key, "type": "user_input", "config": {"question": "?"}});
    let request = v1::AddPlanStepRequest {
        plan_id: plan_id(),
        form: Some(Form::Step(object(step("added")))),
        ..v1::AddPlanStepRequest::default()
    };
    let added = kind("PlanService/AddPlanStep", steps, 150);
    stage.cost(added, 1, ask!(plans, add_plan_step, request)).await;
    let request = v1::UpdatePlanStepRequest {
        plan_id: plan_id(),
        step_key: "added".to_owned(),
        step: Some(object(step("added"))),
        ..v1::UpdatePlanStepRequest::default()
    };
    let updated = kind("PlanService/UpdatePlanStep", steps, 150);
    stage
        .cost(updated, 1, ask!(plans, update_plan_step, request))
        .await;
    let steps: Vec<Value> = (0..1_000)
        .map(|n: usize| json!({"id": n, "description": "why? ".repeat(70), "dependsOn": (n.saturating_sub(10)..n).collect::<Vec<_>>()}))
        .collect();
    let request = v1::ImportPlanRequest {
        format: "core/1".to_owned(),
        source_document: Some(object(json!({"goal": "large", "steps": steps}))),
        ..v1::ImportPlanRequest::default()
    };
    let imported = kind("PlanService/ImportPlan", "1 MiB: 1,000 steps", 100);
    stage.cost(imported, 1, ask!(plans, import_plan, request)).await;
    let request = v1::LoadSamplesRequest::default();
    let loaded = kind("PlanService/LoadSamples", "all of them, and again", 100);
    stage.cost(loaded, 2, ask!(plans, load_samples, request)).await;
    let mut making = plans.clone();
    for n in 0..70 {
        let request = v1::CreatePlanRequest {
            plan: Some(plan(n)),
            document: Some(document(&json!([]))),
            ..v1::CreatePlanRequest::default()
        };
        making.create_plan(request).await.unwrap();
    }
    let middle = saved::one_that_runs_others(&mut making, N_SUB_PLANS).await;
    let top = saved::one_that_runs_others(&mut making, 1).await;
    let request = saved::putting(&top[0], sub_plans(vec![&middle[0]; 1_024]));
    let saved = kind(
        "PlanService/PutPlanDocument",
        "1,024 steps that run one plan, which runs 500 others",
        100,
    );
    stage
        .cost(saved, 1, ask!(plans, put_plan_document, request))
        .await;
    let request = v1::ListPlansRequest {
        page_size: Some(200),
        ..v1::ListPlansRequest::default()
    };
    let listed = kind("PlanService/ListPlans", "a page of 4 MiB", 100);
    stage.cost(listed, 2, ask!(plans, list_plans, request)).await;
    let request = v1::DeletePlanRequest {
        plan_id: plan_id(),
        ..v1::DeletePlanRequest::default()
    };
    stage
        .cost(
            kind("PlanService/DeletePlan", large, 100),
            1,
            ask!(plans, delete_plan, request),
        )
        .await;
}

async fn sessions(stage: &mut Stage) {
    let channel = stage.den.channel().await;
    let sessions = SessionServiceClient::new(channel.clone()).max_decoding_message_size(64 << 20);
    let session_id = || "large".to_owned();
    let large = "a state of 1 MiB in 80,000 keys";
    let request = v1::CreateSessionRequest {
        session_id: session_id(),
        state: Some(many_keys(STATE_BYTES)),
        ..v1::CreateSessionRequest::default()
    };
    let created = kind("SessionService/CreateSession", large, 100);
    stage
        .cost(created, 1, ask!(sessions, create_session, request))
        .await;
    let request = v1::GetSessionRequest {
        session_id: session_id(),
        ..v1::GetSessionRequest::default()
    };
    let got = kind("SessionService/GetSession", large, 100);
    stage.cost(got, 2, ask!(sessions, get_session, request)).await;
    let request = v1::MergeSessionStateRequest {
        session_id: session_id(),
        patch: Some(many_keys(STATE_BYTES)),
        ..v1::MergeSessionStateRequest::default()
    };
    let merged = kind("SessionService/MergeSessionState", large, 200);
    stage
        .cost(merged, 2, ask!(sessions, merge_session_state, request))
        .await;
    let request = v1::ListSkillHealthRequest {
        session_id: session_id(),
        ..v1::ListSkillHealthRequest::default()
    };
    let listed = kind("SessionService/ListSkillHealth", large, 100);
    stage
        .cost(listed, 2, ask!(sessions, list_skill_health, request))
        .await;
    let request = v1::ResetSkillHealthRequest {
        session_id: session_id(),
        skill: "mail".to_owned(),
        ..v1::ResetSkillHealthRequest::default()
    };
    let reset = kind("SessionService/ResetSkillHealth", large, 100);
    stage
        .cost(reset, 2, ask!(sessions, reset_skill_health, request))
        .await;
    let request = v1::RestartSessionRequest {
        session_id: session_id(),
        ..v1::RestartSessionRequest::default()
    };
    let restarted = kind("SessionService/RestartSession", large, 150);
    stage
        .cost(restarted, 1, ask!(sessions, restart_session, request))
        .await;
    let request = v1::DeleteSessionRequest {
        session_id: session_id(),
        ..v1::DeleteSessionRequest::default()
    };
    let deleted = kind("SessionService/DeleteSession", large, 200);
    stage
        .cost(deleted, 1, ask!(sessions, delete_session, request))
        .await;
}

async fn triggers(stage: &mut Stage) {
    let triggers = TriggerServiceClient::new(stage.den.channel().await).max_decoding_message_size(64 << 20);
    let mut making = triggers.clone();
    let mut made = Vec::new();
    let make = async |n: u32| {
        let trigger = Some(trigger(n as usize, yearly()));
        let request = v1::CreateTriggerRequest {
            trigger,
            ..v1::CreateTriggerRequest::default()
        };
        let answer = making.create_trigger(request).await.unwrap().into_inner();
        made.push(answer.trigger.unwrap().trigger_id);
    };
    let large = "of 900 KiB";
    stage
        .cost(kind("TriggerService/CreateTrigger", large, 100), 5, make)
        .await;
    let trigger_id = || made[0].clone();
    let request = v1::GetTriggerRequest {
        trigger_id: trigger_id(),
        ..v1::GetTriggerRequest::default()
    };
    stage
        .cost(
            kind("TriggerService/GetTrigger", large, 100),
            2,
            ask!(triggers, get_trigger, request),
        )
        .await;
    let request = v1::ListTriggersRequest {
        page_size: Some(200),
        ..v1::ListTriggersRequest::default()
    };
    let listed = kind("TriggerService/ListTriggers", "a page of 4 MiB", 100);
    stage
        .cost(listed, 2, ask!(triggers, list_triggers, request))
        .await;
    let request = v1::UpdateTriggerRequest {
        trigger: Some(v1::Trigger {
            trigger_id: trigger_id(),
            ..trigger(0, yearly())
        }),
        ..v1::UpdateTriggerRequest::default()
    };
    let updated = kind("TriggerService/UpdateTrigger", large, 100);
    stage
        .cost(updated, 1, ask!(triggers, update_trigger, request))
        .await;
    let request = v1::EnableTriggerRequest {
        trigger_id: trigger_id(),
        enabled: true,
        ..v1::EnableTriggerRequest::default()
    };
    let enabled = kind("TriggerService/EnableTrigger", large, 100);
    stage
        .cost(enabled, 1, ask!(triggers, enable_trigger, request))
        .await;
    // The first one starts a run; the others wait for its end.
    let queue = v1::Trigger {
        run: Some(question("?")),
        overlap: "queue".to_owned(),
        ..trigger(9, yearly())
    };
    let request = v1::CreateTriggerRequest {
        trigger: Some(queue),
        ..v1::CreateTriggerRequest::default()
    };
    let made = triggers.clone().create_trigger(request).await.unwrap();
    let queue = made.into_inner().trigger.unwrap().trigger_id;
    let trigger_id = || queue.clone();
    let request = v1::FireTriggerRequest {
        trigger_id: trigger_id(),
        data: Some(many_keys(900 << 10)),
        ..v1::FireTriggerRequest::default()
    };
    let fired = kind("TriggerService/FireTrigger", "with 900 KiB in 70,000 keys", 100);
    stage.cost(fired, 6, ask!(triggers, fire_trigger, request)).await;
    let request = v1::ListFiringsRequest {
        trigger_id: trigger_id(),
        page_size: Some(200),
        ..v1::ListFiringsRequest::default()
    };
    let listed = kind("TriggerService/ListFirings", "a page of 4 MiB, which wait", 100);
    stage.cost(listed, 2, ask!(triggers, list_firings, request)).await;
    let request = v1::GetTriggerStatsRequest {
        trigger_id: trigger_id(),
    };
    let counted = kind(
        "TriggerService/GetTriggerStats",
        "of firings of 5 MiB, which wait",
        100,
    );
    stage
        .cost(counted, 1, ask!(triggers, get_trigger_stats, request))
        .await;
    let request = v1::PreviewScheduleRequest {
        cron: "0 0 29 2 1".to_owned(),
        time_zone: "America/New_York".to_owned(),
        count: Some(1_000),
        ..v1::PreviewScheduleRequest::default()
    };
    let previewed = kind(
        "TriggerService/PreviewSchedule",
        "1,000 Mondays in leap years",
        100,
    );
    stage
        .cost(previewed, 1, ask!(triggers, preview_schedule, request))
        .await;
    let mut making = triggers.clone();
    for n in 0..N_LISTENERS {
        let event = v1::EventFilter {
            r#type: "large".to_owned(),
            expression: vec!["input.n == 1"; 40].join(" || "),
            ..v1::EventFilter::default()
        };
        let request = v1::CreateTriggerRequest {
            trigger: Some(trigger(n, Config::Event(event))),
            ..v1::CreateTriggerRequest::default()
        };
        making.create_trigger(request).await.unwrap();
    }
    let request = v1::PublishEventRequest {
        r#type: "large".to_owned(),
        id: "first".to_owned(),
        data: Some(many_keys(900 << 10)),
        ..v1::PublishEventRequest::default()
    };
    let published = kind(
        "TriggerService/PublishEvent",
        "900 KiB in 70,000 keys, for 10 triggers",
        100,
    );
    stage
        .cost(published, 1, ask!(triggers, publish_event, request))
        .await;
    let request = v1::DeleteTriggerRequest {
        trigger_id: trigger_id(),
        ..v1::DeleteTriggerRequest::default()
    };
    let deleted = kind("TriggerService/DeleteTrigger", "with firings of 5 MiB", 100);
    stage
        .cost(deleted, 1, ask!(triggers, delete_trigger, request))
        .await;
    evaluated(stage, triggers).await;
}

/// Filters and conditions that take nearly as much work as they may.
async fn evaluated(stage: &mut Stage, mut triggers: TriggerServiceClient<Channel>) {
    let small = |config| v1::CreateTriggerRequest {
        trigger: Some(v1::Trigger {
            run: Some(question("?")),
            ..trigger(0, config)
        }),
        ..v1::CreateTriggerRequest::default()
    };
    for (heard, filter, worst) in [
        (
            "values",
            values_filter as fn(&str) -> Config,
            "900 KiB below one key, for a filter of 64 keys with 240 values each",
        ),
        (
            "sizes",
            |kind: &str| sizes_filter(kind, N_SIZES),
            "900 KiB below one key, for an expression that measures them 10 times",
        ),
    ] {
        let made = triggers.create_trigger(small(filter(heard))).await.unwrap();
        assert!(made.into_inner().trigger.is_some());
        let publish = async |n: u32| {
            let request = v1::PublishEventRequest {
                r#type: heard.to_owned(),
                id: n.to_string(),
                data: Some(nested_keys(900 << 10)),
                ..v1::PublishEventRequest::default()
            };
            let told = triggers.publish_event(request).await.unwrap().into_inner();
            assert!(told.firings.is_empty(), "it is evaluated to its end: {told:?}");
        };
        stage
            .cost(kind("TriggerService/PublishEvent", worst, 100), 2, publish)
            .await;
    }
    let request = v1::CreateSessionRequest {
        session_id: "measured".to_owned(),
        state: Some(nested_keys(STATE_BYTES)),
        ..v1::CreateSessionRequest::default()
    };
    let mut sessions = SessionServiceClient::new(stage.den.channel().await);
    sessions.create_session(request).await.unwrap();
    let look = async |_| {
        let request = small(sizes_condition("measured", N_SIZES, true));
        let made = triggers.create_trigger(request).await.unwrap().into_inner();
        let trigger_id = made.trigger.unwrap().trigger_id;
        let has_fired = async || {
            let request = v1::ListFiringsRequest {
                trigger_id: trigger_id.clone(),
                ..v1::ListFiringsRequest::default()
            };
            let told = triggers.clone().list_firings(request).await.unwrap().into_inner();
            (!told.firings.is_empty()).then_some(())
        };
        wait_for("the condition to become true", LIMIT, has_fired)
            .await
            .unwrap();
    };
    let worst = "a condition that measures a state of 1 MiB 10 times, until it has fired";
    stage
        .cost(kind("TriggerService/CreateTrigger", worst, 100), 1, look)
        .await;
}

async fn goals(stage: &mut Stage) {
    let goals = GoalServiceClient::new(stage.den.channel().await).max_decoding_message_size(64 << 20);
    let described = |parent_id: &str| v1::Goal {
        title: "\u{1f552}".repeat(100),
        description: "\u{1f552}".repeat(5_000),
        parent_id: parent_id.to_owned(),
        ..v1::Goal::default()
    };
    let mut making = goals.clone();
    let mut above = String::new();
    let make = async |_| {
        let request = v1::CreateGoalRequest {
            goal: Some(described(&above)),
            ..v1::CreateGoalRequest::default()
        };
        let goal = making
            .create_goal(request)
            .await
            .unwrap()
            .into_inner()
            .goal
            .unwrap();
        if above.is_empty() {
            above = goal.goal_id;
        }
    };
    let large = "of 20 KB, beside 5 MiB of saved plans";
    stage
        .cost(kind("GoalService/CreateGoal", large, 100), 100, make)
        .await;
    let goal_id = || above.clone();
    let request = v1::GetGoalRequest {
        goal_id: goal_id(),
        ..v1::GetGoalRequest::default()
    };
    stage
        .cost(
            kind("GoalService/GetGoal", large, 100),
            2,
            ask!(goals, get_goal, request),
        )
        .await;
    let request = v1::ListGoalsRequest {
        page_size: Some(200),
        ..v1::ListGoalsRequest::default()
    };
    let listed = kind(
        "GoalService/ListGoals",
        "100 of 20 KB, beside 5 MiB of saved plans",
        100,
    );
    stage.cost(listed, 2, ask!(goals, list_goals, request)).await;
    let request = v1::UpdateGoalRequest {
        goal_id: goal_id(),
        title: Some("x".to_owned()),
        ..v1::UpdateGoalRequest::default()
    };
    stage
        .cost(
            kind("GoalService/UpdateGoal", large, 100),
            1,
            ask!(goals, update_goal, request),
        )
        .await;
    let request = v1::DeleteGoalRequest {
        goal_id: goal_id(),
        ..v1::DeleteGoalRequest::default()
    };
    let deleted = kind("GoalService/DeleteGoal", "with 99 goals below it", 100);
    stage.cost(deleted, 1, ask!(goals, delete_goal, request)).await;
}

/// What a state may have, less what a session has beside it.
const STATE_BYTES: usize = 1 << 20;
const N_LISTENERS: usize = 10;
const N_SUB_PLANS: usize = 501;
/// Measures of 80,000 keys in one expression. Each costs some 760,000 of a budget of 8,388,608.
const N_SIZES: usize = 10;
