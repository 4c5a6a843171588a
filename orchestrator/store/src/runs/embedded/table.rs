//! The tables of runs as the check of their indexes knows them: those indexes that a lookup, a repeated request, an
//! answer or a restart depends on. Lists are left to an examination. Walks nothing.

use super::{rows, tombstones};
use crate::StoreFault;
use crate::database::indexes::{Index, Table};

pub(super) const TABLES: [&Table; 4] = [&RUN, &CONTENT, &INPUT_REQUEST, &REMOVED_RUN];

const RUN: Table = Table {
    name: "run",
    keys: &["run_id", "request_key", "iif(ended_at IS NULL, x'', NULL)"],
    indexes: &[
        Index {
            what: "index entries by run id",
            name: "run_by_id",
            key: "run_id",
            condition: "true",
            order: "run_id",
        },
        Index {
            what: "index entries by request",
            name: "run_by_request",
            key: "request_key",
            condition: "request_key IS NOT NULL",
            order: "request_key",
        },
        Index {
            what: "index entries of live runs",
            name: "run_live",
            key: "x''",
            condition: "ended_at IS NULL",
            order: "number",
        },
    ],
    n_cut: 1,
    is_sound: |connection, number| is_sound(rows::row(connection, number)),
};

const CONTENT: Table = Table {
    name: "content",
    keys: &["digest"],
    indexes: &[Index {
        what: "index entries of contents",
        name: "content_by_digest",
        key: "digest",
        condition: "true",
        order: "digest",
    }],
    n_cut: 1,
    is_sound: |connection, place| is_sound(rows::content_at(connection, place)),
};

const INPUT_REQUEST: Table = Table {
    name: "input_request",
    keys: &["input_request_id", "iif(closed_at IS NULL, x'', NULL)"],
    indexes: &[
        Index {
            what: "index entries of input requests",
            name: "input_request_by_id",
            key: "input_request_id",
            condition: "true",
            order: "input_request_id",
        },
        Index {
            what: "index entries of open input requests",
            name: "input_request_open",
            key: "x''",
            condition: "closed_at IS NULL",
            order: "place",
        },
    ],
    n_cut: 1,
    is_sound: |connection, place| is_sound(rows::input_request_at(connection, place)),
};

const REMOVED_RUN: Table = Table {
    name: "removed_run",
    keys: &["run_id", "request_key"],
    indexes: &[
        Index {
            what: "index entries of removed runs",
            name: "removed_run_by_id",
            key: "run_id",
            condition: "true",
            order: "run_id",
        },
        Index {
            what: "index entries of requests of removed runs",
            name: "removed_run_by_request",
            key: "request_key",
            condition: "request_key IS NOT NULL",
            order: "request_key",
        },
    ],
    n_cut: 1,
    is_sound: |connection, place| is_sound(tombstones::at(connection, place)),
};

fn is_sound<T>(read: Result<Option<T>, StoreFault>) -> Result<bool, StoreFault> {
    match read {
        Ok(found) => Ok(found.is_some()),
        Err(StoreFault::CorruptRun { .. }) => Ok(false),
        Err(fault) => Err(fault),
    }
}
