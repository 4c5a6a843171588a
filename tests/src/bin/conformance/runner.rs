//! Runs the checks that are wanted, several at a time, and tells of each. Knows none of them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use escapement_tests::Fault;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::catalogue::{Check, RULES, checks};
use crate::checks::ORDINARY;
use crate::options::Options;
use crate::scene::{Scene, World};
use crate::subject::tail;

/// How many claims held, and how many did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

/// Judges the worker. Tells of each check as soon as its verdict stands, of the rules that hold everywhere at the end.
/// A check that fails is judged a second time with little beside it, and that verdict stands: a machine that stood still for a
/// moment looks like a worker that was late, but not twice.
pub(crate) async fn judge(options: Options, tell: impl Fn(&str)) -> Result<Counts, Fault> {
    let rules: Vec<_> = RULES.iter().filter(|rule| options.selects(rule.name)).collect();
    let mut wanted: Vec<_> = checks().filter(|check| options.selects(check.name)).collect();
    if wanted.is_empty() && rules.is_empty() {
        return Err("no check has such a name; `--list` shows them all".into());
    }
    if wanted.is_empty() {
        // The rules need something to look at.
        wanted.extend(checks().filter(|check| check.name == ORDINARY));
    }
    // Fair, so what runs alone comes at the end.
    wanted.sort_by_key(|check| check.alone);
    let world = World::new(options.command)?;
    let (mut counts, mut again) = (Counts::default(), Vec::new());
    let first = round(&world, wanted, PLACES, |ended| match &ended.fault {
        Some(fault) if ended.started || world.was_called() => {
            eprintln!("{} is judged again: {fault}", ended.check.name);
            again.push(ended.check);
            ControlFlow::Continue(())
        }
        None => {
            counts.tell(&ended, &world, &tell);
            ControlFlow::Continue(())
        }
        // No worker has ever called: the command is wrong, and each further check would say the same.
        Some(fault) => {
            counts.tell(&ended, &world, &tell);
            eprintln!("the run ends here: COMMAND does not start a worker: {fault}");
            ControlFlow::Break(())
        }
    });
    if first.await?.is_break() {
        return Ok(counts);
    }
    let second = round(&world, again, PLACES_AGAIN, |ended| {
        counts.tell(&ended, &world, &tell);
        ControlFlow::Continue(())
    });
    // Never breaks.
    let _ = second.await?;
    let audited = world.take_audited();
    for rule in rules {
        let findings: Vec<_> = audited
            .findings
            .iter()
            .filter(|(_, finding)| finding.rule == rule.name)
            .collect();
        match findings.first() {
            None => {
                counts.passed += 1;
                tell(&format!("pass {} ({} streams)", rule.name, audited.n_streams));
            }
            Some((check, finding)) => {
                counts.failed += 1;
                let more = findings.len() - 1;
                tell(&format!(
                    "fail {}: {} (in {check}, {more} more)",
                    rule.name, finding.text
                ));
            }
        }
    }
    Ok(counts)
}

/// Runs these checks, so many at a time, and gives each as soon as it is over, until the receiver breaks.
async fn round(
    world: &Arc<World>,
    checks: Vec<&'static Check>,
    n_places: usize,
    mut receive: impl FnMut(Ended) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Fault> {
    let places = Arc::new(Semaphore::new(n_places));
    let mut running = JoinSet::new();
    for check in checks {
        let taken = if check.alone { n_places } else { 1 };
        let place = Arc::clone(&places)
            .acquire_many_owned(u32::try_from(taken)?)
            .await?;
        while let Some(ended) = running.try_join_next() {
            if receive(ended?).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let scene = Scene::new(world, check.name);
        running.spawn(async move {
            let ended = run(check, scene).await;
            drop(place);
            ended
        });
    }
    while let Some(ended) = running.join_next().await {
        if receive(ended?).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

struct Ended {
    check: &'static Check,
    took: Duration,
    fault: Option<String>,
    started: bool,
}

async fn run(check: &'static Check, scene: Scene) -> Ended {
    let began = Instant::now();
    let judged = async {
        match tokio::time::timeout(CHECK_LIMIT, (check.run)(scene.clone())).await {
            Ok(Ok(())) => None,
            Ok(Err(fault)) => Some(fault.to_string()),
            Err(_) => Some(format!("expected an end within {CHECK_LIMIT:?}, none came")),
        }
    };
    // Biased, so that both at once always end alike.
    let fault = tokio::select! {
        biased;
        () = scene.start_fails() => None,
        fault = judged => fault,
    };
    // What a check says of a worker that never started says less.
    let start_fault = scene.start_fault();
    let started = start_fault.is_none();
    let fault = start_fault.or(fault);
    Ended {
        check,
        took: began.elapsed(),
        fault,
        started,
    }
}

impl Counts {
    /// Counts a verdict and tells it.
    fn tell(&mut self, ended: &Ended, world: &World, tell: &impl Fn(&str)) {
        let name = ended.check.name;
        let Some(fault) = &ended.fault else {
            self.passed += 1;
            tell(&format!("pass {name} ({:.1} s)", ended.took.as_secs_f32()));
            return;
        };
        self.failed += 1;
        // One line for each check, whatever the fault says.
        tell(&format!("fail {name}: {}", fault.replace('\n', " ")));
        for line in tail(&world.output_of(name), TAIL_LINES).lines() {
            eprintln!("    | {line}");
        }
    }
}

/// Checks that run at the same time; most of them wait.
const PLACES: usize = 10;
/// Checks that are judged again at the same time: what is late here is late by itself.
const PLACES_AGAIN: usize = 3;
/// A check that is over without having told by then has a fault of its own.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
const TAIL_LINES: usize = 12;

#[cfg(test)]
mod tests {
    use super::{Counts, judge};
    use crate::options::Options;
    use std::cell::RefCell;
    use std::ffi::OsString;
    use std::time::{Duration, Instant};

    /// Returns all checks on this command: the counts, and the lines.
    async fn judged(command: &[&str]) -> (Counts, Vec<String>) {
        let command = command.iter().map(OsString::from).collect();
        let only = Vec::new();
        let lines = RefCell::new(Vec::new());
        let tell = |line: &str| lines.borrow_mut().push(line.to_owned());
        let counts = judge(Options { only, command }, tell).await.unwrap();
        (counts, lines.into_inner())
    }

    #[tokio::test]
    async fn a_command_that_starts_no_worker_ends_the_run_at_once() {
        let one = Counts { passed: 0, failed: 1 };
        for (command, why) in [
            (&["sh", "-c", "echo no such file; exit 3"][..], "exit status: 3"),
            (&["/no/such/program"], "cannot start"),
        ] {
            let began = Instant::now();
            let (counts, lines) = judged(command).await;
            assert!(began.elapsed() < Duration::from_secs(20));
            assert_eq!((counts, lines.len()), (one, 1));
            assert!(
                lines[0].starts_with("fail ") && lines[0].contains(why),
                "{lines:?}"
            );
        }
    }
}
