//! Measures appends, ends, opening and the reading of live runs of the embedded store of runs. Compares with nothing.
//!
//! `runs_rate DIRECTORY [ENDED [LIVE]]`: with counts, fills the store first, so that the figures are those of a large file.
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use escapement_store::runs::{RunBatch, RunFilter, RunStore, RunWrite, Scope};
use escapement_store::{Embedded, EmbeddedOptions};
use escapement_store_kit::runs::conformance::RunSample;

const ENTRY_BYTES: usize = 700;
const MEASURE: Duration = Duration::from_secs(3);
/// Runs that a batch of the filling creates.
const FILL: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("runs_rate DIRECTORY [ENDED [LIVE]]")?;
    let n_ended: u64 = arguments.next().map_or(Ok(0), |count| count.parse())?;
    let n_live: u64 = arguments.next().map_or(Ok(0), |count| count.parse())?;
    let directory = Path::new(&directory);
    let mut store = open(directory)?;
    let counts = store.reader()?.counts()?;
    // The seed of a run is its number, so that a store that was filled before is only measured.
    let mut next = counts.live + counts.ended + 1;
    let begun = Instant::now();
    fill(&mut store, &mut next, n_ended.saturating_sub(counts.ended), true)?;
    fill(&mut store, &mut next, n_live.saturating_sub(counts.live), false)?;
    println!("filled in {:?}", begun.elapsed());
    drop(store);
    let mut store = open(directory)?;
    read_live(&store)?;
    println!("batch   commits/s   entries/s   us p50   us p99   us max");
    for n_batch in [1, 64] {
        rate(&mut store, n_batch, &mut next)?;
    }
    println!("ended   commits/s      runs/s   us p50   us p99   us max");
    for n_batch in [1, 64] {
        ends(&mut store, n_batch, &mut next)?;
    }
    Ok(())
}

fn open(directory: &Path) -> Result<Embedded, Box<dyn Error>> {
    let begun = Instant::now();
    let store = Embedded::open(directory, EmbeddedOptions::default())?;
    println!(
        "opened in {:?} with {:?}",
        begun.elapsed(),
        store.reader()?.counts()?
    );
    Ok(store)
}

fn entry() -> Bytes {
    Bytes::from(vec![7; ENTRY_BYTES])
}

fn create(next: &mut u64, n_entries: usize) -> RunWrite {
    let sample = RunSample::new(*next);
    *next += 1;
    let mut write = sample.create();
    write.entries = vec![entry(); n_entries];
    write
}

fn fill(store: &mut Embedded, next: &mut u64, n_runs: u64, is_ended: bool) -> Result<(), Box<dyn Error>> {
    let n_runs = usize::try_from(n_runs)?;
    for done in (0..n_runs).step_by(FILL) {
        let mut batch = RunBatch::new();
        for _ in 0..FILL.min(n_runs - done) {
            let mut write = create(next, if is_ended { 1 } else { 5 });
            write.progress.ended_at = is_ended.then_some(write.progress.updated_at);
            batch.add(write);
        }
        store.commit(&batch)?;
    }
    Ok(())
}

/// What a restart does: the rows of all live runs, then each with its journal.
fn read_live(store: &Embedded) -> Result<(), Box<dyn Error>> {
    let reader = store.reader()?;
    let (begun, mut live) = (Instant::now(), Vec::new());
    loop {
        let page = reader.live(live.last().map(|(number, _)| *number), 1000)?;
        if page.is_empty() {
            break;
        }
        live.extend(page.into_iter().map(|run| (run.number, run.run_id)));
    }
    println!(
        "read the rows of {} live runs in {:?}",
        live.len(),
        begun.elapsed()
    );
    let (begun, mut n_entries) = (Instant::now(), 0);
    for (_, run_id) in &live {
        n_entries += reader.run(*run_id, 1 << 20)?.map_or(0, |run| run.tail.len());
    }
    println!("read their {n_entries} entries in {:?}", begun.elapsed());
    let begun = Instant::now();
    let owner = RunFilter {
        scopes: Scope::each(Some("owner 1"), None),
        ..RunFilter::default()
    };
    reader.list(&owner, None, 100)?;
    println!("listed 100 of an owner in {:?}", begun.elapsed());
    Ok(())
}

/// Each commit appends one entry to each of so many runs.
fn rate(store: &mut Embedded, n_batch: usize, next: &mut u64) -> Result<(), Box<dyn Error>> {
    let mut created = RunBatch::new();
    let runs: Vec<RunWrite> = (0..n_batch).map(|_| create(next, 1)).collect();
    for run in &runs {
        created.add(run.clone());
    }
    store.commit(&created)?;
    let (mut times, mut busy, mut seq) = (Vec::new(), Duration::ZERO, 2);
    while busy < MEASURE {
        let mut batch = RunBatch::new();
        for run in &runs {
            batch.add(RunWrite {
                entries: vec![entry()],
                ..RunWrite::new(run.run_id, seq, run.progress)
            });
        }
        seq += 1;
        let begun = Instant::now();
        store.commit(&batch)?;
        times.push(begun.elapsed());
        busy += begun.elapsed();
    }
    print(times, busy, n_batch);
    Ok(())
}

/// Each commit ends so many runs with their second entry.
fn ends(store: &mut Embedded, n_batch: usize, next: &mut u64) -> Result<(), Box<dyn Error>> {
    let (mut times, mut busy) = (Vec::new(), Duration::ZERO);
    while busy < MEASURE {
        let (mut created, mut ended) = (RunBatch::new(), RunBatch::new());
        for _ in 0..n_batch {
            let sample = RunSample::new(*next);
            created.add(create(next, 1));
            let mut write = sample.end(2);
            write.entries = vec![entry()];
            ended.add(write);
        }
        store.commit(&created)?;
        let begun = Instant::now();
        store.commit(&ended)?;
        times.push(begun.elapsed());
        busy += begun.elapsed();
    }
    print(times, busy, n_batch);
    Ok(())
}

fn print(mut times: Vec<Duration>, busy: Duration, n_batch: usize) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_micros();
    println!(
        "{n_batch:>5} {:>11.0} {:>11.0} {:>8} {:>8} {:>8}",
        times.len() as f64 / busy.as_secs_f64(),
        (times.len() * n_batch) as f64 / busy.as_secs_f64(),
        at(50),
        at(99),
        at(100),
    );
}
