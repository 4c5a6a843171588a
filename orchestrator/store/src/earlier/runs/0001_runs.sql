-- One row per run: what lists filter by. Columns up to `request_digest` never change; the checksum covers all.
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
    checksum INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX run_by_id ON run (run_id);
CREATE UNIQUE INDEX run_by_request ON run (request_key) WHERE request_key IS NOT NULL;

-- Small at all times: what a restart reads.
CREATE INDEX run_live ON run (number) WHERE ended_at IS NULL;

-- What removal walks along.
CREATE INDEX run_ended ON run (ended_at, number) WHERE ended_at IS NOT NULL;

-- Lists, each in their order.
CREATE INDEX run_in_order ON run (priority, created_at, number);
CREATE INDEX run_by_state ON run (state, priority, created_at, number);
CREATE INDEX run_by_owner ON run (owner, priority, created_at, number) WHERE owner IS NOT NULL;
CREATE INDEX run_by_plan ON run (plan, priority, created_at, number) WHERE plan IS NOT NULL;
CREATE INDEX run_by_plan_and_number ON run (plan, number) WHERE plan IS NOT NULL;
CREATE INDEX run_by_goal ON run (goal, priority, created_at, number) WHERE goal IS NOT NULL;
CREATE INDEX run_by_trigger ON run (trigger_id, priority, created_at, number) WHERE trigger_id IS NOT NULL;
CREATE INDEX run_by_session ON run (session, priority, created_at, number) WHERE session IS NOT NULL;
CREATE INDEX run_by_parent ON run (parent, priority, created_at, number) WHERE parent IS NOT NULL;

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

CREATE UNIQUE INDEX content_by_digest ON content (digest);
CREATE INDEX content_by_revision ON content (revision) WHERE revision IS NOT NULL;

-- Which run, or which definition under its negative number, refers to which content.
CREATE TABLE pin (
    number INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (number, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX pin_by_digest ON pin (digest, number);

-- What runs ask of people. The checksum covers all columns.
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
    checksum INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX input_request_by_id ON input_request (input_request_id);
CREATE INDEX input_request_by_run ON input_request (number, place);
CREATE INDEX input_request_open ON input_request (place) WHERE closed_at IS NULL;
CREATE INDEX input_request_by_owner ON input_request (owner, place) WHERE closed_at IS NULL;

-- Requests of callers that were answered and are about a run that was there. The checksum covers all columns.
CREATE TABLE request (
    place INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX request_by_key ON request (key);
CREATE INDEX request_by_run ON request (number, place);

-- Saved plans, action profiles, sessions, triggers, firings, goals, and what triggers are still to be told.
-- The name has the kind in front. The checksum covers all columns.
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
    checksum INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX definition_by_name ON definition (name);
CREATE INDEX definition_in_order ON definition (kind, priority, created_at, number);
CREATE INDEX definition_by_owner ON definition (kind, owner, priority, created_at, number) WHERE owner IS NOT NULL;

-- What users are told, in the order in which it came. The checksum covers all columns.
CREATE TABLE notice (
    place INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    record BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;

CREATE INDEX notice_by_stream ON notice (stream, place);

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

CREATE UNIQUE INDEX removed_run_by_id ON removed_run (run_id);
CREATE UNIQUE INDEX removed_run_by_request ON removed_run (request_key) WHERE request_key IS NOT NULL;

-- One row, updated with every batch: what must be there.
CREATE TABLE tally (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    n_commits INTEGER NOT NULL,
    number_last INTEGER NOT NULL,
    n_lost INTEGER NOT NULL,
    n_live INTEGER NOT NULL,
    n_ended INTEGER NOT NULL,
    n_removed INTEGER NOT NULL,
    n_forgotten INTEGER NOT NULL,
    input_request_last INTEGER NOT NULL,
    n_definitions INTEGER NOT NULL,
    notice_last INTEGER NOT NULL
) STRICT;

INSERT INTO tally VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
