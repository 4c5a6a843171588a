//! Revisions that plans run as a part of themselves. Their documents stay as long as a plan or a run above them does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use escapement_model::Opaque;
use escapement_run::plan::{self, SubPlan};
use escapement_store::runs::{RunReader, Scope};

/// Returns the contents that hold the documents of these revisions and of all that they run by their digest, as far as something of that
/// scope refers to them already.
///
/// A revision that the store does not have, or cannot read, or that is one too many, is left out: the step that runs it may fail.
pub fn documents_below(reader: &dyn RunReader, scope: &Scope, revisions: &[[u8; 32]]) -> BTreeSet<[u8; 32]> {
    KnownRevisions::default().below(reader, scope, revisions)
}

// RUN-9.11
/// Cache of revisions. A digest determines all that its revision runs, so no document is read twice on the thread of runs.
/// The presence of each document in the store is checked each time.
#[derive(Default)]
pub(crate) struct KnownRevisions(RefCell<Known>);

#[derive(Default)]
struct Known {
    revisions: BTreeMap<[u8; 32], Revision>,
    /// The digests in there, of revisions and of those that they run.
    n_digests: usize,
}

/// Parts of a revision in addition to its steps.
#[derive(Clone)]
struct Revision {
    /// Bytes of its document.
    n_bytes: usize,
    /// The revisions that it runs.
    below: Vec<[u8; 32]>,
}

impl KnownRevisions {
    /// As [`documents_below`].
    pub(crate) fn below(
        &self,
        reader: &dyn RunReader,
        scope: &Scope,
        revisions: &[[u8; 32]],
    ) -> BTreeSet<[u8; 32]> {
        let stored = Stored {
            reader,
            scopes: std::slice::from_ref(scope),
        };
        self.documents_below(&stored, revisions)
    }

    fn documents_below(&self, store: &dyn Revisions, revisions: &[[u8; 32]]) -> BTreeSet<[u8; 32]> {
        let mut found: BTreeMap<[u8; 32], [u8; 32]> = BTreeMap::new();
        let mut coming = revisions.to_vec();
        let mut n_bytes = 0;
        while let Some(digest) = coming.pop() {
            if found.contains_key(&digest) || found.len() >= REVISIONS_MAX || n_bytes >= DOCUMENT_BYTES {
                continue;
            }
            let Some(content) = store.content(&digest) else {
                continue;
            };
            let Some(revision) = self.known(&digest).or_else(|| self.read(store, &digest)) else {
                continue;
            };
            n_bytes += revision.n_bytes;
            found.insert(digest, content);
            coming.extend(revision.below);
        }
        found.into_values().collect()
    }

    fn known(&self, digest: &[u8; 32]) -> Option<Revision> {
        self.0.borrow().revisions.get(digest).cloned()
    }

    fn read(&self, store: &dyn Revisions, digest: &[u8; 32]) -> Option<Revision> {
        let document = store.document(digest)?;
        let n_bytes = document.as_encoded().len();
        let plan = plan::read(&document);
        let below = plan.map(|plan| plan.sub_plans().filter_map(SubPlan::revision).collect());
        let revision = Revision {
            n_bytes,
            below: below.unwrap_or_default(),
        };
        let mut known = self.0.borrow_mut();
        if known.n_digests > DIGESTS_KEPT {
            *known = Known::default();
        }
        known.n_digests += 1 + revision.below.len();
        known.revisions.insert(*digest, revision.clone());
        Some(revision)
    }
}

/// Source of revisions.
trait Revisions {
    /// Returns the content that holds the document of a revision; `None` if there is none, or it cannot be read.
    fn content(&self, digest: &[u8; 32]) -> Option<[u8; 32]>;
    /// Returns the document.
    fn document(&self, digest: &[u8; 32]) -> Option<Opaque>;
}

/// The revisions of one scope.
struct Stored<'a> {
    reader: &'a dyn RunReader,
    scopes: &'a [Scope],
}

impl Revisions for Stored<'_> {
    fn content(&self, digest: &[u8; 32]) -> Option<[u8; 32]> {
        let found = self.reader.content_of_revision(digest, self.scopes);
        found.ok().flatten()
    }

    fn document(&self, digest: &[u8; 32]) -> Option<Opaque> {
        let stored = self.reader.revision(digest, self.scopes).ok().flatten()?;
        Some(Opaque::from_encoded(stored.document))
    }
}

/// Revisions that are kept for one plan; the steps that run further ones may fail.
const REVISIONS_MAX: usize = 1024;
/// Bytes of their documents; the last one may have 1 MiB more. Those that are not known are read on the thread of runs.
const DOCUMENT_BYTES: usize = 8 << 20;
/// Digests that are remembered, 32 bytes each, before all of them are forgotten; those of one more plan may come on top.
const DIGESTS_KEPT: usize = 65_536;

#[cfg(test)]
mod tests;
