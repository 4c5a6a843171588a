-- The place of an execution in the order of settling: 1, 2, 3, … in eight bytes, the highest first, as the check of the
-- indexes compares keys. Null until it is settled, and for what was settled before this column was there. No checksum covers it: its index has it once more.
ALTER TABLE execution ADD COLUMN settlement BLOB;

CREATE UNIQUE INDEX execution_by_settlement ON execution (settlement)
    WHERE settlement IS NOT NULL;

-- The highest place that was given, and the highest whose execution was removed.
ALTER TABLE tally ADD COLUMN settlements_last INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tally ADD COLUMN settlements_removed INTEGER NOT NULL DEFAULT 0;
