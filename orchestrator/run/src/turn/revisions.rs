//! Another plan in the place of the one that a person was asked about.

use super::{Turn, refused, refused_because};
use crate::bounds::PROFILES_BYTES_MAX;
use crate::input::{Answer, Refused, RefusedReason};
use crate::journal::sizes::{is_too_large, profiles_bytes, too_large};
use crate::journal::{Decision, Event, InputRequest, PlanCreated, Stored};
use crate::outcome::cut;
use crate::plan::{self, Plan};
use crate::spec::ActionProfile;
use crate::state::{RunState, StepStage};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::MESSAGE_CHARS_MAX;

/// A plan that was checked, and its actions.
pub(super) struct Revised {
    pub(super) plan: Arc<Plan>,
    pub(super) profiles: Vec<ActionProfile>,
}

/// Keys of the steps that failed, in canonical order; the first ones.
pub(crate) fn failed_keys(plan: &Plan, state: &RunState) -> Vec<String> {
    let steps = plan.steps.iter().zip(&state.steps);
    let failed = steps.filter(|(_, state)| state.stage() == StepStage::Failed);
    failed
        .map(|(step, _)| step.key.clone())
        .take(STEPS_TOLD_MAX)
        .collect()
}

impl Turn<'_> {
    // RUN-6.10
    /// Somebody approves the plan with another one in its place. Gives that one, unless the same answer was given before.
    pub(super) fn approve_edited(
        &mut self,
        answer: Answer,
        mut profiles: Vec<ActionProfile>,
    ) -> Result<Option<Arc<Plan>>, Refused> {
        let read = plan::read(&Opaque::from_encoded(answer.value.clone())).and_then(plan::carried_out);
        let plan = read.map_err(|violations| {
            let message = cut(&violations.to_string(), 8 * MESSAGE_CHARS_MAX);
            refused_because(RefusedReason::AnswerInvalid, format!("document: {message}"))
        })?;
        profiles.sort_by(|one, other| one.action.cmp(&other.action));
        // RUN-9.6
        let n_bytes = profiles_bytes(&profiles);
        if n_bytes > PROFILES_BYTES_MAX {
            let message = format!(
                "document: the profiles of its actions have {n_bytes} bytes, more than {PROFILES_BYTES_MAX}"
            );
            return Err(refused_because(RefusedReason::AnswerInvalid, message));
        }
        // RUN-12.5
        let broken = plan::constraints::violations(&plan, &self.state.spec.constraints, &profiles);
        if let Some(first) = broken.first() {
            let message = format!("document: {}: {}", first.path, first.message);
            return Err(refused_because(RefusedReason::AnswerInvalid, message));
        }
        let (plan, before) = (Arc::new(plan), self.state.revision_number);
        let revised = Revised {
            plan: Arc::clone(&plan),
            profiles,
        };
        self.answer(answer, Some(&revised))?;
        Ok((self.state.revision_number > before).then_some(plan))
    }

    // RUN-6.10
    /// Makes the revision that was approved: every step begins anew.
    pub(super) fn revise(&mut self, revised: &Revised, document: Stored) {
        // `approve_edited` checks the result.
        let _fits = self.emit_revision("edit", revised, document, &BTreeSet::new());
    }

    // RUN-12.6
    /// Writes down the revision that takes the place of the one at hand, with what it may take of it: everything that completed,
    /// but for the steps that it keeps as a whole. False if it is too large to be one: then the run has ended.
    pub(super) fn emit_revision(
        &mut self,
        cause: &str,
        revised: &Revised,
        document: Stored,
        kept: &BTreeSet<u32>,
    ) -> bool {
        let (results, doubts) = (self.results_to_carry(kept), self.open_doubts(kept));
        let failed_steps = failed_keys(self.plan, self.state);
        let parent = self.parent_digest();
        self.emit_plan(PlanCreated {
            number: self.state.revision_number + 1,
            digest: Bytes::copy_from_slice(&revised.plan.digest),
            cause: String::from(cause),
            profiles: revised.profiles.clone(),
            n_steps: u32::try_from(revised.plan.steps.len()).expect("a plan has at most 1024 steps"),
            document,
            parent: parent.map_or_else(Bytes::new, |parent| Bytes::copy_from_slice(&parent)),
            failed_steps,
            disabled: self.state.disabled_actions.clone(),
            results,
            doubts,
            ..PlanCreated::default()
        })
    }

    // RUN-9.6, RUN-9.13
    /// Writes a revision down, or ends the run if its entry would be too large. False in that case.
    pub(super) fn emit_plan(&mut self, created: PlanCreated) -> bool {
        let created = Event::PlanCreated(created);
        let fits = !is_too_large(&created);
        match fits {
            true => self.emit(created),
            false => self.fail(too_large("the entry of its next plan would have more than 2 MiB")),
        }
        fits
    }

    // RUN-6.5, RUN-6.10
    /// Whether an approval may edit, and edits what was asked about.
    pub(super) fn check_edits(
        &self,
        request: &InputRequest,
        decision: Decision,
        revised: Option<&Revised>,
    ) -> Result<(), Refused> {
        let invalid = |message: &str| Err(refused(RefusedReason::AnswerInvalid, message));
        match (decision, request.unit, revised) {
            (Decision::ApproveWithEdits, ..) if self.state.spec.policy.quorum > 1 => {
                invalid("answer: an approval can edit only if one approval is enough")
            }
            (Decision::ApproveWithEdits, None, None) => {
                invalid("answer: an approval of a plan is edited with approval.approve_with_edits.document")
            }
            (Decision::ApproveWithEdits, Some(_), Some(_)) => {
                invalid("answer: an approval of a call is edited with approval.approve_with_edits.payload")
            }
            (Decision::ApproveWithEdits, Some(_), None) | (Decision::ApproveWithEdits, None, Some(_)) => {
                Ok(())
            }
            // RUN-11.8
            (Decision::Revise, Some(_), _) => Err(request.wrong_answer()),
            (Decision::Revise, None, _) if !self.has_generations_left() => {
                invalid("answer: the planner may make no further plan, or there is none")
            }
            (_, _, Some(_)) => invalid("answer: a plan comes with an approval with edits alone"),
            (_, _, None) => Ok(()),
        }
    }
}

/// Steps that failed of which the next revision says so.
const STEPS_TOLD_MAX: usize = 32;
