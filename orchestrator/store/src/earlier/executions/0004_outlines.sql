-- How it ended in a few bytes, for lists, with a checksum in front.
-- Null in rows that were settled before this column was there.
ALTER TABLE execution ADD COLUMN outline BLOB;
