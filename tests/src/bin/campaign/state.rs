//! What is done and what is under way, in a file that is whole at every moment. Runs nothing.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Fault;

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Simulated seeds.
    Seeds,
    /// Simulated seeds of runs.
    Runs,
    /// Kills of a real orchestrator.
    Kills,
}

/// The work of one child: so many seeds or kills, the first with this seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    pub(crate) from: u64,
    pub(crate) count: u64,
}

/// Sums over reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) seeds: u64,
    /// Seeds of the simulation of runs.
    pub(crate) run_seeds: u64,
    pub(crate) kills: u64,
    pub(crate) operations: u64,
    pub(crate) faults: u64,
    pub(crate) violations: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Totals) {
        self.seeds += other.seeds;
        self.run_seeds += other.run_seeds;
        self.kills += other.kills;
        self.operations += other.operations;
        self.faults += other.faults;
        self.violations += other.violations;
    }
}

/// A line of JSON, in this order.
impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals {
            seeds,
            run_seeds,
            kills,
            operations,
            faults,
            violations,
        } = self;
        write!(
            f,
            "{{\"seeds\":{seeds},\"run_seeds\":{run_seeds},\"kills\":{kills},\
             \"operations\":{operations},\"faults\":{faults},\"violations\":{violations}}}"
        )
    }
}

/// A campaign, as it stands in its file.
#[derive(Clone, Debug)]
pub(crate) struct State {
    path: PathBuf,
    pub(crate) next_seed: u64,
    pub(crate) next_run_seed: u64,
    pub(crate) next_round: u64,
    /// Begun and not done, or not done well: the next campaign begins with them.
    pub(crate) open: Vec<Work>,
    pub(crate) totals: Totals,
}

/// Seeds of one child, so that it takes seconds and what is interrupted costs little.
pub(crate) const SEEDS_EACH: u64 = 200;
/// Kills of one child.
pub(crate) const KILLS_EACH: u64 = 25;

impl State {
    /// True before anything was done.
    pub(crate) fn is_new(&self) -> bool {
        self.open.is_empty() && self.totals == Totals::default()
    }

    /// Goes on where the file says, or begins anew with `seed`.
    pub(crate) fn load(folder: &Path, seed: Option<u64>) -> Result<Self, Fault> {
        let path = folder.join("state.json");
        let first = seed.unwrap_or(1);
        let new = Self {
            path: path.clone(),
            next_seed: first,
            next_run_seed: first,
            next_round: first,
            open: Vec::new(),
            totals: Totals::default(),
        };
        if seed.is_some() {
            return Ok(new);
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => read(new, &text)
                .map_err(|fault| format!("{}: {fault}; remove it to begin anew", path.display()).into()),
            Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(new),
            Err(fault) => Err(format!("{}: {fault}", path.display()).into()),
        }
    }

    /// Returns the next work of this kind: what was interrupted first. It is open until it is [`done`](Self::done).
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn take(&mut self, kind: Kind, under_way: &[Work]) -> Result<Work, Fault> {
        let interrupted = self
            .open
            .iter()
            .find(|work| work.kind == kind && !under_way.contains(work));
        if let Some(work) = interrupted {
            return Ok(*work);
        }
        let (next, count) = match kind {
            Kind::Seeds => (&mut self.next_seed, SEEDS_EACH),
            Kind::Runs => (&mut self.next_run_seed, SEEDS_EACH),
            Kind::Kills => (&mut self.next_round, KILLS_EACH),
        };
        let work = Work {
            kind,
            from: *next,
            count,
        };
        *next += count;
        self.open.push(work);
        self.save()?;
        Ok(work)
    }

    /// It was done without a violation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn done(&mut self, work: Work, totals: &Totals) -> Result<(), Fault> {
        self.open.retain(|open| *open != work);
        self.totals.add(totals);
        self.save()
    }

    /// It broke a rule; it stays open.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn broken(&mut self) -> Result<(), Fault> {
        self.totals.violations += 1;
        self.save()
    }

    fn save(&self) -> Result<(), Fault> {
        let open = self.open.iter().map(|work| match work.kind {
            Kind::Seeds => json!(["seeds", work.from, work.count]),
            Kind::Runs => json!(["runs", work.from, work.count]),
            Kind::Kills => json!(["kills", work.from, work.count]),
        });
        let document = json!({
            "next_seed": self.next_seed,
            "next_run_seed": self.next_run_seed,
            "next_round": self.next_round,
            "open": open.collect::<Vec<_>>(),
            "totals": serde_json::from_str::<Value>(&self.totals.to_string())?,
        });
        // Replaced as a whole: whoever interrupts the campaign leaves the old one or the new one.
        let draft = self.path.with_extension("json.new");
        let mut file = File::create(&draft)?;
        file.write_all(format!("{document}\n").as_bytes())?;
        file.sync_all()?;
        Ok(std::fs::rename(&draft, &self.path)?)
    }
}

fn read(new: State, text: &str) -> Result<State, Fault> {
    let document: Value = serde_json::from_str(text)?;
    let number = |value: &Value, name: &str| {
        value
            .as_u64()
            .ok_or_else(|| Fault::from(format!("no number {name}")))
    };
    let mut open = Vec::new();
    for work in document["open"].as_array().ok_or("no list of open work")? {
        let kind = match work[0].as_str() {
            Some("seeds") => Kind::Seeds,
            Some("runs") => Kind::Runs,
            Some("kills") => Kind::Kills,
            _ => return Err("work of an unknown kind".into()),
        };
        open.push(Work {
            kind,
            from: number(&work[1], "from")?,
            count: number(&work[2], "count")?,
        });
    }
    let total = |name: &str| number(&document["totals"][name], name);
    Ok(State {
        next_seed: number(&document["next_seed"], "next_seed")?,
        next_run_seed: number(&document["next_run_seed"], "next_run_seed")?,
        next_round: number(&document["next_round"], "next_round")?,
        open,
        totals: Totals {
            seeds: total("seeds")?,
            run_seeds: total("run_seeds")?,
            kills: total("kills")?,
            operations: total("operations")?,
            faults: total("faults")?,
            violations: total("violations")?,
        },
        ..new
    })
}
