//! What people define, as the store takes it and gives it back: saved plans, action profiles, sessions, triggers and goals; and
//! what became of triggers. Looks into none.
//!
//! A definition has a name that is unique in its kind, index columns that lists are ordered by, a version that counts
//! its changes, a record, and contents that it refers to. The store pins these as it pins those of runs, so that a
//! content stays as long as a run or a definition refers to it.

use bytes::Bytes;
use escapement_model::Namespace;

use super::bounds::{TooLarge, check_bytes};
use super::content::Content;
use super::limits::{CONTENT_BYTES_MAX, DEFINITION_BYTES_MAX, NAME_BYTES_MAX, PAGE_BYTES_MAX};

/// What a definition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DefinitionKind {
    /// A saved plan, named by its id.
    SavedPlan = 1,
    /// What is known of an action, named by the action.
    ActionProfile = 2,
    /// A session of runs, named by its id.
    Session = 3,
    /// When to start which runs, named by its id.
    Trigger = 10,
    /// What somebody wants, named by its id.
    Goal = 11,
    /// What became of a cause of a trigger, named by its key; its owner is the trigger.
    Firing = 12,
    /// Something that happened to a run or a goal, and that triggers have not heard of.
    Event = 13,
    /// Last words of workers on an action, named by the action.
    OfferedAction = 14,
    /// Note for the next start, named by its subject.
    Mark = 15,
}

impl DefinitionKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::SavedPlan,
        Self::ActionProfile,
        Self::Session,
        Self::Trigger,
        Self::Goal,
        Self::Firing,
        Self::Event,
        Self::OfferedAction,
        Self::Mark,
    ];
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Orders definitions of the same priority and time: the later one has the higher number.
    pub number: u64,
    /// What it is.
    pub kind: DefinitionKind,
    /// Unique in its kind.
    pub name: String,
    /// What it belongs to; [`Namespace::DEFAULT`] for what was written before namespaces were kept.
    pub namespace: Namespace,
    /// Whose it is; `None` for one that belongs to nobody.
    pub owner: Option<String>,
    /// Higher first in lists.
    pub priority: i32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub updated_at: i64,
    /// 1 for a new one, and 1 more with each change.
    pub version: u64,
    /// Opaque to the store.
    pub record: Bytes,
}

impl Definition {
    /// Its place in lists.
    pub fn key(&self) -> DefinitionKey {
        DefinitionKey {
            priority: self.priority,
            created_at: self.created_at,
            number: self.number,
        }
    }
}

/// The place of a definition in lists: higher priority first, then later created, then higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinitionKey {
    /// As written last.
    pub priority: i32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The definition's number.
    pub number: u64,
}

/// A page of a list: at most as many definitions as were asked for, and these have at most
/// [`PAGE_BYTES_MAX`](super::limits::PAGE_BYTES_MAX) unless it is one alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionPage {
    /// In the order of the list.
    pub definitions: Vec<Definition>,
    /// True if there may be more; also behind a page that is short or has none, since a page looks at
    /// [`ROWS_LOOKED_AT_MAX`](super::limits::ROWS_LOOKED_AT_MAX) rows at most.
    pub has_more: bool,
    /// As far as was looked, if that is further than the last of them.
    reached: Option<DefinitionKey>,
    n_bytes: usize,
}

impl DefinitionPage {
    /// Returns the place behind which the next page goes on, if there may be more.
    pub fn next(&self) -> Option<DefinitionKey> {
        let last = || self.definitions.last().map(Definition::key);
        self.reached.or_else(last).filter(|_| self.has_more)
    }

    /// All that was looked at is on it; `reached` says how far that was, if there may be more.
    pub fn ends_at(&mut self, reached: Option<DefinitionKey>) {
        self.has_more = reached.is_some();
        self.reached = reached;
    }

    /// Adds the next one if there is room; true if there may be room for one more.
    pub fn push(&mut self, definition: Definition, limit: usize) -> bool {
        let owner = definition.owner.as_ref().map_or(0, String::len);
        self.n_bytes += definition.record.len() + definition.name.len() + owner;
        let fits = self.definitions.is_empty() || self.n_bytes <= PAGE_BYTES_MAX;
        if fits {
            self.definitions.push(definition);
        }
        self.has_more = !fits || self.definitions.len() >= limit;
        !self.has_more
    }
}

/// A change of one definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionWrite {
    /// What it is.
    pub kind: DefinitionKind,
    /// Unique in its kind.
    pub name: String,
    /// What must be there.
    pub expected: ExpectedVersion,
    /// What becomes of it.
    pub change: DefinitionChange,
}

/// What must be there for a change to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Anything or nothing.
    Any,
    /// Nothing.
    New,
    /// The definition in this version.
    Is(u64),
}

/// What becomes of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionChange {
    /// It is as this says from now on.
    Put(DefinitionPut),
    /// It is gone, also if it is damaged.
    Delete,
}

/// A definition as it is from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionPut {
    /// What it belongs to.
    pub namespace: Namespace,
    /// Whose it is.
    pub owner: Option<String>,
    /// Higher first in lists.
    pub priority: i32,
    /// Time at which it changes, Unix milliseconds: the time of its creation if it is new.
    pub at: i64,
    /// Opaque to the store.
    pub record: Bytes,
    /// Contents that it refers to; the store keeps equal ones once.
    pub contents: Vec<Content>,
    /// Digests of contents that are there already and that it refers to. It refers to nothing else any more. In a batch, one that
    /// is not there any more is left out.
    pub pinned: Vec<[u8; 32]>,
}

impl DefinitionWrite {
    /// Checks that the store holds it.
    ///
    /// # Errors
    /// [`TooLarge`] if a part is beyond [`limits`](super::limits).
    pub fn check_bounds(&self) -> Result<(), TooLarge> {
        check_bytes("a name", NAME_BYTES_MAX, [&self.name])?;
        match &self.change {
            DefinitionChange::Put(put) => put.check_bounds(),
            DefinitionChange::Delete => Ok(()),
        }
    }
}

impl DefinitionPut {
    /// Checks that the store holds it.
    ///
    /// # Errors
    /// [`TooLarge`] if a part is beyond [`limits`](super::limits).
    pub fn check_bounds(&self) -> Result<(), TooLarge> {
        check_bytes("a name", NAME_BYTES_MAX, self.owner.as_deref())?;
        check_bytes("a definition", DEFINITION_BYTES_MAX, [&self.record])?;
        check_bytes(
            "a content",
            CONTENT_BYTES_MAX,
            self.contents.iter().map(Content::bytes),
        )
    }
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionOutcome {
    /// It is durable; the definition has this version, or had it when it was deleted, 0 if it was damaged.
    Done {
        /// Version.
        version: u64,
    },
    /// Nothing was written: there is no such definition.
    NotFound,
    /// Nothing was written: there is one, and it has another version than was expected.
    OtherVersion {
        /// Version.
        version: u64,
    },
    /// Nothing was written: a content that is to be pinned is not there.
    ContentMissing {
        /// Digest.
        digest: [u8; 32],
    },
    /// The definition exceeds the limits of the store, and was not written.
    TooLarge(TooLarge),
}

/// Where something lies and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The namespace. `None`: any.
    pub namespace: Option<Namespace>,
    /// The owner. `None`: any.
    pub owner: Option<String>,
}

impl Scope {
    /// Everything there is.
    pub const EVERYTHING: Self = Self {
        namespace: None,
        owner: None,
    };

    /// Returns the scopes of that owner, or of all owners, in each of these namespaces, or in all. `None`:
    /// everything.
    pub fn each(owner: Option<&str>, namespaces: Option<&[Namespace]>) -> Option<Vec<Self>> {
        let of = |namespace: Option<&Namespace>| Self {
            namespace: namespace.cloned(),
            owner: owner.map(str::to_owned),
        };
        match (owner, namespaces) {
            (None, None) => None,
            (Some(_), None) => Some(vec![of(None)]),
            (_, Some(namespaces)) => Some(namespaces.iter().map(|name| of(Some(name))).collect()),
        }
    }

    /// Returns true if one of these scopes covers that owner's objects in that namespace. `None`: everything
    /// is covered.
    pub fn any_has(scopes: Option<&[Self]>, namespace: &Namespace, owner: Option<&str>) -> bool {
        scopes.is_none_or(|scopes| scopes.iter().any(|scope| scope.has(namespace, owner)))
    }

    /// What is that owner's in that namespace.
    pub fn of(namespace: &Namespace, owner: &str) -> Self {
        Self {
            namespace: Some(namespace.clone()),
            owner: Some(owner.to_owned()),
        }
    }

    /// Returns true if the scope covers that owner's objects in that namespace.
    pub fn has(&self, namespace: &Namespace, owner: Option<&str>) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
            && self.owner.as_deref().is_none_or(|wanted| owner == Some(wanted))
    }
}

/// A revision of a plan: the document that a run or a saved plan refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRevision {
    /// The digest of the content.
    pub content: [u8; 32],
    /// The document. Documents of one revision say the same and may differ in their bytes; this is one of them.
    pub document: Bytes,
}
