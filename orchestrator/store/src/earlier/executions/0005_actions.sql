-- For how many milliseconds of service each action stays registered without a worker. Derived from what workers offered:
-- a row that is lost harms no execution that was accepted, so rows carry no checksum and are not counted.
CREATE TABLE action_memory (
    name TEXT PRIMARY KEY,
    left_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
