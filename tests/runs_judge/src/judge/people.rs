//! Questions, answers and approvals.

use super::Desk;
use super::book::{Book, Request};
use crate::canonical::Canonical;
use crate::journal::{Called, Event, Said};
use crate::wire::Value;
use std::collections::BTreeSet;

impl Book {
    pub(super) fn take_of_people(&mut self, event: Event, desk: &mut Desk<'_>) {
        match event {
            Event::Asked(asked) => {
                desk.count("questions");
                self.asks_about_deed(asked.unit, &asked.earlier, desk);
                self.check_asked(&asked, desk);
                self.check_subject(&asked, desk);
                if let Some(unit) = asked.unit
                    && let Some(it) = self.in_epoch(unit, desk)
                {
                    it.waits = true;
                    it.retry_at = None;
                }
                let request = Request {
                    open: true,
                    n_answers: 0,
                    approvers: BTreeSet::new(),
                    asked: asked.clone(),
                };
                if self.requests.insert(asked.id, request).is_some() {
                    desk.finds("RI9", "a question has an id that was used before");
                }
            }
            Event::Decided(said) => self.said(&said, false, desk),
            Event::Answered(said) => self.said(&said, true, desk),
            Event::Expired(id) | Event::Closed(id) => {
                let Some(request) = self.requests.get_mut(&id).filter(|request| request.open) else {
                    return desk.finds("RI6", "a question is closed that is not open");
                };
                request.open = false;
                if let Some(unit) = request.asked.unit
                    && let Some(step) = self.steps.get_mut(unit.step as usize)
                    && let Some(unit) = step.units.get_mut(&unit.index)
                {
                    unit.waits = false;
                }
            }
            _ => unreachable!("{event:?} is not about a person"),
        }
    }

    // RI6
    /// Somebody said something about a question.
    fn said(&mut self, said: &Said, closes: bool, desk: &mut Desk<'_>) {
        desk.count("answers");
        let value = said.value.as_ref().map(|value| match said.decision {
            // The edited payload is an object by itself.
            2 => desk.object(value),
            _ => desk.value(value),
        });
        let Some(request) = self.requests.get_mut(&said.id) else {
            return desk.finds("RI6", "a question is answered that nobody asked");
        };
        if !request.open || request.n_answers > 0 {
            desk.finds("RI6", "a question is answered twice");
        }
        let approves = matches!(said.decision, 1 | 2);
        let decides = request.asked.kind != 0 && !matches!(said.decision, 3 | 7 | 8);
        if decides && said.responder_kind == 2 {
            desk.finds("RI6", &format!("the agent {} decides", said.responder));
        }
        if approves {
            let policy = &self.spec;
            let started = said.responder == policy.user || policy.fired_by.contains(&said.responder);
            let is_own = policy.four_eyes && started;
            let is_other = !policy.approvers.is_empty() && !policy.approvers.contains(&said.responder);
            if is_own || is_other {
                desk.finds("RI6", &format!("{} may not approve", said.responder));
            }
            if !request.approvers.insert(said.responder.clone()) {
                desk.finds("RI6", &format!("{} has approved before", said.responder));
            }
            if said.decision == 1 && said.digest != request.asked.digest {
                desk.finds("RI6", "something else is approved than was asked");
            }
            let n_approvers = u32::try_from(request.approvers.len()).unwrap_or(u32::MAX);
            if closes && n_approvers < policy.quorum {
                desk.finds(
                    "RI6",
                    &format!("{n_approvers} have approved, of {}", policy.quorum),
                );
            }
        }
        if !closes {
            return;
        }
        (request.open, request.n_answers) = (false, request.n_answers + 1);
        if (said.decision, request.asked.kind) == (4, 4) {
            self.purse.extensions[request.asked.budget] += 1;
        }
        let (unit, approvers) = (request.asked.unit, request.approvers.clone());
        self.doings.are_open |= matches!(said.decision, 4 | 6);
        let is_of_budget = request.asked.kind == 4;
        let earlier = request.asked.earlier.clone();
        let Some(unit) = unit else { return };
        let Some(it) = self.in_epoch(unit, desk) else {
            return;
        };
        it.waits = false;
        if said.decision == 6 {
            let earlier = (!earlier.is_empty()).then_some(&earlier[..]);
            return self.is_excused(unit, earlier, desk);
        }
        match said.decision {
            0 | 5 => (it.completed, it.output) = (true, value),
            1 | 2 => {
                it.approved.insert(said.digest.clone(), approvers);
                if said.decision == 2 {
                    it.edited = value;
                }
            }
            4 if !is_of_budget => it.extensions += 1,
            _ => {}
        }
    }

    // RI6
    /// What is gated goes with an approval of exactly what is sent.
    pub(super) fn check_gate(&self, called: &Called, payload: &Value, desk: &mut Desk<'_>) {
        let unit = called.unit;
        if unit.is_generation() || unit.is_check() || unit.is_look() {
            return;
        }
        let step = &self.steps[unit.step as usize];
        let subject = Canonical::named("escapement run subject 1")
            .bytes(&self.id)
            .bytes(&self.revision)
            .text(&step.key)
            .number(u64::from(unit.index))
            .number(u64::from(unit.epoch))
            .text(&called.action)
            .object(payload)
            .object(&self.environment)
            .hash();
        if called.subject != subject {
            desk.finds(
                "RI6",
                &format!("the digest of {unit:?} is not that of what is sent"),
            );
        }
        let risk = self.risks.get(&called.action).copied().unwrap_or(0);
        if !asks(self.spec.autonomy, risk) {
            return;
        }
        desk.count("attempts behind a gate");
        let is_checked = self.spec.autonomy == 3 && !self.spec.safety_action.is_empty();
        if is_checked && step.cleared.contains(&subject[..]) {
            return desk.count("attempts behind a safety check");
        }
        let approved = step.units.get(&unit.index).map(|unit| &unit.approved);
        if approved.is_none_or(|approved| !approved.contains_key(&subject[..])) {
            desk.finds(
                "RI6",
                &format!("{unit:?} is sent without an approval of exactly that"),
            );
        }
    }
}

/// 0 is unusual, 1 safe, 2 destructive.
fn asks(autonomy: u32, risk: u32) -> bool {
    match autonomy {
        0 => true,
        1 | 2 => risk != 1,
        3 => risk == 2,
        _ => false,
    }
}
