-- What callers list most often lies in one stretch of an index, in the order of the list: what is of one namespace, the
-- default one included, with and without an owner or a state.
DROP INDEX run_by_namespace;
CREATE INDEX run_by_namespace ON run (namespace, priority, created_at, number);
CREATE INDEX run_by_namespace_and_owner ON run (namespace, owner, priority, created_at, number) WHERE owner IS NOT NULL;
CREATE INDEX run_by_namespace_and_state ON run (namespace, state, priority, created_at, number);

-- Small at all times: what an owner has under way among all that has ended.
CREATE INDEX run_live_by_owner ON run (owner, state, priority, created_at, number)
    WHERE ended_at IS NULL AND owner IS NOT NULL;

DROP INDEX input_request_by_namespace;
CREATE INDEX input_request_by_namespace ON input_request (namespace, place) WHERE closed_at IS NULL;
CREATE INDEX input_request_by_namespace_and_owner ON input_request (namespace, owner, place)
    WHERE closed_at IS NULL AND owner IS NOT NULL;

DROP INDEX definition_by_namespace;
CREATE INDEX definition_by_namespace ON definition (kind, namespace, priority, created_at, number);
CREATE INDEX definition_by_namespace_and_owner ON definition (kind, namespace, owner, priority, created_at, number)
    WHERE owner IS NOT NULL;
