//! Revisions that plans run as a part of themselves. Their documents stay as long as a plan or a run above them does.

use std::collections::{BTreeMap, BTreeSet};

use escapement_model::Opaque;
use escapement_run::plan::{self, SubPlan};
use escapement_store::runs::RunReader;

/// The contents that hold the documents of these revisions and of all that they run by their digest.
///
/// A revision that the store does not have, or cannot read, is left out: the step that runs it fails.
pub fn documents_below(reader: &dyn RunReader, revisions: &[[u8; 32]]) -> BTreeSet<[u8; 32]> {
    let mut found: BTreeMap<[u8; 32], [u8; 32]> = BTreeMap::new();
    let mut coming = revisions.to_vec();
    while let Some(revision) = coming.pop() {
        if found.contains_key(&revision) || found.len() >= REVISIONS_MAX {
            continue;
        }
        let Ok(Some(stored)) = reader.revision(&revision) else {
            continue;
        };
        found.insert(revision, stored.content);
        if let Ok(plan) = plan::read(&Opaque::from_encoded(stored.document)) {
            coming.extend(plan.sub_plans().filter_map(SubPlan::revision));
        }
    }
    found.into_values().collect()
}

/// Revisions that are kept for one plan; the steps that run further ones may fail.
const REVISIONS_MAX: usize = 1024;
