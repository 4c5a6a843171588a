//! What stands behind a cursor, as the store has it. Sends nothing.

use super::file::Sink;
use crate::feed::{ending, stands_at};
use crate::limits::FEED_PAGE;
use escapement_delivery::{Cursor, Item};
use escapement_store::{Reader, StoreFault, StoredExecution};

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
    /// The execution of the cursor never had its place, and what is kept begins behind this one.
    OtherStore(u64),
}

/// Looks behind a cursor. `is_first`: whether it has to be held against the store.
pub(crate) fn look(
    reader: &dyn Reader,
    cursor: Cursor,
    is_first: bool,
    sink: &Sink,
) -> Result<Look, StoreFault> {
    // Before the page: what is removed in between is seen to be removed.
    let stands = match cursor.execution.filter(|_| is_first) {
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

fn lost(first: u64, last: u64) -> Item<Content> {
    Item {
        place: last,
        execution: None,
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
        execution: Some(id),
        content: is_wanted.then(|| Content::Ending {
            place,
            execution: Box::new(execution),
        }),
    }
}

#[cfg(test)]
mod tests;
