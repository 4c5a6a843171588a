//! Measures what opening a store and committing to it cost on the disk in memory. Asserts nothing.
#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

use std::time::Instant;

use escapement_store::conformance::Sample;
use escapement_store::{Checkpointing, Embedded, EmbeddedOptions, Store};
use escapement_test_disk::Disk;

fn open(disk: &Disk) -> Embedded {
    let options = EmbeddedOptions {
        files: Some(disk.files()),
        checkpointing: Checkpointing::Inline { pages_due: 256 },
        ..EmbeddedOptions::default()
    };
    Embedded::open(&disk.directory(), options).expect("nothing fails here")
}

fn main() {
    let n_opens = 500;
    let disks: Vec<Disk> = (0..n_opens).map(|_| Disk::new()).collect();
    let start = Instant::now();
    for disk in &disks {
        drop(open(disk));
    }
    println!("open, migrate, close: {:?}", start.elapsed() / n_opens);
    let start = Instant::now();
    for disk in &disks {
        drop(open(disk));
    }
    println!("open, close: {:?}", start.elapsed() / n_opens);

    let disk = Disk::new();
    let mut store = open(&disk);
    let n_commits = 5000u16;
    let start = Instant::now();
    for number in 0..n_commits {
        let sample = Sample::new(u64::from(number) + 1);
        store.commit(&[sample.accept()]).expect("nothing fails here");
    }
    println!(
        "commit of one accept: {:?}",
        start.elapsed() / u32::from(n_commits)
    );
}
