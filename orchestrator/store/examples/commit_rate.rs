//! Measures commits, opening and reading of the embedded store. Compares with nothing.
//!
//! `commit_rate DIRECTORY [SETTLED [REMOVED]]`: with a count, fills the store with so many settled executions first
//! and measures opening it, so that the rates are those of a large file. With a second count so many of them are
//! removed, and removal is measured, too.
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use std::collections::VecDeque;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use escapement_store::{Embedded, EmbeddedOptions, ListFilter, Removal, Store, Write};
use escapement_store_kit::conformance::Sample;

const RECORD_BYTES: usize = 1024;
const MEASURE: Duration = Duration::from_secs(3);
const QUEUED: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("commit_rate DIRECTORY [SETTLED]")?;
    let n_settled: u64 = arguments.next().map_or(Ok(0), |count| count.parse())?;
    let n_removed: u64 = arguments.next().map_or(Ok(0), |count| count.parse())?;
    let directory = Path::new(&directory);

    // The seed of an execution is its place, so that a store that was filled before is only measured.
    let mut next = open(directory)?.reader()?.counts()?.accepted();
    if n_settled > 0 {
        fill(directory, n_settled, &mut next)?;
    }
    if n_removed > 0 {
        remove(directory, n_settled - n_removed)?;
    }
    let mut store = open(directory)?;
    println!("batch   commits/s   records/s   us CPU/record   us p50   us p99   us max");
    for n_batch in [1, 16, 64, 256] {
        rate(&mut store, n_batch, &mut next)?;
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

/// Fills the store and measures what a restart does: opening, and reading what is unsettled.
fn fill(directory: &Path, n_settled: u64, next: &mut u64) -> Result<(), Box<dyn Error>> {
    let mut store = open(directory)?;
    let begun = Instant::now();
    while *next < n_settled {
        let batch: Vec<Write> = samples(next, 512)
            .iter()
            .flat_map(|s| [s.accept(), s.settle(1)])
            .collect();
        store.commit(&batch)?;
    }
    while *next < n_settled + QUEUED {
        let batch: Vec<Write> = samples(next, 512).iter().map(Sample::accept).collect();
        store.commit(&batch)?;
    }
    println!("filled in {:?}", begun.elapsed());
    drop(store);

    let store = open(directory)?;
    let reader = store.reader()?;
    let (begun, mut after, mut n_read) = (Instant::now(), None, 0);
    loop {
        let page = reader.unsettled(after, 1000)?;
        let Some(last) = page.last() else { break };
        after = Some(last.summary.number);
        n_read += page.len();
    }
    println!("read {n_read} unsettled in {:?}", begun.elapsed());
    let begun = Instant::now();
    reader.list(&ListFilter::default(), None, 100)?;
    println!("listed 100 in {:?}", begun.elapsed());
    let begun = Instant::now();
    let nobody = ListFilter {
        user_id: Some("nobody".to_owned()),
        ..ListFilter::default()
    };
    reader.list(&nobody, None, 100)?;
    println!("looked through all for nobody in {:?}", begun.elapsed());
    Ok(())
}

/// Removes all but the newest ones, and looks at everything once.
fn remove(directory: &Path, n_kept: u64) -> Result<(), Box<dyn Error>> {
    let mut store = open(directory)?;
    let policy = Removal {
        keep_settled_count: Some(n_kept),
        ..Removal::default()
    };
    let (begun, mut times, mut n_removed) = (Instant::now(), Vec::new(), 0);
    loop {
        let step = Instant::now();
        let removed = store.remove_settled(&policy, 0)?;
        times.push(step.elapsed());
        n_removed += removed.n_executions;
        if !removed.has_more {
            break;
        }
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "removed {n_removed} in {:?}; a step took {:?} p50, {:?} p99, {:?} at most",
        begun.elapsed(),
        at(50),
        at(99),
        at(100)
    );
    drop(store);
    let begun = Instant::now();
    let found = open(directory)?
        .examiner()?
        .examine_all(&mut |finding| println!("{finding:?}"))?;
    println!("examined in {:?}: {found:?}", begun.elapsed());
    Ok(())
}

fn samples(next: &mut u64, count: u64) -> Vec<Sample> {
    let samples = (*next..*next + count).map(|seed| Sample::with_record_bytes(seed, RECORD_BYTES));
    *next += count;
    samples.collect()
}

/// Each execution is two writes with three records, as on the fast path of the orchestrator; a batch holds as
/// many accepts as ends, the ends being those of the batch before.
fn rate(store: &mut Embedded, n_batch: usize, next: &mut u64) -> Result<(), Box<dyn Error>> {
    let primed = samples(next, u64::try_from(n_batch)?);
    store.commit(&primed.iter().map(Sample::accept).collect::<Vec<_>>())?;
    let mut ends: VecDeque<Write> = primed.iter().map(|sample| sample.settle(1)).collect();
    let (mut times, mut busy, mut making) = (Vec::new(), Duration::ZERO, Duration::ZERO);
    let cpu = cpu_time()?;
    let mut turn = 0_usize;
    while busy < MEASURE {
        let begun = Instant::now();
        let mut batch = Vec::with_capacity(n_batch);
        while batch.len() < n_batch {
            turn += 1;
            if turn.is_multiple_of(2) {
                batch.extend(ends.pop_front());
            } else {
                let sample = samples(next, 1).remove(0).running();
                batch.push(sample.accept());
                ends.push_back(sample.settle(1));
            }
        }
        making += begun.elapsed();
        let begun = Instant::now();
        store.commit(&batch)?;
        times.push(begun.elapsed());
        busy += begun.elapsed();
    }
    let cpu = (cpu_time()? - cpu).saturating_sub(making);
    let n_records = times.len() * n_batch;
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_micros();
    println!(
        "{n_batch:>5} {:>11.0} {:>11.0} {:>15.1} {:>8} {:>8} {:>8}",
        times.len() as f64 / busy.as_secs_f64(),
        n_records as f64 / busy.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / n_records as f64,
        at(50),
        at(99),
        at(100),
    );
    Ok(())
}

/// What all threads of this process have used, by the kernel's count of ticks of 10 ms.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = status
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
