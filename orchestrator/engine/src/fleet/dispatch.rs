//! Which waiting step goes to which worker. Hands nothing out without a credit; sends nothing.

use super::action::{QueueKey, Waiting, WaitingKey};
use super::attempt::Attempt;
use super::{Fleet, StepState};
use crate::durable::DurableAccept;
use crate::keys::{ExecutionKey, SessionKey};
use crate::turn::Turn;
use crate::worker::Assignment;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::cmp::Reverse;
use escapement_contract::{Input as ContractInput, Request, StepIndex};
use escapement_model::{AttemptToken, ExecutionId};

/// A step whose turn has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyStep<'a> {
    pub(crate) execution: ExecutionKey,
    /// How many executions that one is nested in.
    pub(crate) depth: u32,
    pub(crate) request: &'a Request,
    pub(crate) step: StepIndex,
    pub(crate) attempt: u32,
}

/// A pass over the queues that a session may be free for.
#[derive(Debug)]
pub(crate) struct Pass {
    /// With the first step of each.
    open: BTreeSet<(WaitingKey, QueueKey)>,
    /// The queue of the last choice: its next step has its turn among the others.
    last: Option<QueueKey>,
}

/// A step that a free session was found for. It is handed out once its execution agrees.
#[derive(Debug)]
pub(crate) struct Chosen {
    waiting: Waiting,
    queue: QueueKey,
    session: SessionKey,
    worker: Arc<str>,
}

/// What a worker has to know of an attempt that only its execution knows.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) accept: DurableAccept,
    pub(crate) execution_id: ExecutionId,
    pub(crate) request: Arc<Request>,
    pub(crate) timeout_ms: u64,
}

impl Chosen {
    pub(crate) fn execution(&self) -> ExecutionKey {
        self.waiting.execution
    }

    pub(crate) fn step(&self) -> StepIndex {
        self.waiting.step
    }

    /// What the execution is told.
    pub(crate) fn assigned(&self) -> ContractInput {
        ContractInput::Assigned {
            step: self.waiting.step,
            attempt: self.waiting.attempt,
            worker: Arc::clone(&self.worker),
        }
    }
}

impl Fleet {
    /// Puts a step whose turn has come into the queue of its action.
    pub(crate) fn enqueue(&mut self, ready: ReadyStep<'_>, turn: &Turn) {
        let ReadyStep {
            execution,
            depth,
            request,
            step,
            attempt,
        } = ready;
        let waiting = Waiting {
            execution,
            step,
            attempt,
            since_ms: turn.now_ms(),
        };
        let plan = request.plan();
        let action = self.action_key(plan.step(step).action());
        if !self.action(action).is_registered(turn.now_ms()) {
            self.not_found.push(waiting);
            self.forget_action_if_unused(action, turn);
            return;
        }
        self.note_named(action, turn);
        let queue = QueueKey {
            action,
            depth,
            refused_by: self.refused.get(&(execution, step)).cloned().unwrap_or_default(),
        };
        let place = WaitingKey {
            priority: Reverse(plan.priority()),
            execution,
            position: plan.position(step),
        };
        let state = StepState::Waiting(queue.clone(), place);
        let before = self.steps.insert((execution, step), state);
        assert!(
            before.is_none(),
            "a step waits once, and not while a worker has it"
        );
        self.add_waiting(queue, place, waiting);
        self.arm_registration(action);
    }

    // an action that no worker offers is a fatal error of its step.
    /// Takes a step whose action is not registered, and what its execution is told.
    pub(crate) fn pop_not_found(&mut self) -> Option<(ExecutionKey, StepIndex, ContractInput)> {
        let Waiting {
            execution,
            step,
            attempt,
            since_ms: _,
        } = self.not_found.pop()?;
        self.refused.remove(&(execution, step));
        Some((execution, step, ContractInput::ActionNotFound { step, attempt }))
    }

    pub(crate) fn has_not_found(&self) -> bool {
        !self.not_found.is_empty()
    }

    pub(crate) fn begin_pass(&mut self) -> Pass {
        Pass {
            open: self.take_servable(),
            last: None,
        }
    }

    // the first in the common order that any worker has a slot for.
    /// Chooses the next step that a session is free for, and takes it out of its queue.
    pub(crate) fn choose(&mut self, pass: &mut Pass) -> Option<Chosen> {
        if let Some(queue) = pass.last.take() {
            pass.open
                .extend(self.first_waiting(&queue).map(|first| (first, queue)));
        }
        while let Some((_, queue)) = pass.open.pop_first() {
            self.reindex_changed_under_waiting();
            let Some(session) = self.free_session(&queue) else {
                continue;
            };
            let Some(waiting) = self.pop_waiting(&queue) else {
                continue;
            };
            self.steps.remove(&(waiting.execution, waiting.step));
            let identity = self.sessions[&session].identity.as_ref();
            let worker = &identity.expect("a free session has said hello").worker_id;
            pass.last = Some(queue.clone());
            return Some(Chosen {
                waiting,
                queue,
                session,
                worker: Arc::clone(worker),
            });
        }
        None
    }

    /// Hands out a step whose execution agrees.
    pub(crate) fn assign(&mut self, chosen: Chosen, work: Work, turn: &Turn) {
        let Chosen {
            waiting:
                Waiting {
                    execution,
                    step,
                    attempt: number,
                    since_ms: _,
                },
            queue,
            session,
            ..
        } = chosen;
        let token = self.next_token();
        let attempt = Attempt {
            execution,
            step,
            number,
            action: queue.action,
            depth: queue.depth,
            session,
            assignment_seq: Attempt::NOT_SENT,
            assigned_at_ms: turn.now_ms(),
            started: false,
            over: None,
        };
        self.take_credit(token, &attempt);
        self.attempts.insert(token, attempt);
        self.action_mut(attempt.action).in_flight += 1;
        let before = self.steps.insert((execution, step), StepState::Held(token));
        assert!(before.is_none(), "a step is handed out once, and waits no more");
        let Work {
            execution_id,
            accept,
            request,
            timeout_ms,
        } = work;
        self.session_mut(session).outbox.assignments.push(Assignment {
            accept,
            token,
            execution_id,
            request,
            step,
            attempt: number,
            timeout_ms,
        });
        self.unflushed.insert(session);
    }

    /// Takes a credit of the attempt's session.
    pub(super) fn take_credit(&mut self, token: AttemptToken, attempt: &Attempt) {
        let session = self.session_mut(attempt.session);
        session.take_slot(attempt.action, attempt.depth);
        session.enter(token);
        self.load_changed(attempt.session);
    }

    fn next_token(&mut self) -> AttemptToken {
        self.tokens_made += 1;
        self.config.attempt_seal.token(self.tokens_made)
    }
}
