//! Subjects of requests and their digests.

use super::Desk;
use super::book::Book;
use crate::canonical::{Attempt, Canonical};
use crate::journal::Asked;

impl Book {
    // RI6
    /// Checks that a question about an effect, or about an extension, has the digest of what it shows.
    pub(super) fn check_subject(&self, asked: &Asked, desk: &mut Desk<'_>) {
        let (index, epoch) = asked.unit.map_or((0, 0), |unit| (unit.index, unit.epoch));
        let step = asked.unit.and_then(|unit| self.steps.get(unit.step as usize));
        let key = step.map_or("", |step| step.key.as_str());
        let place = |name: &str| {
            Canonical::named(name)
                .bytes(&self.id)
                .text(key)
                .number(u64::from(index))
                .number(u64::from(epoch))
        };
        let digest = match (asked.kind, &asked.subject, asked.extension) {
            (3, Some(payload), _) => {
                let own = Attempt {
                    run: &self.id,
                    step: key,
                    index,
                    epoch,
                    attempt: asked.attempt,
                };
                let execution = match asked.earlier.is_empty() {
                    true => own.id("execution").to_vec(),
                    false => asked.earlier.clone(),
                };
                let payload = desk.object(payload);
                place("escapement run doubt subject 1")
                    .text(&asked.action)
                    .object(&payload)
                    .bytes(&execution)
                    .hash()
            }
            (2 | 4, _, Some([used, limit, extended])) => place("escapement run extension subject 1")
                .text(if asked.kind == 4 {
                    ACCOUNTS[asked.budget]
                } else {
                    "retries"
                })
                .number(used)
                .number(limit)
                .number(extended)
                .hash(),
            (2..=4, ..) => return desk.finds("RI6", "a question shows nothing of what it is about"),
            _ => return,
        };
        desk.count("subjects of doubts and extensions");
        if asked.digest != digest {
            desk.finds("RI6", "the digest of a question is not that of what it shows");
        }
    }
}

/// The parts of a budget, in the order of their numbers.
const ACCOUNTS: [&str; 4] = ["llm_calls", "tool_calls", "tokens", "cost"];
