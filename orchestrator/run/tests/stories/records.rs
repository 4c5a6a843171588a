//! The journal as a file: what is written is read again, and what is bent is named.

use crate::world::{RUN_ID, World, call};
use bytes::Bytes;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_run::Blobs;
use escapement_run::ids::RunId;
use escapement_run::record::{RecordFault, RecordWriter, RunRecord, read};
use serde_json::json;

/// A run with contents beside its journal, some of them in two entries.
fn world() -> World {
    let mut world = World::of(json!([call("a"), call("b")]));
    world.complete("a", json!({"text": "x".repeat(40_000)}));
    world.complete("b", json!({"text": "y".repeat(40_000)}));
    world
}

/// Returns the journal as a file.
pub(crate) fn file_of(world: &World) -> Vec<u8> {
    let run_id = RunId::from_bytes(RUN_ID).unwrap();
    let mut file = Vec::new();
    let mut link = chain_begin(&run_id);
    let mut writer = RecordWriter::begin(run_id, &mut file);
    for (sequence, bytes) in (1..).zip(&world.bytes) {
        link = chain_next(&link, sequence, bytes);
        for digest in writer.entry(&link, bytes, &mut file).unwrap() {
            writer.content(&world.disk.blob(&digest), &mut file);
        }
    }
    writer.end(&mut file);
    file
}

fn read_whole(file: Vec<u8>) -> RunRecord {
    let (record, faults) = read(&Bytes::from(file)).unwrap();
    assert_eq!(faults, []);
    record
}

/// The first thing that is said to be wrong.
fn first_fault(file: Vec<u8>) -> RecordFault {
    match read(&Bytes::from(file)) {
        Err(fault) => fault,
        Ok((_, faults)) => faults.into_iter().next().expect("something is wrong"),
    }
}

/// Where each entry's frame begins, and the end's: told by cutting the file there.
fn entry_starts(file: &[u8], n_entries: usize) -> Vec<usize> {
    let mut starts = vec![0; n_entries + 2];
    for at in (0..file.len()).rev() {
        let fault = first_fault(file[..at].to_vec());
        let entry = fault
            .sequence
            .map_or(n_entries + 1, |n| usize::try_from(n).unwrap());
        if fault.what == "the file ends without its end" {
            // The header has no number either, and stands before.
            starts[entry] = at.max(starts[entry]);
        }
    }
    starts
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let world = world();
    let record = read_whole(file_of(&world));
    let bytes: Vec<&Bytes> = record.entries.iter().map(|entry| &entry.bytes).collect();
    assert_eq!(bytes, world.bytes.iter().collect::<Vec<_>>());
    let entries: Vec<_> = record.entries.iter().map(|entry| entry.entry.clone()).collect();
    assert_eq!(entries, world.journal);
    assert_eq!(
        record.entries.last().unwrap().link,
        world.run.state().chain_hash(),
        "the last hash is the head of the chain"
    );
    assert!(record.is_complete());
    assert_eq!(record.contents.len(), 2, "equal contents are there once");
}

#[test]
fn the_record_of_a_run_that_lives_is_whole_and_not_complete() {
    let mut world = World::of(json!([call("a")]));
    assert!(!read_whole(file_of(&world)).is_complete());
    world.complete("a", json!(1));
    assert!(read_whole(file_of(&world)).is_complete());
}

// S70
#[test]
fn each_flipped_byte_is_found_and_one_of_an_entry_names_it() {
    let mut world = World::of(json!([call("a")]));
    world.complete("a", json!({"text": "short"}));
    let file = file_of(&world);
    let n_entries = world.bytes.len();
    let starts = entry_starts(&file, n_entries);
    for at in 0..file.len() {
        let mut bent = file.clone();
        bent[at] ^= 0x41;
        let fault = first_fault(bent);
        let entry = (1..=n_entries).find(|entry| (starts[*entry]..starts[entry + 1]).contains(&at));
        let expected = entry.map(|entry| entry as u64);
        // A header that names another run is seen at the first entry.
        let is_header = at < starts[1];
        assert!(
            fault.sequence == expected || is_header && fault.sequence == Some(1),
            "byte {at} of entry {entry:?}: {fault:?}"
        );
    }
}

#[test]
fn a_bent_content_names_the_entry_that_refers_to_it_first() {
    let world = world();
    let file = file_of(&world);
    let refers = |letter: char| {
        let mut entries = world.journal.iter();
        let digest = read_whole(file.clone())
            .contents
            .into_iter()
            .find(|(_, content)| content.iter().filter(|byte| **byte == letter as u8).count() > 30_000);
        let (digest, _) = digest.unwrap();
        entries
            .position(|entry| entry.contents().contains(&digest))
            .unwrap() as u64
            + 1
    };
    for letter in ['x', 'y'] {
        let mut bent = file.clone();
        let run =
            (0..bent.len() - 100).find(|at| bent[*at..at + 100].iter().all(|byte| *byte == letter as u8));
        bent[run.unwrap()] = b'z';
        let fault = first_fault(bent);
        assert_eq!(fault.sequence, Some(refers(letter)), "{fault:?}");
        assert_eq!(fault.what, "the content is not the one that the entry refers to");
    }
}

#[test]
fn a_file_that_is_cut_off_or_goes_on_is_found() {
    let file = file_of(&world());
    for at in [0, 10, 40, file.len() / 2, file.len() - 1] {
        first_fault(file[..at].to_vec());
    }
    let longer = [&file[..], b"x"].concat();
    assert_eq!(first_fault(longer).what, "there is something behind the end");
}
