//! An event on its way to a sink, and what came of it. Sends nothing.

use bytes::Bytes;
use escapement_delivery::Answer;
use escapement_model::Namespace;

/// An event on its way.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The same whenever the same event is sent.
    pub(crate) id: String,
    /// Type.
    pub(crate) kind: String,
    /// That of the execution or the run; `None` if it is about the sink.
    pub(crate) namespace: Option<Namespace>,
    pub(crate) body: Bytes,
}

/// What came of a message, with a word for the log.
pub(crate) type Posted = (Answer, String);
