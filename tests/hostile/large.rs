//! Executions whose records and results are as large as they come, and a worker that ends their steps at once.

use crate::den::{Den, LIMIT, environment, submission};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, limits};
use escapement_tests::raw_session::RawSession;
use escapement_tests::{calls, fresh_id};
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::{ExecutionOptions, Plan, PlanStep, SubmitPlanRequest};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::{
    Assignment, AttemptAcks, AttemptOutcome, Failure, Heartbeat, Outcomes, Success,
};
use prost::Message as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// An action whose output is nearly as large as an output may be.
pub(crate) const LARGE: &str = "large";
/// One that fails with as much diagnostic data as an error may have.
pub(crate) const FAILS: &str = "fails";
/// One that completes with nothing.
pub(crate) const PLAIN: &str = "plain";

/// A worker that ends every step as its action says, as soon as it has it. Stops on drop.
pub(crate) struct Tireless(AbortHandle);

impl Tireless {
    pub(crate) async fn start(address: SocketAddr) -> Self {
        let actions = escapement_tests::ScriptedWorker::specs(&[LARGE, FAILS, PLAIN]);
        let hello = escapement_tests::ScriptedWorker::hello_for(actions, limits::SESSION_IN_FLIGHT_MAX);
        let session = RawSession::greeted(address, Message::Hello(hello));
        let session = session.await.unwrap();
        Self(tokio::spawn(work(session)).abort_handle())
    }
}

impl Drop for Tireless {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn work(mut session: RawSession) {
    let (mut n, mut last_beat) = (0, Instant::now());
    loop {
        if last_beat.elapsed() > HEARTBEAT {
            (n, last_beat) = (n + 1, Instant::now());
            let beat = Heartbeat {
                n,
                ..Heartbeat::default()
            };
            session.send(Message::Heartbeat(beat)).await.unwrap();
        }
        let Ok(next) = timeout(HEARTBEAT, session.next()).await else {
            continue;
        };
        // The orchestrator stops at the end of a test, maybe before its worker.
        let Ok(Some(next)) = next else { return };
        let Some(Answer::Assignments(assigned)) = next.message else {
            continue;
        };
        let started = assigned.items.iter().map(|item| item.attempt_token.clone());
        let acks = AttemptAcks {
            started: started.collect(),
            ..AttemptAcks::default()
        };
        session.send(Message::AttemptAcks(acks)).await.unwrap();
        for outcomes in messages_of(assigned.items.iter().map(outcome_of)) {
            session.send(Message::Outcomes(outcomes)).await.unwrap();
        }
    }
}

/// As few messages as hold these outcomes: one assignment may bring steps of all sizes, and a message that is too large ends the
/// session.
fn messages_of(outcomes: impl Iterator<Item = AttemptOutcome>) -> Vec<Outcomes> {
    let (mut messages, mut room) = (Vec::<Outcomes>::new(), 0);
    for outcome in outcomes {
        let bytes = outcome.encoded_len() + ITEM_BYTES;
        match messages.last_mut() {
            Some(last) if bytes <= room => last.items.push(outcome),
            _ => {
                room = TOGETHER_BYTES;
                messages.push(Outcomes { items: vec![outcome] });
            }
        }
        room = room.saturating_sub(bytes);
    }
    messages
}

fn outcome_of(assignment: &Assignment) -> AttemptOutcome {
    let outcome = match assignment.action.as_str() {
        FAILS => Outcome::Failure(Failure {
            code: "LARGE".to_owned(),
            message: "\u{1f552}".repeat(limits::MESSAGE_CHARS_MAX),
            severity: Severity::Error.into(),
            context: Some(object_of(limits::ERROR_CONTEXT_BYTES_MAX - 64)),
            not_here: false,
        }),
        LARGE => Outcome::Success(Success {
            output: Some(object_of(limits::OUTPUT_BYTES_MAX - 64)),
            ..Success::default()
        }),
        _ => Outcome::Success(Success::default()),
    };
    AttemptOutcome {
        attempt_token: assignment.attempt_token.clone(),
        run_time_ms: 1,
        outcome: Some(outcome),
    }
}

/// An object of about this many bytes, in one text.
pub(crate) fn object_of(bytes: usize) -> Opaque {
    StructBuilder::new().text("fill", &"x".repeat(bytes)).build()
}

/// A plan with one step for each of these actions, all of which may run at once and are skipped if they fail.
/// With `ends_with_failure` a last step, which waits for them all, fails and ends the plan.
pub(crate) fn plan_of(actions: &[&str], ends_with_failure: bool) -> SubmitPlanRequest {
    let mut steps: Vec<PlanStep> = actions
        .iter()
        .map(|action| PlanStep {
            id: fresh_id(),
            action: (*action).to_owned(),
            payload: Some(Opaque::default()),
            on_failure: 1,
            ..PlanStep::default()
        })
        .collect();
    if ends_with_failure {
        let before = steps.iter().map(|step| step.id.clone()).collect();
        steps.push(PlanStep {
            id: fresh_id(),
            action: FAILS.to_owned(),
            payload: Some(Opaque::default()),
            depends_on: before,
            ..PlanStep::default()
        });
    }
    let one = submission(PLAIN);
    let plan = Plan {
        steps,
        ..one.plan.expect("a submission has a plan")
    };
    SubmitPlanRequest {
        plan: Some(plan),
        environment: Some(environment()),
        execution_id: Some(fresh_id()),
        options: Some(ExecutionOptions {
            max_concurrent_steps: Some(i32::try_from(limits::STEPS_MAX).expect("steps are few")),
        }),
        ..SubmitPlanRequest::default()
    }
}

/// As many references as fit a plan; in a cycle each step depends on the next as well.
pub(crate) fn dense(is_cyclic: bool) -> Plan {
    let request = plan_of(&[FAILS; limits::STEPS_MAX], false);
    let mut plan = request.plan.expect("a submission has a plan");
    let ids: Vec<String> = plan.steps.iter().map(|step| step.id.clone()).collect();
    for (n, step) in plan.steps.iter_mut().enumerate() {
        step.depends_on = (1..=REFERENCES)
            .filter_map(|back| match is_cyclic {
                true => Some((n + ids.len() - back) % ids.len()),
                false => n.checked_sub(back),
            })
            .map(|at| ids[at].clone())
            .collect();
        if is_cyclic {
            step.depends_on.push(ids[(n + 1) % ids.len()].clone());
        }
    }
    plan
}

/// Runs a plan to its end and gives its execution.
pub(crate) async fn settled(den: &Den, request: SubmitPlanRequest) -> String {
    let id = request.execution_id.clone().expect("a submission has an id");
    let mut plans = PlanExecutionServiceClient::new(den.channel().await).max_decoding_message_size(32 << 20);
    plans.submit_plan(request).await.unwrap();
    calls::result_of(plans, &id, LIMIT).await.unwrap();
    id
}

/// An execution with a record of some 20 MiB: all its steps fail with as much as they may say.
pub(crate) async fn large_record(den: &Den) -> String {
    settled(den, plan_of(&[FAILS; limits::STEPS_MAX / 2], false)).await
}

const HEARTBEAT: Duration = Duration::from_secs(2);
/// Of outcomes in one message; what is around them has room in the rest.
const TOGETHER_BYTES: usize = limits::SESSION_MESSAGE_BYTES_MAX - 1_024;
/// Around each outcome: its tag and its length.
const ITEM_BYTES: usize = 6;
/// References of a step to earlier ones: 38 bytes each.
const REFERENCES: usize = 100;

/// A list that begins with a small step may hold large ones: together they are more than a message may have.
#[test]
fn outcomes_of_all_sizes_together_fit_their_messages() {
    let assignment = |action: &&str| Assignment {
        action: (*action).to_owned(),
        ..Assignment::default()
    };
    let actions = [&[PLAIN][..], &[LARGE; 10], &[FAILS; 500], &[PLAIN; 500]].concat();
    let messages = messages_of(actions.iter().map(|action| outcome_of(&assignment(action))));
    assert_eq!(
        messages.iter().map(|message| message.items.len()).sum::<usize>(),
        actions.len()
    );
    for message in &messages {
        let bytes = message.encoded_len();
        assert!(bytes + 64 <= limits::SESSION_MESSAGE_BYTES_MAX, "{bytes}");
    }
}
