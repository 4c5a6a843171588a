//! Single bits flip in the file of runs. It refuses to open and says so, or shows each run as it was acknowledged or as
//! damaged: never another one, never nothing. What a list lacks, an examination finds.

use std::collections::BTreeMap;

use escapement_store::Embedded;
use escapement_store::StoreFault;
use escapement_store::runs::{
    BatchOutcome, DefinitionKind, RunBatch, RunConflict, RunFilter, RunStore, RunWrite, Scope,
};
use escapement_test_disk::Disk;

use super::{
    CONTENTS, DATABASE, DOCUMENTS, LOG, MARK, PLANS, SEEDS, Truth, act, content, document, lives, open, plan,
    request, sample_of, shown,
};
use crate::dice::{Dice, long, seeds};

fn store(is_killed: bool) -> (Disk, Truth) {
    let disk = Disk::new();
    let mut truth = Truth::default();
    for life in lives() {
        let mut store = open(&disk).unwrap();
        for step in &life {
            act(&mut store, step).unwrap();
            truth.apply(step);
        }
        if is_killed {
            disk.process_killed();
        }
    }
    (disk, truth)
}

/// What came of one flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Came {
    Refused,
    Damaged,
    Unharmed,
}

fn is_damage(fault: &StoreFault) -> bool {
    matches!(
        fault,
        StoreFault::CorruptRun { .. } | StoreFault::CorruptDefinition { .. } | StoreFault::Fatal(_)
    )
}

/// True if it is damage, false if it is as expected.
fn judged<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: Result<T, StoreFault>,
    expected: &T,
) -> Result<bool, String> {
    match found {
        Ok(found) if found == *expected => Ok(false),
        Ok(found) => Err(format!("{what}: {found:?}")),
        Err(fault) if is_damage(&fault) => Ok(true),
        Err(fault) => Err(format!("{what}: {fault:?}")),
    }
}

/// Opens a damaged disk and looks at everything; `Err` if it shows something that is not so.
fn look(disk: &Disk, truth: &Truth) -> Result<Came, String> {
    let mut store = match open(disk) {
        Ok(store) => store,
        Err(
            StoreFault::Gap { .. }
            | StoreFault::Indexes { .. }
            | StoreFault::Open { .. }
            | StoreFault::Damaged { .. }
            | StoreFault::Fatal(_)
            | StoreFault::Incompatible { .. }
            | StoreFault::CorruptRun { .. },
        ) => return Ok(Came::Refused),
        Err(fault) => return Err(format!("opening says {fault:?}")),
    };
    let reader = store.reader().map_err(|fault| format!("no reader: {fault:?}"))?;
    let mut is_damaged = false;
    for seed in SEEDS {
        let id = sample_of(seed).run_id();
        is_damaged |= judged("run", shown(&*reader, id), &truth.runs.get(&id).cloned())?;
        let is_removed = reader.removed(id).map(|left| left.is_some());
        is_damaged |= judged("removed", is_removed, &truth.removed.contains(&id))?;
    }
    for n in CONTENTS {
        let content = content(n);
        let expected = truth
            .has_content(content.digest())
            .then(|| content.bytes().clone());
        is_damaged |= judged("content", reader.content(&content.digest()), &expected)?;
    }
    for name in PLANS {
        is_damaged |= judged("plan", plan(&*reader, name), &truth.plans.get(name).copied())?;
    }
    for n in DOCUMENTS {
        let revision = document(n).revision().expect("a document has one");
        let found = reader.revision(&revision, &[Scope::EVERYTHING]);
        let found = found.map(|found| found.map(|found| found.document));
        is_damaged |= judged("document", found, &truth.document(n))?;
    }
    for seed in SEEDS {
        let key = request(seed).key;
        let found = reader.answered(&key).map(|found| found.map(|(run, _)| run));
        is_damaged |= judged("answered", found, &truth.answered.get(&key).copied())?;
    }
    is_damaged |= live(&store, truth)?;
    let is_clean = store
        .examiner()
        .and_then(|mut examiner| examiner.examine_all(&mut |_| ()))
        .is_ok_and(|examination| examination.is_clean());
    if is_damaged && is_clean {
        return Err("an examination finds nothing".to_owned());
    }
    let listed = reader.list(&RunFilter::default(), None, 100);
    let listed = listed.map(|listed| listed.runs.len());
    let open = reader.open_input_requests(None, None, 100);
    let open = open.map(|open| open.requests.len());
    let plans = reader.definitions(
        DefinitionKind::SavedPlan,
        Scope::each(Some("owner"), None).as_deref(),
        None,
        100,
    );
    let plans = plans.map(|plans| plans.definitions.len());
    for (what, found, expected) in [
        ("plans", plans, truth.plans.len()),
        ("list", listed, truth.runs.len()),
        ("open", open, truth.open.len()),
    ] {
        match judged(what, found, &expected) {
            Err(_) if !is_clean => {}
            judged => is_damaged |= judged?,
        }
    }
    drop(reader);
    is_damaged |= writes(&mut store, truth)?;
    Ok(if is_damaged || !is_clean {
        Came::Damaged
    } else {
        Came::Unharmed
    })
}

/// A restart finds everything that has not ended.
fn live(store: &Embedded, truth: &Truth) -> Result<bool, String> {
    let reader = store.reader().map_err(|fault| format!("no reader: {fault:?}"))?;
    let (mut found, mut damaged, mut after) = (Vec::new(), Vec::new(), None);
    for _ in 0..20 {
        match reader.live(after, 2) {
            Ok(page) if page.is_empty() => break,
            Ok(page) => {
                after = page.last().map(|run| run.number);
                found.extend(page.iter().map(|run| run.number));
            }
            Err(StoreFault::CorruptRun { number, .. }) => {
                damaged.push(number);
                after = Some(number);
            }
            Err(StoreFault::Fatal(_)) => return Ok(true),
            Err(fault) => return Err(format!("{fault:?}")),
        }
    }
    for number in truth.live() {
        if !found.contains(&number) && !damaged.contains(&number) {
            return Err(format!("live runs lack number {number}"));
        }
    }
    if found.iter().any(|number| !truth.live().contains(number)) {
        return Err(format!("live runs are {found:?}"));
    }
    Ok(!damaged.is_empty())
}

/// Ids that are used are not given again, and what is live goes on.
fn writes(store: &mut Embedded, truth: &Truth) -> Result<bool, String> {
    let mut is_damaged = false;
    for seed in SEEDS {
        let sample = sample_of(seed);
        let run_id = sample.run_id();
        let known = truth.runs.get(&run_id);
        if known.is_none() && !truth.removed.contains(&run_id) {
            continue;
        }
        let refused = |conflict| BatchOutcome::Refused { run_id, conflict };
        let mut again = RunBatch::new();
        again.add(sample.create());
        let found = store.commit(&again);
        is_damaged |= judged("again", found, &refused(RunConflict::RunIdUsed))?;
        let Some(known) = known else { continue };
        let next_seq = known.entries.last_key_value().map_or(1, |(seq, _)| seq + 1);
        let mut goes_on = RunBatch::new();
        goes_on.add(RunWrite::new(run_id, next_seq, known.progress));
        let expected = match known.progress.ended_at {
            None => BatchOutcome::Done,
            Some(_) => refused(RunConflict::Ended),
        };
        is_damaged |= judged("goes on", store.commit(&goes_on), &expected)?;
    }
    Ok(is_damaged)
}

#[test]
fn no_flipped_bit_makes_the_store_show_another_run() {
    let mut wrong = Vec::new();
    for (name, is_killed, one_in) in [
        (MARK, false, 3),
        (DATABASE, false, 4000),
        (DATABASE, true, 8000),
        (LOG, true, 8000),
    ] {
        let (disk, truth) = store(is_killed);
        let length = disk.content(name).unwrap_or_default().len();
        let mut dice = Dice::new(length as u64);
        let one_in = (one_in / seeds(1).max(1)).max(1);
        let mut found: BTreeMap<Came, u64> = BTreeMap::new();
        for at in 0..length * 8 {
            if !long() && !dice.one_in(one_in) {
                continue;
            }
            let disk = disk.copy();
            assert!(disk.flip_bit(name, at / 8, (at % 8) as u32));
            match look(&disk, &truth) {
                Ok(came) => *found.entry(came).or_default() += 1,
                Err(what) => wrong.push(format!("{name}, killed {is_killed}, bit {at}: {what}")),
            }
        }
        println!(
            "{name}, killed {is_killed}: {found:?}, {} wrong so far",
            wrong.len()
        );
        assert!(found.values().sum::<u64>() > 50, "{name}: {found:?}");
    }
    assert!(
        wrong.is_empty(),
        "{} wrong answers:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
