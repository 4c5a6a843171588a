//! Effects that are made again by another revision or a fork, from what handlers saw. A repetition has a reason that stands in a
//! journal: the result was taken over, a person was asked, the policy is to repeat, or steps were set back.

use super::book::Book;
use super::{Desk, Finding, Judge};
use crate::canonical::{Canonical, uuid};
use crate::journal::{Called, Unit};
use crate::wire::Value;
use std::collections::{BTreeMap, BTreeSet};

/// SHA-256 of an action, a payload and an environment: the same deed has the same one, whichever step of whichever plan does it.
pub(super) type Key = [u8; 32];

/// A commit, and the clock of the run within it.
/// The clocks of two runs, or of two starts, cannot be compared.
type Moment = (u64, i64);

/// An attempt whose repetition may be noticed.
#[derive(Debug)]
struct Deed {
    run: [u8; 16],
    /// Counts the revisions of the run.
    revision: u32,
    step: String,
    unit: Unit,
    attempt: u32,
    /// Moment of its intent.
    came: Moment,
    /// What the handler was handed; `None` until it began.
    seen: Option<Key>,
    /// Class and moment of its end, by its journal.
    class: Option<(u32, Moment)>,
    /// The law or a person allows to do it again.
    is_excused: bool,
    /// The policy of its run is to repeat it if nothing is known of it, or if it took too long: then it ends as a failure.
    is_repeated: [bool; 2],
    /// Somebody was asked about it.
    was_asked: bool,
    /// It does again what was done before.
    repeats: Option<String>,
}

impl Deed {
    /// Nobody knows whether it was done, nobody was asked, and its run did not do it again by itself.
    fn is_in_doubt(&self) -> bool {
        let [unknown, timed_out] = self.is_repeated;
        let is_open = match self.class.map(|(class, _)| class) {
            None => true,
            Some(4) => !timed_out,
            Some(5) => !unknown,
            Some(_) => false,
        };
        is_open && !self.was_asked
    }
}

/// A run that another one waits for.
#[derive(Debug)]
struct Child {
    parent: [u8; 16],
    /// Counts the revisions of the parent.
    revision: u32,
    unit: Unit,
    step: String,
    /// The commit that started it.
    commit: u64,
    /// The parent has heard of its end.
    is_over: bool,
}

/// When a run was left by one that goes on where it was.
#[derive(Clone, Copy, Debug)]
struct Left {
    came: Moment,
    /// The revision that it had.
    revision: u32,
}

/// All of them, by the ids of their executions.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    known: BTreeMap<[u8; 16], Deed>,
    /// Runs that go on where others were: the other one, and when that was.
    origins: BTreeMap<[u8; 16], (Vec<u8>, Left)>,
    /// Runs that may repeat what others did that they go on from.
    free: BTreeSet<[u8; 16]>,
    children: BTreeMap<[u8; 16], Child>,
    /// How many revisions each run has.
    revisions: BTreeMap<[u8; 16], u32>,
    /// Number of commits that were shown.
    n_commits: u64,
}

/// What a revision has of deeds before it.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Results that units have taken over, by their steps.
    taken: Vec<(u32, Key)>,
    /// Executions that somebody was asked about.
    asked: Vec<[u8; 16]>,
    /// Steps that were kept as a whole, by their keys.
    kept: BTreeSet<String>,
    /// Steps that were set back.
    set_back: BTreeSet<u32>,
}

impl Deeds {
    fn excuse(&mut self, is_meant: impl Fn(&Deed) -> bool) {
        let meant = self.known.values_mut().filter(|deed| is_meant(deed));
        meant.for_each(|deed| deed.is_excused = true);
    }

    /// The attempt has ended like this, by its journal.
    pub(super) fn ended(&mut self, execution: &[u8; 16], class: u32, at: i64) {
        if let Some(deed) = self.known.get_mut(execution) {
            deed.class = Some((class, (self.n_commits, at)));
        }
    }

    /// The runs that this one goes on from, each with the time at which it was left.
    fn lineage(&self, run: [u8; 16]) -> BTreeMap<[u8; 16], Left> {
        let mut lineage = BTreeMap::new();
        let mut next = Some(run);
        while let Some((from, left)) = next.and_then(|run| self.origins.get(&run)) {
            next = from[..]
                .try_into()
                .ok()
                .filter(|from| !lineage.contains_key(from));
            if let Some(from) = next {
                lineage.insert(from, *left);
            }
        }
        lineage
    }

    /// True if what the deed left in doubt is in doubt in that revision of a run, or in the next child of its unit: it is one of
    /// a child whose end was heard of, or that was left under way by the run that this one goes on from.
    fn hears_of(&self, deed: &Deed, run: [u8; 16], revision: u32, unit: Option<Unit>) -> bool {
        let Some(child) = self.children.get(&deed.run) else {
            return false;
        };
        if child.parent == run {
            let is_before = child.revision < revision;
            let is_of_unit = child.revision == revision && unit == Some(child.unit);
            return child.is_over && (is_before || is_of_unit);
        }
        let lineage = self.lineage(run);
        lineage.get(&child.parent).is_some_and(|left| {
            let is_last = child.revision == left.revision;
            child.commit <= left.came.0 && deed.came < left.came && is_last
        })
    }

    /// The same for a run that may itself be a child, and hears of what is in doubt in its parent.
    fn hears_of_child(&self, deed: &Deed, run: [u8; 16], revision: u32) -> bool {
        if self.hears_of(deed, run, revision, None) {
            return true;
        }
        let Some(own) = self.children.get(&run) else {
            return false;
        };
        let of_parent = deed.run == own.parent && deed.revision < own.revision;
        of_parent || self.hears_of(deed, own.parent, own.revision, Some(own.unit))
    }
}

impl Book {
    /// The run is made; perhaps it goes on where another one was.
    pub(super) fn begins_from(&self, at: i64, desk: &mut Desk<'_>) {
        let deeds = &mut *desk.deeds;
        let from: Option<[u8; 16]> = self.spec.forked_from[..].try_into().ok();
        let from = from.filter(|_| !deeds.free.contains(&self.id));
        if let Some(from) = from {
            let left = Left {
                came: (deeds.n_commits, at),
                revision: deeds.revisions.get(&from).copied().unwrap_or(0),
            };
            deeds.origins.insert(self.id, (from.to_vec(), left));
        }
    }

    /// Another revision begins.
    pub(super) fn counts_revisions(&self, desk: &mut Desk<'_>) {
        desk.deeds.revisions.insert(self.id, self.n_revisions);
    }

    /// A unit has asked for a child run.
    pub(super) fn has_child(&self, unit: Unit, run: &[u8], desk: &mut Desk<'_>) {
        let (Ok(run), Some(step)) = (run.try_into(), self.steps.get(unit.step as usize)) else {
            return;
        };
        let child = Child {
            parent: self.id,
            revision: self.n_revisions,
            unit,
            step: step.key.clone(),
            commit: desk.deeds.n_commits,
            is_over: false,
        };
        desk.deeds.children.insert(run, child);
    }

    /// The end of a child run was heard of.
    pub(super) fn child_is_over(run: &[u8], n_doubts: usize, desk: &mut Desk<'_>) {
        if n_doubts > 0 {
            desk.count("children that leave doubts");
        }
        let run: Result<[u8; 16], _> = run.try_into();
        if let Some(child) = run.ok().and_then(|run| desk.deeds.children.get_mut(&run)) {
            child.is_over = true;
        }
    }

    // RI17
    /// An attempt is intended: is it one of a deed that was done before, or may have been?
    pub(super) fn intends(
        &self,
        id: [u8; 16],
        called: &Called,
        payload: &Value,
        at: i64,
        desk: &mut Desk<'_>,
    ) {
        let unit = called.unit;
        let is_own = unit.is_generation() || unit.is_check() || unit.is_look();
        if is_own || !self.effects.contains(&called.action) {
            return;
        }
        let key = key_of(&called.action, payload, &self.environment);
        let lineage = desk.deeds.lineage(self.id);
        let is_before = |deed: &&Deed| {
            let of_run = deed.run == self.id && deed.revision < self.n_revisions;
            let left = lineage.get(&deed.run);
            of_run || left.is_some_and(|left| deed.came < left.came)
        };
        let deeds = &*desk.deeds;
        let is_of_other =
            |deed: &Deed| deed.is_in_doubt() && deeds.hears_of_child(deed, self.id, self.n_revisions);
        let is_told = |deed: &&Deed| is_before(deed) || is_of_other(deed);
        let mut before = desk.deeds.known.values().filter(is_told).filter(|deed| {
            // What a fork has not heard of when it was made is in doubt there.
            let left = lineage.get(&deed.run).map(|left| left.came);
            let class = deed
                .class
                .filter(|(_, ended)| left.is_none_or(|left| *ended < left));
            let may_have_happened = match class.map(|(class, _)| class) {
                Some(0) => true,
                Some(4) => self.spec.timed_out != POLICY_RETRY,
                Some(5) | None => self.spec.unknown != POLICY_RETRY,
                Some(_) => false,
            };
            let of_child = deeds.children.get(&deed.run);
            let step = of_child
                .filter(|_| deed.run != self.id)
                .map_or(&deed.step, |child| &child.step);
            let is_kept = self.settled.kept.contains(step);
            deed.seen == Some(key) && may_have_happened && !deed.is_excused && !is_kept
        });
        let settled = &self.settled;
        let is_asked = |id: &&[u8; 16]| {
            desk.deeds
                .known
                .get(*id)
                .is_some_and(|deed| deed.seen == Some(key))
        };
        let n_settled = settled.taken.iter().filter(|(_, taken)| *taken == key).count()
            + settled.asked.iter().filter(is_asked).count();
        let repeats = before.nth(n_settled).map(|deed| {
            let (run, now, action) = (uuid(&deed.run), uuid(&self.id), &called.action);
            let (step, revision) = (&deed.step, deed.revision);
            format!("run {now}: {action} of {unit:?} does again what {step:?} of revision {revision} of run {run} did")
        });
        let deed = Deed {
            run: self.id,
            revision: self.n_revisions,
            step: self.steps[unit.step as usize].key.clone(),
            unit,
            attempt: called.attempt,
            came: (desk.deeds.n_commits, at),
            seen: None,
            class: None,
            is_excused: false,
            was_asked: false,
            is_repeated: [self.spec.unknown, self.spec.timed_out].map(|word| word == POLICY_RETRY),
            repeats: repeats.filter(|_| !settled.set_back.contains(&unit.step)),
        };
        desk.deeds.known.insert(id, deed);
    }

    /// A unit has a result without a call.
    pub(super) fn takes_over(&mut self, step: u32, key: &[u8], desk: &mut Desk<'_>) {
        if let Ok(key) = key.try_into() {
            desk.count("results without a call");
            self.settled.taken.push((step, key));
        }
    }

    /// A step is kept as a whole.
    pub(super) fn keeps(&mut self, step: u32) {
        let key = self.steps.get(step as usize).map(|step| step.key.clone());
        self.settled.kept.extend(key);
    }

    /// Somebody is asked about an attempt of the unit, or one of an earlier revision or of another run.
    pub(super) fn asks_about_deed(&mut self, unit: Option<Unit>, execution: &[u8], desk: &mut Desk<'_>) {
        let execution: Option<[u8; 16]> = execution.try_into().ok();
        if let Some(execution) = execution {
            desk.count("questions about earlier effects");
            self.settled.asked.push(execution);
        }
        let run = self.id;
        for (id, deed) in &mut desk.deeds.known {
            let is_own = execution.is_none() && deed.run == run && unit == Some(deed.unit);
            deed.was_asked |= execution == Some(*id) || is_own;
        }
    }

    /// It did not happen, by the word of a person, or is retried by the law.
    pub(super) fn is_excused(&self, unit: Unit, earlier: Option<&[u8]>, desk: &mut Desk<'_>) {
        if let Some(execution) = earlier
            && let Some(deed) = desk.deeds.known.get_mut(execution)
        {
            deed.is_excused = true;
            return;
        }
        let attempts = self.unit(unit).map_or(0, |unit| unit.attempts);
        let run = self.id;
        desk.deeds
            .excuse(|deed| deed.run == run && deed.unit == unit && deed.attempt == attempts);
    }

    // RUN-12.9
    /// What a unit made is wrong: no later revision takes its result, so what made it is called again.
    pub(super) fn made_what_is_wrong(&self, unit: Unit, desk: &mut Desk<'_>) {
        let (run, revision) = (self.id, self.n_revisions);
        let of_step = self.settled.taken.iter().filter(|it| it.0 == unit.step);
        let taken: BTreeSet<Key> = of_step.map(|it| it.1).collect();
        desk.deeds.excuse(|deed| {
            let is_own = deed.run == run && deed.revision == revision && deed.unit == unit;
            is_own || deed.seen.is_some_and(|seen| taken.contains(&seen))
        });
    }

    /// A step is set back, which repeats what it did only if that is allowed.
    pub(super) fn sets_back(&mut self, step: u32, desk: &mut Desk<'_>) {
        let (run, revision) = (self.id, self.n_revisions);
        let epoch = self.steps[step as usize].epoch;
        let is_done = |deed: &&Deed| {
            let is_own = deed.run == run && deed.revision == revision && deed.unit.step == step;
            let unit = self.unit(deed.unit);
            let lives = unit.is_some_and(|unit| unit.live == Some(deed.attempt));
            let was_done = matches!(deed.class, Some((0, _)));
            is_own && deed.unit.epoch == epoch && !deed.is_excused && (was_done || lives)
        };
        if let Some(deed) = desk.deeds.known.values().find(is_done) {
            self.set_back
                .insert(desk.sequence, format!("an effect of {:?}", deed.unit));
            desk.count("effects of steps that were set back");
        }
        // What is in doubt of its children is repeated as well.
        desk.deeds
            .children
            .retain(|_, child| (child.parent, child.revision, child.unit.step) != (run, revision, step));
        let taken: BTreeSet<Key> = self
            .settled
            .taken
            .iter()
            .filter(|it| it.0 == step)
            .map(|it| it.1)
            .collect();
        self.settled.taken.retain(|it| it.0 != step);
        self.settled.set_back.insert(step);
        desk.deeds.excuse(|deed| {
            let is_own = deed.run == run && deed.revision == revision && deed.unit.step == step;
            is_own || deed.seen.is_some_and(|seen| taken.contains(&seen))
        });
    }
}

impl Judge {
    /// Begins a commit: entries shown from now on became durable after all earlier ones.
    pub fn commits(&mut self) {
        self.deeds.n_commits += 1;
    }

    // RI17
    /// The run goes on from another one, and may repeat what that did.
    pub fn may_repeat(&mut self, run: [u8; 16]) {
        self.deeds.free.insert(run);
    }

    // RI17
    /// A handler has begun, and this is what it was handed.
    pub(super) fn does(&mut self, execution: [u8; 16], payload: &[u8], environment: &[u8]) {
        let (Some(known), Some(deed)) = (
            self.executions.get(&execution),
            self.deeds.known.get_mut(&execution),
        ) else {
            return;
        };
        let (Ok(payload), Ok(Value::Object(mut environment))) =
            (Value::of_object(payload), Value::of_object(environment))
        else {
            return;
        };
        environment.remove(OWN);
        deed.seen = Some(key_of(&known.action, &payload, &Value::Object(environment)));
        *self.counts.entry("effects that handlers began").or_default() += 1;
        if let Some(text) = deed.repeats.take() {
            self.findings.push(Finding {
                invariant: "RI17",
                text,
            });
        }
    }
}

fn key_of(action: &str, payload: &Value, environment: &Value) -> Key {
    Canonical::named("escapement run result 1")
        .text(action)
        .object(payload)
        .object(environment)
        .hash()
}

/// What a run adds to the environment of its attempts.
const OWN: &str = "escapement_run";
/// The word of a policy that repeats what is in doubt.
const POLICY_RETRY: u32 = 2;
