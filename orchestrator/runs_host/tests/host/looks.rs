//! Tests that reads of runs keep at most as many of them in memory as rest there.

use escapement_model::RunId;
use escapement_run::presets::Preset;
use escapement_runs::Config;
use escapement_runs_host::RunsHost;
use escapement_store_kit::runs::MemoryRunsDisk;

use crate::asking::{START, asks, waiting, write};

/// More than rest in memory.
const N_RUNS: u64 = 1_100;
/// Number of runs that rest, and the one that is read.
const IN_MEMORY_MAX: usize = 1_024 + 1;

fn id(n: u64) -> RunId {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    RunId::from_random(bytes)
}

fn n_in_memory(host: &RunsHost) -> usize {
    let all = (0..N_RUNS).map(id);
    all.filter(|run_id| host.runs().in_memory(*run_id).is_some())
        .count()
}

// RUN-9.9
#[test]
fn looking_at_all_runs_keeps_no_more_in_memory_than_rest_there() {
    let mut store = MemoryRunsDisk::new().open();
    let config = Config {
        max_live_runs: 10_000,
        max_runs: 10_000,
    };
    let (mut host, _) = RunsHost::open(&store, config, START).unwrap();
    let plan = asks();
    for n in 0..N_RUNS {
        host.create(waiting(id(n), &plan, Preset::Standard.limits(1)), START)
            .unwrap();
        write(&mut host, &mut store);
    }
    assert!(n_in_memory(&host) <= IN_MEMORY_MAX);
    // Nothing is committed between the reads.
    for n in 0..N_RUNS {
        assert!(host.look(id(n)).is_some());
    }
    assert!(n_in_memory(&host) <= IN_MEMORY_MAX, "{}", n_in_memory(&host));
    for n in 0..N_RUNS {
        assert!(host.run(id(n)).is_some());
    }
    assert!(n_in_memory(&host) <= IN_MEMORY_MAX, "{}", n_in_memory(&host));
    // Who only asks one thing of each takes none of them up.
    host.park(0);
    for n in 0..N_RUNS {
        assert_eq!(host.peek(id(n), |run| run.state().is_discarded()), Some(false));
    }
    assert_eq!(n_in_memory(&host), 0);
    assert_eq!(host.peek(id(N_RUNS), |_| ()), None);
}
