//! What is kept of many inputs: the few that reach everything that all of them reach. Finds nothing itself.

use std::error::Error;
use std::path::Path;
use std::process::Stdio;

use crate::Place;
use crate::run::command;

/// What a corpus that is checked in may come to; the test `fuzzing` holds it to a little more.
const FILES_MAX: usize = 180;
const BYTES_MAX: u64 = 280 << 10;

/// Leaves those inputs that are needed for the coverage of all.
pub(crate) fn minimise(program: &Path, target: &str, place: &Place) -> Result<(), Box<dyn Error>> {
    let merged = place.folder.join("merged").join(target);
    merge(program, target, place, &merged, "-merge=1")?;
    std::fs::remove_dir_all(&place.learnt)?;
    std::fs::rename(&merged, &place.learnt)?;
    Ok(())
}

/// Copies some of every size into the checkout. Inputs that have a name of their own stay: each was a finding.
pub(crate) fn keep(program: &Path, target: &str, place: &Place) -> Result<(), Box<dyn Error>> {
    let covering = place.folder.join("covering").join(target);
    merge(program, target, place, &covering, "-set_cover_merge=1")?;
    let mut n_files = 0;
    let mut n_bytes = 0;
    for (name, size) in sizes(&place.corpus)? {
        if is_hash(&name) {
            std::fs::remove_file(place.corpus.join(name))?;
        } else {
            n_files += 1;
            n_bytes += size;
        }
    }
    let all = sizes(&covering)?;
    let pause = all.len().div_ceil(FILES_MAX - n_files.min(FILES_MAX - 1));
    for (name, size) in all.into_iter().step_by(pause.max(1)) {
        if n_bytes + size <= BYTES_MAX {
            std::fs::copy(covering.join(&name), place.corpus.join(&name))?;
            n_files += 1;
            n_bytes += size;
        }
    }
    println!(
        "{n_files} inputs with {n_bytes} bytes are in {}",
        place.corpus.display()
    );
    std::fs::remove_dir_all(covering)?;
    Ok(())
}

fn merge(program: &Path, target: &str, place: &Place, into: &Path, how: &str) -> Result<(), Box<dyn Error>> {
    if into.exists() {
        std::fs::remove_dir_all(into)?;
    }
    std::fs::create_dir_all(into)?;
    let status = command(program, target, place)
        .arg(how)
        .arg(into)
        .args([&place.corpus, &place.learnt, &place.seeds])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        return Err("libFuzzer could not merge the corpus".into());
    }
    Ok(())
}

/// Names and sizes of a folder's files, the smallest first.
fn sizes(folder: &Path) -> Result<Vec<(String, u64)>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        files.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.metadata()?.len(),
        ));
    }
    files.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    Ok(files)
}

/// What libFuzzer calls an input.
fn is_hash(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
