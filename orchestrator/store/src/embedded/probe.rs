//! Ways for tests to reach what stands in the files, byte by byte. No part of the store's promises.

use crate::database::mark::Mark;
use crate::executions::columns;

/// Commits, highest number of an execution and highest number of a run that a mark of these bytes says; `None` if they are no
/// mark of ours.
pub fn mark(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let mark = Mark::decode(bytes)?;
    Some((mark.n_commits, mark.execution_last, mark.run_last))
}

/// Returns the bytes of a mark.
pub fn mark_bytes(n_commits: u64, execution_last: u64, run_last: u64) -> Vec<u8> {
    let mark = Mark {
        n_commits,
        execution_last,
        run_last,
    };
    mark.encode().to_vec()
}

/// Returns the tags in a column of these bytes.
pub fn tags(column: &[u8]) -> Option<Vec<String>> {
    columns::decode_tags(column)
}

/// Returns the column for these tags.
pub fn tags_column(tags: &[String]) -> Vec<u8> {
    columns::encode_tags(tags)
}
