//! What leaves runs once it is durable, and what comes back. Submits nothing itself.

use escapement_model::RunId;
use escapement_run::state::Stage;
use escapement_run::{Effect, Input, Run, plan};
use escapement_runs::NewRun;
use escapement_runs_host::{Create, Ended, NotCreated, guarded};
use escapement_store::runs::RunStore;

use super::RunsLoop;
use crate::aside::WorkOwner;
use crate::attempt::Attempt;
use crate::children::{ChildEnd, child_spec, last_entry, waits_for};
use crate::evaluations::Evaluation;
use crate::limits::DEPTH_MAX;
use crate::message::{Child, LinkedEnd, Outgoing, Returned};
use crate::rights::Origin;
use crate::trace_runs::TraceRuns;
use crate::wanted_plan::WantedPlan;

impl<S: RunStore> RunsLoop<S> {
    /// Sends effects, and notifies parents of children that have ended.
    pub(super) fn leave(&mut self) {
        for (run_id, effect) in self.host.poll_effects() {
            self.effect(run_id, effect);
        }
        while let Some(evaluation) = self.evaluations.pop() {
            self.evaluate(evaluation);
        }
        for ended in self.host.poll_ended() {
            let Ended {
                run_id,
                parent,
                last_entry,
            } = ended;
            let end = guarded(|| ChildEnd::of(&last_entry, &mut self.host));
            self.child_ended(parent, run_id, end.unwrap_or_else(ChildEnd::unreadable));
        }
    }

    fn effect(&mut self, run_id: RunId, effect: Effect) {
        // A run that ended with the same commit does not wait for anything.
        let Some((run, _)) = self.host.run(run_id) else {
            if let Effect::CancelChild { run_id } = effect {
                self.cancel_child(run_id);
            }
            return;
        };
        match effect {
            Effect::Submit { execution_id, .. } => {
                self.behind.leaves(execution_id);
                if !self.accepted.remove(&execution_id)
                    && let Some(attempt) = attempt_of(self.traces.as_deref(), run_id, run, effect)
                {
                    self.send(Outgoing::Submit(attempt));
                }
            }
            Effect::Catalogue { .. } | Effect::Actions { .. } | Effect::Evaluate { .. } => {
                self.question(run_id, effect);
            }
            Effect::StartChild {
                run_id: child,
                plan_id,
                revision_digest,
                input,
                budget,
                doubts,
            } => {
                let wanted = WantedPlan::of(&run.state().spec, plan_id, revision_digest);
                let child = Child {
                    parent: run_id,
                    run_id: child,
                    input,
                    budget,
                    doubts,
                };
                self.start_child(child, wanted);
            }
            Effect::CancelChild { run_id } => self.cancel_child(run_id),
        }
    }

    /// Lets a question of a run leave.
    fn question(&mut self, run_id: RunId, effect: Effect) {
        let Some((run, _)) = self.host.run(run_id) else {
            return;
        };
        match effect {
            Effect::Catalogue {
                generation,
                allowed,
                own,
            } => {
                let origin = Origin::of(&run.state().spec);
                self.send(Outgoing::Catalogue {
                    run_id,
                    origin,
                    generation,
                    allowed,
                    own,
                });
            }
            Effect::Actions { .. } => {
                let (plan, state) = (std::sync::Arc::clone(run.plan()), run.state());
                let own_actions = state.spec.actions().map(str::to_owned).collect();
                let known = state.profiles.clone();
                self.send(Outgoing::Actions {
                    run_id,
                    plan,
                    own_actions,
                    known,
                });
            }
            Effect::Evaluate {
                evaluation,
                expression,
            } => self.evaluations.push(Evaluation {
                run_id,
                owner: WorkOwner::new(&run.state().spec.namespace, &run.state().spec.user_id),
                evaluation,
                expression,
            }),
            Effect::Submit { .. } | Effect::StartChild { .. } | Effect::CancelChild { .. } => {
                unreachable!("it is no question")
            }
        }
    }

    /// Sends an evaluation, unless its value is not needed.
    fn evaluate(&mut self, evaluation: Evaluation) {
        let Evaluation {
            run_id,
            owner,
            evaluation,
            expression,
        } = evaluation;
        let run = self.host.run(run_id);
        let bindings = guarded(|| run.and_then(|(run, blobs)| run.bindings(evaluation, blobs)));
        let bindings = match bindings {
            Ok(Some(bindings)) => bindings,
            Ok(None) => return,
            Err(why) => return self.host.lose(run_id, why),
        };
        match bindings {
            Ok(bindings) => self.send(Outgoing::Evaluate {
                run_id,
                owner,
                evaluation,
                expression,
                held: self.evaluations.hold(bindings.len()),
                bindings,
            }),
            Err(why) => {
                let result = Err(why);
                self.hand_later(run_id, Input::Evaluated { evaluation, result });
            }
        }
    }

    pub(super) fn cancel_child(&mut self, run_id: RunId) {
        let reason = "parent".to_owned();
        self.hand_later(run_id, Input::Cancel { reason });
    }

    // RUN-7.5
    /// Queues an input with the time of the last submitted input, independent of the duration of the commit.
    fn hand_later(&mut self, run_id: RunId, input: Input) {
        self.own.push_back((self.handed_at, run_id, input));
    }

    // RUN-4.12
    /// Attaches to the child if it was made before; else its plan is looked for.
    fn start_child(&mut self, child: Child, wanted: WantedPlan) {
        if self.host.runs().contains(child.run_id) {
            return;
        }
        if let Some(end) = self.ended_before(child.run_id) {
            self.child_ended(child.parent, child.run_id, end);
            return;
        }
        self.send(Outgoing::FindPlan { wanted, child });
    }

    /// Returns the outcome of a child that ended earlier; `None` without such a child.
    fn ended_before(&mut self, child: RunId) -> Option<ChildEnd> {
        let reader = self.host.reader();
        let read = || -> Result<_, escapement_store::StoreFault> {
            if reader.removed(child)?.is_some() {
                let why = "the child run ended and was removed".to_owned();
                return Ok(Some(Err(ChildEnd::unreadable(why))));
            }
            let Some(summary) = reader.summary(child)? else {
                return Ok(None);
            };
            if summary.progress.ended_at.is_none() {
                let why = "the child run is damaged".to_owned();
                return Ok(Some(Err(ChildEnd::unreadable(why))));
            }
            Ok(Some(Ok(last_entry(reader, child, &summary)?)))
        };
        let read = read().unwrap_or_else(|fault| {
            let why = format!("the child run cannot be read: {fault}");
            Some(Err(ChildEnd::unreadable(why)))
        });
        read.map(|end| match end {
            Ok(last_entry) => {
                guarded(|| ChildEnd::of(&last_entry, &mut self.host)).unwrap_or_else(ChildEnd::unreadable)
            }
            Err(unreadable) => unreadable,
        })
    }

    fn take_input(&mut self, run_id: RunId, input: Input) {
        if let Input::Settled { execution_id, .. } = &input {
            self.behind.settles(*execution_id);
        }
        self.input(run_id, input);
    }

    fn take_end(&mut self, ended: LinkedEnd) {
        let joint = self.joint.as_mut().expect("the attempt was accepted through it");
        let (run_id, input) = joint.receive(ended);
        self.take_input(run_id, input);
    }

    pub(super) fn take_returned(&mut self, returned: Returned) {
        match returned {
            Returned::Input(run_id, input) => self.take_input(run_id, input),
            Returned::UnderWay(execution_id) => self.behind.is_under_way(execution_id),
            Returned::Ended(ended) => self.take_end(ended),
            Returned::Plan(child, Err(why)) => {
                self.child_ended(child.parent, child.run_id, ChildEnd::never_made(why));
            }
            Returned::Plan(child, Ok((plan, profiles))) => {
                let now = self.handed_at;
                let Some((parent, blobs)) = self.host.run(child.parent) else {
                    return;
                };
                if !waits_for(parent, child.run_id) {
                    return;
                }
                if parent.state().spec.depth >= DEPTH_MAX {
                    let why = format!("NESTED_TOO_DEEP: runs start runs deeper than {DEPTH_MAX} levels");
                    self.child_ended(child.parent, child.run_id, ChildEnd::never_made(why));
                    return;
                }
                let spec = guarded(|| child_spec(parent, &child, now, blobs));
                let mut spec = match spec {
                    Ok(spec) => spec,
                    Err(why) => return self.host.lose(child.parent, why),
                };
                if let Some(traces) = &self.traces {
                    spec.trace = traces.child(child.parent, &parent.state().spec, child.run_id);
                }
                let broken = plan::constraints::violations(&plan, &spec.constraints, &profiles);
                if let Some(first) = broken.first() {
                    let why = format!("CONSTRAINT_VIOLATED: {}: {}", first.path, first.message);
                    self.child_ended(child.parent, child.run_id, ChildEnd::never_made(why));
                    return;
                }
                let run = NewRun {
                    run_id: child.run_id,
                    spec,
                    plan: std::sync::Arc::clone(&plan),
                    profiles: profiles.clone(),
                };
                let create = Create {
                    run,
                    request: None,
                    saved_plan: None,
                };
                match self.host.create(create, now) {
                    Ok(_) => {}
                    Err(NotCreated::AlreadyRunning(_)) => unreachable!("it is no run of a saved plan"),
                    Err(NotCreated::Full) => {
                        self.send(Outgoing::Later(Returned::Plan(child, Ok((plan, profiles)))));
                    }
                    Err(NotCreated::Damaged(why)) => {
                        let why = format!("the child run is damaged: {why}");
                        self.child_ended(child.parent, child.run_id, ChildEnd::unreadable(why));
                    }
                    // RUN-9.13
                    Err(NotCreated::TooLarge(bound)) => {
                        let why = format!("RUN_TOO_LARGE: {bound}");
                        self.child_ended(child.parent, child.run_id, ChildEnd::never_made(why));
                    }
                    Err(NotCreated::Exists(..)) => {
                        if let Some(end) = self.ended_before(child.run_id) {
                            self.child_ended(child.parent, child.run_id, end);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn child_ended(&mut self, parent: RunId, run_id: RunId, end: ChildEnd) {
        self.hand_later(parent, end.of_child(run_id));
    }

    fn send(&self, outgoing: Outgoing) {
        // Who does it ends with the process.
        let _ended = self.outgoing.send(outgoing);
    }
}

/// Returns the attempt that a submission is; `None` for another effect.
pub(super) fn attempt_of(
    traces: Option<&dyn TraceRuns>,
    run_id: RunId,
    run: &Run,
    effect: Effect,
) -> Option<Attempt> {
    let Effect::Submit {
        execution_id,
        request,
        attempt_ms,
        seen,
    } = effect
    else {
        return None;
    };
    let state = run.state();
    let mut origin = Origin::of(&state.spec);
    if let Some(traces) = traces {
        origin.trace = traces.attempt(run_id, &state.spec, execution_id);
    }
    Some(Attempt {
        run_id,
        origin,
        execution_id,
        request,
        ahead_ms: state.ahead_ms,
        attempt_ms,
        seen,
        is_nested: state.spec.is_nested,
        plans: state.stage() == Stage::Planning,
    })
}
