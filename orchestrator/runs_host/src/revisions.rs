//! Revisions that plans run as a part of themselves. Their documents stay as long as a plan or a run above them does.

use std::collections::{BTreeMap, BTreeSet};

use escapement_model::Opaque;
use escapement_run::plan::{self, SubPlan};
use escapement_store::runs::RunReader;

/// The contents that hold the documents of these revisions and of all that they run by their digest.
///
/// A revision that the store does not have, or cannot read, or that is one too many, is left out: the step that runs it may fail.
pub fn documents_below(reader: &dyn RunReader, revisions: &[[u8; 32]]) -> BTreeSet<[u8; 32]> {
    let mut found: BTreeMap<[u8; 32], [u8; 32]> = BTreeMap::new();
    let mut coming = revisions.to_vec();
    let mut n_bytes = 0;
    while let Some(revision) = coming.pop() {
        if found.contains_key(&revision) || found.len() >= REVISIONS_MAX || n_bytes >= DOCUMENT_BYTES {
            continue;
        }
        let Ok(Some(stored)) = reader.revision(&revision) else {
            continue;
        };
        n_bytes += stored.document.len();
        found.insert(revision, stored.content);
        if let Ok(plan) = plan::read(&Opaque::from_encoded(stored.document)) {
            coming.extend(plan.sub_plans().filter_map(SubPlan::revision));
        }
    }
    found.into_values().collect()
}

/// Revisions that are kept for one plan; the steps that run further ones may fail.
const REVISIONS_MAX: usize = 1024;
/// Bytes of their documents, which are read on the thread of runs; the last one may have 1 MiB more.
const DOCUMENT_BYTES: usize = 8 << 20;
