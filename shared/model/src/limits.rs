//! Every limit that callers, workers and the orchestrator must agree on. Enforces none of them.

/// Steps of a plan.
pub const STEPS_MAX: usize = 1024;
/// Bytes of an encoded plan: 4 MiB.
pub const PLAN_BYTES_MAX: usize = 4 << 20;
/// Bytes of an encoded step payload: 1 MiB.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Bytes of an encoded step output: 1 MiB.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Bytes of an encoded environment: 1 MiB.
pub const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of an encoded result: 16 MiB.
pub const RESULT_BYTES_MAX: usize = 16 << 20;
/// Bytes of `result_payload`, which leaves space in a result for its error.
pub const RESULT_PAYLOAD_BYTES_MAX: usize = RESULT_BYTES_MAX - (4 << 20);
/// Bytes of the diagnostic data of one error.
pub const ERROR_CONTEXT_BYTES_MAX: usize = 16 << 10;
/// Bytes of all diagnostic data repeated in `context.errors`; beyond it only code, message and step remain.
pub const ERROR_TRACE_CONTEXT_BYTES_MAX: usize = 1 << 20;
/// Warnings of one outcome; more are dropped.
pub const WARNINGS_MAX: usize = 64;
/// Bytes of the inputs that are kept of one execution; outputs, which the result has, are not counted.
pub const INPUT_LOG_BYTES_MAX: usize = 8 << 20;
/// Protobuf messages nested inside one payload, environment, metadata or output, on its deepest path.
///
/// A map entry, a value, an object and a list are one message each:
/// the outermost object costs 2, each object inside 3 and each list 2; an empty one at the bottom costs 1, `{}` alone 0.
/// Many decoders stop at 100 messages, so this leaves 10 for what an object travels in.
pub const OBJECT_NESTING_MAX: usize = 90;
/// Protobuf messages nested inside the diagnostic data of one error.
///
/// `context.errors` of a result repeats it 8 messages deeper: entry, value, list, value, object, entry, value, object.
pub const ERROR_CONTEXT_NESTING_MAX: usize = OBJECT_NESTING_MAX - 8;
/// Levels of plans that execute plans.
pub const NESTING_DEPTH_MAX: u32 = 8;

/// Unicode code points of a plan's name.
pub const NAME_CHARS_MAX: usize = 255;
/// Unicode code points of an action's name.
pub const ACTION_CHARS_MAX: usize = 100;
/// Unicode code points of an error code.
pub const ERROR_CODE_CHARS_MAX: usize = 50;
/// Unicode code points of an error message.
pub const MESSAGE_CHARS_MAX: usize = 1000;
/// Tags of a plan.
pub const TAGS_MAX: usize = 64;
/// Unicode code points of a tag, a user id, a request id, a key of the correlation context, a context requirement.
pub const LABEL_CHARS_MAX: usize = 255;
/// Entries of the correlation context.
pub const CORRELATION_ENTRIES_MAX: usize = 64;
/// Unicode code points of a value of the correlation context.
pub const CORRELATION_VALUE_CHARS_MAX: usize = 4096;
/// Context requirements of a plan.
pub const CONTEXT_REQUIREMENTS_MAX: usize = 1024;
/// Retryable codes of a plan.
pub const RETRYABLE_CODES_MAX: usize = 256;
/// Violations in one answer; there may be more.
pub const VIOLATIONS_MAX: usize = 1000;

/// Default of `Plan.timeout_ms`.
pub const PLAN_TIMEOUT_MS_DEFAULT: i64 = 300_000;
/// Default of `RetryPolicy.max_backoff_ms`.
pub const BACKOFF_MS_MAX_DEFAULT: i64 = 60_000;

/// Bytes of one message of a caller: a plan, an environment, and space for ids.
pub const CALLER_MESSAGE_BYTES_MAX: usize = PLAN_BYTES_MAX + ENVIRONMENT_BYTES_MAX + (1 << 20);
/// Bytes of one message to a caller: a result, and space for the rest.
pub const ANSWER_MESSAGE_BYTES_MAX: usize = RESULT_BYTES_MAX + (4 << 20);
/// Bytes of one message of the worker protocol, either way.
pub const SESSION_MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Actions that one worker session may register.
pub const SESSION_ACTIONS_MAX: usize = 1024;
/// Attempts that one worker session may have in flight.
pub const SESSION_IN_FLIGHT_MAX: u32 = 4096;
/// Bytes of an action's input schema.
pub const INPUT_SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Bytes of what a worker says of an action's nature, encoded.
pub const ACTION_TRAITS_BYTES_MAX: usize = 64 << 10;
/// Types of artifacts that an action makes, and actions that may replace it.
pub const ACTION_TRAIT_NAMES_MAX: usize = 16;
/// Labels of a worker.
pub const WORKER_LABELS_MAX: usize = 64;

/// The revision of the worker protocol that this code speaks.
pub const WORKER_PROTOCOL: u32 = 1;
/// Time for `Hello` after a worker opened its stream.
pub const HELLO_TIMEOUT_MS: u64 = 5_000;
/// Time between a worker's heartbeats.
pub const HEARTBEAT_INTERVAL_MS: u64 = 3_000;
/// Milliseconds that a worker may continue without an acknowledged heartbeat.
pub const LEASE_MS: u64 = 10_000;
/// Milliseconds that the orchestrator waits beyond the lease, so that the worker expires first.
pub const LEASE_MARGIN_MS: u64 = 1_000;
