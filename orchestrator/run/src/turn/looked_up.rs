//! Contents that templates of one turn read: each is read once, and its keys are sorted at the second lookup.
//! All that is read, walked or sorted is paid from the budget of the turn.

use super::Turn;
use crate::journal::Stored;
use crate::outcome::encoded;
use crate::template::{Found, Pointer};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use bytes::Bytes;
use core::cell::Cell;
use escapement_model::opaque::{
    BudgetSpent, ObjectIndex, PaidObject, PaidView, ValueView, WalkBudget, value,
};

/// The contents that were looked into.
#[derive(Default)]
pub(super) struct Lookups {
    /// Taken out while one of them is looked for.
    contents: Cell<Contents>,
}

/// Contents by their hash, and by the type as which they are read: the same bytes may be an object and a
/// value.
type Contents = BTreeMap<([u8; 32], bool), Content>;

#[derive(Clone, Debug)]
struct Content {
    bytes: Bytes,
    /// Sorted keys of an object, from the second lookup on.
    index: Option<Rc<ObjectIndex>>,
}

/// Value in which pointers are followed.
#[derive(Debug)]
pub(super) struct LookedUp {
    /// An encoded object, or an encoded `google.protobuf.Value`.
    bytes: Bytes,
    is_object: bool,
    index: Option<Rc<ObjectIndex>>,
}

impl Lookups {
    fn with<T>(&self, look: impl FnOnce(&mut Contents) -> T) -> T {
        let mut contents = self.contents.take();
        let found = look(&mut contents);
        self.contents.set(contents);
        found
    }

    /// Returns an object that was kept.
    pub(super) fn object(
        &self,
        turn: &Turn<'_>,
        stored: &Stored,
        budget: &mut WalkBudget,
    ) -> Result<LookedUp, BudgetSpent> {
        self.look_up(turn, stored, true, budget)
    }

    /// Returns a value that was kept.
    pub(super) fn value(
        &self,
        turn: &Turn<'_>,
        stored: &Stored,
        budget: &mut WalkBudget,
    ) -> Result<LookedUp, BudgetSpent> {
        self.look_up(turn, stored, false, budget)
    }

    /// Returns the bytes that were kept.
    pub(super) fn bytes(
        &self,
        turn: &Turn<'_>,
        stored: &Stored,
        budget: &mut WalkBudget,
    ) -> Result<Bytes, BudgetSpent> {
        let known = stored.content().and_then(|digest| {
            self.with(|contents| {
                contents
                    .get(&(digest, false))
                    .map(|content| content.bytes.clone())
            })
        });
        match known {
            Some(bytes) => Ok(bytes),
            None => read(turn, stored, budget),
        }
    }

    fn look_up(
        &self,
        turn: &Turn<'_>,
        stored: &Stored,
        is_object: bool,
        budget: &mut WalkBudget,
    ) -> Result<LookedUp, BudgetSpent> {
        let Some(digest) = stored.content() else {
            return Ok(LookedUp {
                bytes: read(turn, stored, budget)?,
                is_object,
                index: None,
            });
        };
        let found = self.with(|contents| found_in(contents, turn, stored, digest, is_object, budget))?;
        Ok(LookedUp {
            bytes: found.bytes,
            is_object,
            index: found.index,
        })
    }
}

/// Returns the content of that hash, with its keys sorted from the second lookup on.
fn found_in(
    contents: &mut Contents,
    turn: &Turn<'_>,
    stored: &Stored,
    digest: [u8; 32],
    is_object: bool,
    budget: &mut WalkBudget,
) -> Result<Content, BudgetSpent> {
    if let Some(content) = contents.get_mut(&(digest, is_object)) {
        if content.index.is_none()
            && let Some(PaidView::Object(object)) = root(&content.bytes, is_object)
        {
            content.index = Some(Rc::new(ObjectIndex::of(object, budget)?));
        }
        return Ok(content.clone());
    }
    let content = Content {
        bytes: read(turn, stored, budget)?,
        index: None,
    };
    if contents.len() < CONTENTS_MAX {
        contents.insert((digest, is_object), content.clone());
    }
    Ok(content)
}

impl LookedUp {
    /// Creates a lookup in a value that is in memory.
    pub(super) fn small(value: ValueView<'_>) -> Self {
        Self {
            bytes: encoded(value),
            is_object: false,
            index: None,
        }
    }

    // RUN-1.6, RUN-1.9
    /// Returns the value at a pointer.
    pub(super) fn follow(
        &self,
        pointer: &Pointer,
        budget: &mut WalkBudget,
    ) -> Result<Found<'static>, BudgetSpent> {
        let Some(root) = root(&self.bytes, self.is_object) else {
            return Ok(Found::Missing);
        };
        let found = match (root, &self.index, pointer.split_first()) {
            (_, _, None) if !self.is_object => return Ok(Found::Encoded(self.bytes.clone())),
            (PaidView::Object(object), Some(index), Some((first, rest))) => {
                match index.value_of(object, first, budget)? {
                    Some(inside) => rest.find(inside, budget)?,
                    None => None,
                }
            }
            _ => pointer.find(root, budget)?,
        };
        let Some(found) = found else {
            return Ok(Found::Missing);
        };
        let bytes = encoded(found.unpaid());
        budget.spend_bytes(bytes.len())?;
        Ok(Found::Encoded(bytes))
    }
}

fn root(bytes: &[u8], is_object: bool) -> Option<PaidView<'_>> {
    match is_object {
        true => Some(PaidView::Object(PaidObject::of(bytes))),
        false => value(bytes).ok().map(PaidView::of),
    }
}

/// Reads what was kept. It may have to come from the store.
fn read(turn: &Turn<'_>, stored: &Stored, budget: &mut WalkBudget) -> Result<Bytes, BudgetSpent> {
    if stored.content().is_some() {
        let n_bytes = usize::try_from(stored.length).unwrap_or(usize::MAX);
        budget.spend(n_bytes / READ_BYTES_PER_UNIT)?;
    }
    Ok(turn.load(stored))
}

/// Bytes that are read from the store at the price of one entry.
const READ_BYTES_PER_UNIT: usize = 32;
/// Contents that are remembered for one turn.
const CONTENTS_MAX: usize = 16;
