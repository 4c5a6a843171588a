//! What the planner is asked: an attempt of the generation at hand, byte for byte.

use super::known::{disabled_for, skills_of};
use super::was_seen;
use crate::budget::Budget;
use crate::contract_request::AttemptRequest;
use crate::ids::AttemptName;
use crate::input::Effect;
use crate::journal::{Event, ToolCalled, UnitRef, Verdict};
use crate::outcome::cut;
use crate::planner::Question;
use crate::spec::EffectClass;
use crate::turn::Turn;
use crate::turn::contract::Rendered;
use crate::turn::dispatch::DISPATCH_MS_MIN;
use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::encoder::Encoder;
use escapement_model::limits::NAME_CHARS_MAX;

impl<'a> Turn<'a> {
    /// Milliseconds that are left to the generation at hand.
    fn generation_left_ms(&self) -> u64 {
        let since = u64::try_from(self.now.saturating_sub(self.state.updated_at)).unwrap_or(0);
        let passed = (self.state.active_ms + since).saturating_sub(self.planning().began_ms);
        self.planner()
            .limit_ms
            .saturating_sub(passed)
            .min(self.remaining_ms())
    }

    // RUN-11.2, RUN-11.4
    /// Sends an attempt of the generation at hand; a run that shall pause does so once it goes on.
    pub(super) fn ask_planner(&mut self) {
        if self.state.pause_wanted {
            return;
        }
        let planning = self.planning();
        let (planner, catalogue, input) = (self.planner(), self.catalogue(), self.given_input());
        let attempt_ms = self.generation_left_ms();
        if attempt_ms < DISPATCH_MS_MIN {
            return self.generation_is_over();
        }
        let payload = Question {
            planner: &planner,
            goal: self.goal(),
            input: &input,
            catalogue: &catalogue,
            disabled: &disabled_for(self.state, &catalogue),
            skills: skills_of(self.state),
            constraints: &self.state.spec.constraints,
            async_by_default: self.state.spec.policy.async_by_default,
            previous: &planning.previous,
            generation: planning.generation,
            parent: self.parent_digest(),
            answer_tokens: self
                .state
                .spec
                .budget
                .as_ref()
                .and_then(Budget::answer_tokens_max),
        }
        .payload();
        let Some(payload) = payload else {
            let message = "what the planner is to be told has more than 1 MiB";
            return self.generation_fails(Verdict::Failed, "INPUT_TOO_LARGE", message);
        };
        let called = Rendered {
            action: planner.action.clone(),
            payload,
        };
        let (reserved, model) = self.reserved_for_plan(&called);
        if !self.has_budget_for_plan(&reserved) {
            return;
        }
        let unit = UnitRef::generation(planning.generation);
        let attempt = planning.attempts + 1;
        let (request, subject) = self.planner_request(called, attempt, attempt_ms);
        let stored = self.store(request.clone());
        let seen = was_seen(&planning, &planner.action);
        self.emit(Event::ToolCalled(ToolCalled {
            unit,
            attempt,
            action: planner.action,
            request: stored,
            subject_digest: Bytes::copy_from_slice(&subject),
            effect: EffectClass::Llm.into(),
            attempt_ms,
            reserved: Some(reserved),
            model,
            ..ToolCalled::default()
        }));
        self.effect(Effect::Submit {
            execution_id: self.generation_name(planning.generation, attempt).execution_id(),
            request,
            attempt_ms,
            seen,
        });
    }

    /// What the plan is for.
    pub(in crate::turn) fn goal(&self) -> &str {
        match self.state.spec.goal.as_str() {
            "" => &self.plan.goal,
            goal => goal,
        }
    }

    pub(in crate::turn) fn parent_digest(&self) -> Option<[u8; 32]> {
        let digest = <[u8; 32]>::try_from(&self.state.revision[..]).ok();
        digest.filter(|_| !self.state.has_no_plan())
    }

    pub(in crate::turn) fn generation_name(&self, generation: u32, attempt: u32) -> AttemptName<'a> {
        AttemptName {
            run_id: self.run_id(),
            seed: self.state.spec.seed(),
            step: AttemptName::PLANNER,
            index: generation,
            epoch: 0,
            attempt,
        }
    }

    /// The request of an attempt, byte for byte, and the digest of what it asks.
    fn planner_request(&self, called: Rendered, attempt: u32, attempt_ms: u64) -> (Bytes, [u8; 32]) {
        let Rendered { action, payload } = called;
        let (spec, environment) = (&self.state.spec, self.given_environment());
        let generation = self.planning().generation;
        let subject = Encoder::named("escapement run planner subject 1", |encoder| {
            encoder.bytes(&self.state.run_id);
            encoder.number(u64::from(generation));
            encoder.text(&action);
            encoder.object(&payload);
            encoder.object(&environment);
        });
        let name = format!("{} · {} · {attempt}", self.plan.name, AttemptName::PLANNER);
        let request = AttemptRequest {
            name: self.generation_name(generation, attempt),
            action: &action,
            payload,
            environment: &environment,
            failed_dependencies: Vec::new(),
            plan_name: cut(&name, NAME_CHARS_MAX),
            priority: spec.priority,
            user_id: &spec.user_id,
            request_id: &spec.request_id,
            parent_execution_id: &spec.parent_execution_id,
            revision: &self.state.revision,
            subject: &subject,
            approval: None,
            now: self.now,
            attempt_ms,
            plan_ms: attempt_ms,
            // What is left for the contract's queue; the run's own limit ends the generation before that.
            deadline: self
                .now
                .saturating_add((attempt_ms + attempt_ms / 8).cast_signed()),
        };
        (request.encode(), subject)
    }

    /// What of planning is outstanding, as it was intended.
    pub(in crate::turn) fn outstanding_planning(&mut self) {
        let planning = self.planning();
        if !planning.is_open {
            return;
        }
        let Some(live) = &planning.live else {
            // RUN-13.9: a generation that knows its catalogue waits for its budget.
            if planning.catalogue.is_none() {
                self.ask_for_catalogue(planning.generation);
            }
            return;
        };
        let seen = was_seen(&planning, &live.action);
        self.effect(Effect::Submit {
            execution_id: self
                .generation_name(planning.generation, live.attempt)
                .execution_id(),
            request: self.load(&live.request),
            attempt_ms: live.attempt_ms,
            seen,
        });
    }
}
