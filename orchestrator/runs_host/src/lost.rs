//! Contents that are lost or damaged: the end of the one decision that needs them, and of no other run.

use bytes::Bytes;
use escapement_store::StoreFault;
use escapement_store::runs::RunReader;

/// Returns the content, which a run refers to.
///
/// # Panics
/// If the store as a whole cannot be read. A content that is lost or damaged is the end of what was begun: [`guarded`].
pub(crate) fn kept(reader: &dyn RunReader, digest: &[u8; 32]) -> Bytes {
    match reader.content(digest) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => lost("a content that the run refers to is not there any more".to_owned()),
        Err(fault @ (StoreFault::CorruptRun { .. } | StoreFault::Corrupt { .. })) => lost(fault.to_string()),
        Err(fault) => panic!("contents are readable: {fault}"),
    }
}

/// Reason for which a decision has no end: a content is lost.
struct Lost(String);

fn lost(why: String) -> ! {
    // No hook is called: this is not a defect.
    std::panic::resume_unwind(Box::new(Lost(why)))
}

/// Runs work that may need a content of a run. If that content is lost, the work has had no effect.
///
/// # Errors
/// Names the fault of the content, by which no other run is harmed.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    worked.map_err(|panic| match panic.downcast::<Lost>() {
        Ok(lost) => lost.0,
        Err(defect) => std::panic::resume_unwind(defect),
    })
}
