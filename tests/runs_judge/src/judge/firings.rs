//! Triggers: which instants and events fire, what becomes of each, and that each firing has its run and each run its firing.
//! Instants are whole minutes; counts them itself, and reads no expression.

use super::{Finding, Judge};
use crate::canonical::{as_id, sha256, uuid};
use crate::wire::Message;
use std::collections::{BTreeMap, BTreeSet};

/// What a trigger is made from.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Milliseconds between two instants, a whole number of minutes that divides an hour; 0 if it fires after events alone.
    pub every_ms: i64,
    /// Its schedule begins after this, in Unix milliseconds.
    pub from: i64,
    /// What becomes of a firing while a run of it lives.
    pub overlap: Overlap,
    /// How many of the instants that were missed fire; `None` for the latest, if none is on time.
    pub n_caught_up: Option<u32>,
}

/// What becomes of a firing while a run of its trigger lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// It has no run.
    Skip,
    /// It waits.
    Queue,
    /// It has its run.
    Allow,
}

/// The books about triggers.
#[derive(Debug, Default)]
pub(super) struct Firings {
    rules: BTreeMap<String, Rule>,
    /// By their ids.
    known: BTreeMap<String, Firing>,
    /// How often firings were shown, and of each firing the time at which it was there.
    n_shown: u64,
    arrived: BTreeMap<String, u64>,
    /// What became of instants, by trigger and instant: the firing that says so.
    instants: BTreeMap<(String, i64), String>,
    /// Triggers whose schedules were set back with the clock, and the times from which they fired before.
    set_back: BTreeMap<String, i64>,
    /// Runs that live, of those that were started by firings, by trigger.
    lived: BTreeMap<String, BTreeSet<[u8; 16]>>,
    /// When the running process looked at schedules last.
    looked_at: Option<i64>,
    /// Events that somebody was told have fired.
    told: BTreeSet<(String, String)>,
}

impl Firings {
    /// A process has started, which has looked at nothing yet.
    pub(super) fn has_booted(&mut self) {
        self.looked_at = None;
    }
}

/// A firing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Firing {
    id: String,
    trigger: String,
    kind: String,
    status: String,
    run: String,
    reason: String,
    due_at: i64,
    fired_at: i64,
    event: String,
    count: i64,
}

fn read(record: &[u8]) -> Result<Firing, String> {
    let firing = Message::parse(record)?.message(1)?;
    Ok(Firing {
        id: firing.text(1),
        trigger: firing.text(2),
        kind: firing.text(3),
        status: firing.text(4),
        run: firing.text(5),
        reason: firing.text(6),
        due_at: firing.signed(8),
        fired_at: firing.signed(9),
        event: firing.text(11),
        count: firing.signed(12),
    })
}

impl Firing {
    /// The key by which it is known.
    fn key(&self) -> [u8; 32] {
        let (kind, parts) = match self.kind.as_str() {
            "schedule" => ("due", [self.due_at.to_string(), String::new()]),
            _ => ("event", [EVENT_TYPE.to_owned(), self.event.clone()]),
        };
        let parts = ["escapement firing", &self.trigger, kind, &parts[0], &parts[1]];
        let all = parts.iter().fold(Vec::new(), |mut all, part| {
            all.extend_from_slice(&(part.len() as u64).to_le_bytes());
            all.extend_from_slice(part.as_bytes());
            all
        });
        sha256(&all)
    }
}

impl Rule {
    /// True if the instant fires, by the age that it had at that time.
    fn fires(&self, instant: i64, at: i64) -> bool {
        let age_ms = at - instant;
        if age_ms < ON_TIME_MS {
            return true;
        }
        if age_ms > WINDOW_MS {
            return false;
        }
        // Later ones that are late as well, and whether one is on time.
        let n_later = (age_ms - ON_TIME_MS) / self.every_ms;
        let last = at - at.rem_euclid(self.every_ms);
        match self.n_caught_up {
            None => n_later == 0 && at - last >= ON_TIME_MS,
            Some(most) => n_later < i64::from(most),
        }
    }
}

impl Judge {
    /// A trigger is there, durably.
    pub(super) fn has_trigger(&mut self, trigger: String, rule: Rule) {
        self.firings.rules.insert(trigger, rule);
    }

    /// The process that fires looks at all schedules, at that Unix millisecond.
    pub fn looks_at_schedules(&mut self, at: i64) {
        // TRIG-2.3: an instant in the future has not been handled, so a schedule continues from here.
        for (trigger, rule) in &mut self.firings.rules {
            let instants = self.firings.instants.keys().filter(|(of, _)| of == trigger);
            let last = instants.map(|(_, instant)| *instant).max();
            if rule.from.max(last.unwrap_or(0)) > at + AHEAD_MS {
                let known = self.firings.set_back.entry(trigger.clone());
                known.or_insert(rule.from);
                rule.from = rule.from.min(at);
            }
        }
        self.firings.looked_at = Some(at);
    }

    /// Somebody was told that an event has fired a trigger, or was heard before.
    pub(super) fn told_event(&mut self, trigger: &str, event: &str) {
        self.firings.told.insert((trigger.to_owned(), event.to_owned()));
    }

    // RI16
    /// The firings that are durable, each with its id, after everything that is durable of runs was shown.
    pub fn fired(&mut self, records: &[(String, Vec<u8>)]) {
        let mut new = Vec::new();
        self.firings.n_shown += 1;
        for (name, record) in records {
            match read(record) {
                Ok(firing) if firing.id == *name => new.push(firing),
                Ok(_) | Err(_) => self.finds("RI16", format!("the firing {name} cannot be read")),
            }
        }
        let ids: BTreeSet<&String> = new.iter().map(|firing| &firing.id).collect();
        if let Some(lost) = self.firings.known.keys().find(|id| !ids.contains(id)) {
            return self.finds("RI16", format!("the firing {lost} is lost"));
        }
        new.retain(|firing| self.firings.known.get(&firing.id) != Some(firing));
        new.sort_by_key(|firing| (firing.due_at, firing.fired_at));
        for firing in new {
            if let Err(what) = self.takes_firing(&firing) {
                let text = format!("{what}: {firing:?}");
                self.finds("RI16", text);
            }
        }
        self.runs_have_firings();
    }

    fn takes_firing(&mut self, firing: &Firing) -> Result<(), String> {
        let key = firing.key();
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let Some(rule) = self.firings.rules.get(&firing.trigger).cloned() else {
            return Err("fires before its trigger is there".to_owned());
        };
        if hex != firing.id {
            return Err("has a key that does not follow from its cause".to_owned());
        }
        let n_shown = self.firings.n_shown;
        self.firings.arrived.entry(firing.id.clone()).or_insert(n_shown);
        let before = self.firings.known.insert(firing.id.clone(), firing.clone());
        match before.as_ref().map(|before| before.status.as_str()) {
            None if firing.kind == "schedule" => self.takes_instants(firing, &rule)?,
            // The turn of one that waited.
            None | Some("waiting") => {}
            Some(status) => return Err(format!("was {status} before")),
        }
        self.count_of_firing(firing);
        let own = run_of(&key);
        let live = self.live_runs(&firing.trigger, own);
        match (firing.status.as_str(), rule.overlap) {
            ("started", _) if firing.run != uuid(&own) => {
                Err("has a run that does not follow from it".to_owned())
            }
            ("started", _) if !self.runs.contains_key(&own) => Err("has a run that is not there".to_owned()),
            ("started", Overlap::Skip | Overlap::Queue) if !live.is_empty() => {
                Err(format!("starts a run while {} live", live.len()))
            }
            ("started", Overlap::Queue) => self.is_first_in_line(firing),
            ("started", _) => Ok(()),
            ("waiting", Overlap::Queue) => Ok(()),
            ("skipped", _) if firing.reason == "MISSED" => Ok(()),
            ("skipped", Overlap::Skip) if firing.reason == "OVERLAP" => {
                let lived = self.firings.lived.get(&firing.trigger);
                let has_lived = lived.is_some_and(|lived| !lived.is_empty()) || !live.is_empty();
                has_lived
                    .then_some(())
                    .ok_or("is skipped, and no run of its trigger lives".to_owned())
            }
            _ => Err("is not what its trigger asks for".to_owned()),
        }
    }

    /// What an instant, or several that were missed, came to.
    fn takes_instants(&mut self, firing: &Firing, rule: &Rule) -> Result<(), String> {
        let is_missed = firing.reason == "MISSED";
        let n = if is_missed { firing.count } else { 1 };
        for n in 0..n {
            let instant = firing.due_at + n * rule.every_ms;
            if instant % rule.every_ms != 0 || instant <= rule.from || instant > firing.fired_at {
                return Err(format!(
                    "is about {instant}, which is no instant of its schedule until then"
                ));
            }
            if rule.fires(instant, firing.fired_at) == is_missed {
                return Err(format!("{instant} is not what was to become of it"));
            }
            let at = (firing.trigger.clone(), instant);
            let before = self.firings.instants.insert(at, firing.id.clone());
            // After a schedule was set back, an instant that was missed then may fire, and one that fired may be noted as missed.
            let is_set_back = self.firings.set_back.contains_key(&firing.trigger);
            let was_missed = |id: &String| self.firings.known.get(id).is_some_and(|it| it.reason == "MISSED");
            let fires_again = |id: &String| !is_set_back || !is_missed && !was_missed(id);
            if let Some(other) = before.filter(fires_again) {
                return Err(format!("{instant} has the firing {other}, too"));
            }
        }
        Ok(())
    }

    fn count_of_firing(&mut self, firing: &Firing) {
        let what = match (firing.status.as_str(), firing.kind.as_str()) {
            ("started", "schedule") => "instants that fire",
            ("started", _) => "events that fire",
            ("waiting", _) => "firings that wait",
            _ if firing.reason == "MISSED" => "instants that are missed",
            _ => "firings that overlap",
        };
        *self.counts.entry(what).or_default() += 1;
    }

    /// Runs of other firings of the trigger that have not ended.
    fn live_runs(&self, trigger: &str, own: [u8; 16]) -> BTreeSet<[u8; 16]> {
        let started = self
            .firings
            .known
            .values()
            .filter(|firing| firing.trigger == trigger && firing.status == "started");
        let runs = started
            .map(|firing| run_of(&firing.key()))
            .filter(|run| *run != own);
        runs.filter(|run| !self.has_ended(run)).collect()
    }

    /// One that starts does not pass others that wait.
    fn is_first_in_line(&self, firing: &Firing) -> Result<(), String> {
        let arrived = |id: &String| self.firings.arrived.get(id);
        let mut waiting = self
            .firings
            .known
            .values()
            .filter(|other| other.trigger == firing.trigger && other.status == "waiting");
        match waiting.find(|other| arrived(&other.id) < arrived(&firing.id)) {
            Some(other) => Err(format!("passes {}, which waits", other.id)),
            None => Ok(()),
        }
    }

    // RI16
    fn runs_have_firings(&mut self) {
        let known = self.firings.known.values();
        let started: BTreeSet<[u8; 16]> = known
            .filter(|firing| firing.status == "started")
            .map(|firing| run_of(&firing.key()))
            .collect();
        let mut of_triggers = self
            .runs
            .iter()
            .filter(|(_, book)| book.spec.request_id.starts_with(OF_FIRING));
        if let Some((run, _)) = of_triggers.find(|(run, _)| !started.contains(*run)) {
            let text = format!(
                "run {} was started by a trigger, and no firing says so",
                uuid(run)
            );
            self.finds("RI16", text);
        }
        let triggers: Vec<String> = self.firings.rules.keys().cloned().collect();
        for trigger in triggers {
            let live = self.live_runs(&trigger, [0; 16]);
            self.firings.lived.insert(trigger, live);
        }
    }

    /// True if a firing waits for the end of another one's run.
    pub fn has_firing_that_waits(&self) -> bool {
        self.firings
            .known
            .values()
            .any(|firing| firing.status == "waiting")
    }

    // RI16
    /// Everything has come to rest: every instant and every event has its firing, and none waits.
    pub fn all_fired(&mut self) {
        let mut missing = None;
        for (trigger, rule) in self.firings.rules.iter().filter(|(_, rule)| rule.every_ms > 0) {
            let until = self.firings.looked_at.unwrap_or(rule.from);
            // The process may have died before a schedule was durably set back.
            let mut fired = self.firings.instants.keys().filter(|(of, _)| of == trigger);
            let first = fired.next().map(|(_, instant)| instant - 1);
            let before = self.firings.set_back.get(trigger).copied().unwrap_or(rule.from);
            let from = rule.from.max(before.min(first.unwrap_or(before)));
            let mut instant = from - from.rem_euclid(rule.every_ms) + rule.every_ms;
            while instant <= until {
                if !self.firings.instants.contains_key(&(trigger.clone(), instant)) {
                    missing = Some(format!("trigger {trigger}: nothing has become of {instant}"));
                }
                instant += rule.every_ms;
            }
        }
        let known = || self.firings.known.values();
        let waits = known().find(|firing| firing.status == "waiting");
        let waits = waits.map(|firing| format!("a firing waits for ever: {firing:?}"));
        let is_there = |told: &(String, String)| {
            known().any(|firing| firing.trigger == told.0 && firing.event == told.1)
        };
        let told = self.firings.told.iter().find(|told| !is_there(told));
        let told = told.map(|told| format!("{told:?} was told to have fired, and no firing says so"));
        for text in [missing, waits, told].into_iter().flatten().collect::<Vec<_>>() {
            self.findings.push(Finding {
                invariant: "RI16",
                text,
            });
        }
    }
}

/// The run of a firing.
fn run_of(key: &[u8; 32]) -> [u8; 16] {
    as_id(sha256(&[&b"escapement run of a firing"[..], key].concat()))
}

/// The type of all events.
const EVENT_TYPE: &str = "happened";
/// How the request ids of runs begin that firings start.
const OF_FIRING: &str = "firing";
/// Milliseconds by which a schedule may be ahead of the clock without being set back.
const AHEAD_MS: i64 = 1_000;
/// An instant is on time for less than a minute, and fires for an hour at most.
const ON_TIME_MS: i64 = 60_000;
const WINDOW_MS: i64 = 3_600_000;
