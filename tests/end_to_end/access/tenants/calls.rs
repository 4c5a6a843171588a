//! Every call about runs, about these things if it is about anything. Makes none.

use super::wire::Elsewhere::{Hidden, NotFound, NotHere, Same};
use super::wire::Use::{Other, Payloads, Read, Write};
use super::wire::{Call, call};
use super::{SESSION, Things, run_request};
use escapement_wire::json::to_opaque;
use escapement_wire::runs::v1;
use serde_json::json;

/// Every call about runs.
pub(crate) fn calls(things: &Things) -> Vec<Call> {
    [
        reading_runs(things),
        changing_runs(things),
        plans(things),
        inbox(things),
        sessions(),
        triggers(things),
        goals(things),
        artifacts(things),
        actions(),
    ]
    .concat()
}

/// Of no request that has it is anything done: no version is called so.
fn wrong() -> String {
    "wrong".to_owned()
}

fn other() -> String {
    "other".to_owned()
}

/// Returns a message whose first field is the run, the plan, the trigger or the goal.
fn first(id: &str) -> v1::GetRunRequest {
    v1::GetRunRequest {
        run_id: id.to_owned(),
    }
}

fn reading_runs(things: &Things) -> Vec<Call> {
    let runs = "RunService";
    let run = first(&things.run_id);
    let of_run = |method| call(runs, method, &run, NotFound, Read);
    let step = v1::GetRunStepRequest {
        run_id: things.run_id.clone(),
        step_key: "ask".to_owned(),
    };
    let revision = v1::RevisionName {
        revision_digest: things.revision_digest.clone(),
        ..Default::default()
    };
    let diff = v1::DiffRevisionsRequest {
        from: Some(revision.clone()),
        to: Some(revision.clone()),
    };
    let revision = v1::GetRevisionRequest {
        revision: Some(revision),
    };
    let wait = v1::WaitRunRequest {
        run_id: things.run_id.clone(),
        timeout_ms: Some(0),
    };
    let preview = |namespace| v1::PreviewRunRequest {
        run: Some(v1::CreateRunRequest {
            what: Some(v1::create_run_request::What::PlanId(things.plan_id.clone())),
            namespace,
            ..Default::default()
        }),
    };
    let stats = v1::GetRunStatsRequest {
        namespace: other(),
        ..Default::default()
    };
    let status = v1::GetRunsStatusRequest { namespace: other() };
    let intent = v1::ClassifyIntentRequest {
        query: "q".to_owned(),
        ..Default::default()
    };
    let notices = v1::WatchNoticesRequest {
        session_id: SESSION.to_owned(),
        namespace: other(),
        ..Default::default()
    };
    let list = v1::ListRunsRequest::default();
    vec![
        call(runs, "PreviewRun", &preview(String::new()), NotFound, Read).permitted(&preview(other())),
        of_run("GetRun"),
        call(runs, "ListRuns", &list, Hidden, Read),
        call(runs, "WaitRun", &wait, NotFound, Read),
        of_run("WatchRun"),
        of_run("ListRunEvents"),
        of_run("ListRunSteps"),
        call(runs, "GetRunStep", &step, NotFound, Read),
        call(runs, "GetStepResult", &step, NotFound, Other),
        of_run("ListEvidence"),
        of_run("ListRevisions"),
        call(runs, "GetRevision", &revision, NotFound, Read),
        call(runs, "DiffRevisions", &diff, NotFound, Read),
        of_run("ListCheckpoints"),
        of_run("ExplainRun"),
        of_run("ReplayRun"),
        call(runs, "ExportRun", &first(&things.ended), NotFound, Payloads),
        call(runs, "GetRunStats", &stats, NotHere, Read),
        call(runs, "GetRunsStatus", &status, NotHere, Read),
        call(runs, "ClassifyIntent", &intent, Same, Read),
        call(runs, "WatchNotices", &notices, NotHere, Read),
        call(
            runs,
            "ReadEvents",
            &v1::ReadEventsRequest::default(),
            Hidden,
            Read,
        ),
    ]
}

fn changing_runs(things: &Things) -> Vec<Call> {
    let runs = "RunService";
    let run_id = || things.run_id.clone();
    let create = v1::CreateRunRequest {
        what: Some(v1::create_run_request::What::PlanId(things.plan_id.clone())),
        ..Default::default()
    };
    let no_preset = v1::CreateRunRequest {
        namespace: other(),
        preset: wrong(),
        ..create.clone()
    };
    let run = first(&things.run_id);
    let of_run = |method| call(runs, method, &run, NotFound, Write);
    let pause = v1::PauseRunRequest {
        run_id: run_id(),
        etag: wrong(),
        ..Default::default()
    };
    let discard = v1::DiscardRunRequest {
        run_id: run_id(),
        etag: wrong(),
        ..Default::default()
    };
    let rewind = v1::RewindRunRequest {
        run_id: run_id(),
        step_key: "ask".to_owned(),
        ..Default::default()
    };
    let no_rewind = v1::RewindRunRequest {
        etag: wrong(),
        ..rewind.clone()
    };
    let rollback = v1::RollbackRunRequest {
        run_id: run_id(),
        etag: wrong(),
        ..Default::default()
    };
    let fork = v1::ForkRunRequest {
        run_id: run_id(),
        etag: wrong(),
        ..Default::default()
    };
    let checkpoint = v1::CreateCheckpointRequest {
        run_id: run_id(),
        etag: wrong(),
        ..Default::default()
    };
    vec![
        call(runs, "CreateRun", &create, NotFound, Write).permitted(&no_preset),
        // The first fields of these requests are the same.
        of_run("PauseRun").permitted(&pause),
        of_run("ResumeRun").permitted(&pause),
        of_run("CancelRun").permitted(&pause),
        of_run("DiscardRun").permitted(&discard),
        call(runs, "RewindRun", &rewind, NotFound, Write).permitted(&no_rewind),
        of_run("RollbackRun").permitted(&rollback),
        of_run("ForkRun").permitted(&fork),
        // It has not failed, nor ended, and the step has no name.
        of_run("RetryRun"),
        of_run("DeleteRun"),
        of_run("OverrideStep"),
        of_run("CreateCheckpoint").permitted(&checkpoint),
    ]
}

fn plans(things: &Things) -> Vec<Call> {
    let plans = "PlanService";
    let plan = first(&things.plan_id);
    let plan_id = || things.plan_id.clone();
    let of_plan = |method| call(plans, method, &plan, NotFound, Write);
    let own = json!({"schema": "escapement.plan/1", "name": "own", "steps": []});
    let own = to_opaque(own.as_object().expect("an object"));
    let imported = json!({"goal": "own", "steps": [
        {"id": 1, "description": "First", "toolName": "echo", "toolArgs": {}, "dependsOn": []},
    ]});
    let imported = to_opaque(imported.as_object().expect("an object"));
    let create = v1::CreatePlanRequest {
        plan: Some(v1::Plan {
            goal: "g".to_owned(),
            ..Default::default()
        }),
        document: Some(own),
        namespace: other(),
        ..Default::default()
    };
    let no_plan = v1::CreatePlanRequest {
        namespace: other(),
        ..Default::default()
    };
    let import = v1::ImportPlanRequest {
        format: "core/1".to_owned(),
        source_document: Some(imported),
        save: true,
        plan: create.plan.clone(),
        namespace: other(),
        ..Default::default()
    };
    let no_import = v1::ImportPlanRequest {
        format: wrong(),
        namespace: other(),
        ..Default::default()
    };
    let samples = v1::LoadSamplesRequest {
        namespace: other(),
        ..Default::default()
    };
    let update = v1::UpdatePlanRequest {
        plan_id: plan_id(),
        etag: wrong(),
        ..Default::default()
    };
    let delete = v1::DeletePlanRequest {
        plan_id: plan_id(),
        etag: wrong(),
        ..Default::default()
    };
    let add = v1::AddPlanStepRequest {
        plan_id: plan_id(),
        form: Some(v1::add_plan_step_request::Form::Step(Default::default())),
        ..Default::default()
    };
    let step = v1::UpdatePlanStepRequest {
        plan_id: plan_id(),
        step: Some(Default::default()),
        ..Default::default()
    };
    let put = v1::PutPlanDocumentRequest {
        plan_id: plan_id(),
        document: Some(Default::default()),
        ..Default::default()
    };
    let list = v1::ListPlansRequest::default();
    vec![
        call(plans, "CreatePlan", &create, NotHere, Write).permitted(&no_plan),
        call(plans, "GetPlan", &plan, NotFound, Read),
        call(plans, "ListPlans", &list, Hidden, Read),
        of_plan("UpdatePlan").permitted(&update),
        of_plan("DeletePlan").permitted(&delete),
        call(plans, "AddPlanStep", &add, NotFound, Write),
        call(plans, "UpdatePlanStep", &step, NotFound, Write),
        of_plan("DeletePlanStep"),
        call(plans, "PutPlanDocument", &put, NotFound, Write),
        call(plans, "ImportPlan", &import, NotHere, Write).permitted(&no_import),
        // What there is already stays.
        call(plans, "LoadSamples", &samples, NotHere, Write),
    ]
}

fn inbox(things: &Things) -> Vec<Call> {
    let inbox = "InboxService";
    let asked = v1::GetInputRequestRequest {
        input_request_id: things.input_request_id.clone(),
    };
    let respond = v1::RespondToInputRequest {
        input_request_id: things.input_request_id.clone(),
        answer: Some(v1::respond_to_input_request::Answer::Text("yes".to_owned())),
        ..Default::default()
    };
    let no_answer = v1::RespondToInputRequest {
        subject_digest: wrong(),
        ..respond.clone()
    };
    let list = v1::ListInputRequestsRequest::default();
    let watch = v1::WatchInboxRequest::default();
    vec![
        call(inbox, "ListInputRequests", &list, Hidden, Read),
        call(inbox, "GetInputRequest", &asked, NotFound, Read),
        call(inbox, "RespondToInput", &respond, NotFound, Write).permitted(&no_answer),
        call(inbox, "WatchInbox", &watch, Hidden, Read),
    ]
}

fn sessions() -> Vec<Call> {
    let sessions = "SessionService";
    let create = v1::CreateSessionRequest {
        session_id: SESSION.to_owned(),
        namespace: other(),
        ..Default::default()
    };
    let session = v1::GetSessionRequest {
        session_id: SESSION.to_owned(),
        namespace: other(),
        ..Default::default()
    };
    let merge = v1::MergeSessionStateRequest {
        session_id: SESSION.to_owned(),
        patch: Some(Default::default()),
        namespace: other(),
        etag: wrong(),
        ..Default::default()
    };
    let restart = v1::RestartSessionRequest {
        session_id: SESSION.to_owned(),
        namespace: other(),
        etag: wrong(),
        ..Default::default()
    };
    let reset = v1::ResetSkillHealthRequest {
        session_id: SESSION.to_owned(),
        skill: "s".to_owned(),
        namespace: other(),
        ..Default::default()
    };
    vec![
        // There is one of this name; a run of it lives; and nothing is known of its skills.
        call(sessions, "CreateSession", &create, NotHere, Write),
        call(sessions, "GetSession", &session, NotHere, Read),
        call(sessions, "ListSkillHealth", &session, NotHere, Read),
        call(sessions, "MergeSessionState", &merge, NotHere, Write),
        call(sessions, "RestartSession", &restart, NotHere, Write),
        call(sessions, "ResetSkillHealth", &reset, NotHere, Write),
        call(sessions, "DeleteSession", &session, NotHere, Write),
    ]
}

fn triggers(things: &Things) -> Vec<Call> {
    let triggers = "TriggerService";
    let trigger = first(&things.trigger_id);
    let trigger_id = || things.trigger_id.clone();
    let of_trigger = |method, kind| call(triggers, method, &trigger, NotFound, kind);
    let own = json!({"schema": "escapement.plan/1", "name": "own", "steps": []});
    let listening = |trigger_id| v1::Trigger {
        trigger_id,
        name: "t".to_owned(),
        config: Some(v1::trigger::Config::Event(v1::EventFilter {
            r#type: "ping".to_owned(),
            ..Default::default()
        })),
        run: Some(run_request("", &own)),
        ..Default::default()
    };
    let create = v1::CreateTriggerRequest {
        trigger: Some(listening(String::new())),
        namespace: other(),
        ..Default::default()
    };
    let no_trigger = v1::CreateTriggerRequest {
        namespace: other(),
        ..Default::default()
    };
    let update = v1::UpdateTriggerRequest {
        trigger: Some(listening(trigger_id())),
        ..Default::default()
    };
    let no_update = v1::UpdateTriggerRequest {
        etag: wrong(),
        ..update.clone()
    };
    let delete = v1::DeleteTriggerRequest {
        trigger_id: trigger_id(),
        etag: wrong(),
        ..Default::default()
    };
    let enable = v1::EnableTriggerRequest {
        trigger_id: trigger_id(),
        etag: wrong(),
        ..Default::default()
    };
    let fire = v1::FireTriggerRequest {
        trigger_id: trigger_id(),
        request_id: "too long".repeat(100),
        ..Default::default()
    };
    let preview = v1::PreviewScheduleRequest {
        cron: "0 0 * * *".to_owned(),
        ..Default::default()
    };
    let publish = |kind: &str| v1::PublishEventRequest {
        r#type: kind.to_owned(),
        id: "1".to_owned(),
        namespace: other(),
        ..Default::default()
    };
    let list = v1::ListTriggersRequest::default();
    vec![
        call(triggers, "CreateTrigger", &create, NotHere, Write).permitted(&no_trigger),
        of_trigger("GetTrigger", Read),
        call(triggers, "ListTriggers", &list, Hidden, Read),
        call(triggers, "UpdateTrigger", &update, NotFound, Write).permitted(&no_update),
        of_trigger("DeleteTrigger", Write).permitted(&delete),
        of_trigger("EnableTrigger", Write).permitted(&enable),
        of_trigger("FireTrigger", Write).permitted(&fire),
        of_trigger("ListFirings", Read),
        of_trigger("GetTriggerStats", Read),
        call(triggers, "PreviewSchedule", &preview, Same, Read),
        call(triggers, "PublishEvent", &publish("ping"), NotHere, Write)
            .permitted(&publish("of which nobody hears")),
    ]
}

fn goals(things: &Things) -> Vec<Call> {
    let goals = "GoalService";
    let goal = first(&things.goal_id);
    let goal_id = || things.goal_id.clone();
    let create = v1::CreateGoalRequest {
        goal: Some(v1::Goal {
            title: "g".to_owned(),
            ..Default::default()
        }),
        namespace: other(),
        ..Default::default()
    };
    let no_goal = v1::CreateGoalRequest {
        namespace: other(),
        ..Default::default()
    };
    let update = v1::UpdateGoalRequest {
        goal_id: goal_id(),
        etag: wrong(),
        ..Default::default()
    };
    let delete = v1::DeleteGoalRequest {
        goal_id: goal_id(),
        etag: wrong(),
        ..Default::default()
    };
    let list = v1::ListGoalsRequest::default();
    vec![
        call(goals, "CreateGoal", &create, NotHere, Write).permitted(&no_goal),
        call(goals, "GetGoal", &goal, NotFound, Read),
        call(goals, "ListGoals", &list, Hidden, Read),
        call(goals, "UpdateGoal", &goal, NotFound, Write).permitted(&update),
        call(goals, "DeleteGoal", &goal, NotFound, Write).permitted(&delete),
    ]
}

fn artifacts(things: &Things) -> Vec<Call> {
    let artifacts = "ArtifactService";
    let upload = |size_bytes| v1::UploadRequest {
        part: Some(v1::upload_request::Part::Header(v1::UploadHeader {
            run_id: things.run_id.clone(),
            r#type: "text".to_owned(),
            mime_type: "text/plain".to_owned(),
            name: "b.txt".to_owned(),
            size_bytes,
            ..Default::default()
        })),
    };
    let artifact = v1::DownloadRequest {
        run_id: things.run_id.clone(),
        artifact_id: things.artifact_id.clone(),
    };
    let run = first(&things.run_id);
    vec![
        // Nothing comes, and something was announced.
        call(artifacts, "Upload", &upload(None), NotFound, Write).permitted(&upload(Some(1))),
        call(artifacts, "Download", &artifact, NotFound, Read),
        call(artifacts, "GetArtifact", &artifact, NotFound, Read),
        call(artifacts, "ListArtifacts", &run, NotFound, Read),
    ]
}

fn actions() -> Vec<Call> {
    let actions = "ActionService";
    let list = v1::ListActionProfilesRequest::default();
    let put = v1::PutActionProfileRequest::default();
    let delete = v1::DeleteActionProfileRequest::default();
    vec![
        call(actions, "ListActionProfiles", &list, Same, Read),
        call(actions, "PutActionProfile", &put, Same, Write),
        call(actions, "DeleteActionProfile", &delete, Same, Write),
    ]
}
