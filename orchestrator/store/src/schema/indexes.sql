CREATE UNIQUE INDEX execution_by_id ON execution (execution_id);
CREATE UNIQUE INDEX execution_by_plan ON execution (plan_id);
CREATE UNIQUE INDEX execution_by_settlement ON execution (settlement) WHERE settlement IS NOT NULL;

-- Small at all times: what a restart reads, and what a list of queued or running executions walks along.
CREATE INDEX execution_unsettled ON execution (number) WHERE state < 2;

-- Holds nested executions only.
CREATE INDEX execution_by_parent ON execution (parent_execution_id, number) WHERE parent_execution_id IS NOT NULL;

-- Holds executions of other namespaces than `default` only: a store without any pays nothing for it.
CREATE INDEX execution_by_namespace ON execution (namespace, number) WHERE namespace IS NOT NULL;

CREATE UNIQUE INDEX removed_by_id ON removed_execution (execution_id);
CREATE UNIQUE INDEX removed_by_plan ON removed_execution (plan_id);

CREATE UNIQUE INDEX operator_outcome ON operator_entry (intent) WHERE intent IS NOT NULL;

CREATE UNIQUE INDEX run_by_id ON run (run_id);
CREATE UNIQUE INDEX run_by_request ON run (request_key) WHERE request_key IS NOT NULL;
CREATE UNIQUE INDEX run_by_ending ON run (ending) WHERE ending IS NOT NULL;

-- Small at all times: what a restart reads, and what an owner has under way among all that has ended.
CREATE INDEX run_live ON run (number) WHERE ended_at IS NULL;
CREATE INDEX run_live_by_owner ON run (owner, state, priority, created_at, number)
    WHERE ended_at IS NULL AND owner IS NOT NULL;

-- What removal walks along.
CREATE INDEX run_ended ON run (ended_at, number) WHERE ended_at IS NOT NULL;

-- Lists, each in their order. What callers list most often lies in one stretch: what is of one namespace, the default one
-- included, with and without an owner or a state.
CREATE INDEX run_in_order ON run (priority, created_at, number);
CREATE INDEX run_by_state ON run (state, priority, created_at, number);
CREATE INDEX run_by_owner ON run (owner, priority, created_at, number) WHERE owner IS NOT NULL;
CREATE INDEX run_by_plan ON run (plan, priority, created_at, number) WHERE plan IS NOT NULL;
CREATE INDEX run_by_plan_and_number ON run (plan, number) WHERE plan IS NOT NULL;
CREATE INDEX run_by_goal ON run (goal, priority, created_at, number) WHERE goal IS NOT NULL;
CREATE INDEX run_by_trigger ON run (trigger_id, priority, created_at, number) WHERE trigger_id IS NOT NULL;
CREATE INDEX run_by_session ON run (session, priority, created_at, number) WHERE session IS NOT NULL;
CREATE INDEX run_by_parent ON run (parent, priority, created_at, number) WHERE parent IS NOT NULL;
CREATE INDEX run_by_namespace ON run (namespace, priority, created_at, number);
CREATE INDEX run_by_namespace_and_owner ON run (namespace, owner, priority, created_at, number) WHERE owner IS NOT NULL;
CREATE INDEX run_by_namespace_and_state ON run (namespace, state, priority, created_at, number);

CREATE UNIQUE INDEX content_by_digest ON content (digest);
CREATE INDEX content_by_revision ON content (revision) WHERE revision IS NOT NULL;
CREATE INDEX pin_by_digest ON pin (digest, number);

CREATE UNIQUE INDEX input_request_by_id ON input_request (input_request_id);
CREATE INDEX input_request_by_run ON input_request (number, place);
CREATE INDEX input_request_open ON input_request (place) WHERE closed_at IS NULL;
CREATE INDEX input_request_by_owner ON input_request (owner, place) WHERE closed_at IS NULL;
CREATE INDEX input_request_by_namespace ON input_request (namespace, place) WHERE closed_at IS NULL;
CREATE INDEX input_request_by_namespace_and_owner ON input_request (namespace, owner, place)
    WHERE closed_at IS NULL AND owner IS NOT NULL;

CREATE UNIQUE INDEX request_by_key ON request (key);
CREATE INDEX request_by_run ON request (number, place);

CREATE UNIQUE INDEX definition_by_name ON definition (name);
CREATE INDEX definition_in_order ON definition (kind, priority, created_at, number);
CREATE INDEX definition_by_owner ON definition (kind, owner, priority, created_at, number) WHERE owner IS NOT NULL;
CREATE INDEX definition_by_namespace ON definition (kind, namespace, priority, created_at, number);
CREATE INDEX definition_by_namespace_and_owner ON definition (kind, namespace, owner, priority, created_at, number)
    WHERE owner IS NOT NULL;

CREATE INDEX notice_by_stream ON notice (stream, place);

CREATE UNIQUE INDEX removed_run_by_id ON removed_run (run_id);
CREATE UNIQUE INDEX removed_run_by_request ON removed_run (request_key) WHERE request_key IS NOT NULL;
