//! Records that were written once and are kept for ever: every version reads them and decides the same again, byte for byte.

use crate::readers;
use bytes::Bytes;
use escapement_tests::chain::{self, Kind};
use escapement_tests::checkout;
use escapement_tests::reference::retell_archive;
use escapement_wire::v1;
use prost::Message;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What all files may come to, so that a checkout stays small.
const BYTES_MAX: usize = 300 << 10;
/// Kinds of runs that are kept.
const FILES_MIN: usize = 20;

fn folder() -> PathBuf {
    checkout::root().join("tests/records/corpus")
}

/// Returns every file by its name.
pub(crate) fn all() -> BTreeMap<String, Bytes> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "record") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            all.insert(name, std::fs::read(&path).unwrap().into());
        }
    }
    all
}

/// Adds a file where it is asked for and there is none of that name.
pub(crate) fn add(name: &str, record: &Bytes) {
    let path = folder().join(format!("{name}.record"));
    if std::env::var_os("ESCAPEMENT_NEW_RECORDS").is_some() && !path.exists() {
        std::fs::write(path, record).unwrap();
    }
}

//
#[test]
fn every_kept_record_is_decided_again_byte_for_byte() {
    let all = all();
    assert!(all.len() >= FILES_MIN, "{} files", all.len());
    assert!(all.values().map(Bytes::len).sum::<usize>() <= BYTES_MAX);
    for (name, file) in &all {
        for said in [readers::orchestrator(file), readers::second(file)] {
            assert!(said.is_good(), "{name}: {:#?}", said.findings);
        }
    }
}

/// Files that were written once are written again from their parts.
#[test]
fn both_readers_take_a_file_apart_in_the_same_way() {
    for (name, file) in all() {
        let parts = readers::parts(&file);
        assert_eq!(readers::file_of(&parts), file, "{name}");
        let read = escapement_codec::archive::file::read(&file).unwrap();
        assert!(read.faults.is_empty(), "{name}: {:?}", read.faults);
        let entries = parts.iter().filter(|(kind, _)| *kind == Kind::Entry);
        assert!(
            entries
                .map(|(_, content)| content)
                .eq(read.archive.entries.iter()),
            "{name}"
        );
        let pieces: Vec<Bytes> = escapement_codec::archive::file::pieces(read.archive).collect();
        assert_eq!(pieces.concat(), file, "{name}");
    }
}

/// The digest that both compute is the one that the orchestrator gave the request when it was accepted.
#[test]
fn both_readers_compute_the_same_digests() {
    for (name, file) in all() {
        let read = escapement_codec::archive::file::read(&file).unwrap();
        let checked = chain::check(&file);
        let request = read.archive.decode_request().unwrap();
        assert_eq!(checked.request_digest, Some(*request.digest()), "{name}");
        assert_eq!(read.archive.request_digest, *request.digest(), "{name}");
        let seal = read.archive.seal.unwrap();
        let seal = v1::RecordSeal::decode(seal).unwrap();
        assert_eq!(checked.seal.unwrap().as_slice(), seal.seal, "{name}");
    }
}

/// The second interpreter of the contract comes to the recorded results as well.
#[test]
fn another_interpreter_comes_to_the_same_results() {
    for (name, file) in all() {
        assert_eq!(retell_archive(&file, 1_000), Ok(()), "{name}");
    }
}
