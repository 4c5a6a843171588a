//! Subjects of requests: their content as people see it, and the digests that decisions name.

use super::Turn;
use super::contract::Rendered;
use crate::contract_request::payload_of;
use crate::journal::{Event, Extension, Failure, InputRequest, RequestKind, ToolCalled, UnitRef};
use alloc::format;
use bytes::Bytes;
use escapement_model::encoder::Encoder;

impl Turn<'_> {
    // RUN-6.12
    /// Asks for the outcome of an attempt of the unit: of exactly what was sent, even if it would differ now.
    pub(super) fn ask_about_effect(&mut self, live: &ToolCalled, error: Failure) {
        let payload = payload_of(&self.load(&live.request)).unwrap_or_default();
        let sent = Rendered {
            action: live.action.clone(),
            payload,
        };
        let execution_id = self.execution_of(live.unit, live.attempt);
        let request = InputRequest {
            attempt: live.attempt,
            ..self.question_about_effect(live.unit, &sent, &execution_id, error)
        };
        self.emit(Event::InputRequested(request));
    }

    // RUN-6.12
    /// Returns a question about an execution that may have had its effect.
    pub(super) fn question_about_effect(
        &mut self,
        unit: UnitRef,
        sent: &Rendered,
        execution_id: &Bytes,
        error: Failure,
    ) -> InputRequest {
        let step = self.step(unit.step);
        let digest = Encoder::named("escapement run doubt subject 1", |encoder| {
            encoder.bytes(&self.state.run_id);
            encoder.text(&step.key);
            encoder.number(u64::from(unit.index));
            encoder.number(u64::from(unit.epoch));
            encoder.text(&sent.action);
            encoder.object(&sent.payload);
            encoder.bytes(execution_id);
        });
        let subject = self.store(sent.payload.as_encoded().clone());
        InputRequest {
            question: format!(
                "The step {:?} may have had its effect. What became of it?",
                step.name
            ),
            subject_digest: Bytes::copy_from_slice(&digest),
            subject: Some(subject),
            action: sent.action.clone(),
            error: Some(error),
            ..self.request_of(
                RequestKind::AmbiguousEffect,
                Some(unit),
                self.state.spec.limits.question_ms,
            )
        }
    }

    // RUN-5.4, RUN-6.12
    /// Asks whether a unit without retries may go on trying.
    pub(super) fn ask_for_retries(&mut self, unit: UnitRef, error: Failure) {
        let (step, state) = (self.step(unit.step), self.unit(unit));
        let base = u64::from(self.max_retries(unit.step));
        let given = u64::from(state.extensions) + 1;
        let extension = Extension {
            used: u64::from(state.retries),
            limit: base * given,
            extended: base * (given + 1),
        };
        let request = InputRequest {
            question: format!(
                "The step {:?} has no retries left. May it go on trying?",
                step.name
            ),
            error: Some(error),
            action: self.action_of(unit),
            ..self.request_of(
                RequestKind::RetryExtension,
                Some(unit),
                self.state.spec.limits.question_ms,
            )
        };
        let request = self.extending(request, extension);
        self.emit(Event::InputRequested(request));
    }

    // RUN-6.12
    /// Returns the request with the amounts that it is about, and their digest.
    pub(super) fn extending(&self, request: InputRequest, extension: Extension) -> InputRequest {
        let unit = request.unit.unwrap_or_default();
        let key = request.unit.map_or("", |unit| &self.step(unit.step).key);
        let digest = Encoder::named("escapement run extension subject 1", |encoder| {
            encoder.bytes(&self.state.run_id);
            encoder.text(key);
            encoder.number(u64::from(unit.index));
            encoder.number(u64::from(unit.epoch));
            encoder.text(request.account());
            encoder.number(extension.used);
            encoder.number(extension.limit);
            encoder.number(extension.extended);
        });
        InputRequest {
            subject_digest: Bytes::copy_from_slice(&digest),
            extension: Some(extension),
            ..request
        }
    }
}
