//! What must hold on every stream of every check, judged from the logs alone after the check.
//! Each rule is a check of its own; knows nothing of what the checks wanted.

mod attempts;
mod books;
mod order;

use crate::log::Log;

/// Whether what heartbeats count can be compared with what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Books {
    Compared,
    LeftAlone,
}

/// A rule that was broken.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The check that fails by it.
    pub(crate) rule: &'static str,
    /// What was expected, what came.
    pub(crate) text: String,
}

/// Returns everything that is wrong with the streams of one worker, in the order in which they began.
pub(crate) fn judge(logs: &[Log], books: Books) -> Vec<Finding> {
    let mut findings = Vec::new();
    order::judge(logs, &mut findings);
    attempts::judge(logs, &mut findings);
    if books == Books::Compared {
        books::judge(logs, &mut findings);
    }
    findings
}

fn find(findings: &mut Vec<Finding>, rule: &'static str, text: String) {
    findings.push(Finding { rule, text });
}
