//! What a start takes up, if it comes late.

use escapement_model::RunId;
use escapement_run::Input;
use escapement_run::presets::Preset;
use escapement_run::spec::Limits;
use escapement_runs::Config;
use escapement_runs_host::{Create, RunsHost};
use escapement_store::runs::RunStore;
use escapement_store_kit::runs::{MemoryRuns, MemoryRunsDisk};

use crate::asking::{START, asks, names, waiting, write};

fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

fn open(store: &MemoryRuns, now: i64) -> RunsHost {
    let config = Config {
        max_live_runs: 2,
        max_runs: 10,
    };
    let (host, damaged) = RunsHost::open(store, config, now).unwrap();
    assert!(damaged.is_empty());
    host
}

/// Returns the request for a run that asks a person, and lives for a minute.
fn create(run_id: RunId) -> Create {
    let limits = Limits {
        lifetime_ms: 60_000,
        ..Preset::Standard.limits(1)
    };
    waiting(run_id, &asks(), limits)
}

// RUN-9.4, RUN-7.6
#[test]
fn runs_whose_time_is_over_when_the_process_comes_back_are_taken_up_and_end() {
    let disk = MemoryRunsDisk::new();
    let mut store = disk.open();
    let mut host = open(&store, START);
    for n in 1..4 {
        host.create(create(id(n)), START).unwrap();
    }
    write(&mut host, &mut store);
    let mut store = disk.crash();
    let mut host = open(&store, START + 61_000);
    write(&mut host, &mut store);
    for n in 1..4 {
        let names = names(&*store.reader().unwrap(), id(n));
        let end = &names[names.len() - 5..];
        let expected = [
            "run_recovered",
            "input_closed",
            "step_skipped",
            "timeout_error",
            "run_failed",
        ];
        let of_queued = [
            "plan_created",
            "run_recovered",
            "step_skipped",
            "timeout_error",
            "run_failed",
        ];
        assert!(end == expected || end == of_queued, "{n}: {names:?}");
    }
    assert!(host.runs().is_empty());
}

fn many(n: u32) -> RunId {
    let mut bytes = [7; 16];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    RunId::from_random(bytes)
}

/// The writes of each batch until nothing is due any more.
fn batches(host: &mut RunsHost, store: &mut MemoryRuns, now: i64) -> Vec<usize> {
    let mut batches = Vec::new();
    loop {
        while let Some(batch) = host.poll_batch() {
            batches.push(batch.writes().len());
            let outcome = store.commit(&batch).unwrap();
            host.handle_committed(outcome);
        }
        if host.due_at().is_none_or(|due| due > now) {
            return batches;
        }
        host.time(now);
    }
}

// RUN-9.10
#[test]
fn runs_that_are_due_at_once_are_written_in_bounded_batches_and_so_are_those_that_a_start_takes_up() {
    const RUNS: usize = 3_000;
    const BATCH: usize = 513;
    let config = || Config {
        max_live_runs: RUNS,
        max_runs: RUNS,
    };
    let disk = MemoryRunsDisk::new();
    let mut store = disk.open();
    let (mut host, _) = RunsHost::open(&store, config(), START).unwrap();
    for n in 0..RUNS as u32 {
        host.create(create(many(n)), START).unwrap();
        batches(&mut host, &mut store, START);
    }
    let mut store = disk.crash();
    let (mut host, damaged) = RunsHost::open(&store, config(), START + 1).unwrap();
    assert!(damaged.is_empty());
    assert!(!host.has_told_start(), "a part of them at a time");
    // A run that is spoken to before its turn hears of the start first.
    let last = *host.runs().ids().collect::<Vec<_>>().last().unwrap();
    let reason = "user".to_owned();
    host.handle(last, Input::Cancel { reason }, START + 1).unwrap();
    let of_start = batches(&mut host, &mut store, START + 1);
    assert!(of_start.iter().all(|writes| *writes <= BATCH), "{of_start:?}");
    assert!(host.has_told_start());
    let names = names(&*store.reader().unwrap(), last);
    let heard = names.iter().position(|name| *name == "run_recovered");
    let cancelled = names.iter().position(|name| *name == "run_cancelled");
    assert!(heard.is_some() && heard < cancelled, "{names:?}");
    let of_time = batches(&mut host, &mut store, START + 61_000);
    assert!(of_time.iter().all(|writes| *writes <= BATCH), "{of_time:?}");
    assert_eq!(of_time.iter().sum::<usize>(), RUNS - 1);
    assert!(host.runs().is_empty());
}
