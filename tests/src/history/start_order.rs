//! Which of two queued executions may start first, judged without clocks.
//!
//! B goes before A where its priority is higher, or is the same and B was accepted before A was asked for.
//! A has overtaken B where A was seen queued by a question that left after B was known to be accepted,
//! and B is seen queued by a question that left after A was known to run.

use std::collections::BTreeMap;
use std::fmt;

use escapement_model::ExecutionId;

use super::book::{Book, Witness};

/// Those that were seen to run, by priority.
#[derive(Debug, Default)]
pub(super) struct StartOrder {
    by_priority: BTreeMap<i32, Started>,
}

/// Rising in both times: an entry that is not above the last one proves nothing new.
#[derive(Debug, Default)]
struct Started {
    by_last_queued_ask: Vec<Known>,
    by_first_asked: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    /// When it was known to run.
    at: u64,
    /// A question about it that left when it had not started, or had not even been asked for.
    asked: u64,
    name: Overtaker,
}

/// Who started, and how it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overtaker {
    execution: ExecutionId,
    witness: Witness,
}

impl fmt::Display for Overtaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.execution, self.witness)
    }
}

impl StartOrder {
    /// It was seen to run for the first time.
    pub(super) fn started(&mut self, execution: ExecutionId, book: &Book, witness: Witness) {
        if book.is_nested {
            return;
        }
        let name = Overtaker { execution, witness };
        let started = self.by_priority.entry(book.priority).or_default();
        push(&mut started.by_last_queued_ask, book.last_queued_ask, name);
        push(&mut started.by_first_asked, book.first_asked, name);
    }

    /// It is seen queued: who has overtaken it?
    pub(super) fn overtaken(&self, book: &Book, witness: &Witness) -> Option<&Overtaker> {
        let accepted_at = book.known_accepted_at().filter(|_| !book.is_nested)?;
        let lower = self
            .by_priority
            .range(..book.priority)
            .find_map(|(_, started)| find(&started.by_last_queued_ask, witness.asked, accepted_at));
        lower.or_else(|| {
            let equal = self.by_priority.get(&book.priority)?;
            find(&equal.by_first_asked, witness.asked, accepted_at)
        })
    }
}

fn push(list: &mut Vec<Known>, asked: u64, name: Overtaker) {
    if asked > list.last().map_or(0, |last| last.asked) {
        let at = name.witness.at;
        list.push(Known { at, asked, name });
    }
}

/// One that was known to run before the one time and not under way at the other.
fn find(list: &[Known], before: u64, after: u64) -> Option<&Overtaker> {
    let n_before = list.partition_point(|known| known.at < before);
    let latest = list[..n_before].last()?;
    (latest.asked > after).then_some(&latest.name)
}
