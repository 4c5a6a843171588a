//! Coverage-guided fuzzing in one command: `cargo fuzzing -- TARGET --minutes N`. Judges nothing: the targets do.
//! Uses the standard library alone, so that it starts at once; libFuzzer needs a C++ compiler.
//!
//! Everything lies in `target/fuzzing`: the instrumented build, what was learnt, findings, and `state.json`,
//! which adds the executions of all runs up. The checkout changes only with `--keep`.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

mod build;
mod corpus;
mod options;
mod run;
mod state;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use options::Options;
use state::State;

fn main() -> ExitCode {
    match fuzz() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("cargo fuzzing cannot go on: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Builds, runs, merges what is new. Gives the number of findings.
fn fuzz() -> Result<usize, Box<dyn Error>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    // The alias ends with two dashes, and so does what people type before their words.
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--");
    let options = Options::read(arguments, &root)?;
    let place = Place::of(root, &options.target)?;
    let program = build::build(&place.root, &place.folder)?;

    let run = run::run(&program, &options, &place)?;
    corpus::minimise(&program, &options.target, &place)?;
    if options.keeps {
        corpus::keep(&program, &options.target, &place)?;
    }
    let mut state = State::read(&place.folder)?;
    let all = state.add(&options.target, run.executions);
    state.write(&place.folder)?;
    println!("{} executions of {} so far", all, options.target);
    println!(
        "{{\"target\":\"{}\",\"executions\":{},\"findings\":{}}}",
        options.target, run.executions, run.findings
    );
    Ok(run.findings)
}

/// Where everything lies for one target.
struct Place {
    root: PathBuf,
    /// `target/fuzzing`.
    folder: PathBuf,
    /// Checked in.
    corpus: PathBuf,
    /// What runs on this machine have learnt.
    learnt: PathBuf,
    seeds: PathBuf,
    findings: PathBuf,
    /// For files that a target makes; in memory where the system has such a place.
    scratch: PathBuf,
}

impl Place {
    fn of(root: PathBuf, target: &str) -> Result<Self, Box<dyn Error>> {
        // This program lies in `<target>/<profile>/`.
        let program = std::env::current_exe()?;
        let above = program
            .parent()
            .and_then(Path::parent)
            .ok_or("no target folder")?;
        let folder = above.join("fuzzing");
        let shared_memory = Path::new("/dev/shm");
        let memory = if shared_memory.is_dir() {
            shared_memory.to_owned()
        } else {
            folder.clone()
        };
        let place = Self {
            corpus: root.join("tests/corpus").join(target),
            learnt: folder.join("learnt").join(target),
            seeds: folder.join("seeds").join(target),
            findings: folder.join("findings").join(target),
            scratch: memory.join(format!("escapement-fuzzing-{}", std::process::id())),
            root,
            folder,
        };
        // Seeds of an earlier version of the target.
        let _ = std::fs::remove_dir_all(&place.seeds);
        for folder in [
            &place.corpus,
            &place.learnt,
            &place.seeds,
            &place.findings,
            &place.scratch,
        ] {
            std::fs::create_dir_all(folder)?;
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Temporary files only.
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}
