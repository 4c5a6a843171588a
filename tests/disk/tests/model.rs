//! What the disk promises to tests: that what was synced stays, that what was not may go, and that nothing but
//! the calls and the dice decides. The store itself is tested elsewhere.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use escapement_store::{Files, OpenFile};
use escapement_test_disk::{Disk, Failure, Plan, Stop};

/// Returns a generator of dice that needs nothing else.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

/// Returns the whole of a file.
fn read(file: &dyn OpenFile) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.length()?).unwrap()];
    let n_read = file.read_at(&mut bytes, 0)?;
    assert_eq!(n_read, bytes.len());
    Ok(bytes)
}

struct Place {
    disk: Disk,
    files: Arc<dyn Files>,
}

impl Place {
    fn new() -> Self {
        let disk = Disk::new();
        let files = disk.files();
        Self { disk, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.directory().join(name)
    }

    fn open(&self, name: &str) -> Box<dyn OpenFile> {
        self.files.open(&self.path(name), true).unwrap()
    }

    /// Returns a file whose name is durable.
    fn create(&self, name: &str) -> Box<dyn OpenFile> {
        let file = self.open(name);
        self.files.sync_directory(&self.disk.directory()).unwrap();
        file
    }
}

#[test]
fn a_byte_is_what_was_synced_or_what_was_written_since() {
    for seed in 0..300 {
        let mut next = dice(seed);
        let place = Place::new();
        let file = place.create("a");
        // For each byte what a power cut may leave there.
        let mut allowed: Vec<BTreeSet<u8>> = Vec::new();
        let mut content: Vec<u8> = Vec::new();
        for _ in 0..next(40) {
            let offset = usize::try_from(next(6000)).unwrap();
            let length = usize::try_from(1 + next(3000)).unwrap();
            let byte = u8::try_from(1 + next(255)).unwrap();
            file.write_at(&vec![byte; length], offset as u64).unwrap();
            content.resize(content.len().max(offset + length), 0);
            allowed.resize(content.len(), BTreeSet::from([0]));
            content[offset..offset + length].fill(byte);
            for allowed in &mut allowed[offset..offset + length] {
                allowed.insert(byte);
            }
            assert!(read(&*file).unwrap() == content, "reads show what was written");
            if next(4) == 0 {
                file.sync().unwrap();
                allowed = content.iter().map(|byte| BTreeSet::from([*byte])).collect();
            }
        }
        let synced = place.disk.durable_content("a").unwrap().len();
        place.disk.power_cut(&mut next);
        let found = place.disk.content("a").unwrap();
        assert!(found.len() >= synced, "seed {seed}: synced bytes are cut off");
        for (at, (byte, allowed)) in found.iter().zip(&allowed).enumerate() {
            assert!(
                allowed.contains(byte),
                "seed {seed}: byte {at} is {byte}, not one of {allowed:?}"
            );
        }
    }
}

/// What a cut leaves of two sectors that were `o` and are overwritten with `n`, unsynced.
fn after_a_cut(seed: u64) -> String {
    let place = Place::new();
    let file = place.create("a");
    file.write_at(&[b'o'; 1024], 0).unwrap();
    file.sync().unwrap();
    file.write_at(&[b'n'; 1024], 0).unwrap();
    place.disk.power_cut(&mut dice(seed));
    let found = place.disk.content("a").unwrap();
    let kind = |sector: &[u8]| match (sector.contains(&b'o'), sector.contains(&b'n')) {
        (true, false) => 'o',
        (false, true) => 'n',
        _ => 't',
    };
    found.chunks(512).map(kind).collect()
}

#[test]
fn each_unsynced_sector_is_kept_lost_or_torn_on_its_own() {
    let found: BTreeSet<String> = (0..500).map(after_a_cut).collect();
    for expected in ["oo", "on", "no", "nn", "to", "tn", "ot", "nt"] {
        assert!(
            found.contains(expected),
            "no cut leaves {expected}; only {found:?}"
        );
    }
}

#[test]
fn the_same_dice_leave_the_same_disk() {
    for seed in 0..50 {
        let cut = || {
            let place = Place::new();
            let mut next = dice(seed);
            for name in ["a", "b", "c"] {
                let file = place.open(name);
                file.write_at(&[7; 5000], next(4000)).unwrap();
                if next(2) == 0 {
                    place.files.sync_directory(&place.disk.directory()).unwrap();
                }
            }
            place.disk.power_cut(&mut next);
            let names = place.disk.names();
            names
                .into_iter()
                .map(|name| (place.disk.content(&name), name))
                .collect::<Vec<_>>()
        };
        assert!(cut() == cut(), "seed {seed}");
    }
}

#[test]
fn a_new_name_is_durable_behind_a_sync_of_its_folder_only() {
    let survives = |seed, synced: bool| {
        let place = Place::new();
        let file = if synced {
            place.create("a")
        } else {
            place.open("a")
        };
        file.write_at(b"x", 0).unwrap();
        file.sync().unwrap();
        place.disk.power_cut(&mut dice(seed));
        place.disk.content("a").is_some()
    };
    assert!((0..50).all(|seed| survives(seed, true)));
    let kept = (0..50).filter(|seed| survives(*seed, false)).count();
    assert!((1..50).contains(&kept), "{kept} of 50 kept");
}

#[test]
fn a_killed_process_leaves_all_writes_and_dead_handles_behind() {
    let place = Place::new();
    let file = place.open("a");
    let lock = place.files.lock(&place.path("lock")).unwrap().unwrap();
    file.write_at(b"written", 0).unwrap();
    place.disk.process_killed();
    read(&*file).unwrap_err();
    file.write_at(b"dead", 0).unwrap_err();
    file.sync().unwrap_err();
    let again = place.files.lock(&place.path("lock")).unwrap();
    assert!(again.is_some(), "the lock of a dead process is free");
    drop(lock);
    assert!(
        place.files.lock(&place.path("lock")).unwrap().is_none(),
        "a dead handle frees nobody's lock"
    );
    assert_eq!(read(&*place.open("a")).unwrap(), b"written");
}

#[test]
fn what_a_failed_sync_dropped_never_becomes_durable() {
    let place = Place::new();
    let file = place.create("a");
    file.write_at(&[b'o'; 2048], 0).unwrap();
    file.sync().unwrap();
    file.write_at(&[b'n'; 2048], 0).unwrap();
    place.disk.plan(Plan {
        fail_nth: Some((1, Failure::SyncFails)),
        ..Plan::default()
    });
    file.sync().unwrap_err();
    file.sync().expect("the pages count as clean");
    assert_eq!(
        read(&*file).unwrap(),
        [b'n'; 2048],
        "the page cache still shows it"
    );
    place.disk.drop_page_cache();
    let found = read(&*file).unwrap();
    assert!(
        found.contains(&b'o') && found.contains(&b'n'),
        "some sectors reached the disk, some did not"
    );
}

#[test]
fn a_full_disk_refuses_growth_only() {
    let place = Place::new();
    let file = place.create("a");
    file.write_at(b"12345", 0).unwrap();
    place.disk.set_full(true);
    let error = file.write_at(b"67", 4).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    file.write_at(b"54", 3).unwrap();
    file.sync().unwrap();
    place.files.open(&place.path("b"), true).unwrap_err();
    place.disk.set_full(false);
    file.write_at(b"67", 5).unwrap();
    assert_eq!(read(&*file).unwrap(), b"1235467");
}

#[test]
fn the_nth_call_fails_once_as_planned() {
    for (failure, left) in [
        (Failure::Io, &b"1234"[..]),
        (Failure::Full, b"1234"),
        (Failure::ShortWrite, b"ab34"),
    ] {
        let place = Place::new();
        let file = place.create("a");
        file.write_at(b"1234", 0).unwrap();
        place.disk.plan(Plan {
            fail_nth: Some((2, failure)),
            ..Plan::default()
        });
        file.sync().unwrap();
        file.write_at(b"abcd", 0).unwrap_err();
        assert_eq!(read(&*file).unwrap(), left, "{failure:?}");
        file.write_at(b"efgh", 0).unwrap();
    }
}

#[test]
fn nothing_works_behind_the_call_at_which_everything_stops() {
    for (stop, left) in [(Stop::Before, &b"1"[..]), (Stop::After, b"2")] {
        let place = Place::new();
        let file = place.create("a");
        file.write_at(b"1", 0).unwrap();
        place.disk.plan(Plan {
            stop_at: Some((1, stop)),
            ..Plan::default()
        });
        file.write_at(b"2", 0).unwrap_err();
        assert!(place.disk.is_stopped());
        file.write_at(b"3", 0).unwrap_err();
        read(&*file).unwrap_err();
        place.disk.process_killed();
        assert_eq!(read(&*place.open("a")).unwrap(), left, "{stop:?}");
    }
}

#[test]
fn a_copy_is_another_disk_with_the_same_files() {
    let place = Place::new();
    place.open("a").write_at(b"1", 0).unwrap();
    let copy = place.disk.copy();
    place.open("a").write_at(b"2", 0).unwrap();
    assert!(copy.flip_bit("a", 0, 1));
    assert!(!copy.flip_bit("a", 1, 1));
    assert_eq!(copy.content("a").unwrap(), b"3");
    assert_eq!(place.disk.content("a").unwrap(), b"2");
    place.files.open(&copy.directory().join("a"), true).unwrap_err();
}
