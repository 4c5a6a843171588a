//! Outcomes that come without a session: from the wire to what the engine judges, and back. Judges none.

use crate::session_in::{UnreadableToken, attempt_outcome};
use crate::session_out::ack_verdict;
use bytes::Bytes;
use escapement_engine::{AckVerdict, AttemptReport};
use escapement_model::AttemptToken;
use escapement_wire::worker::v1;

/// The items of one call.
#[derive(Debug)]
pub struct OutcomeReports {
    /// Every item's token as given, and whether the engine is asked about it.
    tokens: Vec<(Bytes, bool)>,
    /// What the engine is asked about.
    asked: Vec<(AttemptToken, AttemptReport)>,
}

impl OutcomeReports {
    /// Reads the items of a call.
    pub fn read(items: Vec<v1::AttemptOutcome>) -> Self {
        let mut tokens = Vec::with_capacity(items.len());
        let mut asked = Vec::with_capacity(items.len());
        for item in items {
            match attempt_outcome(item) {
                Ok((token, report)) => {
                    tokens.push((Bytes::copy_from_slice(token.as_bytes()), true));
                    asked.push((token, report));
                }
                Err(UnreadableToken(token)) => tokens.push((token, false)),
            }
        }
        Self { tokens, asked }
    }

    /// Returns the tokens that the engine is asked about, in the order of the items.
    pub fn asked(&self) -> Vec<AttemptToken> {
        self.asked.iter().map(|(token, _)| *token).collect()
    }

    /// Takes those out whose caller may not report on them: they are answered as unknown. `permitted`: one for each that is asked about.
    pub fn retain(&mut self, permitted: &[bool]) {
        assert_eq!(
            permitted.len(),
            self.asked.len(),
            "one for each that is asked about"
        );
        let mut of_asked = permitted.iter();
        self.asked
            .retain(|_| *of_asked.next().expect("there are as many"));
        let tokens = self.tokens.iter_mut().filter(|(_, is_asked)| *is_asked);
        for ((_, is_asked), is_permitted) in tokens.zip(permitted) {
            *is_asked = *is_permitted;
        }
    }

    /// What the engine is asked, and how what it says becomes an answer.
    pub fn ask(self) -> (Vec<(AttemptToken, AttemptReport)>, OutcomeAnswers) {
        (self.asked, OutcomeAnswers(self.tokens))
    }
}

/// The tokens of a call, to be answered.
#[derive(Debug)]
pub struct OutcomeAnswers(Vec<(Bytes, bool)>);

impl OutcomeAnswers {
    /// One answer for each item, in the order of the items.
    ///
    /// # Panics
    /// If there is not one verdict for each item that the engine was asked about, in their order.
    pub fn with(self, verdicts: Vec<(AttemptToken, AckVerdict)>) -> v1::ReportOutcomesResponse {
        let mut verdicts = verdicts.into_iter();
        let items = self.0.into_iter().map(|(attempt_token, is_asked)| {
            let verdict = if is_asked {
                let (token, verdict) = verdicts.next().expect("the engine answers every item");
                assert_eq!(token.as_bytes().as_slice(), attempt_token, "in their order");
                verdict
            } else {
                AckVerdict::Unknown
            };
            v1::OutcomeAck {
                attempt_token,
                verdict: ack_verdict(verdict) as i32,
            }
        });
        let items = items.collect();
        v1::ReportOutcomesResponse { items }
    }
}

#[cfg(test)]
mod tests;
