//! What a run has if its plans failed: an output that is given with it, or an action that is called in their place.

use super::Turn;
use super::revisions::Revised;
use crate::journal::{Event, Failure, FallbackUsed, ReplanTriggered, RunFailed, Stored};
use crate::outcome::{encoded, value_of_object};
use crate::plan;
use crate::spec::{ActionProfile, FallbackAction, FallbackKind};
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::encoder::sha256;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView};

impl Turn<'_> {
    // RUN-11.9, RUN-11.11
    /// Calls the fallback if it is an action that may be called, else ends the run as failed, with the output of its fallback if it
    /// has one.
    pub(super) fn fail_with_fallback(&mut self, error: Failure) {
        // The fallback failed, too: what went wrong first counts.
        if let Some(first) = self.state.fallback_of.clone() {
            return self.fail(first);
        }
        let kind = self
            .state
            .spec
            .fallback
            .clone()
            .and_then(|fallback| fallback.kind);
        let used = match kind {
            Some(FallbackKind::Action(action)) if self.calls_fallback(&action, &error) => return,
            Some(FallbackKind::Action(_)) | None => None,
            Some(FallbackKind::Output(output)) => Some(("output", value_of_object(&output))),
            Some(FallbackKind::Templates(templates)) => {
                Some(("templates", self.narrative_output(&templates.texts)))
            }
        };
        self.end_steps();
        let output = used.map(|(kind, output)| self.tell_fallback(kind, output));
        self.emit(Event::RunFailed(RunFailed {
            error,
            timed_out: false,
            output,
        }));
    }

    // RUN-11.11
    /// Makes the revision that calls the fallback; false if it may not be called.
    fn calls_fallback(&mut self, action: &FallbackAction, error: &Failure) -> bool {
        let failed = self.failed_actions();
        let Some(revised) = self.fallback_revision(action, &failed) else {
            return false;
        };
        self.end_steps();
        self.emit(Event::ReplanTriggered(ReplanTriggered {
            revision: self.state.revision_number,
            cause: String::from("fallback"),
            error: error.clone(),
            disabled: failed.into_iter().collect(),
            generation: self.planning().accepted,
            ..ReplanTriggered::default()
        }));
        let document = self.store(revised.plan.document.as_encoded().clone());
        if self.emit_revision("fallback", &revised, document, &BTreeSet::new()) {
            self.revised = Some(revised.plan);
        }
        true
    }

    /// The plan of the fallback, unless the run does without its action or the plan would break a constraint.
    fn fallback_revision(&self, action: &FallbackAction, failed: &BTreeSet<String>) -> Option<Revised> {
        let plan = plan::fallback(action).ok()?;
        let known = self.planning().own;
        let mut profiles: Vec<ActionProfile> = self.state.profiles.iter().chain(&known).cloned().collect();
        profiles.sort_by(|one, other| one.action.cmp(&other.action));
        profiles.dedup_by(|one, other| one.action == other.action);
        let name = &action.action;
        let profile = profiles.iter().find(|profile| profile.action == *name);
        let skill = profile.map_or(name.as_str(), ActionProfile::skill);
        let is_out = failed.contains(name)
            || self.state.disabled_actions.binary_search(name).is_ok()
            || self.state.disabled_skills().contains(skill);
        let breaks = plan::constraints::violations(&plan, &self.state.spec.constraints, &profiles);
        (!is_out && breaks.is_empty()).then(|| Revised {
            plan: Arc::new(plan),
            profiles,
        })
    }

    // RUN-11.11
    /// The fallback has completed: its output is the run's, which fails all the same.
    pub(super) fn fell_back(&mut self, error: Failure, output: Option<Bytes>) {
        let output = output.unwrap_or_else(|| encoded(ValueView::Null));
        let output = Some(self.tell_fallback("action", output));
        self.emit(Event::RunFailed(RunFailed {
            error,
            timed_out: false,
            output,
        }));
    }

    fn tell_fallback(&mut self, kind: &str, output: Bytes) -> Stored {
        let output = self.store(output);
        self.emit(Event::FallbackUsed(FallbackUsed {
            kind: kind.to_string(),
            output: output.clone(),
        }));
        output
    }

    // RUN-11.9
    fn narrative_output(&self, texts: &[String]) -> Bytes {
        let output = StructBuilder::new()
            .text("narrative", &self.narrative(texts))
            .list("tools", ListBuilder::new())
            .boolean("success", false)
            .boolean("fallback", true)
            .build();
        encoded(ValueView::Struct(output.as_encoded()))
    }

    // RUN-11.9
    /// One of the texts, by the id of the run. The goal is put in literally, once for each place.
    fn narrative(&self, texts: &[String]) -> String {
        let digest = sha256(&self.state.run_id);
        let number = u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"));
        let at = usize::try_from(number % texts.len().max(1) as u64).expect("texts are few");
        let text = texts.get(at).map_or("", String::as_str);
        text.replace("{input}", self.goal())
    }
}
