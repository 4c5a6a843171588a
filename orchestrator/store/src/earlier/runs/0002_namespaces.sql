-- What a run, a request and a definition belong to; null stands for `default`, as in all rows before these columns were there.
-- The checksum of a row covers the namespace where it is not null.
ALTER TABLE run ADD COLUMN namespace TEXT;
ALTER TABLE input_request ADD COLUMN namespace TEXT;
ALTER TABLE definition ADD COLUMN namespace TEXT;

-- Hold what belongs to other namespaces only: a store without any pays nothing for them.
CREATE INDEX run_by_namespace ON run (namespace, priority, created_at, number) WHERE namespace IS NOT NULL;
CREATE INDEX input_request_by_namespace ON input_request (namespace, place)
    WHERE namespace IS NOT NULL AND closed_at IS NULL;
CREATE INDEX definition_by_namespace ON definition (kind, namespace, priority, created_at, number)
    WHERE namespace IS NOT NULL;
