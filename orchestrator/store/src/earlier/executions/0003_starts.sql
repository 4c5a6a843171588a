-- Over number, execution id and start of what is running; a result's checksum covers the start from then on.
-- Null in rows that were started before this column was there.
ALTER TABLE execution ADD COLUMN start_checksum INTEGER;
