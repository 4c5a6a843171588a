//! A plan document as objects: which step says what.

use crate::errors::Rejection;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, items, value_of};
use escapement_run::journal::Stored;
use escapement_run::plan::Plan;
use escapement_run::{Blobs, Run};

/// Reads what a journal refers to.
pub(crate) trait Document {
    /// The bytes, wherever they are.
    fn load(&self, blobs: &dyn Blobs) -> Bytes;

    // RUN-8.9
    /// The bytes, for a caller that asks for them.
    ///
    /// # Errors
    /// [`Rejection::Failed`] with `RUN_DISCARDED` if they went with the run.
    fn kept(&self, run: &Run, blobs: &dyn Blobs) -> Result<Bytes, Rejection>;
}

impl Document for Stored {
    fn load(&self, blobs: &dyn Blobs) -> Bytes {
        match <[u8; 32]>::try_from(&self.digest[..]) {
            Ok(digest) => blobs.blob(&digest),
            Err(_) => self.inline.clone(),
        }
    }

    fn kept(&self, run: &Run, blobs: &dyn Blobs) -> Result<Bytes, Rejection> {
        let bytes = self.load(blobs);
        if run.state().is_discarded() && bytes.len() as u64 != self.length {
            return Err(Rejection::failed(
                "RUN_DISCARDED",
                "The run was discarded; what is asked for is gone.",
            ));
        }
        Ok(bytes)
    }
}

/// The steps of a plan as its document has them, in canonical order.
pub(crate) fn step_objects(plan: &Plan) -> Vec<Opaque> {
    let Some(ValueView::List(steps)) = value_of(plan.document.as_encoded(), "steps") else {
        return Vec::new();
    };
    let objects: Vec<Opaque> = items(steps)
        .map(|step| match step {
            Ok(ValueView::Struct(step)) => Opaque::from_encoded(Bytes::copy_from_slice(step)),
            _ => Opaque::default(),
        })
        .collect();
    let places = plan.steps.iter().map(|step| step.place);
    places
        .map(|place| objects.get(place).cloned().unwrap_or_default())
        .collect()
}
