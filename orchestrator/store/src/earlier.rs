//! Files of earlier versions, which had executions and runs in two databases. Changes none.

use std::path::Path;

use crate::database::connection::open_still;
use crate::database::schema::{Schema, versions};
use crate::database::{EARLIER_EXECUTIONS, EARLIER_RUNS, Names};

/// A database of an earlier version.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) names: Names,
    pub(crate) schema: Schema,
    /// Tables, each of them with the same columns as today.
    pub(crate) tables: &'static [&'static str],
    /// Columns of its counters, each with that of today.
    pub(crate) tally: &'static [(&'static str, &'static str)],
}

/// The executions, marked "ESCP".
pub(crate) const EXECUTIONS: Earlier = Earlier {
    names: EARLIER_EXECUTIONS,
    schema: Schema {
        first_version: 1,
        migrations: &[
            include_str!("earlier/executions/0001_executions.sql"),
            include_str!("earlier/executions/0002_removal.sql"),
            include_str!("earlier/executions/0003_starts.sql"),
            include_str!("earlier/executions/0004_outlines.sql"),
            include_str!("earlier/executions/0005_actions.sql"),
            include_str!("earlier/executions/0006_namespaces.sql"),
            include_str!("earlier/executions/0007_operators.sql"),
            include_str!("earlier/executions/0008_settlements.sql"),
        ],
        application_id: 0x4553_4350,
    },
    tables: &[
        "execution",
        "accepted_record",
        "settled_record",
        "removed_execution",
        "action_memory",
        "operator_entry",
    ],
    tally: &[
        ("number_last", "execution_last"),
        ("n_lost", "executions_lost"),
        ("n_queued", "executions_queued"),
        ("n_running", "executions_running"),
        ("n_settled", "executions_settled"),
        ("n_removed", "executions_removed"),
        ("n_forgotten", "executions_forgotten"),
        ("operators_last", "operators_last"),
        ("settlements_last", "settlements_last"),
        ("settlements_removed", "settlements_removed"),
    ],
};

/// The runs, marked "ESCR".
pub(crate) const RUNS: Earlier = Earlier {
    names: EARLIER_RUNS,
    schema: Schema {
        first_version: 1,
        migrations: &[
            include_str!("earlier/runs/0001_runs.sql"),
            include_str!("earlier/runs/0002_namespaces.sql"),
            include_str!("earlier/runs/0003_endings.sql"),
            include_str!("earlier/runs/0004_lists.sql"),
        ],
        application_id: 0x4553_4352,
    },
    tables: &[
        "run",
        "journal",
        "snapshot",
        "content",
        "pin",
        "input_request",
        "request",
        "definition",
        "notice",
        "removed_run",
    ],
    tally: &[
        ("number_last", "run_last"),
        ("n_lost", "runs_lost"),
        ("n_live", "runs_live"),
        ("n_ended", "runs_ended"),
        ("n_removed", "runs_removed"),
        ("n_forgotten", "runs_forgotten"),
        ("input_request_last", "input_request_last"),
        ("n_definitions", "n_definitions"),
        ("notice_last", "notice_last"),
        ("endings_last", "endings_last"),
        ("endings_removed", "endings_removed"),
    ],
};

/// Version of the file that takes the name of the earlier executions. Every earlier version refuses it as newer.
pub(crate) const GUARD_VERSION: i64 = 1_000;

/// Returns true if the file with the name of the earlier executions only keeps earlier versions away.
pub(crate) fn is_guarded(directory: &Path) -> bool {
    let path = directory.join(EXECUTIONS.names.database);
    let found = open_still(&path).and_then(|connection| versions(&connection, &path));
    found.is_ok_and(|(version, _)| version == GUARD_VERSION)
}

/// Durable end of an earlier version's database, as its mark says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlierMark {
    pub(crate) n_commits: u64,
    pub(crate) number_last: u64,
}

impl EarlierMark {
    /// Reads it; a damaged or missing one counts as none.
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_default();
        let is_sound = bytes.len() == 28
            && bytes.starts_with(b"escpmark")
            && crc32fast::hash(&bytes[..24]).to_le_bytes() == bytes[24..];
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 8).filter(|_| is_sound);
            bytes
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u64::from_le_bytes)
        };
        Self {
            n_commits: word(8),
            number_last: word(16),
        }
    }
}
