//! Both stores of runs pass the suite, and say the same of random batches.

use escapement_model::{Namespace, RunId};
use escapement_store::runs::{
    BatchOutcome, DefinitionKind, DefinitionOutcome, RunBatch, RunFilter, RunReader, RunRemoval, RunStore,
    RunWrite, Scope,
};
use escapement_store::{Embedded, EmbeddedOptions, Held, StoreFault};
use escapement_store_kit::MemoryFault;
use escapement_store_kit::runs::MemoryRuns;
use escapement_store_kit::runs::conformance::{
    Dice, RANDOM_DEFINITIONS, RANDOM_RUNS, ReopenableRuns, RunSample, random_batch, random_definition,
    random_revision, run,
};

use crate::scratch::Scratch;

struct OnDisk {
    directory: Scratch,
    store: Option<Embedded>,
}

impl OnDisk {
    fn new() -> Self {
        let directory = Scratch::new();
        let store = Self::open(&directory);
        Self { directory, store }
    }

    fn open(directory: &Scratch) -> Option<Embedded> {
        Some(Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap())
    }
}

impl ReopenableRuns for OnDisk {
    fn store(&mut self) -> &mut dyn RunStore {
        self.store.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Self::open(&self.directory);
    }
}

struct InMemory(MemoryRuns);

impl ReopenableRuns for InMemory {
    fn store(&mut self) -> &mut dyn RunStore {
        &mut self.0
    }

    fn reopen(&mut self) {
        self.0 = self.0.disk().crash();
    }
}

#[test]
fn the_embedded_store_conforms() {
    run(&mut || Box::new(OnDisk::new()));
}

#[test]
fn the_memory_store_conforms() {
    run(&mut || Box::new(InMemory(MemoryRuns::new())));
}

/// Everything that a reader says of the runs of random batches.
fn everything(reader: &dyn RunReader) -> String {
    let named = |names: &[&str]| -> Vec<Namespace> {
        names.iter().filter_map(|name| Namespace::parse(name)).collect()
    };
    let scopes = [
        None,
        Some(named(&["billing"])),
        Some(named(&["default"])),
        Some(named(&["agents", "default"])),
    ];
    let mut said = format!("{:?}\n", reader.counts().unwrap());
    said.push_str(&format!("{:?}\n", reader.ended(0, 1_000).unwrap()));
    for seed in 1..=RANDOM_RUNS {
        let sample = RunSample::new(seed);
        let run_id = sample.run_id();
        let request = sample.created.request.as_ref().unwrap();
        said.push_str(&format!(
            "{:?} {:?} {:?} {:?}\n",
            reader.run(run_id, usize::MAX).unwrap(),
            reader.journal(run_id, 1, usize::MAX).unwrap(),
            reader.removed(run_id).unwrap(),
            reader.created_by(&request.key).unwrap(),
        ));
        for n in 0..40 {
            let request = reader.input_request(sample.input_request(n).id).unwrap();
            said.push_str(&format!("{request:?}\n"));
        }
    }
    for n in 0..6 {
        let document = random_revision(n);
        said.push_str(&format!("{:?}\n", reader.content(&document.digest()).unwrap()));
        for scope in &scopes {
            let of = |namespace: &Namespace| Scope {
                namespace: Some(namespace.clone()),
                owner: (n % 2 == 0).then(|| "owner 1".to_owned()),
            };
            let scope = scope.as_ref().map(|names| names.iter().map(of).collect());
            let scope: Vec<Scope> = scope.unwrap_or_else(|| vec![Scope::EVERYTHING]);
            let found = reader.revision(&document.revision().unwrap(), &scope);
            said.push_str(&format!("{:?}\n", found.unwrap()));
        }
    }
    for n in 0..40 {
        said.push_str(&format!("{:?}", reader.answered(&format!("verb {n}")).unwrap()));
    }
    for kind in DefinitionKind::ALL {
        for n in 0..RANDOM_DEFINITIONS {
            let found = reader.definition(kind, &n.to_string()).unwrap();
            said.push_str(&format!("{found:?}\n"));
        }
        for owner in [None, Some("owner 1")] {
            for scope in &scopes {
                let listed = reader
                    .definitions(kind, Scope::each(owner, scope.as_deref()).as_deref(), None, 100)
                    .unwrap();
                said.push_str(&format!("{listed:?}\n"));
            }
        }
    }
    for n in 0..4 {
        let newest = reader.newest_run_of(&format!("plan {n}")).unwrap();
        said.push_str(&format!("{newest:?}\n"));
    }
    said.push_str(&format!("{:?}", reader.live(None, 100).unwrap()));
    for namespaces in scopes {
        let open = reader
            .open_input_requests(Scope::each(None, namespaces.as_deref()).as_deref(), None, 1000)
            .unwrap();
        let filter = RunFilter {
            scopes: Scope::each(None, namespaces.as_deref()),
            ..RunFilter::default()
        };
        said.push_str(&format!(
            "{open:?} {:?}",
            reader.list(&filter, None, 100).unwrap()
        ));
    }
    said
}

#[test]
fn both_stores_say_the_same_of_random_batches() {
    let (mut n_done, mut n_refused, mut n_removed) = (0, 0, 0);
    let (mut n_defined, mut n_not_defined) = (0, 0);
    for seed in 0..8 {
        let mut dice = Dice(seed);
        let (mut disk, mut memory) = (OnDisk::new(), InMemory(MemoryRuns::new()));
        for turn in 0..60 {
            let reader = memory.store().reader().unwrap();
            let next_seq = |id: RunId| reader.summary(id).unwrap().map_or(1, |run| run.next_seq);
            let batch = random_batch(&mut dice, &next_seq);
            let outcome = memory.store().commit(&batch).unwrap();
            assert_eq!(
                disk.store().commit(&batch).unwrap(),
                outcome,
                "seed {seed}, batch {turn}: {batch:?}"
            );
            match outcome {
                BatchOutcome::Done => n_done += 1,
                BatchOutcome::Refused { .. } | BatchOutcome::DefinitionTooLarge { .. } => n_refused += 1,
            }
            if dice.below(2) == 0 {
                let write = random_definition(&mut dice);
                let outcome = memory.store().define(&write).unwrap();
                assert_eq!(
                    disk.store().define(&write).unwrap(),
                    outcome,
                    "seed {seed}, batch {turn}: {write:?}"
                );
                match outcome {
                    DefinitionOutcome::Done { .. } => n_defined += 1,
                    _ => n_not_defined += 1,
                }
            }
            if dice.below(10) == 0 {
                let policy = RunRemoval {
                    keep_ended_ms: Some(dice.below(20)),
                    keep_ended_count: (dice.below(3) == 0).then(|| dice.below(6)),
                    keep_ids_ms: Some(dice.below(100)),
                    held: (dice.below(2) == 0).then(|| Held {
                        behind: dice.below(10),
                        for_ms: dice.below(100),
                    }),
                };
                let now = 1_700_000_000_000 + dice.below(120) as i64;
                let removed = memory.store().remove_ended(&policy, now).unwrap();
                assert_eq!(
                    disk.store().remove_ended(&policy, now).unwrap(),
                    removed,
                    "seed {seed}, batch {turn}"
                );
                n_removed += removed.n_runs;
            }
            if dice.below(15) == 0 {
                disk.reopen();
                memory.reopen();
            }
            let found = everything(&*disk.store().reader().unwrap());
            let expected = everything(&*memory.store().reader().unwrap());
            assert!(
                found == expected,
                "seed {seed}, batch {turn}\n{found}\n----\n{expected}"
            );
        }
        let examined = disk.store.as_ref().unwrap().examiner().unwrap();
        let mut examined = examined;
        let examination = examined.examine_all(&mut |finding| panic!("seed {seed}: {finding:?}"));
        assert!(examination.unwrap().is_clean());
    }
    assert!(
        n_defined > 80 && n_not_defined > 30,
        "{n_defined} defined, {n_not_defined} not"
    );
    assert!(
        n_done > 100 && n_refused > 100 && n_removed > 5,
        "{n_done} done, {n_refused} refused, {n_removed} removed"
    );
}

#[test]
fn the_memory_store_fails_at_each_commit_in_each_way_and_loses_what_was_not_synced() {
    let batch = |write: RunWrite| {
        let mut batch = RunBatch::new();
        batch.add(write);
        batch
    };
    let sample = RunSample::new(1);
    let history = [
        sample.create(),
        sample.append(2, 2),
        sample.append(4, 1),
        sample.end(5),
    ];
    for failing in 0..history.len() {
        for (fault, is_kept) in [
            (MemoryFault::Full, false),
            (MemoryFault::Busy, false),
            (MemoryFault::Fatal, false),
            (MemoryFault::WrittenNotSynced, false),
            (MemoryFault::SyncedNotAcknowledged, true),
        ] {
            let mut store = MemoryRuns::new();
            let disk = store.disk();
            for write in &history[..failing] {
                store.commit(&batch(write.clone())).unwrap();
            }
            disk.fail_next_commit(fault);
            let failed = store.commit(&batch(history[failing].clone()));
            let goes_on = matches!(failed, Err(StoreFault::Full(_) | StoreFault::Busy(_)));
            assert_eq!(
                goes_on,
                matches!(fault, MemoryFault::Full | MemoryFault::Busy),
                "{fault:?}"
            );
            if !goes_on {
                let refused = store.commit(&RunBatch::new());
                assert!(matches!(refused, Err(StoreFault::Fatal(_))), "{refused:?}");
                store = disk.crash();
            }
            for write in &history[failing + usize::from(is_kept)..] {
                let outcome = store.commit(&batch(write.clone())).unwrap();
                assert_eq!(outcome, BatchOutcome::Done, "{fault:?} at {failing}");
            }
            let run = store.reader().unwrap().run(sample.run_id(), usize::MAX).unwrap();
            assert_eq!(run.unwrap().tail.len(), 5);
        }
    }
}

#[test]
#[should_panic(expected = "entry 2 of run")]
fn a_second_write_of_a_run_that_does_not_go_on_is_a_defect() {
    let sample = RunSample::new(1);
    let mut batch = RunBatch::new();
    batch.add(sample.create());
    batch.add(RunWrite::new(sample.run_id(), 5, sample.progress(4)));
}
