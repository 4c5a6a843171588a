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

CREATE UNIQUE INDEX removed_by_id ON removed_execution (execution_id);
CREATE UNIQUE INDEX removed_by_plan ON removed_execution (plan_id);

-- Rows of `removed_execution`, and numbers that had one and whose ids are forgotten.
ALTER TABLE tally ADD COLUMN n_removed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tally ADD COLUMN n_forgotten INTEGER NOT NULL DEFAULT 0;
