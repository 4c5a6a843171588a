//! Single bits flip in the files of a store. It refuses to open and says so, or shows every execution as it was
//! acknowledged or as damaged: never another one, never nothing. `ESCAPEMENT_SEEDS=N` takes N times as many flips.

use std::collections::{BTreeMap, BTreeSet};

use escapement_store::{
    Conflict, EmbeddedOptions, ListFilter, Outcome, Reader, Store, StoreFault, StoredExecution, StoredState,
};
use escapement_test_disk::Disk;

use crate::dice::{Dice, long, seeds};
use crate::place::{self, DATABASE, LOG, MARK};
use crate::truth::{Known, Truth};
use crate::workload::{lives, sample};

/// How the disk is left behind.
#[derive(Clone, Copy, Debug)]
enum Left {
    Closed,
    Killed,
}

fn store(left: Left) -> (Disk, Truth) {
    let disk = Disk::new();
    let mut truth = Truth::default();
    for life in lives() {
        let mut store = place::open(&disk).unwrap();
        for batch in life {
            assert_eq!(store.commit(&batch).unwrap(), truth.apply(&batch));
        }
        if matches!(left, Left::Killed) {
            disk.process_killed();
        }
    }
    (disk, truth)
}

/// What came of one flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    Refused,
    Corrupt,
    Unharmed,
}

/// Returns true for a fault that says of one execution, or of the whole file, that it is damaged.
fn is_damage(fault: &StoreFault) -> bool {
    matches!(fault, StoreFault::Corrupt { .. } | StoreFault::Fatal(_))
}

/// Opens a damaged disk and looks at everything; `Err` if it shows something that is not so.
fn look(disk: &Disk, truth: &Truth) -> Result<Came, String> {
    let mut store = match place::open(disk) {
        Ok(store) => store,
        Err(
            StoreFault::Gap { .. }
            | StoreFault::Indexes { .. }
            | StoreFault::Open { .. }
            | StoreFault::Damaged { .. }
            | StoreFault::Fatal(_)
            | StoreFault::Incompatible { .. }
            | StoreFault::Corrupt { .. },
        ) => return Ok(Came::Refused),
        Err(fault) => return Err(format!("opening says {fault:?}")),
    };
    let reader = store.reader().map_err(|fault| format!("no reader: {fault:?}"))?;
    let mut damaged = BTreeSet::new();
    for known in truth.executions() {
        if one_is_damaged(&*reader, known)? {
            damaged.insert(known.stored.summary.number);
        }
    }
    let listed = list(&*reader, truth, &damaged)?;
    let unsettled = unsettled(&*reader, truth)?;
    match reader.counts() {
        Ok(counts) if counts != truth.counts() => return Err(format!("{counts:?}")),
        Err(fault) if !is_damage(&fault) => return Err(format!("counts: {fault:?}")),
        _ => {}
    }
    drop(reader);
    let written = writes(&mut store, truth)?;
    let harmed = !damaged.is_empty() || listed || unsettled || written;
    Ok(if harmed { Came::Corrupt } else { Came::Unharmed })
}

fn one_is_damaged(reader: &dyn Reader, known: &Known) -> Result<bool, String> {
    let summary = &known.stored.summary;
    let wrong = |what: &str| Err(format!("number {}: {what}", summary.number));
    let execution = match reader.execution(summary.execution_id) {
        Ok(None) => return wrong("unknown"),
        Ok(Some(found)) if found != known.stored => return wrong(&format!("another execution: {found:?}")),
        Err(fault) if !is_damage(&fault) => return wrong(&format!("{fault:?}")),
        found => found.is_err(),
    };
    let audit = match reader.audit(summary.execution_id) {
        Ok(found) if found != known.audit => return wrong("another audit"),
        Err(fault) if !is_damage(&fault) => return wrong(&format!("{fault:?}")),
        found => found.is_err(),
    };
    Ok(execution || audit)
}

/// Returns everything that one walk shows, page by page, and whether it met damage.
fn walk<T>(
    mut page: impl FnMut(Option<u64>) -> Result<Vec<T>, StoreFault>,
    number: impl Fn(&T) -> u64,
    n_max: usize,
) -> Result<(Vec<T>, BTreeSet<u64>, bool), String> {
    let (mut all, mut corrupt, mut behind) = (Vec::new(), BTreeSet::new(), None);
    for _ in 0..n_max {
        match page(behind) {
            Ok(found) if found.is_empty() => return Ok((all, corrupt, false)),
            Ok(found) => {
                behind = found.last().map(&number);
                all.extend(found);
            }
            Err(StoreFault::Corrupt { number, .. }) => {
                corrupt.insert(number);
                behind = Some(number);
            }
            Err(StoreFault::Fatal(_)) => return Ok((all, corrupt, true)),
            Err(fault) => return Err(format!("{fault:?}")),
        }
    }
    Err("a walk that does not end".to_owned())
}

/// Returns a list shows every execution, in order; another content only where a closer look says that it is damaged.
fn list(reader: &dyn Reader, truth: &Truth, damaged: &BTreeSet<u64>) -> Result<bool, String> {
    let n_max = 3 * truth.executions().len();
    let page = |behind| reader.list(&ListFilter::default(), behind, 4);
    let (all, corrupt, ended) = walk(page, |summary| summary.number, n_max)?;
    let found: BTreeMap<_, _> = all.iter().map(|summary| (summary.number, summary)).collect();
    for known in truth.executions() {
        let number = known.stored.summary.number;
        match found.get(&number) {
            Some(summary) if **summary == known.stored.summary => {}
            Some(_) if damaged.contains(&number) => {}
            Some(summary) => return Err(format!("the list shows {summary:?}")),
            None if corrupt.contains(&number) || ended => {}
            None => return Err(format!("the list lacks number {number}")),
        }
    }
    Ok(ended || !corrupt.is_empty())
}

/// A restart finds everything that is not settled.
fn unsettled(reader: &dyn Reader, truth: &Truth) -> Result<bool, String> {
    let n_max = 3 * truth.executions().len();
    let number = |stored: &StoredExecution| stored.summary.number;
    let (all, corrupt, ended) = walk(|behind| reader.unsettled(behind, 4), number, n_max)?;
    let expected = truth.unsettled();
    for found in &all {
        if !expected.contains(found) {
            return Err(format!("unsettled shows number {}: {found:?}", number(found)));
        }
    }
    for missing in expected.iter().filter(|expected| !all.contains(expected)) {
        if !ended && !corrupt.contains(&number(missing)) {
            return Err(format!("unsettled lacks number {}", number(missing)));
        }
    }
    Ok(ended || !corrupt.is_empty())
}

/// Ids that are used are not given again, and what is there can be found to be changed.
fn writes(store: &mut dyn Store, truth: &Truth) -> Result<bool, String> {
    let mut all = Vec::new();
    for known in truth.executions() {
        let summary = &known.stored.summary;
        let sample = sample(summary.number);
        let request_digest = summary.request_digest;
        let used = Outcome::Conflict(Conflict::ExecutionIdUsed { request_digest });
        let started = match summary.state {
            StoredState::Queued => Outcome::Done {
                number: summary.number,
            },
            StoredState::Running => Outcome::Conflict(Conflict::AlreadyStarted),
            StoredState::Settled => Outcome::Conflict(Conflict::AlreadySettled),
        };
        all.extend([(sample.accept(), used), (sample.start(), started)]);
    }
    let (batch, expected): (Vec<_>, Vec<_>) = all.iter().cloned().unzip();
    match store.commit(&batch) {
        Ok(outcomes) if outcomes == expected => return Ok(false),
        // One of them met damage; the others are to go through without it.
        _ => {}
    }
    for (write, expected) in all {
        match store.commit(std::slice::from_ref(&write)) {
            Ok(outcomes) if outcomes == [expected] => {}
            Err(fault) if is_damage(&fault) => {}
            found => return Err(format!("{found:?} instead of {expected:?}")),
        }
    }
    Ok(true)
}

/// Flips bits of one file; how often what came of it, and what was wrong.
fn flip(
    name: &str,
    left: Left,
    one_in: u64,
    found: &mut BTreeMap<Came, u64>,
    wrong: &mut Vec<String>,
) -> u64 {
    let (disk, truth) = store(left);
    let length = disk.content(name).unwrap_or_default().len();
    let mut dice = Dice::new(length as u64);
    let one_in = (one_in / seeds(1).max(1)).max(1);
    let mut n_flips = 0;
    for byte in 0..length {
        for bit in 0..8 {
            if !long() && !dice.one_in(one_in) {
                continue;
            }
            let disk = disk.copy();
            assert!(disk.flip_bit(name, byte, bit));
            n_flips += 1;
            match look(&disk, &truth) {
                Ok(came) => *found.entry(came).or_default() += 1,
                Err(what) => wrong.push(format!("{name} {left:?} byte {byte} bit {bit}: {what}")),
            }
        }
    }
    n_flips
}

#[test]
fn no_flipped_bit_makes_the_store_show_what_is_not_so() {
    let mut wrong = Vec::new();
    for (name, left, one_in) in [
        (MARK, Left::Closed, 3),
        (MARK, Left::Killed, 3),
        (DATABASE, Left::Closed, 2500),
        (DATABASE, Left::Killed, 6000),
        (LOG, Left::Killed, 8000),
    ] {
        let mut found = BTreeMap::new();
        let n_flips = flip(name, left, one_in, &mut found, &mut wrong);
        println!(
            "{name} {left:?}: {n_flips} flips, {found:?}, {} wrong so far",
            wrong.len()
        );
        assert!(n_flips > 50, "{name} {left:?}: {n_flips} flips");
    }
    assert!(
        wrong.is_empty(),
        "{} wrong answers:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_damaged_index_is_refused_and_made_anew_where_the_loss_is_accepted() {
    let (disk, truth) = store(Left::Closed);
    let length = disk.content(DATABASE).unwrap().len() as u64;
    let mut dice = Dice::new(3);
    let mut n_indexes = 0;
    for _ in 0..2000 {
        let disk = disk.copy();
        let byte = usize::try_from(dice.below(length)).unwrap();
        disk.flip_bit(DATABASE, byte, 0);
        match place::open(&disk) {
            Err(StoreFault::Indexes { .. }) => {}
            _ => continue,
        }
        let options = EmbeddedOptions {
            accept_loss: true,
            ..EmbeddedOptions::default()
        };
        drop(place::open_with(&disk, options).unwrap());
        // Nothing was lost: an index holds nothing that its table does not.
        let store = place::open(&disk).unwrap();
        assert_eq!(truth.differs(&store), None, "byte {byte}");
        n_indexes += 1;
        if n_indexes == 3 {
            return;
        }
    }
    panic!("only {n_indexes} flips hit an index");
}
