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

CREATE UNIQUE INDEX operator_outcome ON operator_entry (intent) WHERE intent IS NOT NULL;

-- The highest number that an entry has.
ALTER TABLE tally ADD COLUMN operators_last INTEGER NOT NULL DEFAULT 0;
