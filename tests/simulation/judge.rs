//! Feeds the checker of the sessions with the journal that the orchestrator would have written. Judges nothing itself.

use escapement_model::BootId;
use escapement_orchestrator::journal::{Event, line};
use escapement_tests::session_checker::{Checker, CheckerSettings, Records, Report};
use escapement_tests::session_journal::Journal;

/// The checker, and how many lines it got.
#[derive(Debug)]
pub(crate) struct Judge {
    checker: Checker,
    n_lines: usize,
}

impl Judge {
    pub(crate) fn new() -> Self {
        Self {
            checker: Checker::new(CheckerSettings::default()),
            n_lines: 0,
        }
    }

    /// A process of the orchestrator begins. `unix_ms`: its wall clock, where it never jumps.
    pub(crate) fn boot(&mut self, boot_id: BootId, unix_ms: Option<i64>) -> String {
        let mut text = line(0, Event::Boot(boot_id, unix_ms.unwrap_or(0))).expect("a boot has a line");
        if unix_ms.is_none() {
            let (known, _) = text
                .split_once(",\"unix_ms\"")
                .expect("a boot has the wall clock");
            text = format!("{known}}}");
        }
        self.take(&text);
        text
    }

    /// The line of an input or an effect, where it has one.
    pub(crate) fn note(&mut self, at_ms: u64, event: Event<'_>) -> Option<String> {
        let text = line(at_ms, event)?;
        self.take(&text);
        Some(text)
    }

    fn take(&mut self, text: &str) {
        self.n_lines += 1;
        let text = format!("{text}\n");
        for event in Journal::of_text(&text) {
            let mut event = event.expect("the journal's own lines can be read");
            event.line = self.n_lines;
            self.checker.event(&event);
        }
    }

    /// `records`: those of everything that was accepted.
    pub(crate) fn finish(self, records: &Records) -> Report {
        self.checker.finish(records)
    }
}
