//! The tables of runs as the check of their indexes knows them: those indexes that a lookup, a repeated request, an
//! answer or a restart depends on. Lists are left to an examination. Walks nothing.

use super::{definitions, requests, rows, tombstones};
use crate::StoreFault;
use crate::database::indexes::{Index, Table};

pub(crate) const TABLES: [&Table; 6] = [
    &RUN,
    &CONTENT,
    &INPUT_REQUEST,
    &REQUEST,
    &DEFINITION,
    &REMOVED_RUN,
];

const RUN: Table = Table {
    name: "run",
    keys: &[
        "run_id",
        "request_key",
        "iif(ended_at IS NULL, x'', NULL)",
        "ending",
    ],
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
        Index {
            what: "index entries by ending",
            name: "run_by_ending",
            key: "ending",
            condition: "ending IS NOT NULL",
            order: "ending",
        },
    ],
    n_cut: 1,
    is_sound: |connection, number| is_sound(rows::row(connection, number)),
};

const CONTENT: Table = Table {
    name: "content",
    keys: &["digest", "revision"],
    indexes: &[
        Index {
            what: "index entries of contents",
            name: "content_by_digest",
            key: "digest",
            condition: "true",
            order: "digest",
        },
        Index {
            what: "index entries of revisions",
            name: "content_by_revision",
            key: "revision",
            condition: "revision IS NOT NULL",
            order: "revision, place",
        },
    ],
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

const REQUEST: Table = Table {
    name: "request",
    keys: &["key"],
    indexes: &[Index {
        what: "index entries of answered requests",
        name: "request_by_key",
        key: "key",
        condition: "true",
        order: "key",
    }],
    n_cut: 0,
    is_sound: |connection, place| is_sound(requests::at(connection, place)),
};

const DEFINITION: Table = Table {
    name: "definition",
    keys: &["name"],
    indexes: &[Index {
        what: "index entries of saved plans and action profiles",
        name: "definition_by_name",
        key: "name",
        condition: "true",
        order: "name",
    }],
    n_cut: 0,
    is_sound: |connection, number| is_sound(definitions::at(connection, number)),
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
        Err(StoreFault::CorruptRun { .. } | StoreFault::CorruptDefinition { .. }) => Ok(false),
        Err(fault) => Err(fault),
    }
}
