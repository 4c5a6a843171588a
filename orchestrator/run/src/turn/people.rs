//! What people are asked, and what their answers lead to.

use super::answers::{check_answer, says_the_same};
use super::contract::Rendered;
use super::revisions::Revised;
use super::{Turn, refused, refused_because};
use crate::ids::input_request_id;
use crate::input::{Answer, Refused, RefusedReason};
use crate::journal::{
    AnswerType, Decision, Event, Failure, InputRequest, RequestAnswer, RequestKind, RequestState, Responder,
    ResponderKind, Stored, UnitRef,
};
use crate::outcome::cut;
use crate::plan::{InputType, StepKind};
use crate::state::UnitStage;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-6.1
    /// Asks whether the plan as a whole may run, if the level of autonomy wants that.
    pub(super) fn ask_for_plan(&mut self) {
        if !self.plan_needs_approval() {
            return;
        }
        let name = &self.plan.name;
        let request = InputRequest {
            question: format!("May the plan {name:?} run?"),
            subject_digest: Bytes::copy_from_slice(&self.plan_subject_digest(&self.state.revision)),
            revision: self.state.revision.clone(),
            ..self.request_of(RequestKind::Approval, None, self.state.spec.limits.approval_ms)
        };
        self.emit(Event::InputRequested(request));
    }

    /// True while the plan waits for its approval.
    pub(super) fn waits_for_plan_approval(&self) -> bool {
        let mut open = self.state.open_requests();
        open.any(|request| request.unit.is_none() && request.kind() == RequestKind::Approval)
    }

    pub(super) fn request_of(&self, kind: RequestKind, unit: Option<UnitRef>, limit_ms: u64) -> InputRequest {
        let n = self.state.n_requests + 1;
        InputRequest {
            id: Bytes::copy_from_slice(input_request_id(self.run_id(), n).as_bytes()),
            kind: kind.into(),
            unit,
            expires_at: self
                .now
                .saturating_add(i64::try_from(limit_ms).unwrap_or(i64::MAX)),
            ..InputRequest::default()
        }
    }

    // RUN-6.4
    /// Asks the question of a `user_input` step.
    pub(super) fn ask_if_ready(&mut self, unit: UnitRef) {
        let StepKind::UserInput(spec) = &self.step(unit.step).kind else {
            unreachable!("only user_input steps ask")
        };
        if self.unit(unit).stage() != UnitStage::Ready {
            return;
        }
        let (mut texts, mut n_bytes) = (Vec::new(), 0);
        for text in core::iter::once(&spec.question).chain(&spec.options) {
            match self.render_text(unit, text) {
                Ok(text) => {
                    n_bytes += text.len();
                    texts.push(text);
                }
                Err((code, message)) => return self.unit_fails(unit, code, &message),
            }
            if n_bytes > QUESTION_BYTES_MAX {
                return self.unit_fails(
                    unit,
                    "INPUT_TOO_LARGE",
                    "question and options have more than 48 KiB",
                );
            }
        }
        let question = texts.remove(0);
        // The same text twice is one option.
        let mut known = BTreeSet::new();
        texts.retain(|option| known.insert(option.clone()));
        let limit_ms = spec.timeout_ms.unwrap_or(self.state.spec.limits.question_ms);
        let answer_type = match spec.input_type {
            InputType::Text => AnswerType::Text,
            InputType::Choice => AnswerType::Choice,
            InputType::Confirm => AnswerType::Confirm,
            InputType::Form => AnswerType::Form,
        };
        let request = InputRequest {
            question,
            options: texts,
            answer_type: answer_type.into(),
            ..self.request_of(RequestKind::Question, Some(unit), limit_ms)
        };
        self.emit(Event::InputRequested(request));
    }

    /// Asks whether the unit may do exactly this.
    pub(super) fn ask_for_approval(&mut self, unit: UnitRef, rendered: &Rendered, subject: &[u8; 32]) {
        let payload = self.store(rendered.payload.as_encoded().clone());
        let (action, name) = (&rendered.action, &self.step(unit.step).name);
        let request = InputRequest {
            question: format!("May the step {name:?} run {action}?"),
            subject_digest: Bytes::copy_from_slice(subject),
            subject: Some(payload),
            action: rendered.action.clone(),
            ..self.request_of(
                RequestKind::Approval,
                Some(unit),
                self.state.spec.limits.approval_ms,
            )
        };
        self.emit(Event::InputRequested(request));
    }

    // RUN-6.7
    /// The handler wants an approval: asks for exactly what it was sent.
    pub(super) fn ask_for_handler(&mut self, unit: UnitRef, error: &Failure, data: Option<Stored>) {
        match self.render_call(unit) {
            Ok(rendered) => {
                let subject = self.subject_digest(unit, &rendered);
                if self.unit(unit).approved_digest[..] == subject[..] {
                    // It asks again for what it has.
                    return self.unit_fails(unit, &error.code, &error.message);
                }
                let payload = self.store(rendered.payload.as_encoded().clone());
                let request = InputRequest {
                    question: error.message.clone(),
                    subject_digest: Bytes::copy_from_slice(&subject),
                    subject: Some(payload),
                    action: rendered.action,
                    error: Some(error.clone()),
                    data,
                    ..self.request_of(
                        RequestKind::Approval,
                        Some(unit),
                        self.state.spec.limits.approval_ms,
                    )
                };
                self.emit(Event::InputRequested(request));
            }
            Err((code, message)) => self.unit_fails(unit, code, &message),
        }
    }

    // RUN-6.5
    /// Somebody answers. `revised` is the plan that comes with an approval of a plan.
    pub(super) fn answer(&mut self, answer: Answer, revised: Option<&Revised>) -> Result<(), Refused> {
        let id = Bytes::copy_from_slice(answer.request_id.as_bytes());
        let known = self.state.requests.iter().find(|request| request.id == id);
        let request =
            known.ok_or_else(|| refused(RefusedReason::RequestNotFound, "the run has no such request"))?;
        let request = request.clone();
        match request.state() {
            RequestState::Open => {}
            RequestState::Answered if planted::is_on(Bug::RunAnswerTwice) => {}
            RequestState::Answered => return self.answered_before(&request, &answer),
            RequestState::Expired => {
                return Err(refused(
                    RefusedReason::RequestExpired,
                    "the time for the answer is over",
                ));
            }
            RequestState::Closed => {
                return Err(refused(
                    RefusedReason::RequestExpired,
                    "the answer is not needed any more",
                ));
            }
        }
        if !names_subject(&request, &answer) && !planted::is_on(Bug::RunDigestUnchecked) {
            return Err(refused(
                RefusedReason::DigestMismatch,
                "subject_digest: is not that of the request; read it again before deciding",
            ));
        }
        self.check_responder(request.kind(), &answer.responder, answer.decision)?;
        check_answer(&request, &answer)?;
        self.check_edits(&request, answer.decision, revised)?;
        let subject_digest = self.approved_subject(&request, &answer, revised)?;
        let value = (!answer.value.is_empty()).then(|| self.store(answer.value.clone()));
        let recorded = RequestAnswer {
            id,
            responder: answer.responder.clone(),
            decision: answer.decision.into(),
            value,
            comment: cut(&answer.comment, escapement_model::limits::MESSAGE_CHARS_MAX),
            subject_digest,
            unit: request.unit,
        };
        if request.kind() == RequestKind::Approval && approves(answer.decision) {
            let approved = &request.approved_by;
            let is_known = |name: &str| approved.iter().chain(&request.approved_for).any(|it| it == name);
            if answer.responder.names().any(is_known) {
                return Ok(());
            }
            let needs_more = !planted::is_on(Bug::RunQuorumIgnored);
            if needs_more && approved.len() + 1 < self.state.spec.policy.quorum as usize {
                self.emit(Event::DecisionRecorded(recorded));
                return Ok(());
            }
        }
        let document = recorded.value.clone();
        self.emit(Event::InputReceived(recorded));
        if let (Some(revised), Some(document)) = (revised, document) {
            self.revise(revised, document);
        }
        // RUN-9.13
        if !self.state.stage().is_end() {
            self.act_on(&request, &answer);
        }
        Ok(())
    }

    fn answered_before(&self, request: &InputRequest, answer: &Answer) -> Result<(), Refused> {
        let winner = request
            .answer
            .as_ref()
            .expect("an answered request has its answer");
        let value = winner
            .value
            .as_ref()
            .map(|value| self.load(value))
            .unwrap_or_default();
        let same = winner.responder.id == answer.responder.id
            && winner.decision() == answer.decision
            && says_the_same(request, answer.decision, &value, &answer.value);
        if same {
            return Ok(());
        }
        Err(refused_because(
            RefusedReason::AlreadyAnswered,
            format!("{} has answered already", winner.responder.id),
        ))
    }

    // RUN-6.8
    fn check_responder(
        &self,
        kind: RequestKind,
        responder: &Responder,
        decision: Decision,
    ) -> Result<(), Refused> {
        let decides = matches!(
            kind,
            RequestKind::Approval
                | RequestKind::AmbiguousEffect
                | RequestKind::RetryExtension
                | RequestKind::BudgetExtension
        );
        if !decides || matches!(decision, Decision::Deny | Decision::Fail | Decision::Revise) {
            return Ok(());
        }
        let policy = &self.state.spec.policy;
        if responder.kind() == ResponderKind::Agent && !planted::is_on(Bug::RunAgentApproves) {
            return Err(refused(
                RefusedReason::NotAnApprover,
                "responder: an agent cannot approve",
            ));
        }
        if kind != RequestKind::Approval {
            return Ok(());
        }
        let four_eyes = policy.four_eyes && !planted::is_on(Bug::RunFourEyesIgnored);
        // The name that was proved at its start, whatever user it was started for, and that user; and the one that fired its trigger.
        let started_it = |name| self.state.spec.is_started_by(name, responder.verified);
        if four_eyes && responder.names().any(started_it) {
            return Err(refused(
                RefusedReason::SelfApproval,
                "responder: who started the run, or fired its trigger, cannot approve what it asks (four_eyes)",
            ));
        }
        if !policy.approvers.is_empty() && !policy.approvers.contains(&responder.id) {
            return Err(refused_because(
                RefusedReason::NotAnApprover,
                format!("responder: {} is not among the approvers", responder.id),
            ));
        }
        Ok(())
    }

    /// The digest that an approval opens the gate for: that of the edited payload or plan if there is one.
    fn approved_subject(
        &self,
        request: &InputRequest,
        answer: &Answer,
        revised: Option<&Revised>,
    ) -> Result<Bytes, Refused> {
        if let Some(revised) = revised {
            return Ok(Bytes::copy_from_slice(
                &self.plan_subject_digest(&revised.plan.digest),
            ));
        }
        let (Decision::ApproveWithEdits, Some(unit)) = (answer.decision, request.unit) else {
            return Ok(request.subject_digest.clone());
        };
        let payload = Opaque::from_encoded(answer.value.clone());
        if let Err(why) = payload.check() {
            return Err(refused_because(
                RefusedReason::AnswerInvalid,
                format!("payload: {why}"),
            ));
        }
        let action = self.action_of(unit);
        let digest = self.subject_digest(unit, &Rendered { action, payload });
        Ok(Bytes::copy_from_slice(&digest))
    }

    fn act_on(&mut self, request: &InputRequest, answer: &Answer) {
        let Some(unit) = request.unit else {
            match answer.decision {
                // RUN-13.9: there is enough for the planner, which is asked next.
                Decision::Extend => {}
                Decision::Fail => self.planner_goes_without(request),
                Decision::Revise => self.replan(None, &answer.comment),
                decision if approves(decision) => {}
                _ => self.cancel(String::from("plan_rejected")),
            }
            return;
        };
        match answer.decision {
            Decision::Answer | Decision::Happened => self.unit_ended(unit),
            // A unit is not asked for another plan.
            Decision::Approve | Decision::ApproveWithEdits | Decision::DidNot | Decision::Revise => {}
            // RUN-13.9: the unit is ready, and there is enough for it.
            Decision::Extend if request.kind() == RequestKind::BudgetExtension => {}
            Decision::Extend => {
                let error = request.error.clone().expect("it was asked about a failure");
                self.try_again(unit, error);
            }
            Decision::Deny => {
                let who = &answer.responder.id;
                let message = match answer.comment.as_str() {
                    "" => format!("{who} denied it"),
                    comment => format!("{who} denied it: {comment}"),
                };
                self.unit_fails(unit, "APPROVAL_DENIED", &message);
            }
            Decision::Fail => self.give_up(unit, request),
        }
    }

    /// The unit fails with what was asked about.
    pub(super) fn give_up(&mut self, unit: UnitRef, request: &InputRequest) {
        let error = request.error.clone().expect("it was asked about a failure");
        let code = match request.kind() {
            RequestKind::AmbiguousEffect => "AMBIGUOUS_EFFECT".to_string(),
            _ => error.code,
        };
        self.unit_fails(unit, &code, &error.message);
    }

    // RUN-6.6
    pub(super) fn question_expired(&mut self, unit: UnitRef) {
        let StepKind::UserInput(spec) = &self.step(unit.step).kind else {
            unreachable!("only user_input steps ask")
        };
        match &spec.default_answer {
            Some(answer) => {
                let output = self.store(answer.clone());
                self.complete_step(unit.step, Some(output), "default_answer");
            }
            None => self.unit_fails(unit, "INPUT_EXPIRED", "nobody answered in time"),
        }
    }
}

// RUN-6.12
/// Returns true if the answer names the subject of the request. Callers of earlier versions name none to a retry extension.
fn names_subject(request: &InputRequest, answer: &Answer) -> bool {
    let names_none = answer.subject_digest.is_empty() && request.kind() == RequestKind::RetryExtension;
    names_none || request.subject_digest == answer.subject_digest
}

fn approves(decision: Decision) -> bool {
    matches!(decision, Decision::Approve | Decision::ApproveWithEdits)
}

/// Bytes of a question with its options.
const QUESTION_BYTES_MAX: usize = 48 << 10;
