//! Four plans, a run and a goal do real work on the project itself: a real orchestrator, two real workers, live progress, files at the end.
//! Fakes nothing but the model, which is a script: plan documents go to the API unchanged, and git and cargo answer from this checkout.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

mod goal;
mod ledger;
mod plans;
mod progress;
mod run;
mod stage;
mod view;

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use escapement_tests::{Fault, interrupted};

use plans::{PLANS, Verdict};
use stage::Stage;

#[tokio::main]
async fn main() -> ExitCode {
    // Biased, so that a signal wins over work; dropping the work ends the processes.
    let outcome = tokio::select! {
        biased;
        why = interrupted() => Err(why),
        outcome = demonstrate(std::env::args().skip(1)) => outcome,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("the demo cannot go on: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Runs everything. True if each plan ended as it should.
async fn demonstrate(arguments: impl Iterator<Item = String>) -> Result<bool, Fault> {
    let mut stage = Stage::start(output(arguments)?).await?;
    println!(
        "\norchestrator at {}, workers `one` and `two`, files under {}",
        stage.address(),
        stage.shown_files()
    );
    let mut verdicts = Vec::new();
    for plan in &PLANS {
        verdicts.push(plan.perform(&stage).await?);
    }
    let mut all_well = verdicts.iter().all(|verdict| verdict.as_expected);
    let run = run::perform(&mut stage).await?;
    all_well &= run.as_expected;
    let is_reached = goal::perform(&stage).await?;
    all_well &= is_reached;
    println!();
    all_well &= stage.tell_deliveries(DELIVERIES).await?;
    stage.tell_files()?;
    stage.stop().await?;
    println!("\n{}", counts(&verdicts, run.state, is_reached));
    Ok(all_well)
}

/// Where the files go, relative to the root of the checkout.
/// Another folder than the default lets two demos run at the same time.
fn output(mut arguments: impl Iterator<Item = String>) -> Result<PathBuf, Fault> {
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, None, None) => Ok(PathBuf::from(OUTPUT)),
        // What stands in the folder is deleted, so it is not any folder.
        (Some("--output"), Some(folder), None) if is_in_target(Path::new(&folder)) => {
            Ok(PathBuf::from(folder))
        }
        _ => Err("the only flag is `--output target/NAME`, for another folder than target/demo".into()),
    }
}

fn is_in_target(folder: &Path) -> bool {
    let mut parts = folder.components();
    parts.next() == Some(Component::Normal("target".as_ref()))
        && matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

/// Returns the outcomes of the plans, of the run, and of the goal: the last line of the demo.
fn counts(verdicts: &[Verdict], run: &str, is_reached: bool) -> String {
    let count = |status: &str| verdicts.iter().filter(|verdict| verdict.status == status).count();
    let [success, partial, failure] = ["success", "partial", "failure"].map(count);
    let plans = verdicts.len();
    let goal = if is_reached { "reached" } else { "missed" };
    // By hand, since the order is meant for people.
    format!(
        r#"{{"plans":{plans},"success":{success},"partial":{partial},"failure":{failure},"run":"{run}","goal":"{goal}"}}"#
    )
}

/// The release report, and the announcement of the run.
const DELIVERIES: usize = 2;

/// In `target`, where git ignores it, and below the root, where git and cargo find the project.
const OUTPUT: &str = "target/demo";

#[cfg(test)]
mod tests {
    use super::{OUTPUT, Verdict, counts, output};
    use std::path::Path;

    #[test]
    fn the_files_go_where_the_flag_says() {
        let given = |arguments: &[&str]| output(arguments.iter().map(|word| (*word).to_owned())).ok();
        assert_eq!(given(&[]).as_deref(), Some(Path::new(OUTPUT)));
        assert_eq!(
            given(&["--output", "target/other"]).as_deref(),
            Some(Path::new("target/other"))
        );
        for refused in ["--quiet", "--output"] {
            assert_eq!(given(&[refused]), None);
        }
        for refused in [
            "target",
            "target/..",
            "../target/a",
            "/target/a",
            "orchestrator/a",
            "target/a/b",
        ] {
            assert_eq!(given(&["--output", refused]), None, "{refused}");
        }
    }

    #[test]
    fn the_last_line_counts_the_plans_by_status() {
        let verdict = |status: &str| Verdict {
            status: status.to_owned(),
            as_expected: true,
        };
        let verdicts = ["success", "failure", "success", "partial"].map(verdict);
        assert_eq!(
            counts(&verdicts, "completed", true),
            r#"{"plans":4,"success":2,"partial":1,"failure":1,"run":"completed","goal":"reached"}"#
        );
    }
}
