//! Contents by their hash, those on their way to the store and those that it has, and runs as it has them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use escapement_model::RunId;
use escapement_run::{Blobs, Run};
use escapement_runs::Durable;
use escapement_store::StoreFault;
use escapement_store::runs::RunReader;

use crate::lost::{guarded, kept};
use crate::plans::SharedPlans;
use crate::recovery::fold;

/// What runs refer to.
pub(crate) struct Contents {
    reader: Box<dyn RunReader>,
    /// Not durable yet.
    coming: BTreeMap<[u8; 32], Bytes>,
    /// Read lately, the oldest first.
    read: RefCell<Vec<([u8; 32], Bytes)>>,
    plans: SharedPlans,
}

impl Contents {
    pub(crate) fn new(reader: Box<dyn RunReader>) -> Self {
        Self {
            reader,
            coming: BTreeMap::new(),
            read: RefCell::new(Vec::new()),
            plans: SharedPlans::default(),
        }
    }

    pub(crate) fn come(&mut self, digest: [u8; 32], bytes: Bytes) {
        self.coming.insert(digest, bytes);
    }

    /// Everything that was on its way is durable now.
    pub(crate) fn arrived(&mut self) {
        self.coming.clear();
    }

    pub(crate) fn reader(&self) -> &dyn RunReader {
        &*self.reader
    }

    pub(crate) fn plans(&self) -> &SharedPlans {
        &self.plans
    }
}

impl Durable for Contents {
    fn blobs(&self) -> &dyn Blobs {
        self
    }

    fn whole(&self, decide: &mut dyn FnMut()) -> Result<(), String> {
        guarded(decide)
    }

    /// # Panics
    /// If the store as a whole cannot be read.
    fn fold(&self, run_id: RunId) -> Result<Run, String> {
        let summary = match self.reader.summary(run_id) {
            Err(fault @ StoreFault::CorruptRun { .. }) => return Err(fault.to_string()),
            summary => summary.expect("the store is readable"),
        };
        let summary = summary.ok_or("the run is not there any more")?;
        fold(self.reader(), &summary, &self.plans)
    }
}

impl Blobs for Contents {
    /// # Panics
    /// If the store as a whole cannot be read. A content that is lost or damaged is the end of what was begun: [`guarded`].
    fn blob(&self, digest: &[u8; 32]) -> Bytes {
        if let Some(bytes) = self.coming.get(digest) {
            return bytes.clone();
        }
        let mut read = self.read.borrow_mut();
        if let Some((_, bytes)) = read.iter().find(|(known, _)| known == digest) {
            return bytes.clone();
        }
        let bytes = kept(&*self.reader, digest);
        if read.len() >= CONTENTS_KEPT {
            read.remove(0);
        }
        read.push((*digest, bytes.clone()));
        bytes
    }
}

/// Contents that are kept in memory although they are durable.
const CONTENTS_KEPT: usize = 16;
