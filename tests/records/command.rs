//! The real command says of files what the readers say: whole ones are verified, of bent ones the first wrong entry is named.

use crate::corpus;
use crate::readers;
use escapement_tests::chain::Kind;
use escapement_tests::{Binaries, PrivateDirectory};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `verify` says of these files, line by line, and whether it is content.
fn verify(files: &[PathBuf]) -> (Vec<Value>, bool) {
    let program = Binaries::build().unwrap().orchestrator;
    let output = Command::new(program).arg("verify").args(files).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.collect(), output.status.success())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_command_verifies_every_kept_record() {
    let folder = PrivateDirectory::new("verify").unwrap();
    let all = corpus::all();
    let files: Vec<PathBuf> = all
        .iter()
        .map(|(name, bytes)| write(folder.path(), name, bytes))
        .collect();
    let (lines, is_content) = verify(&files);
    assert!(is_content, "{lines:#?}");
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["event"], &last["files"], &last["bad"]),
        (&"verified".into(), &all.len().into(), &0.into())
    );
}

#[test]
fn the_command_names_the_entry_that_was_changed() {
    let folder = PrivateDirectory::new("verify").unwrap();
    let file = &corpus::all()["failure-by-halt"];
    let parts = readers::parts(file);
    // The header and the request come before the entries.
    for (place, (_, content)) in parts
        .iter()
        .enumerate()
        .filter(|(_, (kind, _))| *kind == Kind::Entry)
    {
        let mut bent = parts.clone();
        bent[place].1[content.len() - 1] ^= 1;
        let path = write(folder.path(), "bent", &readers::file_of(&bent));
        let (lines, is_content) = verify(&[path]);
        assert!(!is_content);
        let first = lines.iter().find(|line| line["part"] == "entry");
        assert_eq!(first.unwrap()["sequence"], place - 1, "{lines:#?}");
    }
    for cut in [0, 10, 25, 200, file.len() - 1] {
        let path = write(folder.path(), "cut", &file[..cut]);
        assert!(!verify(&[path]).1, "cut off after {cut} bytes");
    }
}
