//! What runs of a session share: a state that merge patches change, and the health of skills. Knows no run.

use crate::responder::Responder;
use crate::spec::Author;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::OBJECT_NESTING_MAX;
use escapement_model::opaque::{BudgetSpent, PaidObject, StructBuilder, ValueView, WalkBudget, check};
use prost::{Enumeration, Message};

/// A session as it is stored.
#[derive(Clone, PartialEq, Message)]
pub struct Session {
    /// An object.
    #[prost(message, required, tag = "1")]
    pub state: Opaque,
    /// Counts the changes of the state; 0 for one that was always empty.
    #[prost(uint64, tag = "2")]
    pub state_version: u64,
    /// The skills that are not as new, sorted by name.
    #[prost(message, repeated, tag = "3")]
    pub skills: Vec<SkillHealth>,
    /// Counts the changes of the skills; 0 if there was none.
    #[prost(uint64, tag = "4")]
    pub health_version: u64,
    /// How often it was restarted.
    #[prost(uint32, tag = "5")]
    pub restarts: u32,
    /// Whose it is.
    #[prost(string, tag = "6")]
    pub user_id: String,
    /// Who made it, if that was proved.
    #[prost(message, optional, boxed, tag = "7")]
    pub author: Option<Box<Author>>,
    // RUN-6.8
    /// Latest change of the state by each known responder, in their order.
    #[prost(message, repeated, tag = "8")]
    pub changes: Vec<StateChange>,
}

/// Change of the state of a session.
#[derive(Clone, PartialEq, Message)]
pub struct StateChange {
    /// Caller, or the responder that events of the run have.
    #[prost(message, required, tag = "1")]
    pub by: Responder,
    /// Unix milliseconds; more than those of the change before.
    #[prost(int64, tag = "2")]
    pub at: i64,
}

/// How a skill does.
#[derive(Clone, PartialEq, Message)]
pub struct SkillHealth {
    /// The skill.
    #[prost(string, tag = "1")]
    pub skill: String,
    /// Where it is.
    #[prost(enumeration = "Health", tag = "2")]
    pub health: i32,
    /// Failures in a row that count.
    #[prost(uint32, tag = "3")]
    pub failures: u32,
}

/// Where a skill is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Health {
    /// It works.
    Healthy = 0,
    /// It took too long or could not be reached, and may recover.
    TemporaryFailure = 1,
    /// It failed three times in a row.
    Degraded = 2,
    /// It is not to be selected any more.
    PermanentFailure = 3,
}

impl Health {
    /// As planners are told it.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Healthy => "healthy",
            Health::TemporaryFailure => "temporary_failure",
            Health::Degraded => "degraded",
            Health::PermanentFailure => "permanent_failure",
        }
    }
}

/// What happened to a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillEvent {
    /// An attempt succeeded.
    Succeeded,
    /// An attempt took too long, could not be reached, or was lost.
    TimedOut,
    /// An attempt failed in another way.
    Failed,
    /// No retry is left after such an end.
    RetriesUsedUp,
}

// RUN-14.5
/// What becomes of a skill, and of its count.
pub fn next(health: Health, failures: u32, event: SkillEvent) -> (Health, u32) {
    use Health::{Degraded, Healthy, PermanentFailure, TemporaryFailure};
    match (health, event) {
        (PermanentFailure, _) => (PermanentFailure, failures),
        (Healthy | TemporaryFailure | Degraded, SkillEvent::Succeeded) => (Healthy, 0),
        (Healthy | TemporaryFailure, SkillEvent::TimedOut) | (TemporaryFailure, SkillEvent::Failed) => {
            (TemporaryFailure, 0)
        }
        (Healthy, SkillEvent::Failed) if failures + 1 < FAILURES_MAX => (Healthy, failures + 1),
        // The count begins anew.
        (Healthy, SkillEvent::Failed) => (Degraded, 0),
        (TemporaryFailure, SkillEvent::RetriesUsedUp) => (PermanentFailure, failures),
        (Degraded, SkillEvent::TimedOut | SkillEvent::Failed) if failures + 1 < FAILURES_MAX => {
            (Degraded, failures + 1)
        }
        (Degraded, SkillEvent::TimedOut | SkillEvent::Failed) => (PermanentFailure, failures + 1),
        (Healthy | Degraded, SkillEvent::RetriesUsedUp) => (health, failures),
    }
}

/// The skill, as new if nothing is known of it.
pub fn health_of<'a>(skills: &'a [SkillHealth], skill: &str) -> (Health, u32) {
    let of = |one: &'a SkillHealth| (one.health(), one.failures);
    place(skills, skill).map_or((Health::Healthy, 0), |at| of(&skills[at]))
}

/// Writes down how a skill does. Of more skills than a session has room for, the further ones are forgotten.
pub fn set_health(skills: &mut Vec<SkillHealth>, skill: &str, health: Health, failures: u32) {
    let is_new = health == Health::Healthy && failures == 0;
    match place(skills, skill) {
        Ok(at) if is_new => {
            skills.remove(at);
        }
        Ok(at) => {
            skills[at].set_health(health);
            skills[at].failures = failures;
        }
        Err(at) if !is_new && skills.len() < SKILLS_MAX => skills.insert(
            at,
            SkillHealth {
                skill: String::from(skill),
                health: health.into(),
                failures,
            },
        ),
        Err(_) => {}
    }
}

fn place(skills: &[SkillHealth], skill: &str) -> Result<usize, usize> {
    skills.binary_search_by(|one| one.skill.as_str().cmp(skill))
}

// RUN-14.2
/// Merges patches into a state, one after another (RFC 7396). Each of them was checked.
///
/// # Errors
/// A sentence, if the budget is spent, or if the result is larger or deeper than a state may be.
pub fn merged<'a>(
    state: &'a Opaque,
    patches: impl IntoIterator<Item = &'a [u8]>,
    budget: &mut WalkBudget,
) -> Result<Opaque, String> {
    let root = merged_members(state, patches, budget).map_err(|spent| format!("merging it {spent}"))?;
    let state = encoded(root).build();
    if state.len() > STATE_BYTES_MAX {
        return Err(format!(
            "the state of the session would have more than {STATE_BYTES_MAX} bytes"
        ));
    }
    if check(state.as_encoded(), STATE_NESTING_MAX).is_err() {
        return Err(format!(
            "the state of the session would have more than {STATE_OBJECTS_MAX} objects inside one another"
        ));
    }
    Ok(state)
}

/// A value of a state: as it came, or an object that a patch goes into.
enum Node<'a> {
    Value(ValueView<'a>),
    Object(Members<'a>),
}

type Members<'a> = BTreeMap<&'a str, Node<'a>>;

// RUN-14.3
fn merged_members<'a>(
    state: &'a Opaque,
    patches: impl IntoIterator<Item = &'a [u8]>,
    budget: &mut WalkBudget,
) -> Result<Members<'a>, BudgetSpent> {
    let mut root = members(state.as_encoded(), budget)?;
    for patch in patches {
        budget.spend(patch.len() / PATCH_BYTES_PER_UNIT)?;
        merge(&mut root, patch, budget)?;
    }
    Ok(root)
}

fn members<'a>(object: &'a [u8], budget: &mut WalkBudget) -> Result<Members<'a>, BudgetSpent> {
    let (mut entries, mut members) = (PaidObject::of(object).entries(), BTreeMap::new());
    while let Some((key, value)) = entries.next(budget)? {
        members.insert(key, Node::Value(value.unpaid()));
    }
    Ok(members)
}

fn merge<'a>(target: &mut Members<'a>, patch: &'a [u8], budget: &mut WalkBudget) -> Result<(), BudgetSpent> {
    let mut entries = PaidObject::of(patch).entries();
    while let Some((key, value)) = entries.next(budget)? {
        match value.unpaid() {
            ValueView::Null => {
                target.remove(key);
            }
            ValueView::Struct(inner) => {
                let mut object = match target.remove(key) {
                    Some(Node::Object(object)) => object,
                    Some(Node::Value(ValueView::Struct(object))) => members(object, budget)?,
                    Some(Node::Value(_)) | None => BTreeMap::new(),
                };
                merge(&mut object, inner, budget)?;
                target.insert(key, Node::Object(object));
            }
            value => {
                target.insert(key, Node::Value(value));
            }
        }
    }
    Ok(())
}

fn encoded(object: Members<'_>) -> StructBuilder {
    object
        .into_iter()
        .fold(StructBuilder::new(), |built, (key, node)| match node {
            Node::Value(value) => built.value(key, value),
            Node::Object(object) => built.object(key, encoded(object).build().as_encoded()),
        })
}

impl Session {
    /// A new session of a user.
    pub fn new(user_id: &str, state: Opaque) -> Self {
        Self {
            user_id: String::from(user_id),
            state_version: u64::from(!state.is_empty()),
            state,
            ..Self::default()
        }
    }

    /// Its number, which every change makes higher.
    pub fn version(&self) -> u64 {
        self.state_version + self.health_version + u64::from(self.restarts)
    }

    /// Merges a patch into the state; true if that changes it.
    ///
    /// # Errors
    /// As [`merged`].
    pub fn patch(&mut self, patch: &Opaque) -> Result<bool, String> {
        let mut budget = WalkBudget::new(PATCH_WORK_MAX);
        let state = merged(&self.state, [&patch.as_encoded()[..]], &mut budget)?;
        let changes = state != self.state;
        if changes {
            self.state = state;
            self.state_version += 1;
        }
        Ok(changes)
    }

    // RUN-6.8
    /// Records the responder that has changed the state, if it is known. Of more than [`CHANGES_MAX`] the earliest is dropped.
    pub fn record_change(&mut self, by: Option<&Responder>, now: i64) {
        let Some(by) = by else { return };
        let at = now.max(self.changed_at() + 1);
        self.changes.retain(|change| change.by.id != by.id);
        if self.changes.len() >= CHANGES_MAX {
            self.changes.remove(0);
        }
        self.changes.push(StateChange { by: by.clone(), at });
    }

    /// Returns when the state was changed last by a known responder; 0 if it never was.
    pub fn changed_at(&self) -> i64 {
        self.changes.last().map_or(0, |change| change.at)
    }

    // RUN-6.8
    /// Returns the responder of the latest change after that time, with the names of the earlier ones. `None` without any.
    pub fn changed_after(&self, at: i64) -> Option<Responder> {
        let mut changes = self.changes.iter().rev().take_while(|change| change.at > at);
        let mut changed = changes.next()?.by.clone();
        for name in changes.flat_map(|change| change.by.names()) {
            changed.add_name(name);
        }
        Some(changed)
    }

    // RUN-14.5
    /// Forgets how a skill did, or all of them; true if there was something to forget.
    pub fn forget_health(&mut self, skill: Option<&str>) -> bool {
        let n_before = self.skills.len();
        self.skills
            .retain(|one| skill.is_some_and(|skill| one.skill != skill));
        let changes = self.skills.len() < n_before;
        self.health_version += u64::from(changes);
        changes
    }

    /// The stored bytes.
    pub fn encoded(&self) -> Bytes {
        Bytes::from(self.encode_to_vec())
    }
}

// RUN-14.3
/// Budget of the patches of one step. Entries of the state and of the patches cost one unit each, and so do four bytes of a patch.
pub const PATCH_WORK_MAX: usize = 4 << 20;
/// Bytes of a patch that cost as much as one entry.
const PATCH_BYTES_PER_UNIT: usize = 4;
/// Bytes of a state: 1 MiB.
pub const STATE_BYTES_MAX: usize = 1 << 20;
/// Objects inside one another: one less than the contract allows, so that a payload can hold a state.
pub const STATE_OBJECTS_MAX: usize = 29;
/// The same in messages of Protocol Buffers, of which an object inside another one has three.
const STATE_NESTING_MAX: usize = OBJECT_NESTING_MAX - 3;
/// Skills of one session whose health is known.
pub const SKILLS_MAX: usize = 1024;
/// Responders whose latest change of the state of one session is known.
pub const CHANGES_MAX: usize = 64;
/// Failures in a row that lead on.
const FAILURES_MAX: u32 = 3;
