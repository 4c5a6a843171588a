//! What the entries about requests change.

use super::{RunState, UnitStage};
use crate::journal::{Decision, Event, InputRequest, RequestAnswer, RequestKind, RequestState};
use bytes::Bytes;

impl RunState {
    /// True if at least one request is open.
    pub fn has_open_request(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.state() == RequestState::Open)
    }

    pub(super) fn apply_to_requests(&mut self, event: &Event, at: i64) {
        match event {
            Event::InputRequested(request) => {
                if let Some(unit) = request.unit {
                    self.takes_doubt(unit, &request.earlier_execution);
                    let unit = self.unit_mut(unit);
                    unit.set_stage(UnitStage::Waiting);
                    unit.request = request.id.clone();
                }
                self.n_requests += 1;
                self.requests.push(InputRequest {
                    opened_at: at,
                    ..request.clone()
                });
                self.forget_old_requests();
            }
            Event::DecisionRecorded(answer) => {
                let request = self.request_mut(&answer.id);
                request.approved_by.push(answer.responder.id.clone());
                let users = &answer.responder.users;
                request.approved_for.extend_from_slice(users);
            }
            Event::InputReceived(answer) => self.answered(answer),
            Event::InputExpired(expired) => {
                let request = self.request_mut(&expired.id);
                request.set_state(RequestState::Expired);
                request.subject = None;
                request.data = None;
                let request = request.clone();
                if request.kind() == RequestKind::BudgetExtension {
                    self.extend_budget(&request, false);
                }
                self.decided(&expired.id.clone());
            }
            Event::InputClosed(closed) => {
                let request = self.request_mut(&closed.id);
                request.set_state(RequestState::Closed);
                request.subject = None;
                request.data = None;
            }
            _ => unreachable!("{event:?} is not about a request"),
        }
    }

    fn answered(&mut self, answer: &RequestAnswer) {
        let request = self.request_mut(&answer.id);
        request.set_state(RequestState::Answered);
        request.subject = None;
        request.data = None;
        request.answer = Some(answer.clone());
        let (unit, request) = (request.unit, request.clone());
        self.decided(&answer.id);
        let of_budget = request.kind() == RequestKind::BudgetExtension;
        if of_budget {
            self.extend_budget(&request, answer.decision() == Decision::Extend);
        }
        if let Some(unit) = unit {
            let unit = self.unit_mut(unit);
            match answer.decision() {
                Decision::Approve | Decision::ApproveWithEdits => {
                    unit.approval = answer.id.clone();
                    unit.approved_digest = answer.subject_digest.clone();
                    unit.set_stage(UnitStage::Ready);
                    if answer.decision() == Decision::ApproveWithEdits {
                        unit.edited = answer.value.clone();
                    }
                }
                Decision::Extend if of_budget => unit.set_stage(UnitStage::Ready),
                Decision::Extend => unit.extensions += 1,
                Decision::DidNot => unit.set_stage(UnitStage::Ready),
                Decision::Answer | Decision::Happened => {
                    unit.set_stage(UnitStage::Completed);
                    unit.output = answer.value.clone();
                    unit.error = None;
                }
                Decision::Deny | Decision::Fail | Decision::Revise => {}
            }
        }
        self.progress();
    }

    // RUN-6.9
    /// Of the requests that are not open the newest are kept.
    fn forget_old_requests(&mut self) {
        if self.requests.len() > REQUESTS_KEPT {
            let settled = self
                .requests
                .iter()
                .position(|request| request.state() != RequestState::Open);
            if let Some(oldest) = settled {
                self.requests.remove(oldest);
            }
        }
    }

    /// The unit that waited does so no more; what follows is decided next.
    fn decided(&mut self, id: &Bytes) {
        if let Some(unit) = self.request_mut(id).unit {
            let unit = self.unit_mut(unit);
            unit.request = Bytes::new();
            unit.set_stage(UnitStage::Judged);
        }
    }

    fn request_mut(&mut self, id: &Bytes) -> &mut InputRequest {
        let request = self.requests.iter_mut().find(|request| request.id == *id);
        request.expect("a request is asked before it is answered")
    }
}

/// Requests that a state holds, unless more of them are open.
const REQUESTS_KEPT: usize = 256;
