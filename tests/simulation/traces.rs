//! The hashes of traces that are kept beside this file, each with the number of the first seeds that it stands for.
//! Every run of these seeds is compared: in both profiles, on any number of threads.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{SEEDS, SEEDS_COMPARED};

/// Holds a hash against the one that is kept of the same seeds, if one is to be; `ESCAPEMENT_WRITE=1` keeps this one instead.
pub(crate) fn expect_kept(from: u64, n_seeds: u64, trace_hash: u64) {
    if from != 1 || ![SEEDS_COMPARED, SEEDS].contains(&n_seeds) {
        return;
    }
    let (mut kept, now) = (kept(), format!("{trace_hash:016x}"));
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        kept.insert(n_seeds, now);
        let lines = kept.iter().map(|(n_seeds, hash)| format!("{n_seeds} {hash}\n"));
        std::fs::write(path(), lines.collect::<String>()).expect("the file can be written");
        return;
    }
    assert_eq!(
        Some(&now),
        kept.get(&n_seeds),
        "the first {n_seeds} seeds do not run as they did when their hash was kept; if that was meant: \
         ESCAPEMENT_WRITE=1 cargo test -p escapement-tests --test simulation -- --test-threads=1"
    );
}

fn kept() -> BTreeMap<u64, String> {
    let text = std::fs::read_to_string(path()).expect("the file is in the repository");
    let entry = |line: &str| {
        let (n_seeds, hash) = line.split_once(' ').expect("a number, a space, a hash");
        (n_seeds.parse().expect("a number"), hash.to_owned())
    };
    text.lines().map(entry).collect()
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("simulation/traces.txt")
}
