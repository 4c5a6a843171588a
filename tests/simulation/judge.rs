//! Feeds the checker of the sessions with the journal that the orchestrator would have written, each message of which must
//! be the one on the wire. Judges nothing else itself.

use escapement_codec::session_journal::{Event, line};
use escapement_model::BootId;
use escapement_tests::session_checker::{Checker, CheckerSettings, Records, Report};
use escapement_tests::session_journal::{FromWorker, Journal, ToWorker, What};
use escapement_tests::session_wire;
use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use std::collections::VecDeque;

/// The checker, and how many lines it got.
#[derive(Debug)]
pub(crate) struct Judge {
    checker: Checker,
    n_lines: usize,
    /// What has arrived from workers and no line tells of yet, with the session and the number.
    arrived: VecDeque<(u64, u64, FromWorker)>,
    /// What lines told of and has not been sent yet.
    told: VecDeque<(u64, u64, ToWorker)>,
}

impl Judge {
    pub(crate) fn new() -> Self {
        Self {
            checker: Checker::new(CheckerSettings::default()),
            n_lines: 0,
            arrived: VecDeque::new(),
            told: VecDeque::new(),
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

    /// Returns the line of an input or an effect, where it has one.
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
            self.follow_the_wire(event.session, &event.what);
            self.checker.event(&event);
        }
    }

    /// A message of a worker is handed to the orchestrator, whose engine is to have it next.
    pub(crate) fn arrived(&mut self, session: u64, request: &SessionRequest) {
        let said = session_wire::from_worker(request).expect("a worker's messages are well formed");
        self.arrived.push_back((session, request.seq, said));
    }

    /// A message leaves for a worker.
    pub(crate) fn sent(&mut self, session: u64, response: &SessionResponse) {
        let sent = session_wire::to_worker(response).expect("the orchestrator's messages are well formed");
        let told = self.told.pop_front();
        assert_eq!(
            told,
            Some((session, response.seq, sent)),
            "a message to a worker is as its line says"
        );
    }

    fn follow_the_wire(&mut self, session: u64, what: &What) {
        match what {
            What::In { seq, message } => {
                let (told, arrived) = ((session, *seq, message.clone()), self.arrived.pop_front());
                assert_eq!(Some(told), arrived, "a line is as the worker's message says");
            }
            What::Out { seq, message } => self.told.push_back((session, *seq, message.clone())),
            What::Boot { .. } => {
                self.arrived.clear();
                self.told.clear();
            }
            _ => {}
        }
    }

    /// `records`: those of everything that was accepted.
    pub(crate) fn finish(self, records: &Records) -> Report {
        self.checker.finish(records)
    }
}
