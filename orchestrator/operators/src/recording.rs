//! Entries on their way into the store, on the thread that writes it. Has no thread of its own.

use crate::act::unknown;
use escapement_model::BootId;
use escapement_store::{OperatorDeed, OperatorFilter, OperatorWrite, Outcome, Store, StoreFault, Write};
use escapement_transport::refusal::again_later;
use tonic::{Code, Status};
use tracing::warn;

/// Reason why an entry is not recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unrecorded {
    /// The store has no space.
    Full,
    /// The store does not take it now, or the process ends.
    Failed,
}

impl From<Unrecorded> for Status {
    fn from(unrecorded: Unrecorded) -> Self {
        let (code, reason, message) = match unrecorded {
            Unrecorded::Full => (
                Code::ResourceExhausted,
                "STORE_FULL",
                "The store has no space for a record of this, so nothing was done. Ask again when there is some.",
            ),
            Unrecorded::Failed => (
                Code::Unavailable,
                "STORE_FAILED",
                "The store could not take a record of this, so nothing was done. Ask again.",
            ),
        };
        again_later(code, reason, message.to_owned(), [])
    }
}

/// Tells who waits for an entry its number; dropped if nobody will ever know.
pub(crate) type Recorded = Box<dyn FnOnce(Result<u64, Unrecorded>) + Send>;

/// An entry that waits to be written, and who waits for it.
pub struct Recording {
    pub(crate) deed: OperatorDeed,
    pub(crate) recorded: Recorded,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording")
            .field("deed", &self.deed)
            .finish_non_exhaustive()
    }
}

/// Writes entries in the name of one lifetime of the process.
#[derive(Clone, Copy, Debug)]
pub struct Scribe {
    /// The lifetime.
    pub boot_id: BootId,
    /// Milliseconds that entries are kept for; `None` keeps all.
    pub keep_ms: Option<u64>,
}

impl Scribe {
    /// Writes one entry and tells who waits for it. `now` and `aged` are Unix milliseconds: what is recorded, and by which old entries
    /// are removed.
    ///
    /// # Errors
    /// If the store cannot be trusted any more: end the process. Then nobody is told anything.
    pub fn write(
        &self,
        store: &mut impl Store,
        recording: Recording,
        now: i64,
        aged: i64,
    ) -> Result<(), StoreFault> {
        let keep_from = self
            .keep_ms
            .map(|keep_ms| aged.saturating_sub(i64::try_from(keep_ms).unwrap_or(i64::MAX)));
        let write = self.entry(recording.deed, now, keep_from);
        let recorded = match store.commit(&[write]) {
            Ok(outcomes) => match outcomes.first() {
                Some(Outcome::Done { number }) => Ok(*number),
                _ => Err(Unrecorded::Failed),
            },
            Err(StoreFault::Full(_)) => Err(Unrecorded::Full),
            Err(StoreFault::Busy(_) | StoreFault::Corrupt { .. }) => Err(Unrecorded::Failed),
            Err(fault) => return Err(fault),
        };
        (recording.recorded)(recorded);
        Ok(())
    }

    /// Gives every intent without an outcome one: the process that wrote it has ended. Call it before the first entry is written.
    ///
    /// # Errors
    /// As [`Store::commit`], but for a store that is full or busy: then the next start does it.
    pub fn close_open(&self, store: &mut impl Store, now: i64) -> Result<u64, StoreFault> {
        let open = OperatorFilter {
            is_open: true,
            ..OperatorFilter::default()
        };
        let reader = store.reader()?;
        let (mut n_closed, mut before) = (0, None);
        loop {
            let page = match reader.operator_actions(&open, before, PAGE) {
                Err(StoreFault::Corrupt { number, .. }) => {
                    warn!(number, "entry of operators is damaged");
                    before = Some(number);
                    continue;
                }
                page => page?,
            };
            let Some(last) = page.last() else {
                return Ok(n_closed);
            };
            before = Some(last.intent.number);
            let close = page.iter().map(|action| {
                let deed = OperatorDeed::Outcome {
                    intent: action.intent.number,
                    outcome: unknown(),
                };
                self.entry(deed, now, None)
            });
            match store.commit(&close.collect::<Vec<_>>()) {
                Ok(_) => n_closed += page.len() as u64,
                Err(fault @ (StoreFault::Full(_) | StoreFault::Busy(_))) => {
                    warn!(
                        error = &fault as &dyn std::error::Error,
                        "what operators began before the last end stays without an outcome for now"
                    );
                    return Ok(n_closed);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    fn entry(&self, deed: OperatorDeed, at: i64, keep_from: Option<i64>) -> Write {
        Write::Operator(OperatorWrite {
            at,
            boot_id: self.boot_id,
            deed,
            keep_from,
        })
    }
}

/// Acts that are closed in one commit.
const PAGE: usize = 256;
