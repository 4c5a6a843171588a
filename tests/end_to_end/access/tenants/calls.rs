//! Every call about runs and executions. Makes none.

use super::wire::Call;
use super::wire::Elsewhere::{Hidden, NotFound, Refused};
use super::wire::Use::{Other, Payloads, Read, Write};
use super::wire::call;
use super::{SESSION, Things, asking, run_request};
use escapement_wire::runs::v1;
use prost::Message;

/// Every call about runs, about these things where it is about anything.
pub(super) fn calls(things: &Things) -> Vec<Call> {
    let run_id = || things.run_id.clone();
    let run = |method: &str, message: &dyn Fn() -> Vec<u8>, elsewhere, kind| Call {
        path: format!("/escapement.runs.v1.RunService/{method}"),
        message: message().into(),
        elsewhere,
        kind,
    };
    // The first field of each of these is the run.
    let of_run = |method: &str, kind| {
        let message = || v1::GetRunRequest { run_id: run_id() }.encode_to_vec();
        run(method, &message, NotFound, kind)
    };
    let of_step = |method: &str, kind| {
        let message = || {
            v1::GetRunStepRequest {
                run_id: run_id(),
                step_key: "ask".to_owned(),
            }
            .encode_to_vec()
        };
        run(method, &message, NotFound, kind)
    };
    // The first field of each of these is the plan, the trigger or the goal.
    let id = |id: &str| v1::GetRunRequest {
        run_id: id.to_owned(),
    };
    let (plan, trigger, goal) = (id(&things.plan_id), id(&things.trigger_id), id(&things.goal_id));
    let asked = v1::GetInputRequestRequest {
        input_request_id: things.input_request_id.clone(),
    };
    let respond = v1::RespondToInputRequest {
        input_request_id: things.input_request_id.clone(),
        answer: Some(v1::respond_to_input_request::Answer::Text("yes".to_owned())),
        ..Default::default()
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
    let artifact = v1::DownloadRequest {
        run_id: run_id(),
        artifact_id: things.artifact_id.clone(),
    };
    let upload = v1::UploadRequest {
        part: Some(v1::upload_request::Part::Header(v1::UploadHeader {
            run_id: run_id(),
            r#type: "text".to_owned(),
            mime_type: "text/plain".to_owned(),
            name: "b.txt".to_owned(),
            ..Default::default()
        })),
    };
    let session = v1::GetSessionRequest {
        session_id: SESSION.to_owned(),
        ..Default::default()
    };
    let merge = v1::MergeSessionStateRequest {
        session_id: SESSION.to_owned(),
        patch: Some(Default::default()),
        ..Default::default()
    };
    let update = v1::UpdateTriggerRequest {
        trigger: Some(v1::Trigger {
            trigger_id: things.trigger_id.clone(),
            config: Some(v1::trigger::Config::Event(v1::EventFilter {
                r#type: "ping".to_owned(),
                ..Default::default()
            })),
            run: Some(run_request("", &asking())),
            ..Default::default()
        }),
        ..Default::default()
    };
    let override_step = v1::OverrideStepRequest {
        run_id: run_id(),
        ..Default::default()
    };
    let event = v1::PublishEventRequest {
        r#type: "ping".to_owned(),
        id: "1".to_owned(),
        ..Default::default()
    };
    let of_plan = v1::CreateRunRequest {
        what: Some(v1::create_run_request::What::PlanId(things.plan_id.clone())),
        ..Default::default()
    };
    let preview = v1::PreviewRunRequest {
        run: Some(of_plan.clone()),
    };
    let put = v1::PutPlanDocumentRequest {
        plan_id: things.plan_id.clone(),
        document: Some(Default::default()),
        ..Default::default()
    };
    let add = v1::AddPlanStepRequest {
        plan_id: things.plan_id.clone(),
        form: Some(v1::add_plan_step_request::Form::Step(Default::default())),
        ..Default::default()
    };
    let step = v1::UpdatePlanStepRequest {
        plan_id: things.plan_id.clone(),
        step: Some(Default::default()),
        ..Default::default()
    };
    let (runs, plans, inbox) = ("RunService", "PlanService", "InboxService");
    let (triggers, goals, sessions) = ("TriggerService", "GoalService", "SessionService");
    let (artifacts, actions) = ("ArtifactService", "ActionService");
    vec![
        call(runs, "CreateRun", &of_plan, NotFound, Write),
        // In the namespace that the request names: nobody else's default.
        call(runs, "PreviewRun", &preview, NotFound, Other),
        of_run("GetRun", Read),
        call(runs, "ListRuns", &v1::ListRunsRequest::default(), Hidden, Read),
        {
            let message = || {
                v1::WaitRunRequest {
                    run_id: run_id(),
                    timeout_ms: Some(0),
                }
                .encode_to_vec()
            };
            run("WaitRun", &message, NotFound, Read)
        },
        of_run("WatchRun", Read),
        of_run("ListRunEvents", Read),
        of_run("ListRunSteps", Read),
        of_step("GetRunStep", Read),
        of_step("GetStepResult", Other),
        of_run("ListEvidence", Read),
        of_run("ListRevisions", Read),
        call(runs, "GetRevision", &revision, NotFound, Read),
        call(runs, "DiffRevisions", &diff, NotFound, Read),
        of_run("ListCheckpoints", Read),
        of_run("ExplainRun", Read),
        of_run("ReplayRun", Read),
        {
            let message = || {
                v1::ExportRunRequest {
                    run_id: things.ended.clone(),
                }
                .encode_to_vec()
            };
            run("ExportRun", &message, NotFound, Payloads)
        },
        call(
            runs,
            "GetRunStats",
            &v1::GetRunStatsRequest::default(),
            Hidden,
            Read,
        ),
        call(
            runs,
            "GetRunsStatus",
            &v1::GetRunsStatusRequest::default(),
            Hidden,
            Read,
        ),
        call(
            runs,
            "ClassifyIntent",
            &v1::ClassifyIntentRequest {
                query: "q".to_owned(),
                ..Default::default()
            },
            Hidden,
            Read,
        ),
        call(
            runs,
            "WatchNotices",
            &v1::WatchNoticesRequest {
                session_id: SESSION.to_owned(),
                ..Default::default()
            },
            NotFound,
            Other,
        ),
        of_run("PauseRun", Write),
        of_run("ResumeRun", Write),
        of_run("CancelRun", Write),
        of_run("DiscardRun", Write),
        of_step("RewindRun", Write),
        of_run("RollbackRun", Write),
        of_run("ForkRun", Write),
        of_run("RetryRun", Write),
        call(runs, "OverrideStep", &override_step, Refused, Write),
        of_run("CreateCheckpoint", Write),
        of_run("DeleteRun", Write),
        call(
            plans,
            "CreatePlan",
            &v1::CreatePlanRequest::default(),
            Hidden,
            Write,
        ),
        call(plans, "GetPlan", &plan, NotFound, Read),
        call(plans, "ListPlans", &v1::ListPlansRequest::default(), Hidden, Read),
        call(plans, "UpdatePlan", &plan, NotFound, Write),
        call(plans, "DeletePlan", &plan, NotFound, Write),
        call(plans, "AddPlanStep", &add, NotFound, Write),
        call(plans, "UpdatePlanStep", &step, NotFound, Write),
        call(plans, "DeletePlanStep", &plan, NotFound, Write),
        call(plans, "PutPlanDocument", &put, NotFound, Write),
        call(
            plans,
            "ImportPlan",
            &v1::ImportPlanRequest::default(),
            Hidden,
            Write,
        ),
        call(
            plans,
            "LoadSamples",
            &v1::LoadSamplesRequest {
                user_id: "nobody".to_owned(),
                ..Default::default()
            },
            Hidden,
            Write,
        ),
        call(
            inbox,
            "ListInputRequests",
            &v1::ListInputRequestsRequest::default(),
            Hidden,
            Read,
        ),
        call(inbox, "GetInputRequest", &asked, NotFound, Read),
        call(inbox, "RespondToInput", &respond, NotFound, Write),
        call(
            inbox,
            "WatchInbox",
            &v1::WatchInboxRequest::default(),
            Hidden,
            Read,
        ),
        call(
            sessions,
            "CreateSession",
            &v1::CreateSessionRequest {
                session_id: SESSION.to_owned(),
                ..Default::default()
            },
            Hidden,
            Write,
        ),
        call(
            sessions,
            "GetSession",
            &v1::GetSessionRequest {
                session_id: "another".to_owned(),
                ..Default::default()
            },
            NotFound,
            Other,
        ),
        call(
            sessions,
            "ListSkillHealth",
            &v1::GetSessionRequest {
                session_id: "another".to_owned(),
                ..Default::default()
            },
            NotFound,
            Other,
        ),
        call(sessions, "MergeSessionState", &merge, Hidden, Write),
        call(sessions, "RestartSession", &session, Hidden, Write),
        call(sessions, "ResetSkillHealth", &session, Refused, Write),
        call(sessions, "DeleteSession", &session, Hidden, Write),
        call(
            triggers,
            "CreateTrigger",
            &v1::CreateTriggerRequest::default(),
            Hidden,
            Write,
        ),
        call(triggers, "GetTrigger", &trigger, NotFound, Read),
        call(
            triggers,
            "ListTriggers",
            &v1::ListTriggersRequest::default(),
            Hidden,
            Read,
        ),
        call(triggers, "UpdateTrigger", &update, NotFound, Write),
        call(triggers, "DeleteTrigger", &trigger, NotFound, Write),
        call(triggers, "EnableTrigger", &trigger, NotFound, Write),
        call(triggers, "FireTrigger", &trigger, NotFound, Write),
        call(triggers, "ListFirings", &trigger, NotFound, Read),
        call(triggers, "GetTriggerStats", &trigger, NotFound, Read),
        call(
            triggers,
            "PreviewSchedule",
            &v1::PreviewScheduleRequest {
                cron: "0 0 * * *".to_owned(),
                ..Default::default()
            },
            Hidden,
            Read,
        ),
        call(triggers, "PublishEvent", &event, Hidden, Write),
        call(
            goals,
            "CreateGoal",
            &v1::CreateGoalRequest::default(),
            Hidden,
            Write,
        ),
        call(goals, "GetGoal", &goal, NotFound, Read),
        call(goals, "ListGoals", &v1::ListGoalsRequest::default(), Hidden, Read),
        call(goals, "UpdateGoal", &goal, NotFound, Write),
        call(goals, "DeleteGoal", &goal, NotFound, Write),
        call(artifacts, "Upload", &upload, NotFound, Write),
        call(artifacts, "Download", &artifact, NotFound, Read),
        call(artifacts, "GetArtifact", &artifact, NotFound, Read),
        call(artifacts, "ListArtifacts", &id(&things.run_id), NotFound, Read),
        call(
            actions,
            "ListActionProfiles",
            &v1::ListActionProfilesRequest::default(),
            Hidden,
            Read,
        ),
        call(
            actions,
            "PutActionProfile",
            &v1::PutActionProfileRequest::default(),
            Refused,
            Write,
        ),
        call(
            actions,
            "DeleteActionProfile",
            &v1::DeleteActionProfileRequest::default(),
            Refused,
            Write,
        ),
    ]
}
