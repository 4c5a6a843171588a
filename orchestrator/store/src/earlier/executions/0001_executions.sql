-- One narrow row per execution: what lists filter by. Columns up to `tags` never change.
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
    state INTEGER NOT NULL,
    status INTEGER NOT NULL,
    started_at INTEGER,
    settled_at INTEGER
) STRICT;

CREATE UNIQUE INDEX execution_by_id ON execution (execution_id);
CREATE UNIQUE INDEX execution_by_plan ON execution (plan_id);

-- Small at all times: what a restart reads, and what a list of queued or running executions walks along.
CREATE INDEX execution_unsettled ON execution (number) WHERE state < 2;

-- Holds nested executions only.
CREATE INDEX execution_by_parent ON execution (parent_execution_id, number)
    WHERE parent_execution_id IS NOT NULL;

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

-- One row, updated with every batch: what must be there.
CREATE TABLE tally (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    n_commits INTEGER NOT NULL,
    number_last INTEGER NOT NULL,
    n_lost INTEGER NOT NULL,
    n_queued INTEGER NOT NULL,
    n_running INTEGER NOT NULL,
    n_settled INTEGER NOT NULL
) STRICT;

INSERT INTO tally VALUES (1, 0, 0, 0, 0, 0, 0);
