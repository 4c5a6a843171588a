//! Callers, watchers, workers and a subscriber that go on whatever becomes of the orchestrator. Judge nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use escapement_tests::let_pass;
use escapement_tests::plans::{self, RequestWords, StepWords};
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{Plan, PlanStep, SubmitPlanRequest, SubscribeEventsRequest};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::dice::Draws as _;
use super::witness::{Known, Witness};
use crate::caller::Caller;
use crate::hand::{Hand, WORK};
use escapement_tests::Dice;

/// Everybody who asks something of the orchestrator.
pub(crate) struct Load {
    callers_go_on: watch::Sender<bool>,
    workers_go_on: watch::Sender<bool>,
    callers: JoinSet<()>,
    workers: JoinSet<()>,
}

impl Load {
    pub(crate) fn start(witness: &Arc<Witness>, url: &str, dice: &mut Dice) -> Self {
        let (callers_go_on, calling) = watch::channel(true);
        let (workers_go_on, working) = watch::channel(true);
        let mut load = Self {
            callers_go_on,
            workers_go_on,
            callers: JoinSet::new(),
            workers: JoinSet::new(),
        };
        for _ in 0..CALLERS {
            let theirs = (Arc::clone(witness), Caller::at(url), Dice::new(dice.any()));
            load.callers
                .spawn(call(theirs.0, theirs.1, theirs.2, calling.clone()));
        }
        for _ in 0..WATCHERS {
            let theirs = (Arc::clone(witness), Caller::at(url), Dice::new(dice.any()));
            load.callers
                .spawn(observe(theirs.0, theirs.1, theirs.2, calling.clone()));
        }
        for _ in 0..HANDS {
            let theirs = (Arc::clone(witness), url.to_owned(), Dice::new(dice.any()));
            load.workers
                .spawn(work(theirs.0, theirs.1, theirs.2, working.clone()));
        }
        load.workers
            .spawn(subscribe(Arc::clone(witness), Caller::at(url), working));
        load
    }

    /// Asks for nothing new any more, and waits until every answer is there.
    pub(crate) async fn stop_callers(&mut self) {
        self.callers_go_on.send_replace(false);
        while let Some(ended) = self.callers.join_next().await {
            ended.expect("a caller does not panic");
        }
    }

    /// Lets the workers and the subscriber go.
    pub(crate) async fn stop_workers(&mut self) {
        self.workers_go_on.send_replace(false);
        while let Some(ended) = self.workers.join_next().await {
            ended.expect("a worker does not panic");
        }
    }
}

/// Submits, repeats, contradicts and looks, one call after the other.
async fn call(witness: Arc<Witness>, caller: Caller, mut dice: Dice, goes_on: watch::Receiver<bool>) {
    while *goes_on.borrow() {
        let n_known = witness.all_known().len();
        let choice = if n_known == 0 { 0 } else { dice.roll(100) };
        let answered = match choice {
            0..45 => {
                let known = witness.add_known(request(&mut dice));
                let waits = dice.percent(40);
                let answered = witness.submit(&caller, &known, waits).await;
                if !answered && dice.percent(70) {
                    // As a caller should: the same request again, until it is answered.
                    again(&witness, &caller, &known, waits, &goes_on).await;
                }
                answered
            }
            45..55 => {
                let known = witness.all_known()[dice.recent(n_known)].clone();
                witness.submit(&caller, &known, dice.percent(30)).await
            }
            55..60 => {
                let known = witness.all_known()[dice.recent(n_known)].clone();
                let other = contradiction(&known, &mut dice);
                witness.submit(&caller, &other, false).await
            }
            60..80 => {
                let id = witness.all_known()[dice.recent(n_known)].id;
                witness.get(&caller, id).await
            }
            80..88 => {
                let id = witness.all_known()[dice.recent(n_known)].id;
                witness.wait(&caller, id, 300).await
            }
            88..97 => {
                let id = witness.all_known()[dice.recent(n_known)].id;
                witness.audit(&caller, id).await
            }
            _ => witness.list(&caller).await,
        };
        let_pass(if answered { dice.ms(0, 6) } else { WHILE_AWAY }).await;
    }
}

async fn again(
    witness: &Witness,
    caller: &Caller,
    known: &Known,
    waits: bool,
    goes_on: &watch::Receiver<bool>,
) {
    while *goes_on.borrow() && !witness.submit(caller, known, waits).await {
        let_pass(WHILE_AWAY).await;
    }
}

/// Watches one execution after the other.
async fn observe(witness: Arc<Witness>, caller: Caller, mut dice: Dice, goes_on: watch::Receiver<bool>) {
    while *goes_on.borrow() {
        let n_known = witness.all_known().len();
        if n_known == 0 {
            let_pass(WHILE_AWAY).await;
            continue;
        }
        let id = witness.all_known()[dice.recent(n_known)].id;
        if !witness.watch(&caller, id, 1).await {
            let_pass(WHILE_AWAY).await;
        }
        let_pass(dice.ms(0, 4)).await;
    }
}

/// Does what it is given, and comes back whenever the session ends.
async fn work(witness: Arc<Witness>, url: String, mut dice: Dice, mut goes_on: watch::Receiver<bool>) {
    while *goes_on.borrow() {
        let since = witness.since();
        let opened = Hand::open(&url, 2).await;
        // A session that began in another life than it was asked for proves nothing.
        let Some(mut hand) = opened.ok().filter(|_| witness.is_now(since)) else {
            let_pass(WHILE_AWAY).await;
            continue;
        };
        loop {
            let next = tokio::select! {
                // Biased: the end is seen first.
                biased;
                _ = goes_on.changed() => return,
                next = hand.started() => next,
            };
            let Ok(assignment) = next else { break };
            witness.arrived(&assignment, since);
            witness.n_running.fetch_add(1, Ordering::Relaxed);
            if dice.percent(50) {
                let_pass(dice.ms(0, 30)).await;
            }
            let verdict = hand.complete(&assignment).await;
            witness.n_running.fetch_sub(1, Ordering::Relaxed);
            match verdict {
                Ok(Verdict::Accepted) => witness.outcome_accepted(&assignment),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

/// Hears of ends.
async fn subscribe(witness: Arc<Witness>, caller: Caller, mut goes_on: watch::Receiver<bool>) {
    while *goes_on.borrow() {
        let request = SubscribeEventsRequest::default();
        let Ok(stream) = caller.events().subscribe_events(request).await else {
            let_pass(WHILE_AWAY).await;
            continue;
        };
        let mut stream = stream.into_inner();
        loop {
            let next = tokio::select! {
                // Biased: the end is seen first.
                biased;
                _ = goes_on.changed() => return,
                next = stream.message() => next,
            };
            let Ok(Some(next)) = next else { break };
            if let Some(event) = next.event
                && let Some(result) = &event.data
            {
                witness.event(&event.id, result);
            }
        }
    }
}

/// Returns another request under an id that is asked for already. Either of the two may be the one that is accepted, so it has
/// the same priority: the order of starts is judged by the id.
fn contradiction(known: &Known, dice: &mut Dice) -> Known {
    let mut other = request(dice);
    other.execution_id.clone_from(&known.request.execution_id);
    let priority = known.request.plan.as_ref().and_then(|plan| plan.priority);
    if let Some(plan) = &mut other.plan {
        plan.priority = priority;
    }
    Known {
        request: other,
        id: known.id,
    }
}

/// Some plan: one to three steps for workers inside this process and for stock workers.
fn request(dice: &mut Dice) -> SubmitPlanRequest {
    let n_steps = 1 + dice.index(3);
    let mut steps: Vec<PlanStep> = Vec::new();
    for number in 1..=n_steps {
        let (action, payload) = some_step(dice);
        let on_failure = [OnFailure::Halt, OnFailure::Skip, OnFailure::Retry][dice.index(3)];
        let before = steps.last().map(|step| step.id.clone());
        steps.push(PlanStep {
            depends_on: before.into_iter().filter(|_| dice.percent(50)).collect(),
            ..plans::step(number, action)
                .payload(payload)
                .on_failure(on_failure)
        });
    }
    let plan = Plan {
        priority: dice.percent(40).then(|| [-1, 1, 7][dice.index(3)]),
        ..plans::plan_with_retries(steps, 2, &["*"])
    };
    plans::request(plan).as_submission()
}

fn some_step(dice: &mut Dice) -> (&'static str, Value) {
    match dice.roll(10) {
        0..6 => {
            let is_large = dice.percent(10);
            let bytes = dice.index(if is_large { 20_000 } else { 200 });
            (WORK, json!({ "fill": "x".repeat(bytes) }))
        }
        6..8 => ("echo", json!({ "n": dice.roll(1_000) })),
        8 => ("delay", json!({ "ms": dice.roll(40) })),
        _ => ("fail", json!({ "code": "OUT_OF_LUCK", "message": "As told." })),
    }
}

const CALLERS: usize = 8;
const WATCHERS: usize = 3;
const HANDS: usize = 4;
/// Between two tries while nobody answers.
const WHILE_AWAY: Duration = Duration::from_millis(10);
