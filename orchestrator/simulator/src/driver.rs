//! Drives one execution on a virtual clock: tells it what the stubs say and what time does, in order.
//! Judges nothing: every decision is the core's.

use crate::stubs::{AttemptStub, End, Stubs};
use crate::timeline::{Timeline, timeline};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use escapement_contract::{
    Effect, Evidence, Execution, Input, Moment, Outcome, Request, Settlement, StepIndex,
};
use escapement_model::ExecutionId;
use escapement_model::limits::ERROR_CONTEXT_BYTES_MAX;

/// Bytes of diagnostic data that count as one input.
pub const CONTEXT_BYTES_PER_INPUT: usize = 64;

/// The label of the simulated worker.
pub const WORKER: &str = "simulated";

/// What would become of a plan.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The result, the record and the inputs, as a real execution would leave them.
    pub settlement: Arc<Settlement>,
    /// What each step did when.
    pub timeline: Timeline,
    /// What the core was told, ticks of the clock included.
    pub n_inputs: usize,
}

/// The simulation did not end within its limit of inputs.
///
/// The core looks through the diagnostic data of every failure, so each [`CONTEXT_BYTES_PER_INPUT`] of it count as an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The limit.
    pub inputs_max: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the simulation has more than {} inputs, {CONTEXT_BYTES_PER_INPUT} bytes of diagnostic data counted as one",
            self.inputs_max
        )
    }
}

impl core::error::Error for TooLong {}

/// Executes a request that is accepted and starts at `started_at_unix_ms`. The same arguments give the same bytes.
///
/// # Errors
/// [`TooLong`] if the execution does not end within this many inputs.
pub fn simulate(
    request: Arc<Request>,
    execution_id: ExecutionId,
    started_at_unix_ms: i64,
    deadline_unix_ms: i64,
    stubs: &Stubs,
    inputs_max: usize,
) -> Result<Simulation, TooLong> {
    let mut driver = Driver::accept(
        &request,
        execution_id,
        started_at_unix_ms,
        deadline_unix_ms,
        stubs,
        inputs_max,
    );
    driver.schedule(0, Event::Told(Input::Start));
    while driver.turn()? {}
    let settlement = driver.execution.settlement().map(Arc::clone);
    let settlement = settlement.expect("what waits for nothing is settled");
    Ok(Simulation {
        timeline: timeline(request.plan(), started_at_unix_ms, &settlement.audit),
        settlement,
        n_inputs: driver.n_inputs,
    })
}

/// An execution, its clock, and what is still to come.
struct Driver<'a> {
    execution: Execution,
    origin_unix_ms: i64,
    now_ms: u64,
    /// What comes, by its time, then in the order in which it was scheduled.
    queue: BTreeMap<Key, Event>,
    n_scheduled: u64,
    /// By index of the step.
    seats: Vec<Seat<'a>>,
    worker: Arc<str>,
    n_inputs: usize,
    /// Inputs and diagnostic data that there may still be.
    n_left: usize,
    inputs_max: usize,
}

/// Milliseconds since the start, and a running number.
type Key = (u64, u64);

/// What comes.
enum Event {
    /// Something about the execution as a whole.
    Told(Input),
    /// The attempt is handed out, or it turns out that it cannot be.
    HandOut { step: StepIndex, attempt: u32 },
    /// The attempt ends.
    End { step: StepIndex, attempt: u32 },
}

/// A step and its stubs.
struct Seat<'a> {
    attempts: &'a [AttemptStub],
    n_dispatched: usize,
    /// What comes next for the attempt that is under way.
    next: Option<Key>,
}

impl<'a> Seat<'a> {
    /// Returns the stub of the last dispatch. An attempt that was returned is dispatched again, with the stub after that.
    fn stub(&self) -> &'a AttemptStub {
        let index = self.n_dispatched.clamp(1, self.attempts.len()) - 1;
        &self.attempts[index]
    }
}

impl<'a> Driver<'a> {
    fn accept(
        request: &Arc<Request>,
        execution_id: ExecutionId,
        started_at_unix_ms: i64,
        deadline_unix_ms: i64,
        stubs: &'a Stubs,
        inputs_max: usize,
    ) -> Self {
        let now = Moment {
            monotonic_ms: 0,
            unix_ms: started_at_unix_ms,
        };
        let seats = request.plan().steps().iter().map(|step| Seat {
            attempts: stubs.of(step),
            n_dispatched: 0,
            next: None,
        });
        Self {
            seats: seats.collect(),
            execution: Execution::accept(
                Arc::clone(request),
                execution_id,
                started_at_unix_ms,
                deadline_unix_ms,
                now,
            ),
            origin_unix_ms: started_at_unix_ms,
            now_ms: 0,
            queue: BTreeMap::new(),
            n_scheduled: 0,
            worker: Arc::from(WORKER),
            n_inputs: 0,
            n_left: inputs_max,
            inputs_max,
        }
    }

    /// Tells the execution what comes next. False if nothing does any more.
    fn turn(&mut self) -> Result<bool, TooLong> {
        let due_ms = self.execution.next_due_ms();
        let next_ms = self.queue.first_key_value().map(|((at_ms, _), _)| *at_ms);
        match (due_ms, next_ms) {
            (None, None) => return Ok(false),
            // a limit precedes what comes at the same instant.
            (Some(due_ms), next_ms) if next_ms.is_none_or(|next_ms| due_ms <= next_ms) => {
                self.now_ms = self.now_ms.max(due_ms);
                self.feed(Input::Tick)?;
            }
            (_, Some(_)) | (Some(_), None) => {
                let first = self.queue.pop_first();
                let ((at_ms, _), event) = first.expect("what is not due comes from the queue");
                self.now_ms = at_ms;
                self.happen(event)?;
            }
        }
        Ok(true)
    }

    fn happen(&mut self, event: Event) -> Result<(), TooLong> {
        match event {
            Event::Told(input) => self.feed(input),
            Event::HandOut { step, attempt } => self.hand_out(step, attempt),
            Event::End { step, attempt } => self.end(step, attempt),
        }
    }

    fn hand_out(&mut self, step: StepIndex, attempt: u32) -> Result<(), TooLong> {
        let stub = self.seat(step).stub();
        self.seat(step).next = None;
        let starts = match stub.end {
            End::ActionNotFound => return self.feed(Input::ActionNotFound { step, attempt }),
            End::Returned => false,
            End::Completed(_) | End::Failed(_) | End::Lost | End::Silent => true,
        };
        let worker = Arc::clone(&self.worker);
        self.feed(Input::Assigned {
            step,
            attempt,
            worker,
        })?;
        if starts {
            self.feed(Input::AttemptStarted { step, attempt })?;
        }
        if stub.end != End::Silent {
            self.schedule_of(step, stub.takes_ms, Event::End { step, attempt });
        }
        Ok(())
    }

    fn end(&mut self, step: StepIndex, attempt: u32) -> Result<(), TooLong> {
        let stub = self.seat(step).stub();
        self.seat(step).next = None;
        let outcome = match &stub.end {
            End::Completed(output) => Outcome::completed(output.clone()),
            End::Failed(reported) => Outcome::Failed(reported.clone()),
            End::Lost => Outcome::Lost,
            End::Returned => {
                let evidence = Evidence::Released;
                return self.feed(Input::AttemptReturned {
                    step,
                    attempt,
                    evidence,
                });
            }
            End::Silent | End::ActionNotFound => unreachable!("no end was scheduled"),
        };
        self.feed(Input::AttemptEnded {
            step,
            attempt,
            outcome,
        })
    }

    fn feed(&mut self, input: Input) -> Result<(), TooLong> {
        let Some(n_left) = self.n_left.checked_sub(weight(&input)) else {
            return Err(TooLong {
                inputs_max: self.inputs_max,
            });
        };
        self.n_left = n_left;
        self.n_inputs += 1;
        let now = Moment {
            monotonic_ms: self.now_ms,
            unix_ms: i64::try_from(self.now_ms)
                .map_or(i64::MAX, |now_ms| self.origin_unix_ms.saturating_add(now_ms)),
        };
        let taken = self.execution.handle(now, input);
        taken.expect("what is due fires first and what is withdrawn leaves the queue, so every input fits");
        while let Some(effect) = self.execution.poll_effect() {
            self.carry_out(effect);
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::PersistStart { .. } => {
                self.schedule(0, Event::Told(Input::StartPersisted));
            }
            Effect::Dispatch { step, attempt } => {
                let seat = self.seat(step);
                seat.n_dispatched += 1;
                let waits_ms = seat.stub().waits_ms;
                self.schedule_of(step, waits_ms, Event::HandOut { step, attempt });
            }
            // nothing more comes of it.
            Effect::Withdraw { step, .. } => {
                if let Some(key) = self.seat(step).next.take() {
                    self.queue.remove(&key);
                }
            }
            Effect::PersistResult(_) => {
                // A start whose time had run out before it came.
                self.queue.clear();
                self.schedule(0, Event::Told(Input::SettlePersisted));
            }
            Effect::Deliver(_) => {}
        }
    }

    fn schedule(&mut self, delay_ms: u64, event: Event) -> Key {
        self.n_scheduled += 1;
        let key = (self.now_ms.saturating_add(delay_ms), self.n_scheduled);
        self.queue.insert(key, event);
        key
    }

    fn schedule_of(&mut self, step: StepIndex, delay_ms: u64, event: Event) {
        let key = self.schedule(delay_ms, event);
        self.seat(step).next = Some(key);
    }

    fn seat(&mut self, step: StepIndex) -> &mut Seat<'a> {
        &mut self.seats[step.as_usize()]
    }
}

/// Returns the number of inputs that it counts as. Outputs count nothing: the core looks through as many as a result holds.
fn weight(input: &Input) -> usize {
    match input {
        Input::AttemptEnded {
            outcome: Outcome::Failed(reported),
            ..
        } => 1 + reported.context.len().min(ERROR_CONTEXT_BYTES_MAX) / CONTEXT_BYTES_PER_INPUT,
        _ => 1,
    }
}
