//! Does what leaves runs, and hands back what came of it. Decides nothing about a run.

mod recorded;

use std::sync::Arc;

use bytes::Bytes;
use escapement_model::RunId;
use escapement_model::encoder::sha256;
use escapement_run::outcome::AttemptOutcome;
use escapement_run::plan::Plan;
use escapement_run::spec::ActionProfile;
use escapement_run::{INLINE_BYTES_MAX, Input};
use escapement_store::runs::RunReader;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attempt::{Attempt, not_submitted};
use crate::catalogue::profiles_of;
use crate::contract_port::ContractPort;
use crate::error::CallError;
use crate::handle::RunsHandle;
use crate::joint::Joint;
use crate::learning::learnt;
use crate::limits::{CHILD_PAUSE, RECORDS_QUEUE_MAX, STORED_PAUSE};
use crate::message::{Outgoing, Returned};
use crate::planner;
use crate::port::Attempts;
use crate::saved::find_plan;
use crate::seen::SeenActions;
use crate::slots::{Slot, Slots};
use crate::turns::Turns;
use crate::wanted::Wanted;
use crate::wanted_plan::WantedPlan;

/// Limits of what is done at a time.
#[derive(Clone, Copy, Debug)]
pub struct EffectsConfig {
    /// Executions that are submitted and have not ended, and as many nested ones; of more that wait each run has one in its turn.
    pub max_executions: usize,
    /// Bytes of large requests that wait in memory for their turn; more are read from the store then.
    pub waiting_bytes: usize,
}

/// Does what leaves runs, through that contract, on those threads. Ends with the thread of runs; what is in
/// flight then is left to the next start.
pub fn perform<C: ContractPort>(
    contract: C,
    runs: &RunsHandle,
    config: EffectsConfig,
    outgoing: UnboundedReceiver<Outgoing>,
    threads: &Handle,
) {
    let (records, asked) = mpsc::channel(RECORDS_QUEUE_MAX);
    runs.ask_for_records_by(records);
    let answered = recorded::answer(contract.clone(), asked);
    let (room, nested) = (
        Slots::new(config.max_executions),
        Slots::new(config.max_executions),
    );
    if let Some(way) = contract.joint_way() {
        runs.join_by(|back| Joint::new(way, back, (room.clone(), nested.clone())));
    }
    let attempts = Attempts::new(contract, runs.seen().clone());
    let watching = runs.clone();
    let effects = Effects {
        attempts: attempts.clone(),
        runs: runs.clone(),
        room,
        nested,
        waiting: Turns::new(),
        waiting_bytes: 0,
        waiting_bytes_max: config.waiting_bytes,
        under_way: JoinSet::new(),
    };
    threads.spawn(async move {
        tokio::select! {
            () = effects.run(outgoing) => {}
            () = attempts.watch_actions(watching) => {}
            () = answered => {}
        }
    });
}

#[derive(Debug)]
struct Effects<C> {
    attempts: Attempts<C>,
    runs: RunsHandle,
    room: Slots,
    /// For what is nested in executions.
    nested: Slots,
    waiting: Turns<RunId, Waiting>,
    /// Bytes of the large requests that wait in memory.
    waiting_bytes: usize,
    waiting_bytes_max: usize,
    under_way: JoinSet<()>,
}

/// An attempt that waits for room.
#[derive(Debug)]
struct Waiting {
    attempt: Attempt,
    /// Bytes of its request.
    n_bytes: usize,
    /// If its request is not in memory: the SHA-256 by which the store has it.
    stored: Option<[u8; 32]>,
}

impl Waiting {
    /// Returns the bytes that it adds to those in memory. The run itself has what is not large.
    fn bytes_in_memory(&self) -> usize {
        let is_large = self.attempt.request.len() > INLINE_BYTES_MAX;
        if is_large { self.n_bytes } else { 0 }
    }
}

impl<C: ContractPort> Effects<C> {
    async fn run(mut self, mut outgoing: UnboundedReceiver<Outgoing>) {
        loop {
            tokio::select! {
                // What ended makes room for what waits.
                biased;
                // A task that panicked is a defect; its run ends by its limits.
                Some(_done) = self.under_way.join_next() => self.submit_waiting(),
                () = self.room.freed() => self.submit_waiting(),
                outgoing = outgoing.recv() => match outgoing {
                    Some(outgoing) => self.start(outgoing),
                    None => return,
                },
            }
        }
    }

    fn start(&mut self, outgoing: Outgoing) {
        let runs = self.runs.clone();
        match outgoing {
            Outgoing::Submit(attempt) => self.submit_or_wait(attempt),
            outgoing @ (Outgoing::Catalogue { .. } | Outgoing::Actions { .. }) => self.learn(outgoing),
            Outgoing::Evaluate {
                run_id,
                owner,
                evaluation,
                expression,
                bindings,
                held,
            } => {
                self.under_way.spawn(async move {
                    let evaluated = runs.evaluator().evaluate(owner, move || {
                        let result = escapement_expressions::evaluate(&expression, &bindings);
                        drop((bindings, held));
                        result
                    });
                    // While the process stops, the next start evaluates it again.
                    if let Ok(result) = evaluated.await {
                        runs.returned(Returned::Input(run_id, Input::Evaluated { evaluation, result }));
                    }
                });
            }
            Outgoing::FindPlan { wanted, child } => {
                self.under_way.spawn(async move {
                    let plan = plan_of(&runs, &wanted, child.parent).await;
                    runs.returned(Returned::Plan(child, plan));
                });
            }
            Outgoing::Later(returned) => {
                self.under_way.spawn(async move {
                    sleep(CHILD_PAUSE).await;
                    runs.returned(returned);
                });
            }
        }
    }

    /// Learns of actions for a run.
    fn learn(&mut self, outgoing: Outgoing) {
        let runs = self.runs.clone();
        match outgoing {
            Outgoing::Catalogue {
                run_id,
                origin,
                generation,
                allowed,
                own,
            } => {
                self.under_way.spawn(async move {
                    let (catalogue, own) = planner::offered(&runs, run_id, &origin, &allowed, &own).await;
                    let input = Input::Catalogue {
                        generation,
                        catalogue,
                        own,
                    };
                    runs.returned(Returned::Input(run_id, input));
                });
            }
            Outgoing::Actions {
                run_id,
                plan,
                own_actions,
                known,
            } => {
                self.under_way.spawn(async move {
                    let profiles = learnt(&runs, run_id, plan, own_actions, known).await;
                    let input = Input::ActionsKnown { profiles };
                    runs.returned(Returned::Input(run_id, input));
                });
            }
            outgoing => unreachable!("{outgoing:?} is not about actions"),
        }
    }

    // RUN-9.8
    /// Submits a nested attempt first while few of them are open, since its parent waits for it. Further ones
    /// wait like all others.
    fn submit_or_wait(&mut self, attempt: Attempt) {
        if attempt.is_nested
            && let Some(place) = self.nested.take(attempt.request.len())
        {
            self.submit(attempt, None, Some(place), false);
        } else if self.waiting.first().is_none()
            && let Some(place) = self.room.take(attempt.request.len())
        {
            self.submit(attempt, None, Some(place), false);
        } else {
            self.wait(attempt);
            self.submit_waiting();
        }
    }

    fn wait(&mut self, attempt: Attempt) {
        let run_id = attempt.run_id;
        let n_bytes = attempt.request.len();
        let mut waiting = Waiting {
            attempt,
            n_bytes,
            stored: None,
        };
        let bytes = waiting.bytes_in_memory();
        if bytes > 0 && self.waiting_bytes + bytes > self.waiting_bytes_max {
            let request = std::mem::take(&mut waiting.attempt.request);
            waiting.stored = Some(sha256(&request));
        }
        self.waiting_bytes += waiting.bytes_in_memory();
        self.waiting.push(run_id, waiting);
        self.room.is_waited_for(true);
    }

    fn submit_waiting(&mut self) {
        while let Some(next) = self.waiting.first()
            && let Some(place) = self.room.take(next.n_bytes)
            && let Some((_, next)) = self.waiting.pop()
        {
            self.waiting_bytes -= next.bytes_in_memory();
            self.submit(next.attempt, next.stored, Some(place), true);
        }
        self.room.is_waited_for(self.waiting.first().is_some());
    }

    fn submit(
        &mut self,
        mut attempt: Attempt,
        stored: Option<[u8; 32]>,
        place: Option<Slot>,
        has_waited: bool,
    ) {
        let (attempts, runs) = (self.attempts.clone(), self.runs.clone());
        self.under_way.spawn(async move {
            let (_execution, submission) = place.map(Slot::split).unzip();
            let (run_id, execution_id) = (attempt.run_id, attempt.execution_id);
            let wanted = Wanted {
                runs: runs.clone(),
                run_id,
                execution_id,
                has_waited,
            };
            let request = match stored {
                None => Some(std::mem::take(&mut attempt.request)),
                Some(digest) => stored_request(&wanted, digest).await,
            };
            let plans = attempt.plans;
            let mut outcome: AttemptOutcome = match request {
                Some(request) => {
                    attempt.request = request;
                    attempts.carry_out(attempt, submission, &wanted).await
                }
                None => not_submitted(&attempt),
            };
            if plans {
                outcome.mistakes = planner::mistakes_in(&outcome);
            }
            let input = Input::Settled {
                execution_id,
                outcome,
            };
            runs.returned(Returned::Input(run_id, input));
        });
    }
}

/// Returns a request that the store has; `None` once no run waits for its outcome.
async fn stored_request(wanted: &Wanted, digest: [u8; 32]) -> Option<Bytes> {
    while wanted.run_lives() {
        match wanted
            .runs
            .readers()
            .read(move |reader| reader.content(&digest))
            .await
        {
            // The run has forgotten the attempt: it was fenced.
            Ok(None) => return None,
            Ok(Some(request)) => return Some(request),
            Err(_) => sleep(STORED_PAUSE).await,
        }
    }
    None
}

/// Finds the plan of a child run. Tries again while there is no place among those who read and the parent lives.
async fn plan_of(
    runs: &RunsHandle,
    wanted: &WantedPlan,
    parent: RunId,
) -> Result<(Arc<Plan>, Vec<ActionProfile>), String> {
    loop {
        let (wanted, seen) = (wanted.clone(), runs.seen().clone());
        let find = move |reader: &dyn RunReader| Ok(found(reader, &wanted, &seen));
        match runs.readers().read(find).await {
            Ok(found) => return found,
            // That others read says nothing about the plan.
            Err(CallError::Overloaded) if runs.is_live(parent) => sleep(CHILD_PAUSE).await,
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The plan of a child run with what is known of its actions, or why there is none.
fn found(
    reader: &dyn RunReader,
    wanted: &WantedPlan,
    seen: &SeenActions,
) -> Result<(Arc<Plan>, Vec<ActionProfile>), String> {
    let plan = find_plan(reader, wanted)?;
    let profiles = profiles_of(reader, &plan, &wanted.own_actions, seen);
    Ok((
        plan,
        profiles.map_err(|fault| format!("the profiles of actions cannot be read: {fault}"))?,
    ))
}
