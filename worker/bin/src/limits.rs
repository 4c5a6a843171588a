//! Every limit of the stock handlers. Enforces none of them.

use std::time::Duration;

/// Bytes of a file that a handler reads as one of its inputs (`input_file`, `data_files`, `body_file`, ...):
/// 16 MiB.
pub const INPUT_FILE_BYTES_MAX: usize = 16 << 20;
/// Bytes that a handler writes into `output_file` or `stdout_file`: 16 MiB.
pub const OUTPUT_FILE_BYTES_MAX: usize = 16 << 20;
/// Bytes of content inside a step's output if the input names no other limit: 512 KiB.
pub const CONTENT_BYTES_DEFAULT: usize = 512 << 10;
/// Bytes of a step's output as it travels, encoded as a Struct: 1 MiB.
/// A number costs about 11 bytes there, so JSON text says little about it.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Bytes of content inside a step's output, at most: a little less than the whole output may have.
pub const CONTENT_BYTES_MAX: usize = 1000 << 10;
/// Bytes that `file.write` takes: 1 MiB.
pub const WRITE_BYTES_MAX: usize = 1 << 20;
/// Bytes of each of stdout and stderr that `process.run` keeps if the input names no other limit: 256 KiB.
pub const CAPTURE_BYTES_DEFAULT: usize = 256 << 10;
/// Bytes of stderr that stand in the context of an error: 4 KiB.
pub const STDERR_TAIL_BYTES: usize = 4 << 10;
/// Bytes that a file may have for `file.stat` to read it as a whole if the input names no other limit: 64 MiB.
pub const HASHED_BYTES_DEFAULT: u64 = 64 << 20;
/// The same at most: 1 GiB.
pub const HASHED_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a file's beginning that `file.stat` shows.
pub const MAGIC_BYTES: usize = 16;
/// Code points of a path below the root.
pub const PATH_CHARS_MAX: usize = 1024;

/// How long a jq filter or a template may run, unless the step has less time left.
pub const EVALUATION_TIME_MAX: Duration = Duration::from_secs(10);
/// Seconds of processor time after which the kernel ends an evaluation, even one whose worker is gone.
pub const EVALUATION_CPU_SECONDS_MAX: u64 = 15;
/// Results of a jq filter if the input names no other limit.
pub const RESULTS_DEFAULT: usize = 1000;
/// Results of a jq filter at most.
pub const RESULTS_MAX: usize = 100_000;
/// Instructions of a template.
pub const TEMPLATE_FUEL: u64 = 1_000_000;

/// How long an HTTP connection may take to come about.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of the answer of a model: 8 MiB.
pub const LLM_ANSWER_BYTES_MAX: usize = 8 << 20;
/// Tools of one conversation, and calls that a model may ask for at once.
pub const TOOLS_MAX: usize = 128;
/// Objects and lists inside one another in the arguments of a call, so that they fit into an output and into the next question.
pub const TOOL_ARGUMENTS_DEPTH_MAX: usize = 16;
/// Bytes of error text from a remote side that stand in the context of an error: 2 KiB.
pub const REMOTE_TEXT_BYTES: usize = 2 << 10;
/// Bytes of an answer's headers that stand in the context of an error: 4 KiB.
pub const REMOTE_HEADERS_BYTES: usize = 4 << 10;
/// Bytes of a `retry-after` header that stand in the context of an error: 64.
pub const RETRY_AFTER_BYTES: usize = 64;

/// Executions that one worker waits for at a time, for each depth of nesting.
pub const CHILDREN_MAX: u32 = 1024;
/// Milliseconds of one call that waits for a child execution.
pub const CHILD_WAIT_MS: i64 = 20_000;
/// Encoded bytes of a child's error that go into the context of `CHILD_FAILED`:
/// an error's context holds 16 KiB at most.
pub const CHILD_ERROR_BYTES_MAX: usize = 12 << 10;
