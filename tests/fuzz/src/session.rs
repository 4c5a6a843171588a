//! Session frames from anybody, in any order, at any time, against the real engine. Decides nothing about an execution.

mod answers;
mod fleet;
mod plans;
mod rules;

use crate::seeds;
use crate::source::Source;
use answers::{Callers, Disk};
use escapement_contract::Moment;
use escapement_engine::{
    Effect, Engine, EngineConfig, Input, Reply, SessionKey, StoreWrite, WriteFailure, WriteOutcome,
};
use escapement_model::{AttemptToken, BootId};
use fleet::Fleet;
use std::collections::BTreeMap;

/// Wake-ups after the input within which everything has ended.
const WAKE_UPS_MAX: usize = 3_000;
/// Writes that fail in one run; more would rightly make the engine give up.
const FAILURES_MAX: u8 = 6;

/// Each byte that begins a turn says what happens next.
pub(crate) fn run(input: &[u8]) {
    played(input);
}

fn played(input: &[u8]) -> World {
    let mut source = Source::new(input);
    let mut world = World::new();
    while !source.is_empty() {
        world.turn(&mut source);
    }
    world.end();
    world
}

/// An engine and everything around it.
struct World {
    engine: Engine,
    now_ms: u64,
    /// Inputs that are handled together at the end of the turn.
    batch: Vec<Input>,
    fleet: Fleet,
    disk: Disk,
    callers: Callers,
    is_draining: bool,
    is_drained: bool,
    n_failures: u8,
}

impl World {
    fn new() -> Self {
        let mut config = EngineConfig::new(BootId::new([7; 16]), [9; 32]);
        config.max_running_executions = 2;
        config.max_live_executions = 6;
        config.max_sessions = 3;
        config.session_messages_burst = 40;
        config.session_messages_per_second = 5;
        let start = Moment {
            monotonic_ms: 0,
            unix_ms: seeds::UNIX_MS,
        };
        Self {
            engine: Engine::new(config, start),
            now_ms: 0,
            batch: Vec::new(),
            fleet: Fleet::default(),
            disk: Disk::default(),
            callers: Callers::default(),
            is_draining: false,
            is_drained: false,
            n_failures: 0,
        }
    }

    fn now(&self) -> Moment {
        Moment {
            monotonic_ms: self.now_ms,
            unix_ms: seeds::UNIX_MS + self.now_ms.cast_signed(),
        }
    }

    fn turn(&mut self, source: &mut Source<'_>) {
        let kind = source.byte();
        // The highest bit lets several inputs share a batch.
        match kind & 0x7f {
            0..=9 => self.batch.push(self.callers.submit(source)),
            10..=15 => self.batch.extend(self.fleet.open(source)),
            16..=71 => self.batch.extend(self.fleet.say(source)),
            72..=75 => self.batch.extend(self.fleet.close(source)),
            76..=91 => self.pass(match source.byte() {
                byte @ 0..=127 => u64::from(byte),
                byte @ 128..=223 => u64::from(byte) * 20,
                byte => u64::from(byte) * 400,
            }),
            92..=111 => self.store_answers(source),
            112..=117 => self.batch.push(self.callers.ask(source)),
            118..=119 => self.batch.push(self.callers.report(self.fleet.outcomes(source))),
            120..=122 => self.batch.push(self.callers.operate(source)),
            123 => self.batch.extend(self.callers.leave(source)),
            124 if source.byte() == 77 => {
                self.is_draining = true;
                self.batch.push(Input::Drain { grace_ms: 5_000 });
            }
            _ => self.wake_up(),
        }
        if kind < 128 {
            self.finish();
        }
    }

    /// The store answers its oldest write.
    fn store_answers(&mut self, source: &mut Source<'_>) {
        let fails = source.once_in(8) && self.n_failures < FAILURES_MAX;
        let Some((write, content)) = self.disk.oldest() else {
            return;
        };
        let outcome = if fails {
            self.n_failures += 1;
            // A full disk is waited for without end; what is tested here ends.
            WriteOutcome::Failed(WriteFailure::Busy)
        } else {
            self.disk.apply(&content)
        };
        if matches!(outcome, WriteOutcome::Failed(_)) {
            self.disk.failed(write, &content);
        }
        self.batch.push(Input::Stored { write, outcome });
    }

    /// Lets time pass, stopping at every timer on the way.
    fn pass(&mut self, ms: u64) {
        self.finish();
        let until = self.now_ms + ms;
        while let Some(due) = self.engine.next_due_ms().filter(|due| *due <= until) {
            self.now_ms = self.now_ms.max(due);
            self.batch.push(Input::Tick);
            self.finish();
        }
        self.now_ms = until;
        self.batch.push(Input::Tick);
    }

    fn wake_up(&mut self) {
        self.finish();
        if let Some(due) = self
            .engine
            .next_due_ms()
            .filter(|due| *due < self.now_ms + 100_000)
        {
            self.now_ms = self.now_ms.max(due);
            self.batch.push(Input::Tick);
        }
    }

    /// Handles the batch and everything that is to be done.
    fn finish(&mut self) {
        let now = self.now();
        for input in self.batch.drain(..) {
            self.engine.handle(now, input);
        }
        self.engine.finish_batch(now);
        let mut assigned = Vec::new();
        while let Some(effect) = self.engine.poll_effect() {
            if let Effect::Send { session, message, .. } = &effect
                && matches!(message, escapement_engine::ToWorker::Assignments(_))
            {
                assigned.push(*session);
            }
            self.carry_out(effect);
        }
        if !assigned.is_empty() {
            self.check_credits(&assigned);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Write { write, content } => {
                if let StoreWrite::Settle { settlement, .. } = &content {
                    crate::lockstep::ending::check_alone(&settlement.result);
                }
                self.disk.written(write, content);
            }
            Effect::Reply { caller, reply } => self.callers.answered(caller, &reply, &self.disk),
            Effect::Send {
                session,
                seq,
                message,
            } => self.fleet.sent(session, seq, message),
            Effect::Note(_) => {}
            Effect::CloseSession(session) => self.fleet.closed(session),
            Effect::Load { .. } => unreachable!("few executions wait, so none waits beyond memory"),
            Effect::EmitEvent(persisted) | Effect::NotifyErrorHandler(persisted) => {
                let id = persisted.result.execution_id;
                assert!(self.disk.is_settled(id), "nothing is told before it is durable");
            }
            Effect::WorkerLost {
                n_lost, n_returned, ..
            } => {
                assert!(n_lost + n_returned > 0, "a worker without attempts is no loss");
            }
            Effect::Drained { .. } => {
                assert!(self.is_draining && !self.is_drained, "a drain is reported once");
                self.is_drained = true;
            }
            Effect::GiveUp { attempts } => panic!("gives up after {attempts} of few failures"),
        }
    }

    /// Who was handed work has not more of it than its level.
    fn check_credits(&mut self, assigned: &[SessionKey]) {
        let caller = self.callers.observer();
        let now = self.now();
        self.engine.handle(now, Input::ListWorkers(caller));
        let Some(Effect::Reply {
            reply: Reply::Workers(views),
            ..
        }) = self.engine.poll_effect()
        else {
            panic!("workers are listed at once")
        };
        let views: BTreeMap<_, _> = views.into_iter().map(|view| (view.session_id, view)).collect();
        for session in assigned {
            self.fleet.check_credits(*session, &views);
        }
    }

    /// Nobody says anything any more; writes are answered and time passes. Everything must end.
    fn end(&mut self) {
        self.batch.extend(self.fleet.close_all());
        self.finish();
        for _ in 0..WAKE_UPS_MAX {
            while let Some((write, content)) = self.disk.oldest() {
                let outcome = self.disk.apply(&content);
                self.batch.push(Input::Stored { write, outcome });
                self.finish();
            }
            let has_ended = if self.is_draining {
                self.is_drained
            } else {
                self.engine.live_executions() == 0
            };
            if has_ended && self.disk.is_idle() {
                break;
            }
            let due = self.engine.next_due_ms();
            self.now_ms = self.now_ms.max(due.expect("what has not ended has a timer"));
            self.batch.push(Input::Tick);
            self.finish();
        }
        if self.is_draining {
            assert!(self.is_drained, "a drain ends with its grace");
            return;
        }
        assert_eq!(self.engine.live_executions(), 0, "everything ends");
        self.disk.check_end();
        self.callers.check_end();
    }
}

/// Returns the token that a byte means: one that was handed out, or nobody's.
fn known(tokens: &[AttemptToken], byte: u8) -> AttemptToken {
    match tokens.len() {
        0 => AttemptToken::new([byte; 16]),
        _ if byte >= 250 => AttemptToken::new([byte; 16]),
        // The latest ones first.
        n => tokens[n - 1 - usize::from(byte) % n.min(8)],
    }
}

pub(crate) use rules::seeds;

#[cfg(test)]
mod tests {
    use super::{played, seeds};

    #[test]
    fn the_seeds_do_real_work() {
        let worlds: Vec<_> = seeds().iter().map(|seed| played(seed)).collect();
        let n_settled: usize = worlds.iter().map(|world| world.disk.n_settled()).sum();
        let n_successes: usize = worlds.iter().map(|world| world.disk.n_successes()).sum();
        let n_assigned: usize = worlds.iter().map(|world| world.fleet.n_assigned()).sum();
        assert!(
            n_settled > 40 && n_successes > 5 && n_assigned > 50,
            "{n_settled} {n_successes} {n_assigned}"
        );
    }
}
