//! Which waiting step goes to which worker. Hands nothing out without a credit; sends nothing.

use crate::engine::Engine;
use crate::fleet::{Attempt, QueueKey, Waiting, WaitingKey};
use crate::input::SessionKey;
use crate::live::ExecutionKey;
use crate::worker::Assignment;
use alloc::sync::Arc;
use core::cmp::Reverse;
use escapement_contract::{Input as ContractInput, StepIndex};
use escapement_model::AttemptToken;
use sha2::{Digest, Sha256};

impl Engine {
    /// Puts a step whose turn has come into the queue of its action.
    pub(crate) fn enqueue(&mut self, key: ExecutionKey, step: StepIndex, attempt: u32) {
        let live = self.live.at_mut(key);
        let plan = live.request.plan();
        let action = self.fleet.action_key(plan.step(step).action());
        if !self.fleet.action(action).is_registered(self.now.monotonic_ms) {
            self.not_found.push((key, step, attempt));
            self.forget_action_if_unused(action);
            return;
        }
        self.note_named(action);
        let live = self.live.at_mut(key);
        let plan = live.request.plan();
        let queue = QueueKey {
            action,
            depth: live.depth,
            refused_by: live.refused.get(&step).cloned().unwrap_or_default(),
        };
        let place = WaitingKey {
            priority: Reverse(plan.priority()),
            execution: key,
            position: plan.position(step),
        };
        live.waiting.insert(step, (queue.clone(), place));
        self.fleet.add_waiting(
            queue,
            place,
            Waiting {
                execution: key,
                step,
                attempt,
            },
        );
        self.arm_registration(action);
    }

    /// Admits and hands out until nothing more can be done now.
    pub(crate) fn dispatch(&mut self) {
        // A hand-out may fire a limit that was due, and so settle, admit or make ready something else.
        loop {
            self.settle_not_found();
            self.admit();
            if !self.hand_out() && self.not_found.is_empty() {
                break;
            }
        }
        self.fleet.list_all();
    }

    /// Hands out what can be handed out; true where anything was.
    fn hand_out(&mut self) -> bool {
        // The process is about to exit, and the next one would only find a started attempt that nobody waits for.
        if self.drain.is_some_and(|drain| drain.reported) {
            return false;
        }
        let mut handed_out = false;
        // the first in the common order that any worker has a slot for.
        let mut open = self.fleet.take_servable();
        while let Some((_, queue)) = open.pop_first() {
            self.fleet.list_changed_under_waiting();
            let Some(session) = self.fleet.free_session(&queue) else {
                continue;
            };
            let Some(waiting) = self.fleet.pop_waiting(&queue) else {
                continue;
            };
            self.assign(&queue, waiting, session);
            handed_out = true;
            open.extend(self.fleet.first_waiting(&queue).map(|first| (first, queue)));
        }
        handed_out
    }

    // an action that nobody offers is a fatal error of its step.
    fn settle_not_found(&mut self) {
        while let Some((key, step, attempt)) = self.not_found.pop() {
            self.note_not_found(key, step);
            // A limit that ran out meanwhile has ended the attempt already.
            if self.live.contains(key) {
                let _already_over = self.act(key, ContractInput::ActionNotFound { step, attempt });
            }
        }
    }

    fn assign(&mut self, queue: &QueueKey, waiting: Waiting, session_key: SessionKey) {
        let Waiting {
            execution: key,
            step,
            attempt,
        } = waiting;
        self.live.at_mut(key).waiting.remove(&step);
        let session = self
            .fleet
            .sessions
            .get(&session_key)
            .expect("a free session is there");
        let worker = Arc::clone(
            &session
                .identity
                .as_ref()
                .expect("a free session has said hello")
                .worker_id,
        );
        if self
            .act(
                key,
                ContractInput::Assigned {
                    step,
                    attempt,
                    worker,
                },
            )
            .is_err()
        {
            return;
        }
        let token = self.next_token();
        let record = Attempt {
            execution: key,
            step,
            number: attempt,
            action: queue.action,
            depth: queue.depth,
            session: session_key,
            assignment_seq: Attempt::NOT_SENT,
            assigned_at_ms: self.now.monotonic_ms,
            started: false,
            over: None,
        };
        self.hold(token, record);
        let now = self.now;
        let live = self.live.at_mut(key);
        live.attempts.insert(step, token);
        let assignment = Assignment {
            token,
            execution_id: live.execution_id,
            request: Arc::clone(&live.request),
            step,
            attempt,
            timeout_ms: live.execution.attempt_time_left_ms(step, now),
        };
        let session = self
            .fleet
            .sessions
            .get_mut(&session_key)
            .expect("a free session is there");
        session.outbox.assignments.push(assignment);
        self.fleet.unflushed.insert(session_key);
    }

    fn hold(&mut self, token: AttemptToken, attempt: Attempt) {
        self.take_credit(token, &attempt);
        self.fleet.attempts.insert(token, attempt);
        self.fleet.action_mut(attempt.action).in_flight += 1;
    }

    /// Takes a credit of the attempt's session.
    pub(crate) fn take_credit(&mut self, token: AttemptToken, attempt: &Attempt) {
        let session = self
            .fleet
            .sessions
            .get_mut(&attempt.session)
            .expect("an attempt is held by a session");
        session.take_slot(attempt.action, attempt.depth);
        session.enter(token);
        self.fleet.load_changed(attempt.session);
    }

    fn next_token(&mut self) -> AttemptToken {
        self.fleet.tokens_made += 1;
        let digest = Sha256::new()
            .chain_update(self.config.token_key)
            .chain_update(self.fleet.tokens_made.to_le_bytes())
            .finalize();
        AttemptToken::from_slice(&digest[..16]).expect("sixteen bytes of a digest are a token")
    }
}
