//! Artifacts in the entries of a journal.

use super::{Event, Stored, Unit, optional};
use crate::wire::Message;

/// An artifact that an output declares, or that is uploaded.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) number: u32,
    /// The unit whose output declares it.
    pub(crate) unit: Option<Unit>,
    /// Its type.
    pub(crate) kind: String,
    pub(crate) mime_type: String,
    pub(crate) name: String,
    pub(crate) path: String,
    /// Its content, if that is given.
    pub(crate) content: Option<Stored>,
    /// What is said of its content.
    pub(crate) n_bytes: Option<u64>,
    /// Empty if it is not said.
    pub(crate) sha256: Vec<u8>,
}

/// An artifact is judged, or is looked at again.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    pub(crate) number: u32,
    /// What is wrong with it; empty if nothing is.
    pub(crate) problem: String,
    /// 0 if it is judged.
    pub(crate) again_at: i64,
}

pub(super) fn of_artifacts(kind: u32, body: &Message<'_>) -> Result<Event, String> {
    Ok(match kind {
        52 => Event::Declared(Box::new(Declared {
            number: body.small(2),
            unit: match body.has(3) {
                true => Some(Unit::of(&body.message(3)?)),
                false => None,
            },
            kind: body.text(5),
            mime_type: body.text(6),
            name: body.text(7),
            path: body.text(8),
            content: optional(body, 9)?,
            n_bytes: body.has(10).then(|| body.number(10)),
            sha256: body.bytes(11).to_vec(),
        })),
        53 => Event::Verifying(body.texts(1)),
        _ => Event::Verified(Verified {
            number: body.small(1),
            problem: body.text(2),
            again_at: body.signed(5),
        }),
    })
}
