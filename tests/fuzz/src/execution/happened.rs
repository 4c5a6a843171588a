//! What an execution has shown by its end, in the words of the floors of the test. Judges nothing.

use super::Run;
use escapement_contract::AuditKind;
use escapement_tests::reference::words::StepState;
use std::collections::BTreeSet;

impl Run {
    pub(super) fn note(&mut self, what: &str, happened: bool) {
        if happened && !self.saw.contains(what) {
            self.saw.insert(what.to_owned());
        }
    }

    pub(super) fn what_happened(mut self) -> BTreeSet<String> {
        let reference = self.both.reference.clone();
        let ended = reference.ended.as_ref().expect("it has ended");
        self.note(&format!("{:?}", ended.status).to_lowercase(), true);
        let error = ended.error.as_ref();
        let is_promoted =
            error.is_some_and(|error| error.cause.as_ref().is_some_and(|cause| error.code == cause.code));
        let was_stopped = reference.states.contains(&StepState::Stopped);
        let found_none = is_promoted && !was_stopped && reference.not_completed.len() > 1;
        self.note("halted", is_promoted && was_stopped);
        self.note("nothing completed and nothing fatal", found_none);
        self.note("three steps at a time", self.under_way_max >= 3);
        for (_, _, delay_ms) in &reference.retries {
            let what = if *delay_ms > 0 {
                "delayed retry"
            } else {
                "retry without delay"
            };
            self.note(what, true);
        }
        for (error, attempt) in &reference.trace {
            self.note(&error.code, true);
            let is_skipped = error.code == "STEP_SKIPPED" && attempt.is_none();
            self.note("skipped because of another", is_skipped);
            self.note("a chain of four errors", error.chain().len() == 4);
        }
        for (reason, _) in reference.not_completed.values() {
            self.note(&format!("{reason:?}"), true);
        }
        let entries = self.both.core.audit().to_vec();
        let returned =
            |entry: &escapement_contract::AuditEntry| matches!(entry.kind, AuditKind::AttemptReturned { .. });
        self.note("returned", entries.iter().any(returned));
        self.saw
    }
}
