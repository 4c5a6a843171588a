//! Where the ends are read that a sink gets: the store of executions, or that of runs. Waits for nothing but a reader.

use super::file::Sink;
use super::page::{Look, look, look_at_runs};
use crate::feed::FeedSource;
use escapement_delivery::Cursor;
use escapement_runs_shell::RunReaders;
use escapement_store::Reader;
use escapement_store::runs::RunReader;
use std::sync::Arc;

/// Where ends are read.
#[derive(Clone, Debug)]
pub(crate) enum Source<S> {
    Executions(S),
    Runs(RunReaders),
}

impl<S: FeedSource> Source<S> {
    /// Looks behind a cursor; `None` if nothing could be read now. `is_first`: whether it has to be held against the store.
    /// `event_source`: where events say that they come from.
    pub(crate) async fn look(
        &self,
        cursor: Cursor,
        is_first: bool,
        sink: &Arc<Sink>,
        event_source: &Arc<str>,
    ) -> Option<Look> {
        let (sink, event_source) = (Arc::clone(sink), Arc::clone(event_source));
        match self {
            Source::Executions(store) => {
                let look = move |reader: &dyn Reader| look(reader, cursor, is_first, &sink);
                store.read(look).await.ok()
            }
            Source::Runs(readers) => {
                let look = move |reader: &dyn RunReader| {
                    look_at_runs(reader, cursor, is_first, &sink, &event_source)
                };
                readers.read(look).await.ok()
            }
        }
    }

    /// Returns the highest place behind which everything is there, and the highest that was given.
    pub(crate) async fn bounds(&self) -> Option<(u64, u64)> {
        match self {
            Source::Executions(store) => {
                let bounds = |reader: &dyn Reader| reader.settled(0, 1).map(|page| (page.removed, page.last));
                store.read(bounds).await.ok()
            }
            Source::Runs(readers) => {
                let bounds =
                    |reader: &dyn RunReader| reader.ended(0, 1).map(|page| (page.removed, page.last));
                readers.read(bounds).await.ok()
            }
        }
    }
}
