//! What triggers do in turns of the thread of runs, without the calls around them: a simulation drives these alone.
//! Reads no clock, and decides nothing about a run.

use escapement_model::planted::{self, Bug};
use escapement_model::{Opaque, RunId};
use escapement_run::ShownState;
use escapement_runs_host::{Create, Links, RunsHost};
use escapement_runs_shell::CallError;
use escapement_store::StoreFault;
use escapement_store::runs::{ClientRequest, Definition, DefinitionKind};
use escapement_triggers::{Cause, Due, FiringKey, Missed, due};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use tracing::warn;

use super::firing::{Found, Made, SKIPPED, WAITING, fire, keep, known, of_store};
use super::reading::{catch_up_of, schedule_of};
use super::record::{Kept, KeptFiring, found_of, kept, put};

/// Takes a trigger in that has everything filled in. Its schedule begins after `now`, in Unix milliseconds.
pub fn save(host: &mut RunsHost, trigger_id: &str, trigger: v1::Trigger, now: i64) {
    let kept = Kept {
        trigger,
        version: 1,
        handled_ms: now,
        ..Kept::default()
    };
    let change = put(kept.namespace(), &kept.trigger.user_id, 5, now, &kept);
    host.define(DefinitionKind::Trigger, trigger_id, change);
}

/// What the schedule of a trigger leads to at `now`, in Unix milliseconds: nothing if it has none, or is gone.
/// The instants that were missed are written down at once.
///
/// # Errors
/// [`CallError`] as the store cannot be read.
pub fn look_at_schedule(host: &mut RunsHost, trigger_id: &str, now: i64) -> Result<Due, CallError> {
    let Some(kept) = stored(host, trigger_id)? else {
        return Ok(Due::default());
    };
    if kept.is_ahead_of(now) {
        set_back(host, trigger_id, now)?;
        return Ok(Due::default());
    }
    let due = due_of(&kept, now);
    if let Some(missed) = due.missed {
        miss(host, trigger_id, missed, handled_of(&due, now), now)?;
    }
    Ok(due)
}

/// Fires a trigger for a cause, once; `due_at` and `now` are Unix milliseconds. `make` gives the run, which has this id and goes
/// with this request. `None` if the trigger is gone, or does not fire by itself.
///
/// # Errors
/// [`CallError`] if nothing can be made now: nothing changed.
pub fn fire_once(
    host: &mut RunsHost,
    trigger_id: &str,
    cause: Cause,
    due_at: i64,
    make: impl FnOnce(RunId, ClientRequest) -> Create,
    now: i64,
) -> Result<Option<v1::Firing>, CallError> {
    let found = Found::new(cause, due_at, Opaque::default());
    fires(host, trigger_id, &found, make, now)
}

/// The turn of the firing of a trigger that has waited longest; `None` if none waits. `make` and `now` as for [`fire_once`].
///
/// # Errors
/// [`CallError`] if nothing can be made now: nothing changed.
pub fn go_on(
    host: &mut RunsHost,
    trigger_id: &str,
    make: impl FnOnce(RunId, ClientRequest) -> Create,
    now: i64,
) -> Result<Option<v1::Firing>, CallError> {
    let waiting = stored(host, trigger_id)?.and_then(|kept| kept.waiting.first().cloned());
    let Some(name) = waiting else { return Ok(None) };
    match waiting_of(host.definition(DefinitionKind::Firing, &name)).map_err(of_store)? {
        Some(found) => fires(host, trigger_id, &found, make, now),
        None => {
            forget_waiting(host, trigger_id, &name)?;
            Ok(None)
        }
    }
}

fn fires(
    host: &mut RunsHost,
    trigger_id: &str,
    found: &Found,
    make: impl FnOnce(RunId, ClientRequest) -> Create,
    now: i64,
) -> Result<Option<v1::Firing>, CallError> {
    let key = FiringKey::new(trigger_id, &found.cause);
    let links = Links {
        trigger: Some(trigger_id.to_owned()),
        ..Links::default()
    };
    let made = Made::Run(Box::new((make(key.run_id(), request_of_firing(&key)), links)));
    let fired = fire(host, trigger_id, &key, found, made, now)?;
    Ok(fired.map(|fired| fired.firing))
}

fn stored(host: &RunsHost, trigger_id: &str) -> Result<Option<Kept>, CallError> {
    let found = host
        .definition(DefinitionKind::Trigger, trigger_id)
        .map_err(of_store)?;
    found.map(|found| kept(&found)).transpose().map_err(of_store)
}

/// The request that makes the run of a firing.
pub(super) fn request_of_firing(key: &FiringKey) -> ClientRequest {
    ClientRequest {
        key: format!("firings {}", key.text()),
        digest: *key.as_bytes(),
    }
}

// TRIG-2.2
/// What a schedule leads to: nothing if the trigger has none, or does not fire by itself.
pub(super) fn due_of(kept: &Kept, now: i64) -> Due {
    let schedule = match &kept.trigger.config {
        Some(Config::Schedule(schedule)) if kept.is_enabled() => schedule,
        _ => return Due::default(),
    };
    let times = schedule_of(schedule);
    times.map_or_else(
        |_| Due::default(),
        |times| due(&times, catch_up_of(schedule), kept.handled_ms, now),
    )
}

/// Up to when a schedule is handled once what was missed is written down.
pub(super) fn handled_of(due: &Due, now: i64) -> i64 {
    due.firing.first().map_or(now, |first| first - 1)
}

// TRIG-2.3
/// Sets a schedule back to now, if a clock that was ahead has handled it. An instant in the future has not
/// been handled. An instant that has fired does not fire again.
pub(super) fn set_back(host: &mut RunsHost, trigger_id: &str, now: i64) -> Result<(), CallError> {
    if let Some(definition) = host
        .definition(DefinitionKind::Trigger, trigger_id)
        .map_err(of_store)?
    {
        let mut kept: Kept = kept(&definition).map_err(of_store)?;
        if kept.is_ahead_of(now) {
            kept.handled_ms = now;
            keep(host, &definition, &kept, definition.updated_at);
        }
    }
    Ok(())
}

// TRIG-2.2
/// Writes down what a schedule has missed; false if the trigger is gone.
pub(super) fn miss(
    host: &mut RunsHost,
    trigger_id: &str,
    missed: Missed,
    handled_ms: i64,
    now: i64,
) -> Result<bool, CallError> {
    let Some(definition) = host
        .definition(DefinitionKind::Trigger, trigger_id)
        .map_err(of_store)?
    else {
        return Ok(false);
    };
    let mut kept: Kept = kept(&definition).map_err(of_store)?;
    let not_noted = not_noted(host, trigger_id, &kept, missed)?;
    if let Some(missed) = not_noted.filter(|_| !planted::is_on(Bug::RunMissForgotten)) {
        let name = name_of(trigger_id, missed);
        let record = KeptFiring {
            firing: firing_of(name.clone(), trigger_id, missed, now),
            ..KeptFiring::default()
        };
        let change = put(definition.namespace.clone(), trigger_id, 0, now, &record);
        host.define(DefinitionKind::Firing, &name, change);
    }
    kept.handled_ms = kept.handled_ms.max(handled_ms);
    keep(host, &definition, &kept, definition.updated_at);
    Ok(true)
}

// TRIG-2.3
/// Leaves out instants that have a firing or that an earlier note counts: they fired, or were noted, before the schedule was set
/// back. Returns `None` if no instant is left.
fn not_noted(
    host: &RunsHost,
    trigger_id: &str,
    kept: &Kept,
    mut missed: Missed,
) -> Result<Option<Missed>, CallError> {
    let times = match &kept.trigger.config {
        Some(Config::Schedule(schedule)) => schedule_of(schedule).ok(),
        _ => None,
    };
    // Further instants that the last note counts.
    let mut told = 0;
    while missed.n > 0 {
        let name = name_of(trigger_id, missed);
        match known(host.definition(DefinitionKind::Firing, &name)).map_err(of_store)? {
            Some(KeptFiring { firing, .. }) => told = firing.count.max(1) - 1,
            None if told == 0 => return Ok(Some(missed)),
            None => told -= 1,
        }
        let next = times.as_ref().and_then(|times| times.next_after(missed.first_ms));
        let Some(first_ms) = next else { break };
        missed = Missed {
            first_ms,
            n: missed.n - 1,
        };
    }
    Ok(None)
}

/// Returns the name of the firing of missed instants, which is that of the first one.
fn name_of(trigger_id: &str, missed: Missed) -> String {
    FiringKey::new(trigger_id, &Cause::Due(missed.first_ms)).text()
}

fn firing_of(name: String, trigger_id: &str, missed: Missed, now: i64) -> v1::Firing {
    v1::Firing {
        firing_id: name,
        trigger_id: trigger_id.to_owned(),
        kind: "schedule".to_owned(),
        status: SKIPPED.to_owned(),
        reason: "MISSED".to_owned(),
        message: "Nothing could fire when it was due.".to_owned(),
        due_at: missed.first_ms,
        fired_at: now,
        count: i32::try_from(missed.n).unwrap_or(i32::MAX),
        ..v1::Firing::default()
    }
}

/// The cause of a firing that still waits for its turn; `None` if it is gone, or cannot be read.
pub(super) fn waiting_of(found: Result<Option<Definition>, StoreFault>) -> Result<Option<Found>, StoreFault> {
    let record = known(found)?.filter(|record| record.firing.status == WAITING);
    Ok(record.and_then(|record| found_of(&record)))
}

/// What is gone is not waited for.
pub(super) fn forget_waiting(host: &mut RunsHost, trigger_id: &str, name: &str) -> Result<(), CallError> {
    if let Some(definition) = host
        .definition(DefinitionKind::Trigger, trigger_id)
        .map_err(of_store)?
    {
        let mut kept: Kept = kept(&definition).map_err(of_store)?;
        kept.waiting.retain(|waiting| waiting != name);
        keep(host, &definition, &kept, definition.updated_at);
    }
    Ok(())
}

/// Returns true if the run has not ended.
pub(super) fn lives(host: &RunsHost, run_id: &str) -> bool {
    let lives = run_id
        .parse::<RunId>()
        .is_ok_and(|run_id| host.runs().contains(run_id));
    lives && !planted::is_on(Bug::RunOverlapUnseen)
}

/// Returns true if the run waits for an answer of a person.
fn asks(host: &mut RunsHost, run_id: &str) -> bool {
    let run_id = run_id.parse::<RunId>();
    let run = run_id.ok().and_then(|run_id| host.run(run_id));
    run.is_some_and(|(run, _)| run.shown() == ShownState::Waiting)
}

/// Says that a run of the trigger waits for people, if one does. Without an answer a schedule stops, which the log says, too.
pub(super) fn overlapped(
    host: &mut RunsHost,
    trigger_id: &str,
    kept: &Kept,
    found: &Found,
) -> Option<String> {
    let asking = kept.runs.iter().find(|run_id| asks(host, run_id))?;
    if let Cause::Due(due_at) = found.cause {
        warn!(
            trigger_id,
            run_id = asking,
            due_at,
            "schedule does not fire: its run waits for people"
        );
    }
    Some(format!(
        "The run {asking} of it has not ended: it waits for people."
    ))
}
