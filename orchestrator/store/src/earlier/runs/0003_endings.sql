-- The place of a run in the order of ending: 1, 2, 3, … in eight bytes, the highest first, as the check of the indexes
-- compares keys. Null until it ends, and for what ended before this column was there. No checksum covers it: its index has it
-- once more.
ALTER TABLE run ADD COLUMN ending BLOB;

CREATE UNIQUE INDEX run_by_ending ON run (ending) WHERE ending IS NOT NULL;

-- The highest place that was given, and the highest whose run was removed for its age or its number.
ALTER TABLE tally ADD COLUMN endings_last INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tally ADD COLUMN endings_removed INTEGER NOT NULL DEFAULT 0;
