//! A run from its first moment to its last: the storm, and then the calm in which everything must come to rest.

use crate::orchestrator::Call;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::world::World;
use escapement_engine::Input;
use escapement_tests::history::{Rule, Violation};
use escapement_wire::v1::audit_entry::Event;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) trace_hash: u64,
    pub(crate) tally: Tally,
}

/// Runs a seed.
///
/// # Errors
/// The rule that was broken, and the last events where they were kept.
pub(crate) fn run(seed: u64, keeps_trace: bool) -> Result<Outcome, (String, Vec<String>)> {
    escapement_tests::planted::arm();
    let world = RefCell::new(World::new(seed, keeps_trace));
    let end = catch_unwind(AssertUnwindSafe(|| live(&mut world.borrow_mut())));
    // A panic leaves the world as it was when the rule was broken.
    let mut world = world.into_inner();
    let judged = end
        .map_err(|panic| text_of(panic.as_ref()))
        .and_then(|()| judge(&mut world));
    judged.map_err(|broken| (broken, last_lines(&world.trace)))?;
    Ok(Outcome {
        trace_hash: world.trace.hash(),
        tally: std::mem::take(&mut world.truth.tally),
    })
}

fn live(world: &mut World) {
    world.run_until(world.scenario.fault_phase_ms);
    world.heal();
    let healed_at_ms = world.now_ms;
    while !is_at_rest(world) {
        let so_far_ms = world.now_ms - healed_at_ms;
        assert!(so_far_ms < CALM_MS_MAX, "{}", unrest(world));
        world.replace_drained();
        world.run_until(world.now_ms + 1_000);
    }
    world.look_at_everything();
    let looked_at_ms = world.now_ms;
    while !world.calls.is_empty() {
        let so_far_ms = world.now_ms - looked_at_ms;
        assert!(
            so_far_ms < LAST_LOOK_MS,
            "asked in the calm and not answered: {:?}",
            world.calls
        );
        world.run_until(world.now_ms + 200);
    }
    world.truth.tally.add("virtual seconds", world.now_ms / 1_000);
    world.truth.tally.add("commits", world.storage.n_commits);
    world.truth.tally.add("calls", world.n_calls);
    let n_replayed = world.storage.replayer.n_replayed;
    world.truth.tally.add("settlements told again", n_replayed);
    world.storage.turns_judge.judge();
    let n_judged = world.storage.turns_judge.n_judged;
    world.truth.tally.add("turns judged between namespaces", n_judged);
    let finals = world.last_restart();
    world.truth.tally.add("executions", finals.len() as u64);
    world.truth.judge_accepted(&finals);
    let records = finals
        .into_iter()
        .map(|(id, last)| (id.to_string(), last.entries));
    world.finals = records.collect();
}

/// Everything accepted has settled, nobody has anything in flight, and every worker may work.
fn is_at_rest(world: &mut World) -> bool {
    let workers_rest = world.seats.iter().all(|seat| {
        seat.process.as_ref().is_some_and(|process| {
            process.bodies.is_empty()
                && process.machine.tasks() == 0
                && process.machine.in_flight() == 0
                && !process.is_stopping
        })
    });
    let callers_rest = world.callers_rest();
    let Some(process) = world
        .orchestrator
        .as_mut()
        .filter(|process| !process.is_draining && process.batch.is_empty())
    else {
        return false;
    };
    if !callers_rest || !workers_rest || process.host.engine().live_executions() > 0 {
        return false;
    }
    // Nobody but these two waits, except watchers of what has settled.
    let mut waiting = process.host.callers();
    let waits = waiting.find(|(_, call)| matches!(call, Call::Report(_)));
    assert_eq!(waits, None, "a caller waits for what has happened");
    drop(waiting);
    process.call(Call::Workers, Input::ListWorkers);
    process.call(Call::Actions, Input::ListActions);
    (world.workers_at_rest, world.actions_at_rest) = (None, None);
    world.run_until(world.now_ms);
    world.workers_at_rest == Some(true) && world.actions_at_rest == Some(true)
}

fn unrest(world: &World) -> String {
    let mut text = format!("not at rest after {CALM_MS_MAX} ms of calm:");
    for job in &world.jobs {
        text += &format!("\n  the caller of {} knows: {:?}", job.id, job.known);
    }
    for asked in world.calls.values() {
        text += &format!("\n  waits: {asked:?}");
    }
    for (n, seat) in world.seats.iter().enumerate() {
        match &seat.process {
            None => text += &format!("\n  seat {n} has no process"),
            Some(process) => {
                text += &format!(
                    "\n  seat {n}: bodies {:?}, machine {} bodies, {} in flight, stopping {}, drained {}",
                    process.bodies,
                    process.machine.tasks(),
                    process.machine.in_flight(),
                    process.is_stopping,
                    process.is_drained,
                );
            }
        }
    }
    match &world.orchestrator {
        None => text += "\n  no orchestrator",
        Some(process) => {
            text += &format!(
                "\n  boot {}: {} live executions, workers at rest {:?}, actions at rest {:?}, draining {}",
                process.boot,
                process.host.engine().live_executions(),
                world.workers_at_rest,
                world.actions_at_rest,
                process.is_draining,
            );
        }
    }
    text
}

/// What the independent checkers say: of the sessions, and of what callers saw.
fn judge(world: &mut World) -> Result<(), String> {
    let judge = std::mem::replace(&mut world.judge, crate::judge::Judge::new());
    let report = judge.finish(&world.finals);
    let sessions = report.violations().iter().map(ToString::to_string);
    let history = std::mem::take(&mut world.history).finish(&[]);
    for (what, n) in history.counts() {
        world.truth.tally.add(&format!("history: {what}"), n);
    }
    let callers = history
        .violations
        .iter()
        .filter(|violation| !is_of_a_late_end(world, violation));
    let callers = callers.map(ToString::to_string);
    let violations: Vec<String> = sessions.chain(callers).collect();
    if violations.is_empty() {
        return Ok(());
    }
    for violation in &violations {
        world.trace.note(world.now_ms, violation);
    }
    let shown = &violations[..violations.len().min(5)];
    Err(format!("the checkers find:\n  {}", shown.join("\n  ")))
}

/// An execution whose deadline passes in the queue is shown as queued until its end is written, and others start meanwhile.
fn is_of_a_late_end(world: &World, violation: &Violation) -> bool {
    let of_violation = |id: &String| violation.text.starts_with(id.as_str());
    let mut ended = world.finals.iter().filter(|(id, _)| of_violation(id));
    let never_started = ended.any(|(_, entries)| {
        !entries
            .iter()
            .any(|entry| matches!(entry.event, Some(Event::Started(_))))
    });
    violation.rule == Rule::Order && never_started
}

fn last_lines(trace: &Trace) -> Vec<String> {
    trace.lines().to_vec()
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text")
        .to_owned()
}

/// Plans end within 40 s, and some wait for their turn before that.
const CALM_MS_MAX: u64 = 900_000;
/// What is asked in the calm is answered by then.
const LAST_LOOK_MS: u64 = 40_000;
