//! Who refers to which content in memory. Looks into none.

use std::collections::BTreeSet;

use super::{Keeper, Kept, RunContents};
use escapement_store::runs::Content;

impl RunContents {
    pub(super) fn pin_all(&mut self, keeper: &Keeper, contents: &[Content], pinned: &[[u8; 32]]) {
        for content in contents {
            let kept = self.contents.entry(content.digest()).or_insert_with(|| {
                self.content_last += 1;
                Kept {
                    place: self.content_last,
                    bytes: content.bytes().clone(),
                    revision: None,
                    by: BTreeSet::new(),
                }
            });
            kept.revision = kept.revision.or(content.revision());
            kept.by.insert(keeper.clone());
        }
        for digest in pinned {
            let content = self.contents.get_mut(digest).expect("it was looked for");
            content.by.insert(keeper.clone());
        }
    }

    pub(super) fn release(&mut self, digest: &[u8; 32], keeper: &Keeper) {
        if let Some(kept) = self.contents.get_mut(digest) {
            kept.by.remove(keeper);
            if kept.by.is_empty() {
                self.contents.remove(digest);
            }
        }
    }

    /// Releases what a run refers to and is no document of a revision.
    pub(super) fn purge(&mut self, number: u64) {
        let others = self.contents.iter().filter(|(_, kept)| kept.revision.is_none());
        let digests: Vec<[u8; 32]> = others.map(|(digest, _)| *digest).collect();
        for digest in digests {
            self.release(&digest, &Keeper::Run(number));
        }
    }
}
