//! Section 6: what a person is asked, and what an answer means.

use super::misreading::Misreading;
use super::plan::Kind;
use super::run::{Refusal, Request, RequestState, Run, UnitState};
use super::words::{Answer, Command, End, RequestKind, Responder, UnitId, Value};

impl Run {
    pub(super) fn ask(&mut self, kind: RequestKind, unit: Option<UnitId>) {
        let limit_ms = match kind {
            RequestKind::Question => self.limits.question_ms,
            _ => self.limits.approval_ms,
        };
        let until = (self.now + limit_ms).min(self.created_at + self.limits.lifetime_ms);
        let number = self.requests.len();
        self.requests.push(Request {
            kind,
            unit,
            until,
            state: RequestState::Open,
            approvals: Vec::new(),
        });
        if let Some(id) = unit {
            self.unit(id).state = UnitState::Asking(number);
        }
        self.commands.push(Command::Ask(kind, unit));
    }

    /// The answers are not needed any more.
    pub(super) fn close_requests(&mut self, step: usize) {
        for request in &mut self.requests {
            if request.unit.is_some_and(|(of, _)| of == step) && request.state == RequestState::Open {
                request.state = RequestState::Closed;
            }
        }
    }

    /// RUN-6.5, RUN-6.8.
    pub(super) fn answer(
        &mut self,
        number: usize,
        answer: &Answer,
        responder: Responder,
    ) -> Result<(), Refusal> {
        let Some(request) = self.requests.get(number) else {
            return Err("");
        };
        match &request.state {
            RequestState::Open => {}
            RequestState::Answered(given, by) if given == answer && *by == responder => return Ok(()),
            RequestState::Answered(..) if self.reads(Misreading::LastAnswerWins) => {}
            RequestState::Answered(..) => return Err("ALREADY_ANSWERED"),
            RequestState::Expired | RequestState::Closed => return Err(""),
        }
        let kind = request.kind;
        self.check_answer(kind, answer, responder)?;
        let is_approval = matches!(answer, Answer::Approve | Answer::ApproveEdited);
        if is_approval {
            let request = &mut self.requests[number];
            if request.approvals.iter().any(|other| other.id == responder.id) {
                return Ok(());
            }
            request.approvals.push(responder);
            if request.approvals.len() < self.limits.quorum {
                return Ok(());
            }
        }
        self.requests[number].state = RequestState::Answered(answer.clone(), responder);
        self.progress(); // RUN-7.3
        self.act_on(number);
        Ok(())
    }

    fn check_answer(&self, kind: RequestKind, answer: &Answer, by: Responder) -> Result<(), Refusal> {
        use RequestKind::{Effect, Extension, Gate, HandlerApproval, PlanApproval, Question};
        let limits = &self.limits;
        let mut may_decide = !by.is_agent || self.reads(Misreading::AgentsApprove);
        let mut may_approve =
            may_decide && (limits.approvers.is_empty() || limits.approvers.contains(&by.id));
        may_approve &= !(limits.four_eyes && by.is_user);
        may_decide |= matches!(answer, Answer::Deny);
        match (kind, answer) {
            (Question, Answer::Value(_)) => Ok(()),
            (PlanApproval | Gate | HandlerApproval, Answer::ApproveAnother) => Err("DIGEST_MISMATCH"),
            (PlanApproval | Gate | HandlerApproval, Answer::Approve) if may_approve => Ok(()),
            (Gate, Answer::ApproveEdited) if may_approve && limits.quorum == 1 => Ok(()),
            (PlanApproval | Gate | HandlerApproval | Extension, Answer::Deny) => Ok(()),
            (PlanApproval, Answer::Revise) if self.has_generation_left() => Ok(()),
            (PlanApproval, Answer::Revise) => Err("ANSWER_INVALID"),
            (Extension, Answer::Extend) if may_decide => Ok(()),
            (Effect, Answer::Happened(_) | Answer::DidNot | Answer::Fail) if may_decide => Ok(()),
            (Effect, Answer::Fail) => Ok(()),
            (Question, Answer::Invalid) => Err("ANSWER_INVALID"),
            _ => Err(""),
        }
    }

    /// A request ends without an answer: RUN-6.6.
    pub(super) fn expire(&mut self, number: usize) {
        self.requests[number].state = RequestState::Expired;
        self.act_on(number);
    }

    /// What a request that was answered, or was not in time, leads to.
    pub(super) fn act_on(&mut self, number: usize) {
        let request = self.requests[number].clone();
        let answer = match request.state {
            RequestState::Answered(answer, _) => Some(answer),
            _ => None,
        };
        let Some(id) = request.unit else {
            return match answer {
                Some(Answer::Approve) => {
                    self.is_approved = true;
                    self.planning.approved.extend(self.planning.made);
                }
                Some(Answer::Revise) => self.sent_back(),
                _ => self.end_with(End::Cancelled("plan_rejected")), // RUN-6.1
            };
        };
        match request.kind {
            RequestKind::Question => self.act_on_answer(id, answer),
            RequestKind::Gate | RequestKind::HandlerApproval => match answer {
                Some(Answer::Approve | Answer::ApproveEdited) => {
                    let is_gate = request.kind == RequestKind::Gate;
                    let unit = self.unit(id);
                    unit.is_approved |= is_gate;
                    unit.handler_is_approved |= !is_gate;
                    unit.state = UnitState::Due;
                }
                None if self.reads(Misreading::SilenceApproves) => {
                    self.unit(id).is_approved = true;
                    self.unit(id).state = UnitState::Due;
                }
                _ => self.fail_unit(id, "APPROVAL_DENIED"),
            },
            RequestKind::Extension => {
                let base = self.max_retries(id.0);
                let last = self.unit(id).last;
                if answer == Some(Answer::Extend) {
                    let unit = self.unit(id);
                    unit.max_retries += base;
                    unit.n_retries += 1;
                    self.back_off(id);
                } else {
                    self.fail_unit(id, last);
                }
            }
            RequestKind::Effect => match answer {
                Some(Answer::Happened(output)) => self.complete_unit(id, output),
                Some(Answer::DidNot) => self.unit(id).state = UnitState::Due,
                _ => self.fail_unit(id, "AMBIGUOUS_EFFECT"),
            },
            RequestKind::PlanApproval => {}
        }
    }

    fn act_on_answer(&mut self, id: UnitId, answer: Option<Answer>) {
        let has_default = matches!(self.plan.steps[id.0].kind, Kind::Question { has_default: true });
        match answer {
            Some(Answer::Value(value)) => self.complete_unit(id, value),
            _ if has_default => self.complete_unit(id, Value::Text("default".to_owned())),
            _ => self.fail_unit(id, "INPUT_EXPIRED"),
        }
    }
}
