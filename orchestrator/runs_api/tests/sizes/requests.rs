//! Requests of each method, with everything that it needs.

use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::Value;

use crate::calls::World;

/// A request of a method.
pub(crate) struct Wanted {
    pub(crate) method: &'static str,
    /// JSON, in which words in capitals stand for what is there.
    request: &'static str,
    /// Fields that stay as they are: ids of what the request is about.
    pub(crate) kept: &'static [&'static str],
}

/// Creates the request for existing objects.
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

const fn asks(method: &'static str, request: &'static str, kept: &'static [&'static str]) -> Wanted {
    Wanted {
        method,
        request,
        kept,
    }
}

const RUN: &[&str] = &["run_id"];

pub(crate) const REQUESTS: &[Wanted] = &[
    asks("Download", r#"{"run_id": "RUN", "artifact_id": "RUN"}"#, RUN),
    asks(
        "Upload",
        r#"{"header": {"run_id": "RUN", "type": "text", "mime_type": "text/plain", "name": "a.txt"}}"#,
        &["header.run_id", "data"],
    ),
    asks("WatchRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("WatchInbox", "{}", &[]),
    asks("WatchNotices", r#"{"user_id": "ada"}"#, &[]),
    asks("ReadEvents", "{}", &[]),
    asks("ExportRun", r#"{"run_id": "OTHER_RUN"}"#, RUN),
    asks("ListActionProfiles", "{}", &[]),
    asks("PutActionProfile", r#"{"profile": {"action": "x.do"}}"#, &[]),
    asks("DeleteActionProfile", r#"{"action": "x.other"}"#, &[]),
    asks("GetArtifact", r#"{"artifact_id": "RUN"}"#, &[]),
    asks("ListArtifacts", r#"{"run_id": "RUN"}"#, RUN),
    asks("CreateGoal", r#"{"goal": {"title": "Another"}}"#, &[]),
    asks("GetGoal", r#"{"goal_id": "GOAL"}"#, &["goal_id"]),
    asks("ListGoals", "{}", &[]),
    asks(
        "UpdateGoal",
        r#"{"goal_id": "GOAL", "title": "New"}"#,
        &["goal_id"],
    ),
    asks("DeleteGoal", r#"{"goal_id": "RUN"}"#, &["goal_id"]),
    asks("ListInputRequests", "{}", &[]),
    asks(
        "GetInputRequest",
        r#"{"input_request_id": "REQUEST"}"#,
        &["input_request_id"],
    ),
    asks(
        "RespondToInput",
        r#"{"input_request_id": "REQUEST", "text": "Bern", "responder": {"id": "bob"}, "subject_digest": "DIGEST"}"#,
        &["input_request_id", "subject_digest"],
    ),
    asks(
        "CreatePlan",
        r#"{"plan": {"name": "n", "goal": "g"}, "document": "DOCUMENT"}"#,
        &["document"],
    ),
    asks("GetPlan", r#"{"plan_id": "PLAN"}"#, &["plan_id"]),
    asks("ListPlans", "{}", &[]),
    asks(
        "UpdatePlan",
        r#"{"plan_id": "PLAN", "name": "New"}"#,
        &["plan_id"],
    ),
    asks("DeletePlan", r#"{"plan_id": "RUN"}"#, &["plan_id"]),
    asks(
        "AddPlanStep",
        r#"{"plan_id": "PLAN", "step": {"type": "tool_call", "config": {"tool_name": "x.do", "tool_args": {}}}}"#,
        &["plan_id"],
    ),
    asks(
        "UpdatePlanStep",
        r#"{"plan_id": "PLAN", "step_key": "a", "step": {"name": "New"}}"#,
        &["plan_id", "step_key"],
    ),
    asks(
        "DeletePlanStep",
        r#"{"plan_id": "PLAN", "step_key": "nobody"}"#,
        &["plan_id"],
    ),
    asks(
        "PutPlanDocument",
        r#"{"plan_id": "PLAN", "document": "DOCUMENT"}"#,
        &["plan_id"],
    ),
    asks(
        "ImportPlan",
        r#"{"format": "autonomous/1", "source_document": {}}"#,
        &["format"],
    ),
    asks("LoadSamples", "{}", &[]),
    asks("CreateRun", r#"{"document": "DOCUMENT"}"#, &[]),
    asks("CreateRun", r#"{"goal": "to know", "notices": "all"}"#, &[]),
    asks("PreviewRun", r#"{"run": {"document": "DOCUMENT"}}"#, &[]),
    asks("GetRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("ListRuns", "{}", &[]),
    asks("WaitRun", r#"{"run_id": "OTHER_RUN"}"#, RUN),
    asks("ListRunEvents", r#"{"run_id": "RUN"}"#, RUN),
    asks("ListRunSteps", r#"{"run_id": "RUN"}"#, RUN),
    asks("GetRunStep", r#"{"run_id": "RUN", "step_key": "a"}"#, RUN),
    asks("GetStepResult", r#"{"run_id": "RUN", "step_key": "nobody"}"#, RUN),
    asks("ListEvidence", r#"{"run_id": "RUN"}"#, RUN),
    asks("ListRevisions", r#"{"run_id": "RUN"}"#, RUN),
    asks(
        "GetRevision",
        r#"{"revision": {"revision_digest": "REVISION"}}"#,
        &[],
    ),
    asks(
        "DiffRevisions",
        r#"{"from": {"revision_digest": "REVISION"}, "to": {"revision_digest": "REVISION"}}"#,
        &[],
    ),
    asks("ListCheckpoints", r#"{"run_id": "RUN"}"#, RUN),
    asks("PauseRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("ResumeRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("CancelRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("DiscardRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("RewindRun", r#"{"run_id": "RUN", "step_key": "a"}"#, RUN),
    asks("RollbackRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("ForkRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("RetryRun", r#"{"run_id": "RUN"}"#, RUN),
    asks(
        "OverrideStep",
        r#"{"run_id": "RUN", "step_key": "a", "skip": {}, "reason": "done"}"#,
        RUN,
    ),
    asks("CreateCheckpoint", r#"{"run_id": "RUN", "data": {}}"#, RUN),
    asks("ExplainRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("ReplayRun", r#"{"run_id": "RUN"}"#, RUN),
    asks("GetRunStats", "{}", &[]),
    asks("GetRunsStatus", "{}", &[]),
    asks("DeleteRun", r#"{"run_id": "OTHER_RUN"}"#, RUN),
    asks("ClassifyIntent", r#"{"query": "a report"}"#, &[]),
    asks("CreateSession", r#"{"state": {}}"#, &[]),
    asks("GetSession", r#"{"session_id": "shared"}"#, &["session_id"]),
    asks(
        "MergeSessionState",
        r#"{"session_id": "shared", "patch": {"a": 1}}"#,
        &["session_id"],
    ),
    asks("RestartSession", r#"{"session_id": "shared"}"#, &["session_id"]),
    asks("ListSkillHealth", r#"{"session_id": "shared"}"#, &["session_id"]),
    asks("ResetSkillHealth", r#"{"session_id": "shared"}"#, &["session_id"]),
    asks("DeleteSession", r#"{"session_id": "nobody"}"#, &[]),
    asks(
        "CreateTrigger",
        r#"{"trigger": "TRIGGER_OF_RUNS"}"#,
        &["trigger.schedule.cron"],
    ),
    asks(
        "CreateTrigger",
        r#"{"trigger": {"name": "On events", "event": {"type": "happened"}, "run": {"document": "DOCUMENT"}}}"#,
        &[],
    ),
    asks(
        "CreateTrigger",
        r#"{"trigger": {"name": "Now and then", "condition": {"expression": "true"}, "run": {"goal": "to know"}}}"#,
        &[],
    ),
    asks(
        "CreateTrigger",
        r#"{"trigger": {"name": "By a call", "webhook": {}, "run": {"document": "DOCUMENT"}}}"#,
        &[],
    ),
    asks("GetTrigger", r#"{"trigger_id": "TRIGGER"}"#, &["trigger_id"]),
    asks("ListTriggers", "{}", &[]),
    asks(
        "UpdateTrigger",
        r#"{"trigger": {"trigger_id": "TRIGGER"}}"#,
        &["trigger.trigger_id"],
    ),
    asks(
        "EnableTrigger",
        r#"{"trigger_id": "TRIGGER", "enabled": false}"#,
        &["trigger_id"],
    ),
    asks("DeleteTrigger", r#"{"trigger_id": "RUN"}"#, &["trigger_id"]),
    asks("FireTrigger", r#"{"trigger_id": "TRIGGER"}"#, &["trigger_id"]),
    asks("ListFirings", r#"{"trigger_id": "TRIGGER"}"#, &["trigger_id"]),
    asks("GetTriggerStats", "{}", &[]),
    asks("PreviewSchedule", r#"{"cron": "0 3 * * *"}"#, &["cron"]),
    asks("PublishEvent", r#"{"type": "happened", "id": "1"}"#, &[]),
    // Two triggers fire; of one the second firing waits.
    asks("PublishEvent", r#"{"type": "happened", "id": "1"}"#, &["type"]),
];
