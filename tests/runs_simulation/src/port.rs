//! What goes to and fro between runs and the contract, and between runs: late, twice, or only after a repetition.

use crate::contract::Wants;
use crate::plans::CHILD_PLAN;
use crate::process::Awaited;
use crate::specs;
use crate::world::{Happening, World};
use bytes::Bytes;
use escapement_engine::{Ended, Refusal, Reply};
use escapement_model::opaque::ValueView;
use escapement_model::planted::{self, Bug};
use escapement_model::{ExecutionId, Opaque, RunId};
use escapement_run::journal::{Doubt, Entry, Event};
use escapement_run::outcome::{AttemptOutcome, ContractEnd, classify, encoded};
use escapement_run::spec::Spec;
use escapement_run::{Effect, Input, plan};
use escapement_runs::NewRun;
use escapement_runs_host::{Create, NotCreated};
use escapement_store::runs::{RunReader, RunSummary};
use prost::Message;
use std::sync::Arc;

impl World {
    /// What a run wants done, now that it is durable.
    pub(crate) fn perform(&mut self, run_id: RunId, effect: Effect) {
        match effect {
            Effect::Submit {
                execution_id,
                request,
                attempt_ms,
                seen,
            } => {
                // Nothing crosses a port if runs and executions share a commit.
                if !planted::is_on(Bug::RunAcceptEarly) || self.judge.intends(execution_id.as_bytes()) {
                    self.judge.submitted(*execution_id.as_bytes(), &request);
                }
                let run = self.process().host.run(run_id);
                let awaited = Awaited {
                    run_id,
                    request,
                    attempt_ms,
                    seen,
                    ahead_ms: run.map_or(0, |(run, _)| run.state().ahead_ms),
                };
                let boot = self.process().boot;
                self.process().port.insert(execution_id, awaited);
                let after_ms = self.dice.roll(30);
                self.plan(after_ms, Happening::Sends { boot, execution_id });
                if self.is_stormy && self.dice.percent(10) {
                    self.count("fault: submission doubled");
                    let after_ms = self.dice.roll(500);
                    self.plan(after_ms, Happening::Sends { boot, execution_id });
                }
            }
            Effect::Actions { .. } => {
                let Some((run, _)) = self.process().host.run(run_id) else {
                    return;
                };
                let profiles = specs::profiles(run.plan());
                self.deliver(run_id, Input::ActionsKnown { profiles });
            }
            Effect::Catalogue { generation, own, .. } => {
                let given = Input::Catalogue {
                    generation,
                    catalogue: specs::catalogue(),
                    own: own.into_iter().map(specs::profile).collect(),
                };
                self.deliver(run_id, given);
            }
            Effect::Evaluate { evaluation, .. } => {
                // The same question has the same answer.
                let mixed = u64::from(run_id.as_bytes()[3]) * 31 + u64::from(evaluation) * 17;
                let result = match mixed % 10 {
                    0 => Err("no such field".to_owned()),
                    n => Ok(n % 2 == 0),
                };
                self.deliver(run_id, Input::Evaluated { evaluation, result });
            }
            Effect::StartChild {
                run_id: child,
                input,
                plan_id,
                budget,
                doubts,
                ..
            } => {
                assert_eq!(plan_id.as_deref(), Some(CHILD_PLAN), "the only saved plan");
                let spec = Spec {
                    input,
                    budget,
                    doubts,
                    parent_run_id: Bytes::copy_from_slice(run_id.as_bytes()),
                    depth: 1,
                    ..specs::child(&mut self.child_dice)
                };
                self.start_child(child, spec);
            }
            Effect::CancelChild { run_id: child } => {
                let reason = "parent".to_owned();
                self.deliver(child, Input::Cancel { reason });
            }
        }
    }

    fn start_child(&mut self, child: RunId, spec: Spec) {
        let plan = plan::read(&self.child_plan).expect("it was read before");
        let create = Create {
            run: NewRun {
                run_id: child,
                spec,
                profiles: specs::profiles(&plan),
                plan: Arc::new(plan),
            },
            request: None,
            saved_plan: None,
        };
        let now_ms = self.now_ms;
        let process = self.process();
        let now = process.unix_ms(now_ms);
        match process.host.create(create, now) {
            Ok(_) => self.count("children made"),
            Err(NotCreated::Exists(..)) => self.child_may_have_ended(child),
            Err(NotCreated::Full | NotCreated::AlreadyRunning(_)) => panic!("there is room for so few"),
            Err(NotCreated::Damaged(why)) => panic!("{why}"),
            Err(NotCreated::TooLarge(bound)) => panic!("{bound}"),
        }
    }

    /// What is in doubt of the children of a run whose end that does not know.
    pub(crate) fn doubts_of_children(&mut self, run_id: RunId) -> Vec<Doubt> {
        let process = self.process();
        let run = process.host.run(run_id);
        let children: Vec<RunId> = run.map_or_else(Vec::new, |(run, _)| run.state().children().collect());
        let doubts = children.into_iter().flat_map(|child| {
            if let Some((run, blobs)) = process.host.run(child) {
                return run.in_doubt(blobs);
            }
            let ended = last_entry(&*process.reader, child);
            ended.map_or_else(Vec::new, |(_, last)| last.doubts)
        });
        doubts.collect()
    }

    /// Tells the parent of a child that has ended durably.
    pub(crate) fn child_may_have_ended(&mut self, child: RunId) {
        let Some(process) = &self.process else { return };
        let Some((summary, last)) = last_entry(&*process.reader, child) else {
            return;
        };
        let (Some(parent), Some(_)) = (summary.created.parent, summary.progress.ended_at) else {
            return;
        };
        let result = match last.event {
            Some(Event::RunCompleted(end)) => Ok(match end.output {
                None => encoded(ValueView::Null),
                Some(stored) => match <[u8; 32]>::try_from(&stored.digest[..]) {
                    Ok(digest) => process
                        .reader
                        .content(&digest)
                        .expect("the store reads")
                        .expect("it is kept"),
                    Err(_) => stored.inline,
                },
            }),
            _ => Err("the child did not complete".to_owned()),
        };
        let ended = Input::ChildEnded {
            run_id: child,
            result,
            used: last.spent,
            doubts: Some(last.doubts),
        };
        self.deliver(parent, ended);
    }

    /// An input reaches its run a little later, in whatever order; some reach it twice, the second time much later.
    pub(crate) fn deliver(&mut self, run_id: RunId, input: Input) {
        let boot = self.process().boot;
        if self.is_stormy && self.dice.percent(15) {
            self.count("fault: input told twice");
            let most_ms = *self.dice.pick(&[100, 2_500, 10_000]);
            let after_ms = self.dice.roll(most_ms);
            let input = input.clone();
            self.plan(
                after_ms,
                Happening::Reaches {
                    boot,
                    run_id,
                    input: Box::new(input),
                },
            );
        }
        let after_ms = self.dice.roll(20);
        self.plan(
            after_ms,
            Happening::Reaches {
                boot,
                run_id,
                input: Box::new(input),
            },
        );
    }

    pub(crate) fn reaches(&mut self, boot: u64, run_id: RunId, input: Input) {
        let now_ms = self.now_ms;
        let Some(process) = self.process.as_mut().filter(|process| process.boot == boot) else {
            return;
        };
        let now = process.unix_ms(now_ms);
        match &input {
            Input::Settled { execution_id, .. } => self.judge.came(*execution_id.as_bytes(), now),
            Input::ChildEnded { run_id, .. } => self.judge.came(*run_id.as_bytes(), now),
            _ => {}
        }
        if process.pause.ends_at_ms().is_some() {
            self.count("inputs that wait for a process that stands still");
            return self.process().pause.held.push_back((now, run_id, input));
        }
        // A run that ended meanwhile is not live any more.
        if process.host.handle(run_id, input, now).is_err() {
            self.count("inputs to runs that have ended");
        }
    }

    /// A request reaches the contract, if that is there; else it is sent again.
    pub(crate) fn sends(&mut self, boot: u64, execution_id: ExecutionId) {
        let Some(process) = self.process.as_ref().filter(|process| process.boot == boot) else {
            return;
        };
        let Some(awaited) = process.port.get(&execution_id) else {
            return;
        };
        if self.is_stormy && self.dice.percent(5) {
            self.count("fault: submission lost");
            return self.plan(700, Happening::Sends { boot, execution_id });
        }
        let Some(contract) = &mut self.contract else {
            return self.plan(300, Happening::Sends { boot, execution_id });
        };
        // RUN-7.8
        let by_ms = match self.times_are_hard {
            true => contract.offset_ms - process.offset_ms - awaited.ahead_ms.cast_signed(),
            false => 0,
        };
        let deadlines = &mut self.deadlines;
        let deadline = |at: i64| *deadlines.entry(execution_id).or_insert(at + by_ms);
        if let Err(why) = contract.submit(execution_id, &awaited.request, deadline) {
            self.judge.finds(
                "RI9",
                format!("the contract takes {execution_id} for no request: {why}"),
            );
        }
    }

    /// What the contract wants done.
    pub(crate) fn carry_out(&mut self, wants: Wants) {
        match wants {
            Wants::Answered(execution_id, Reply::Ended(ended)) => self.answered(execution_id, ended),
            Wants::Answered(execution_id, reply) => panic!("{execution_id} is answered by {reply:?}"),
            Wants::Tell(place, message) => self.worker_reads(place, message),
            Wants::Hung(place) => self.plan(1_000, Happening::WorkerConnects { place }),
        }
    }

    fn answered(&mut self, execution_id: ExecutionId, ended: Ended) {
        let Some(process) = &self.process else { return };
        let boot = process.boot;
        match ended {
            Ended::Settled(_) | Ended::NotLive => {}
            Ended::Refused(refusal @ (Refusal::ExecutionIdUsed | Refusal::PlanIdUsed { .. })) => {
                return self
                    .judge
                    .finds("RI9", format!("{execution_id} is refused: {refusal:?}"));
            }
            Ended::Refused(_) => {
                self.count("submissions refused");
                return self.plan(500, Happening::Sends { boot, execution_id });
            }
        }
        if self.is_stormy && self.dice.percent(5) {
            self.count("fault: answer lost");
            return self.plan(900, Happening::Sends { boot, execution_id });
        }
        let contract = self.contract.as_ref().expect("it has answered");
        let Some(end) = contract.end_of(execution_id) else {
            return self.plan(200, Happening::Sends { boot, execution_id });
        };
        self.ends(execution_id, &end);
    }

    /// Delivers the end of an execution to its run.
    fn ends(&mut self, execution_id: ExecutionId, end: &ContractEnd) {
        let Some(awaited) = self.process().port.remove(&execution_id) else {
            return;
        };
        self.judge.settled(*execution_id.as_bytes());
        let outcome: AttemptOutcome = classify(end, awaited.attempt_ms, awaited.seen);
        self.count("executions that ended");
        self.deliver(
            awaited.run_id,
            Input::Settled {
                execution_id,
                outcome,
            },
        );
    }

    /// Hands in an output while its execution is still being settled: a planted fault.
    pub(crate) fn ends_early(&mut self, execution_id: ExecutionId, output: &Opaque) {
        let end = ContractEnd {
            output: Some(output.clone()),
            error: None,
            steps_executed: 1,
            assigned: true,
        };
        if self.process.is_some() {
            self.ends(execution_id, &end);
        }
    }
}

/// The last entry of a run that is durable, and what lists say of the run.
fn last_entry(reader: &dyn RunReader, run_id: RunId) -> Option<(RunSummary, Entry)> {
    let summary = reader.summary(run_id).expect("the store reads")?;
    let page = reader.journal(run_id, summary.next_seq - 1, 1 << 20);
    let page = page.expect("the store reads").expect("the run is there");
    let last = Entry::decode(&page.entries[0].bytes[..]).expect("an entry decodes");
    Some((summary, last))
}
