//! One request of each method that is answered as it should be, with everything that it needs.

use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::Value;
use tonic::Code;

use crate::calls::World;

/// A request of a method.
pub(crate) struct Wanted {
    pub(crate) method: &'static str,
    /// JSON, in which words in capitals stand for what is there.
    request: &'static str,
    pub(crate) answers: Code,
    /// Fields that stay as they are: ids of what the request is about.
    pub(crate) kept: &'static [&'static str],
}

/// The request, about what is there.
pub(crate) fn request_of(method: &MethodDescriptor, wanted: &Wanted, world: &World) -> DynamicMessage {
    let mut text = wanted.request.to_owned();
    for (word, value) in &world.known {
        text = text.replace(&format!("\"{word}\""), &format!("\"{value}\""));
    }
    text = text.replace("\"DOCUMENT\"", &crate::calls::document().to_string());
    text = text.replace("\"TRIGGER_OF_RUNS\"", &crate::calls::trigger().to_string());
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
    DynamicMessage::deserialize(method.input(), json).unwrap_or_else(|why| panic!("{text}: {why}"))
}

const fn ok(method: &'static str, request: &'static str, kept: &'static [&'static str]) -> Wanted {
    told(method, request, Code::Ok, kept)
}

const fn told(
    method: &'static str,
    request: &'static str,
    answers: Code,
    kept: &'static [&'static str],
) -> Wanted {
    Wanted {
        method,
        request,
        answers,
        kept,
    }
}

const RUN: &[&str] = &["run_id"];

pub(crate) const REQUESTS: &[Wanted] = &[
    ok("ListActionProfiles", "{}", &[]),
    ok("PutActionProfile", r#"{"profile": {"action": "x.do"}}"#, &[]),
    told(
        "DeleteActionProfile",
        r#"{"action": "x.other"}"#,
        Code::NotFound,
        &[],
    ),
    told("GetArtifact", r#"{"artifact_id": "RUN"}"#, Code::NotFound, &[]),
    ok("ListArtifacts", r#"{"run_id": "RUN"}"#, RUN),
    ok("CreateGoal", r#"{"goal": {"title": "Another"}}"#, &[]),
    ok("GetGoal", r#"{"goal_id": "GOAL"}"#, &["goal_id"]),
    ok("ListGoals", "{}", &[]),
    ok(
        "UpdateGoal",
        r#"{"goal_id": "GOAL", "title": "New"}"#,
        &["goal_id"],
    ),
    told(
        "DeleteGoal",
        r#"{"goal_id": "RUN"}"#,
        Code::NotFound,
        &["goal_id"],
    ),
    ok("ListInputRequests", "{}", &[]),
    ok(
        "GetInputRequest",
        r#"{"input_request_id": "REQUEST"}"#,
        &["input_request_id"],
    ),
    told(
        "RespondToInput",
        r#"{"input_request_id": "REQUEST", "text": "Bern", "responder": {"id": "bob"}, "subject_digest": "DIGEST"}"#,
        Code::InvalidArgument,
        &["input_request_id", "subject_digest"],
    ),
    ok(
        "CreatePlan",
        r#"{"plan": {"name": "n", "goal": "g"}, "document": "DOCUMENT"}"#,
        &["document"],
    ),
    ok("GetPlan", r#"{"plan_id": "PLAN"}"#, &["plan_id"]),
    ok("ListPlans", "{}", &[]),
    ok(
        "UpdatePlan",
        r#"{"plan_id": "PLAN", "name": "New"}"#,
        &["plan_id"],
    ),
    told(
        "DeletePlan",
        r#"{"plan_id": "RUN"}"#,
        Code::NotFound,
        &["plan_id"],
    ),
    ok(
        "AddPlanStep",
        r#"{"plan_id": "PLAN", "step": {"type": "tool_call", "config": {"tool_name": "x.do", "tool_args": {}}}}"#,
        &["plan_id"],
    ),
    ok(
        "UpdatePlanStep",
        r#"{"plan_id": "PLAN", "step_key": "a", "step": {"name": "New"}}"#,
        &["plan_id", "step_key"],
    ),
    told(
        "DeletePlanStep",
        r#"{"plan_id": "PLAN", "step_key": "nobody"}"#,
        Code::InvalidArgument,
        &["plan_id"],
    ),
    ok(
        "PutPlanDocument",
        r#"{"plan_id": "PLAN", "document": "DOCUMENT"}"#,
        &["plan_id"],
    ),
    told(
        "ImportPlan",
        r#"{"format": "autonomous/1", "source_document": {}}"#,
        Code::InvalidArgument,
        &["format"],
    ),
    ok("LoadSamples", "{}", &[]),
    ok("CreateRun", r#"{"document": "DOCUMENT"}"#, &[]),
    ok("CreateRun", r#"{"goal": "to know", "notices": "all"}"#, &[]),
    ok("PreviewRun", r#"{"run": {"document": "DOCUMENT"}}"#, &[]),
    ok("GetRun", r#"{"run_id": "RUN"}"#, RUN),
    ok("ListRuns", "{}", &[]),
    ok("WaitRun", r#"{"run_id": "OTHER_RUN"}"#, RUN),
    ok("ListRunEvents", r#"{"run_id": "RUN"}"#, RUN),
    ok("ListRunSteps", r#"{"run_id": "RUN"}"#, RUN),
    ok("GetRunStep", r#"{"run_id": "RUN", "step_key": "a"}"#, RUN),
    told(
        "GetStepResult",
        r#"{"run_id": "RUN", "step_key": "nobody"}"#,
        Code::InvalidArgument,
        RUN,
    ),
    ok("ListEvidence", r#"{"run_id": "RUN"}"#, RUN),
    ok("ListRevisions", r#"{"run_id": "RUN"}"#, RUN),
    ok("GetRevision", r#"{"revision": "REVISION"}"#, &[]),
    ok("DiffRevisions", r#"{"from": "REVISION", "to": "REVISION"}"#, &[]),
    ok("ListCheckpoints", r#"{"run_id": "RUN"}"#, RUN),
    ok("PauseRun", r#"{"run_id": "RUN"}"#, RUN),
    told("ResumeRun", r#"{"run_id": "RUN"}"#, Code::FailedPrecondition, RUN),
    ok("CancelRun", r#"{"run_id": "RUN"}"#, RUN),
    ok("DiscardRun", r#"{"run_id": "RUN"}"#, RUN),
    ok("RewindRun", r#"{"run_id": "RUN", "step_key": "a"}"#, RUN),
    told(
        "RollbackRun",
        r#"{"run_id": "RUN"}"#,
        Code::FailedPrecondition,
        RUN,
    ),
    ok("ForkRun", r#"{"run_id": "RUN"}"#, RUN),
    told("RetryRun", r#"{"run_id": "RUN"}"#, Code::FailedPrecondition, RUN),
    ok(
        "OverrideStep",
        r#"{"run_id": "RUN", "step_key": "a", "skip": {}, "reason": "done"}"#,
        RUN,
    ),
    ok("CreateCheckpoint", r#"{"run_id": "RUN", "data": {}}"#, RUN),
    ok("ExplainRun", r#"{"run_id": "RUN"}"#, RUN),
    ok("ReplayRun", r#"{"run_id": "RUN"}"#, RUN),
    ok("GetRunStats", "{}", &[]),
    ok("GetRunsStatus", "{}", &[]),
    ok("DeleteRun", r#"{"run_id": "OTHER_RUN"}"#, RUN),
    ok("ClassifyIntent", r#"{"query": "a report"}"#, &[]),
    ok("CreateSession", r#"{"state": {}}"#, &[]),
    ok("GetSession", r#"{"session_id": "shared"}"#, &["session_id"]),
    ok(
        "MergeSessionState",
        r#"{"session_id": "shared", "patch": {"a": 1}}"#,
        &["session_id"],
    ),
    ok("RestartSession", r#"{"session_id": "shared"}"#, &["session_id"]),
    ok("ListSkillHealth", r#"{"session_id": "shared"}"#, &["session_id"]),
    ok("ResetSkillHealth", r#"{"session_id": "shared"}"#, &["session_id"]),
    told(
        "DeleteSession",
        r#"{"session_id": "nobody"}"#,
        Code::NotFound,
        &[],
    ),
    ok(
        "CreateTrigger",
        r#"{"trigger": "TRIGGER_OF_RUNS"}"#,
        &["trigger.schedule.cron"],
    ),
    ok("GetTrigger", r#"{"trigger_id": "TRIGGER"}"#, &["trigger_id"]),
    ok("ListTriggers", "{}", &[]),
    told(
        "UpdateTrigger",
        r#"{"trigger": {"trigger_id": "TRIGGER"}}"#,
        Code::InvalidArgument,
        &["trigger.trigger_id"],
    ),
    ok(
        "EnableTrigger",
        r#"{"trigger_id": "TRIGGER", "enabled": false}"#,
        &["trigger_id"],
    ),
    told(
        "DeleteTrigger",
        r#"{"trigger_id": "RUN"}"#,
        Code::NotFound,
        &["trigger_id"],
    ),
    ok("FireTrigger", r#"{"trigger_id": "TRIGGER"}"#, &["trigger_id"]),
    ok("ListFirings", r#"{"trigger_id": "TRIGGER"}"#, &["trigger_id"]),
    ok("GetTriggerStats", "{}", &[]),
    ok("PreviewSchedule", r#"{"cron": "0 3 * * *"}"#, &["cron"]),
    ok("PublishEvent", r#"{"type": "happened", "id": "1"}"#, &[]),
];
