//! A process that commits is killed; everything that it acknowledged is there.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use escapement_store::{Embedded, EmbeddedOptions, Outcome, Store, Write};
use escapement_store_kit::conformance::Sample;

use crate::scratch::Scratch;

/// Makes the test of this file its own victim: if it is set, it commits in that directory until it is
/// killed.
const VICTIM: &str = "ESCAPEMENT_STORE_TEST_VICTIM";
const RECORD_BYTES: usize = 3000;
/// Executions of a batch; the first of each is settled, too.
const EACH: u64 = 3;

/// Says on stdout the number of each execution behind its commit; the seed of an execution is its number.
fn commit_forever(directory: &Path) -> std::io::Result<()> {
    let mut store = Embedded::open(directory, EmbeddedOptions::default()).unwrap();
    let mut stdout = std::io::stdout().lock();
    // The test harness has begun a line of its own.
    writeln!(stdout)?;
    let mut last = store.reader().unwrap().counts().unwrap().accepted();
    loop {
        let seeds = last + 1..=last + EACH;
        let samples: Vec<Sample> = seeds
            .map(|seed| Sample::with_record_bytes(seed, RECORD_BYTES))
            .collect();
        last += EACH;
        let mut batch: Vec<Write> = samples.iter().map(Sample::accept).collect();
        batch.push(samples[0].settle(1));
        for outcome in store.commit(&batch).unwrap() {
            let Outcome::Done { number } = outcome else {
                panic!("{outcome:?}")
            };
            writeln!(stdout, "acknowledged {number}")?;
        }
    }
}

/// Lets a victim acknowledge so many writes, kills it, and returns all numbers that it acknowledged.
fn kill_after(n_writes: usize, directory: &Path) -> BTreeSet<u64> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "killed::a_killed_process_loses_nothing_that_it_acknowledged",
            "--exact",
            "--nocapture",
        ])
        .env(VICTIM, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut numbers = lines.filter_map(|line| line.unwrap().strip_prefix("acknowledged ")?.parse().ok());
    let mut acknowledged: BTreeSet<u64> = numbers.by_ref().take(n_writes).collect();
    victim.kill().unwrap();
    // What stands in the pipe was acknowledged, too.
    acknowledged.extend(numbers);
    victim.wait().unwrap();
    acknowledged
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    if let Some(directory) = std::env::var_os(VICTIM) {
        commit_forever(Path::new(&directory)).unwrap();
    }
    let directory = Scratch::new();
    let mut acknowledged = BTreeSet::new();
    // The last round writes enough for checkpoints to be under way.
    for n_writes in [1, 40, 400, 6000] {
        let now = kill_after(n_writes, directory.path());
        assert!(
            now.len() > n_writes / 2,
            "the victim acknowledged {} of {n_writes}",
            now.len()
        );
        acknowledged.extend(now);

        let store = Embedded::open(directory.path(), EmbeddedOptions::default()).unwrap();
        let reader = store.reader().unwrap();
        let counts = reader.counts().unwrap();
        assert!(counts.accepted() >= *acknowledged.last().unwrap(), "{counts:?}");
        assert_eq!(counts.accepted() % EACH, 0, "part of a batch is there");
        for &number in &acknowledged {
            let sample = Sample::with_record_bytes(number, RECORD_BYTES);
            let expected = match number % EACH {
                1 => sample.settled(sample.accepted(number), 1),
                _ => sample.accepted(number),
            };
            let found = reader.execution(sample.execution_id()).unwrap();
            assert!(
                found == Some(expected),
                "number {number} is not as it was acknowledged"
            );
        }
    }
}
