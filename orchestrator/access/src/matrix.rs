//! Which role may make which call: one row for each call there is. A call without a row is never permitted.
//! Looks into no request.

use crate::role::Role;

/// What a role may do with a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Permission {
    /// Nothing.
    Never,
    /// Everything.
    Always,
    /// What lies in its namespaces.
    Namespaces,
    /// What lies in its namespaces, with actions that its patterns name.
    NamespacesAndActions,
    /// What its patterns of actions name.
    Actions,
    /// Own: sessions, attempts, an execution.
    Own,
    /// Children of its own execution.
    Children,
    /// Own execution, and children of it.
    OwnAndChildren,
    /// Everything, if the policy lets it see payloads.
    WithPayloads,
}

impl Permission {
    /// Returns the mark that the page `deploy/AUTHORIZATION.md` has for it.
    pub const fn mark(self) -> &'static str {
        match self {
            Permission::Never => "-",
            Permission::Always => "●",
            Permission::Namespaces => "n",
            Permission::NamespacesAndActions => "n a",
            Permission::Actions => "a",
            Permission::Own => "o",
            Permission::Children => "c",
            Permission::OwnAndChildren => "o c",
            Permission::WithPayloads => "p",
        }
    }
}

/// What each role may do with one call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// Who has no credentials, whatever roles the policy gives to such.
    pub anonymous: Permission,
    /// An attempt that is under way, by its own token.
    pub attempt: Permission,
    /// Each role, in the order of [`Role::ALL`].
    pub roles: [Permission; 5],
}

impl Row {
    /// What the role may do.
    pub const fn of(&self, role: Role) -> Permission {
        self.roles[role as usize]
    }
}

/// Returns the row of a call by its path, `/SERVICE/METHOD`.
pub fn row(path: &str) -> Option<Row> {
    use Permission::{
        Actions as A, Always as ALL, Children as C, Namespaces as N, NamespacesAndActions as NA, Never as NO,
        Own as O, OwnAndChildren as OC, WithPayloads as P,
    };
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    // anonymous, viewer, submitter, worker, attempt, operator, admin
    let cells = match (service, method) {
        (PLANS, "ExecutePlan" | "SubmitPlan") => [NO, NO, NA, NO, C, NO, ALL],
        (PLANS, "ValidatePlan") => [NO, N, NA, NO, C, ALL, ALL],
        (PLANS, "SimulatePlan") => [NO, NO, NA, NO, NO, ALL, ALL],
        (PLANS, "GetExecution" | "WaitExecution" | "WatchExecution") => [NO, N, N, NO, OC, ALL, ALL],
        (PLANS, "ListExecutions" | "ListAuditEntries" | "ExplainExecution" | "ReplayExecution") => {
            [NO, N, N, NO, NO, ALL, ALL]
        }
        (PLANS, "ExportExecution") => [NO, NO, N, NO, NO, P, ALL],
        (EVENTS, "SubscribeEvents" | "ReadEvents") => [NO, N, N, NO, NO, ALL, ALL],
        (FLEET, "ListActions") => [NO, ALL, A, O, NO, ALL, ALL],
        (FLEET, "ListWorkers")
        | (SCALER, "IsActive" | "StreamIsActive" | "GetMetricSpec" | "GetMetrics") => [NO, ALL, NO, NO, NO, ALL, ALL],
        (FLEET, "DrainWorker" | "DeclareWorkerDead" | "ForgetAction") => [NO, NO, NO, NO, NO, ALL, ALL],
        (WORKERS, "Session") => [NO, NO, NO, A, NO, NO, NO],
        (WORKERS, "ReportOutcomes") => [NO, NO, NO, O, O, NO, NO],
        (ACCESS, "WhoAmI") => [ALL; 7],
        (ACCESS, "ListOperatorActions") => [NO, NO, NO, NO, NO, ALL, ALL],
        (ACCESS, "Reload") => [NO, NO, NO, NO, NO, NO, ALL],
        (HEALTH, "Check" | "List" | "Watch") => [ALL; 7],
        (REFLECTION | REFLECTION_ALPHA, "ServerReflectionInfo") => [ALL; 7],

        // Reading about runs.
        (
            RUNS,
            "GetRun" | "ListRuns" | "WaitRun" | "WatchRun" | "ListRunEvents" | "ListRunSteps" | "GetRunStep"
            | "GetStepResult" | "ListEvidence" | "ListRevisions" | "GetRevision" | "DiffRevisions"
            | "ListCheckpoints" | "ExplainRun" | "ReplayRun" | "GetRunStats" | "GetRunsStatus" | "WatchNotices"
            | "ClassifyIntent" | "PreviewRun" | "ReadEvents",
        )
        | (SAVED_PLANS, "GetPlan" | "ListPlans")
        | (INBOX, "ListInputRequests" | "GetInputRequest" | "WatchInbox")
        | (TRIGGERS, "GetTrigger" | "ListTriggers" | "ListFirings" | "GetTriggerStats" | "PreviewSchedule")
        | (RUN_SESSIONS, "GetSession" | "ListSkillHealth")
        | (ARTIFACTS, "Download" | "GetArtifact" | "ListArtifacts")
        | (GOALS, "GetGoal" | "ListGoals") => [NO, N, N, NO, NO, ALL, ALL],
        // What is known of actions belongs to no namespace.
        (ACTIONS, "ListActionProfiles") => [NO, ALL, A, NO, NO, ALL, ALL],
        // A journal holds every payload.
        (RUNS, "ExportRun") => [NO, NO, N, NO, NO, P, ALL],
        // What says which actions are called, now or later, or begins a run in the caller's own name.
        (RUNS, "CreateRun" | "ForkRun" | "RetryRun")
        | (
            SAVED_PLANS,
            "CreatePlan" | "UpdatePlan" | "AddPlanStep" | "UpdatePlanStep" | "PutPlanDocument" | "ImportPlan"
            | "LoadSamples",
        )
        | (TRIGGERS, "CreateTrigger" | "UpdateTrigger")
        // An approval may hold another plan.
        | (INBOX, "RespondToInput") => [NO, NO, NA, NO, NO, NO, ALL],
        // What lets a run go on, or has a trigger start one: in the name of its author.
        (RUNS, "RewindRun" | "RollbackRun" | "ResumeRun")
        | (TRIGGERS, "EnableTrigger" | "FireTrigger" | "PublishEvent") => [NO, NO, N, NO, NO, NO, ALL],
        // What ends or sets aside.
        (RUNS, "PauseRun" | "CancelRun" | "DiscardRun") => [NO, NO, N, NO, NO, ALL, ALL],
        (RUNS, "CreateCheckpoint" | "DeleteRun")
        | (SAVED_PLANS, "DeletePlan" | "DeletePlanStep")
        | (TRIGGERS, "DeleteTrigger")
        | (RUN_SESSIONS, "CreateSession" | "MergeSessionState" | "RestartSession" | "DeleteSession")
        | (ARTIFACTS, "Upload")
        | (GOALS, "CreateGoal" | "UpdateGoal" | "DeleteGoal") => [NO, NO, N, NO, NO, NO, ALL],
        // A word instead of a result, and what is known of actions: operators alone.
        (RUNS, "OverrideStep")
        | (ACTIONS, "PutActionProfile" | "DeleteActionProfile")
        | (RUN_SESSIONS, "ResetSkillHealth") => [NO, NO, NO, NO, NO, ALL, ALL],
        _ => return None,
    };
    let [anonymous, viewer, submitter, worker, attempt, operator, admin] = cells;
    Some(Row {
        anonymous,
        attempt,
        roles: [viewer, submitter, worker, operator, admin],
    })
}

const PLANS: &str = "escapement.v1.PlanExecutionService";
const EVENTS: &str = "escapement.v1.EventService";
const FLEET: &str = "escapement.v1.FleetService";
const ACCESS: &str = "escapement.v1.AccessService";
const WORKERS: &str = "escapement.worker.v1.WorkerService";
const SCALER: &str = "externalscaler.ExternalScaler";
const RUNS: &str = "escapement.runs.v1.RunService";
const SAVED_PLANS: &str = "escapement.runs.v1.PlanService";
const INBOX: &str = "escapement.runs.v1.InboxService";
const ACTIONS: &str = "escapement.runs.v1.ActionService";
const RUN_SESSIONS: &str = "escapement.runs.v1.SessionService";
const TRIGGERS: &str = "escapement.runs.v1.TriggerService";
const ARTIFACTS: &str = "escapement.runs.v1.ArtifactService";
const GOALS: &str = "escapement.runs.v1.GoalService";
const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection";
const REFLECTION_ALPHA: &str = "grpc.reflection.v1alpha.ServerReflection";

#[cfg(test)]
pub(crate) mod tests;
