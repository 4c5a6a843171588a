//! Which of two queued executions may start first, judged without clocks, among those that the same workers begin.
//!
//! B goes before A where its priority is higher, or is the same and B was accepted before A was asked for.
//! A has overtaken B where A was seen queued by a question that left after B was known to be accepted,
//! and B is seen queued by a question that left after A was known to run.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use escapement_model::ExecutionId;

use super::book::{Book, Witness};

/// Those that were seen to run, by queue and priority.
#[derive(Debug, Default)]
pub(super) struct StartOrder {
    by_place: BTreeMap<(u64, i32), Started>,
}

/// Rising in both times: an entry that is not above the last one proves nothing new.
#[derive(Debug, Default)]
struct Started {
    by_last_queued_ask: Vec<Known>,
    by_first_asked: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    /// Time at which it was known to run.
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
        let started = self.by_place.entry(book.place).or_default();
        push(&mut started.by_last_queued_ask, book.last_queued_ask, name);
        push(&mut started.by_first_asked, book.first_asked, name);
    }

    /// It is seen queued: who has overtaken it?
    pub(super) fn overtaken(&self, book: &Book, witness: &Witness) -> Option<&Overtaker> {
        let accepted_at = book.known_accepted_at().filter(|_| !book.is_nested)?;
        let lower = self
            .by_place
            .range(lower_than(book.place))
            .find_map(|(_, started)| find(&started.by_last_queued_ask, witness.asked, accepted_at));
        lower.or_else(|| {
            let equal = self.by_place.get(&book.place)?;
            find(&equal.by_first_asked, witness.asked, accepted_at)
        })
    }
}

/// One that started, for [`by_clock`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    pub(super) execution: ExecutionId,
    pub(super) book: &'a Book,
    pub(super) started_at: i64,
    pub(super) witness: Witness,
}

/// Of one place: the latest of those that were queued, and the latest of all, each with when it was asked for.
type Earlier<'a> = [Option<(u64, Start<'a>)>; 2];

/// Who started before somebody that comes before it, by the times at which they say they started.
/// Only if the wall clock never jumped. Both of each pair: who was overtaken, and by whom.
pub(super) fn by_clock(mut starts: Vec<Start<'_>>) -> Vec<(Start<'_>, Start<'_>)> {
    starts.retain(|start| !start.book.is_nested);
    starts.sort_by_key(|start| start.started_at);
    let mut earlier: BTreeMap<(u64, i32), Earlier<'_>> = BTreeMap::new();
    let mut n_earlier = 0;
    let mut found = Vec::new();
    for start in &starts {
        while starts[n_earlier].started_at + CLOCKS_DIFFER_MAX_MS < start.started_at {
            remember(&mut earlier, starts[n_earlier]);
            n_earlier += 1;
        }
        let Some(accepted_at) = start.book.known_accepted_at() else {
            continue;
        };
        let lower = earlier
            .range(lower_than(start.book.place))
            .map(|(_, [queued, _])| queued);
        let equal = earlier.get(&start.book.place).map(|[_, asked]| asked);
        let overtaker = lower
            .chain(equal)
            .flatten()
            .find(|(asked, _)| *asked > accepted_at);
        found.extend(overtaker.map(|(_, overtaker)| (*start, *overtaker)));
    }
    found
}

fn remember<'a>(earlier: &mut BTreeMap<(u64, i32), Earlier<'a>>, start: Start<'a>) {
    let latest = earlier.entry(start.book.place).or_default();
    for (latest, asked) in latest
        .iter_mut()
        .zip([start.book.last_queued_ask, start.book.first_asked])
    {
        if latest.is_none_or(|(known, _)| asked > known) {
            *latest = Some((asked, start));
        }
    }
}

/// How far the clocks of two executions may be apart: each is the wall clock at its accept, in whole milliseconds,
/// and runs on with the monotonic one. So a pair that starts in one moment can differ by 1 ms, and by what the wall
/// clock was slewed between the accepts.
const CLOCKS_DIFFER_MAX_MS: i64 = 3;

/// Returns the places of lower priority in the same queue.
fn lower_than((queue, priority): (u64, i32)) -> Range<(u64, i32)> {
    (queue, i32::MIN)..(queue, priority)
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
