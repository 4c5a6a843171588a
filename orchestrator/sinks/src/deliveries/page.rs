//! What stands behind a cursor, as the store has it. Sends nothing.

use super::file::Sink;
use crate::feed::{ending, stands_at};
use crate::limits::FEED_PAGE;
use escapement_delivery::{Cursor, Item};
use escapement_model::ExecutionId;
use escapement_runs_api::endings;
use escapement_store::runs::{RunReader, RunSummary};
use escapement_store::{Reader, StoreFault, StoredExecution};
use escapement_wire::runs::v1::CloudEvent;

/// What a sink gets.
#[derive(Debug)]
pub(crate) enum Content {
    /// How an execution ended.
    Ending {
        /// Its place in the order of settling.
        place: u64,
        /// It, with its result unless that is too large for the sink.
        execution: Box<StoredExecution>,
    },
    /// How a run ended.
    RunEnding {
        /// Its place in the order of ending.
        place: u64,
        /// Unix milliseconds.
        ended_at: Option<i64>,
        /// Event.
        event: Box<CloudEvent>,
    },
    /// These places, the last one included: what had them is gone, or damaged.
    Lost {
        /// The first one.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// The store is not the one that the cursor was made of.
    OtherStore {
        /// The place that the sink had come to.
        place: u64,
    },
}

/// What a look found.
#[derive(Debug)]
pub(crate) struct Look {
    /// The highest place that was given.
    pub(crate) newest: u64,
    pub(crate) found: Found,
}

/// What stands there.
#[derive(Debug)]
pub(crate) enum Found {
    /// The next ones; none if there is nothing.
    Items(Vec<Item<Content>>),
    /// What the cursor was made of never had its place, and what is kept begins behind this one.
    OtherStore(u64),
}

/// Looks behind a cursor of executions. `is_first`: whether it has to be held against the store.
pub(crate) fn look(
    reader: &dyn Reader,
    cursor: Cursor,
    is_first: bool,
    sink: &Sink,
) -> Result<Look, StoreFault> {
    // Before the page: what is removed in between is seen to be removed.
    let id = cursor.id.filter(|_| is_first).and_then(ExecutionId::from_bytes);
    let stands = match id {
        Some(id) => stands_at(reader, cursor.place, id)?,
        None => true,
    };
    let page = reader.settled(cursor.place, FEED_PAGE)?;
    let newest = page.last;
    if cursor.place > newest || (!stands && cursor.place > page.removed) {
        let found = Found::OtherStore(page.removed);
        return Ok(Look { newest, found });
    }
    let mut items = Vec::new();
    let mut next = cursor.place + 1;
    for (place, execution) in page.executions {
        if place > next {
            items.push(lost(next, place - 1));
        }
        items.push(item(place, execution, sink));
        next = place + 1;
    }
    match page.damaged {
        Some(damaged) => items.push(lost(next, damaged)),
        None if items.is_empty() && page.removed >= next => items.push(lost(next, page.removed)),
        None => {}
    }
    Ok(Look {
        newest,
        found: Found::Items(items),
    })
}

/// The same behind a cursor of runs, whose events come from that source.
pub(crate) fn look_at_runs(
    reader: &dyn RunReader,
    cursor: Cursor,
    is_first: bool,
    sink: &Sink,
    source: &str,
) -> Result<Look, StoreFault> {
    // Before the page: what is removed in between is seen to be removed.
    let is_another = match cursor.id.filter(|_| is_first) {
        Some(id) => endings::is_another_at(reader, cursor.place, &id)?,
        None => false,
    };
    let page = reader.ended(cursor.place, FEED_PAGE)?;
    let newest = page.last;
    if cursor.place > newest || is_another {
        let found = Found::OtherStore(page.removed);
        return Ok(Look { newest, found });
    }
    let mut items = Vec::new();
    let mut next = cursor.place + 1;
    for (place, run) in &page.runs {
        if *place > next {
            items.push(lost(next, place - 1));
        }
        items.push(run_item(reader, *place, run, sink, source)?);
        next = place + 1;
    }
    match page.damaged {
        Some(damaged) => items.push(lost(next, damaged)),
        // All that has ended behind was removed, by its name or by the policy.
        None if items.is_empty() && newest >= next => items.push(lost(next, newest)),
        None => {}
    }
    let found = Found::Items(items);
    Ok(Look { newest, found })
}

fn run_item(
    reader: &dyn RunReader,
    place: u64,
    run: &RunSummary,
    sink: &Sink,
    source: &str,
) -> Result<Item<Content>, StoreFault> {
    // A sink finds everything in its namespaces, of every user.
    let is_wanted = |kind| sink.wanted.has(kind, &run.created.namespace, || None);
    let event = match endings::event_type(run).is_some_and(is_wanted) {
        true => endings::event(reader, run, source, sink.data_bytes_max)?,
        false => None,
    };
    Ok(Item {
        place,
        id: Some(*run.run_id.as_bytes()),
        content: event.map(|event| Content::RunEnding {
            place,
            ended_at: run.progress.ended_at,
            event: Box::new(event),
        }),
    })
}

fn lost(first: u64, last: u64) -> Item<Content> {
    Item {
        place: last,
        id: None,
        content: Some(Content::Lost { first, last }),
    }
}

fn item(place: u64, mut execution: StoredExecution, sink: &Sink) -> Item<Content> {
    let id = execution.summary.execution_id;
    // A status that this version does not know makes no event, as in the feed.
    let is_wanted = ending(&execution).is_some_and(|ending| {
        let namespace = &execution.summary.namespace;
        // A sink finds everything in its namespaces, of every user.
        sink.wanted.has(ending.status.event_type(), namespace, || None)
    });
    //
    let fits = |result: &bytes::Bytes| result.len() <= sink.data_bytes_max;
    execution.result = execution.result.filter(fits);
    Item {
        place,
        id: Some(*id.as_bytes()),
        content: is_wanted.then(|| Content::Ending {
            place,
            execution: Box::new(execution),
        }),
    }
}

#[cfg(test)]
mod tests;
