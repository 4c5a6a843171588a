//! Saved plans and action profiles of the store in memory. Looks into none.

use std::cmp::Reverse;

use super::{Keeper, RunContents};
use escapement_store::runs::limits::ROWS_LOOKED_AT_MAX;
use escapement_store::runs::{
    Definition, DefinitionChange, DefinitionKey, DefinitionKind, DefinitionOutcome, DefinitionPage,
    DefinitionWrite, ExpectedVersion, Scope, StoredRevision,
};

impl RunContents {
    /// Reason why a change cannot be.
    pub(in crate::runs::memory) fn definition_refusal(
        &self,
        write: &DefinitionWrite,
    ) -> Option<DefinitionOutcome> {
        let version = self
            .definition(write.kind, &write.name)
            .map(|found| found.version);
        let refused = match (write.expected, version) {
            (ExpectedVersion::New, Some(version)) => Some(DefinitionOutcome::OtherVersion { version }),
            (ExpectedVersion::Is(wanted), Some(version)) => {
                (wanted != version).then_some(DefinitionOutcome::OtherVersion { version })
            }
            (ExpectedVersion::Is(_), None) => Some(DefinitionOutcome::NotFound),
            (ExpectedVersion::Any | ExpectedVersion::New, None) | (ExpectedVersion::Any, Some(_)) => None,
        };
        refused.or_else(|| match &write.change {
            DefinitionChange::Delete => version.is_none().then_some(DefinitionOutcome::NotFound),
            DefinitionChange::Put(put) => {
                let is_there = |digest: &[u8; 32]| {
                    let mut brought = put.contents.iter().map(|content| content.digest());
                    self.contents.contains_key(digest) || brought.any(|content| content == *digest)
                };
                let missing = put.pinned.iter().find(|digest| !is_there(digest))?;
                Some(DefinitionOutcome::ContentMissing { digest: *missing })
            }
        })
    }

    /// Applies a change that is not refused; gives back the version.
    pub(in crate::runs::memory) fn define(&mut self, write: &DefinitionWrite) -> u64 {
        let key = (write.kind, write.name.clone());
        let keeper = Keeper::Definition(write.kind, write.name.clone());
        let pinned: Vec<[u8; 32]> = self
            .contents
            .iter()
            .filter(|(_, kept)| kept.by.contains(&keeper))
            .map(|(digest, _)| *digest)
            .collect();
        let before = self.definitions.remove(&key);
        let mut version = before.as_ref().map_or(0, |before| before.version);
        let mut wanted = Vec::new();
        if let DefinitionChange::Put(put) = &write.change {
            version += 1;
            let number = before.as_ref().map_or_else(
                || {
                    self.definitions
                        .values()
                        .map(|other| other.number)
                        .max()
                        .unwrap_or_default()
                        + 1
                },
                |before| before.number,
            );
            let definition = Definition {
                number,
                kind: write.kind,
                name: write.name.clone(),
                namespace: put.namespace.clone(),
                owner: put.owner.clone(),
                priority: put.priority,
                created_at: before.map_or(put.at, |before| before.created_at),
                updated_at: put.at,
                version,
                record: put.record.clone(),
            };
            self.definitions.insert(key, definition);
            self.pin_all(&keeper, &put.contents, &put.pinned);
            wanted.extend(put.contents.iter().map(|content| content.digest()));
            wanted.extend(&put.pinned);
        }
        for digest in pinned.iter().filter(|digest| !wanted.contains(digest)) {
            self.release(digest, &keeper);
        }
        version
    }

    pub(in crate::runs::memory) fn definition(&self, kind: DefinitionKind, name: &str) -> Option<Definition> {
        self.definitions.get(&(kind, name.to_owned())).cloned()
    }

    pub(in crate::runs::memory) fn definitions(
        &self,
        kind: DefinitionKind,
        scopes: Option<&[Scope]>,
        before: Option<DefinitionKey>,
        limit: usize,
    ) -> DefinitionPage {
        let mut all: Vec<&Definition> = self
            .of_kind(kind)
            .filter(|definition| before.is_none_or(|before| definition.key() < before))
            .collect();
        all.sort_unstable_by_key(|definition| Reverse(definition.key()));
        let reached = all.get(ROWS_LOOKED_AT_MAX - 1).map(|last| last.key());
        let shown = all
            .into_iter()
            .take(ROWS_LOOKED_AT_MAX)
            .filter(|definition| Scope::any_has(scopes, &definition.namespace, definition.owner.as_deref()));
        let mut page = page(shown, limit);
        if !page.has_more {
            page.ends_at(reached);
        }
        page
    }

    pub(in crate::runs::memory) fn definitions_by_name(
        &self,
        kind: DefinitionKind,
        after: Option<&str>,
        limit: usize,
    ) -> DefinitionPage {
        let behind = |definition: &&Definition| after.is_none_or(|after| *definition.name > *after);
        page(self.of_kind(kind).filter(behind), limit)
    }

    pub(in crate::runs::memory) fn n_definitions(&self, kind: DefinitionKind) -> usize {
        self.of_kind(kind).count()
    }

    /// By their names.
    pub(super) fn of_kind(&self, kind: DefinitionKind) -> impl Iterator<Item = &Definition> {
        let all = self.definitions.values();
        all.filter(move |definition| definition.kind == kind)
    }

    pub(in crate::runs::memory) fn revision(
        &self,
        revision: &[u8; 32],
        scopes: &[Scope],
    ) -> Option<StoredRevision> {
        let place_of = |keeper: &Keeper| match keeper {
            Keeper::Run(number) => {
                let created = &self.runs[number].summary.created;
                (&created.namespace, created.owner.as_deref())
            }
            Keeper::Definition(kind, name) => {
                let definition = &self.definitions[&(*kind, name.clone())];
                (&definition.namespace, definition.owner.as_deref())
            }
        };
        let is_in = |keeper: &Keeper| {
            let (namespace, owner) = place_of(keeper);
            scopes.iter().any(|scope| scope.has(namespace, owner))
        };
        let mut of_it: Vec<_> = self
            .contents
            .iter()
            .filter(|(_, kept)| kept.revision == Some(*revision))
            .filter(|(_, kept)| scopes.contains(&Scope::EVERYTHING) || kept.by.iter().any(is_in))
            .collect();
        of_it.sort_unstable_by_key(|(_, kept)| kept.place);
        let (content, kept) = of_it.first()?;
        Some(StoredRevision {
            content: **content,
            document: kept.bytes.clone(),
        })
    }
}

fn page<'a>(definitions: impl IntoIterator<Item = &'a Definition>, limit: usize) -> DefinitionPage {
    let mut page = DefinitionPage::default();
    for definition in definitions {
        if !page.push(definition.clone(), limit) {
            break;
        }
    }
    page
}
