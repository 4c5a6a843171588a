//! What is remembered of a sink by which name. Reads no file.

use serde::Deserialize;

/// Whose ends a sink gets.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Feed {
    /// How executions ended.
    #[default]
    Executions,
    /// How runs ended.
    Runs,
}

/// A sink with its feed. A sink whose feed changes is a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SinkKey {
    pub(crate) name: String,
    pub(crate) feed: Feed,
}

impl SinkKey {
    /// What its cursor is called. No name of a sink has a slash.
    pub(crate) fn text(&self) -> String {
        match self.feed {
            Feed::Executions => self.name.clone(),
            Feed::Runs => format!("runs/{}", self.name),
        }
    }
}
