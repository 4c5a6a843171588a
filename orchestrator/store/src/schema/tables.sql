-- EXECUTIONS. One narrow row per execution: what lists filter by. Columns up to `namespace` never change.
CREATE TABLE execution (
    number INTEGER PRIMARY KEY,
    execution_id BLOB NOT NULL,
    plan_id BLOB NOT NULL,
    request_digest BLOB NOT NULL,
    priority INTEGER NOT NULL,
    accepted_at INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL,
    parent_execution_id BLOB,
    plan_name TEXT NOT NULL,
    user_id TEXT,
    request_id TEXT,
    tags BLOB NOT NULL,
    -- Null stands for `default`.
    namespace TEXT,
    state INTEGER NOT NULL,
    status INTEGER NOT NULL,
    started_at INTEGER,
    -- Over number, execution id and start of what is running; a result's checksum covers the start from then on.
    -- Null in rows that a version without it has started.
    start_checksum INTEGER,
    settled_at INTEGER,
    -- How it ended in a few bytes, for lists, with a checksum in front. Null in rows that a version without it has settled.
    outline BLOB,
    -- The place in the order of settling: 1, 2, 3, … in eight bytes, the highest first, as the check of the indexes compares
    -- keys. Null until it is settled, and for what a version without it has settled. No checksum covers it: its index has it once more.
    settlement BLOB
) STRICT;

-- What was accepted; the checksum covers the columns that never change, too.
CREATE TABLE accepted_record (
    number INTEGER PRIMARY KEY,
    checksum INTEGER NOT NULL,
    record BLOB NOT NULL
) STRICT;

-- How it ended; the checksum of the result covers the columns that were set with it.
CREATE TABLE settled_record (
    number INTEGER PRIMARY KEY,
    result_checksum INTEGER NOT NULL,
    audit_checksum INTEGER NOT NULL,
    result BLOB NOT NULL,
    audit BLOB NOT NULL
) STRICT;

-- What is left of a settled execution that was removed on purpose: enough to refuse both of its ids.
-- `place` is the order of removal; the checksum covers all columns from `number` on.
CREATE TABLE removed_execution (
    place INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    plan_id BLOB NOT NULL,
    request_digest BLOB NOT NULL,
    settled_at INTEGER NOT NULL,
    removed_at INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- For how many milliseconds of service each action stays registered without a worker. Derived from what workers offered:
-- a row that is lost harms no execution that was accepted, so rows carry no checksum and are not counted.
CREATE TABLE action_memory (
    name TEXT PRIMARY KEY,
    left_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What operators did: an intent before each act, an outcome behind it. Rows never change and are removed from the lowest
-- number on; the highest stays. An outcome has the number of its intent and a text of its own; an intent has the others.
-- `hash` covers `previous_hash` and every other column.
CREATE TABLE operator_entry (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    boot_id BLOB NOT NULL,
    intent INTEGER,
    name TEXT,
    kind TEXT,
    issuer TEXT,
    peer TEXT,
    rpc TEXT,
    request TEXT,
    outcome TEXT,
    previous_hash BLOB NOT NULL,
    hash BLOB NOT NULL
) STRICT;

-- RUNS. One row per run: what lists filter by. Columns up to `request_digest` and the namespace never change; the checksum
-- covers all but `ending`, and the namespace where it is not null.
CREATE TABLE run (
    number INTEGER PRIMARY KEY,
    run_id BLOB NOT NULL,
    owner TEXT,
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    plan TEXT,
    goal TEXT,
    trigger_id TEXT,
    session TEXT,
    parent BLOB,
    request_key TEXT,
    request_digest BLOB,
    state INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    due_at INTEGER,
    ended_at INTEGER,
    first_seq INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    snapshot_seq INTEGER NOT NULL,
    link BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    -- Null stands for `default`.
    namespace TEXT,
    -- The place in the order of ending, as `settlement` of an execution.
    ending BLOB
) STRICT;

-- All journals. The place is the number of the run in the upper half and that of the entry in the lower one, so that
-- a journal lies in one stretch.
CREATE TABLE journal (
    place INTEGER PRIMARY KEY,
    link BLOB NOT NULL,
    entry BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- The newest snapshot of a run.
CREATE TABLE snapshot (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- Each content once; its digest is its checksum. The document of a revision has the digest of that, too, with a
-- checksum over both digests.
CREATE TABLE content (
    place INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    revision BLOB,
    revision_checksum INTEGER,
    bytes BLOB NOT NULL
) STRICT;

-- Which run, or which definition under its negative number, refers to which content.
CREATE TABLE pin (
    number INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (number, digest)
) STRICT, WITHOUT ROWID;

-- What runs ask of people. The checksum covers all columns, and the namespace where it is not null.
CREATE TABLE input_request (
    place INTEGER PRIMARY KEY,
    input_request_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    kind INTEGER NOT NULL,
    state INTEGER NOT NULL,
    owner TEXT,
    opened_at INTEGER NOT NULL,
    due_at INTEGER,
    closed_at INTEGER,
    record BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    namespace TEXT
) STRICT;

-- Requests of callers that were answered and are about a run that was there. The checksum covers all columns.
CREATE TABLE request (
    place INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- Saved plans, action profiles, sessions, triggers, firings, goals, and what triggers are still to be told.
-- The name has the kind in front. The checksum covers all columns, and the namespace where it is not null.
CREATE TABLE definition (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    owner TEXT,
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    record BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    namespace TEXT
) STRICT;

-- What users are told, in the order in which it came. The checksum covers all columns.
CREATE TABLE notice (
    place INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    record BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

-- What is left of an ended run that was removed on purpose: enough to refuse its ids.
-- `place` is the order of removal; the checksum covers all columns from `number` on.
CREATE TABLE removed_run (
    place INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    state INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    removed_at INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    link BLOB NOT NULL,
    request_key TEXT,
    request_digest BLOB,
    checksum INTEGER NOT NULL
) STRICT;

-- One row, updated with every batch: what must be there.
CREATE TABLE tally (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    n_commits INTEGER NOT NULL DEFAULT 0,
    -- Of executions: the highest number, numbers whose loss was accepted, counts by state, rows of `removed_execution`, and
    -- numbers that had one and whose ids are forgotten.
    execution_last INTEGER NOT NULL DEFAULT 0,
    executions_lost INTEGER NOT NULL DEFAULT 0,
    executions_queued INTEGER NOT NULL DEFAULT 0,
    executions_running INTEGER NOT NULL DEFAULT 0,
    executions_settled INTEGER NOT NULL DEFAULT 0,
    executions_removed INTEGER NOT NULL DEFAULT 0,
    executions_forgotten INTEGER NOT NULL DEFAULT 0,
    -- The highest number of an entry of operators; the highest place in the order of settling that was given, and the highest
    -- whose execution was removed.
    operators_last INTEGER NOT NULL DEFAULT 0,
    settlements_last INTEGER NOT NULL DEFAULT 0,
    settlements_removed INTEGER NOT NULL DEFAULT 0,
    -- The same of runs.
    run_last INTEGER NOT NULL DEFAULT 0,
    runs_lost INTEGER NOT NULL DEFAULT 0,
    runs_live INTEGER NOT NULL DEFAULT 0,
    runs_ended INTEGER NOT NULL DEFAULT 0,
    runs_removed INTEGER NOT NULL DEFAULT 0,
    runs_forgotten INTEGER NOT NULL DEFAULT 0,
    input_request_last INTEGER NOT NULL DEFAULT 0,
    n_definitions INTEGER NOT NULL DEFAULT 0,
    notice_last INTEGER NOT NULL DEFAULT 0,
    endings_last INTEGER NOT NULL DEFAULT 0,
    endings_removed INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO tally (only) VALUES (1);
