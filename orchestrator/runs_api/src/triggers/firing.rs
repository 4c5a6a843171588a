//! Fires a trigger: its run, the firing and what the trigger remembers are one commit. Finds no cause.

use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_model::planted::{self, Bug};
pub(super) use escapement_process::unix_ms as now_ms;
use escapement_run::bounds::RUN_TOO_LARGE;
use escapement_run::journal::Responder;
use escapement_runs_host::{Create, Links, NotCreated, RunsHost};
use escapement_runs_shell::CallError;
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionKind};
use escapement_triggers::{Admission, Cause, DEPTH_MAX, Edge, FiringKey, Seen, admit, look};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use tonic::Status;
use tonic_types::StatusExt;

use super::Triggers;
use super::reading::{COOLDOWN_MS, INPUT_KEY, overlap_of};
use super::record::{Fired, Kept, KeptFiring, firing_of, kept, put, trigger, words};
use super::turns::{lives, overlapped, request_of_firing};
use crate::errors::Rejection;
use crate::run_service::Started;

/// A cause that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The cause.
    pub(super) cause: Cause,
    /// When it was due, Unix milliseconds.
    pub(super) due_at: i64,
    /// The data of its event.
    pub(super) data: Opaque,
    /// Triggers in a row, this one included.
    pub(super) depth: u32,
    /// True for the turn of a firing that has waited.
    pub(super) has_waited: bool,
    /// Responder that asked for it, or published its event, if that is known.
    pub(super) fired_by: Option<Box<Responder>>,
    /// True if it takes too much work to see whether the trigger listens to the event.
    pub(super) is_too_costly: bool,
}

impl Found {
    /// A cause that no run has led to.
    pub(super) fn new(cause: Cause, due_at: i64, data: Opaque) -> Self {
        Self {
            cause,
            due_at,
            data,
            depth: 1,
            has_waited: false,
            fired_by: None,
            is_too_costly: false,
        }
    }
}

/// What is made for a firing: its run, or why there is none.
pub(super) enum Made {
    Run(Box<(Create, Links)>),
    Failed { reason: String, message: String },
}

impl Made {
    fn damaged(why: &str) -> Self {
        Self::Failed {
            reason: DAMAGED.to_owned(),
            message: format!("What its run is made from cannot be read: {why}."),
        }
    }
}

impl Triggers {
    // TRIG-1.1
    /// Fires a trigger for a cause, once. `None` if it is gone, or does not fire by itself.
    ///
    /// # Errors
    /// [`Rejection`] if nothing can be made now: nothing changed, and it may be tried again.
    pub(super) async fn fire(&self, trigger_id: &str, found: Found) -> Result<Option<Fired>, Rejection> {
        let key = FiringKey::new(trigger_id, &found.cause);
        let (id, name) = (trigger_id.to_owned(), key.text());
        let runs = self.0.maker.handle();
        let read = runs.readers().read(move |reader| {
            let known = known(reader.definition(DefinitionKind::Firing, &name))?;
            Ok((trigger(reader, &id)?, known))
        });
        let (before, known) = read.await?;
        let Some((_, before)) = before else {
            return Ok(known.map(Fired::before));
        };
        if let Some(known) = known
            && !found.has_waited
            && !is_behind(&before, &found.cause)
        {
            return Ok(Some(Fired::before(known)));
        }
        let made = match found.is_too_costly {
            true => Made::Failed {
                reason: TOO_COSTLY.to_owned(),
                message: TOO_COSTLY_MESSAGE.to_owned(),
            },
            false => self.make(trigger_id, &before, &key, &found).await?,
        };
        let id = trigger_id.to_owned();
        let (kind, bytes) = (words(&found.cause).0, found.data.len());
        let change = move |host: &mut RunsHost, now| fire(host, &id, &key, &found, made, now);
        let fired = self.change(trigger_id, bytes, change).await?;
        if let Some(new) = fired.as_ref().filter(|fired| fired.is_new) {
            let mut known = [STARTED, WAITING, SKIPPED].into_iter();
            let outcome = known.find(|status| *status == new.firing.status);
            runs.fired(kind, outcome.unwrap_or(FAILED), 1);
        }
        Ok(fired)
    }

    async fn make(
        &self,
        trigger_id: &str,
        before: &Kept,
        key: &FiringKey,
        found: &Found,
    ) -> Result<Made, Rejection> {
        let request = request_of(trigger_id, before, key, found);
        let (made, client) = (before.made(), Some(request_of_firing(key)));
        let started = Started::new(found.depth, found.fired_by.as_deref());
        let prepared = self
            .0
            .maker
            .prepare(&request, &made, started, key.run_id(), client);
        match prepared.await {
            Ok(made) => Ok(Made::Run(Box::new(made))),
            // It would be damaged the next time, too.
            Err(Rejection::Call(CallError::Damaged(why)) | Rejection::OfRun(_, CallError::Damaged(why))) => {
                Ok(Made::damaged(&why))
            }
            Err(rejection @ (Rejection::Call(_) | Rejection::OfRun(..))) => Err(rejection),
            Err(rejection) => {
                let status = Status::from(rejection);
                let details = status.get_error_details();
                let reason = details
                    .error_info()
                    .map_or_else(String::new, |info| info.reason.clone());
                let message = status.message().to_owned();
                Ok(Made::Failed { reason, message })
            }
        }
    }
}

/// Notes a run that a firing started.
fn note_start(kept: &mut Kept, run_id: String, now: i64) {
    kept.runs.push(run_id.clone());
    let n_old = kept.runs.len().saturating_sub(RUNS_MAX);
    kept.runs.drain(..n_old);
    kept.last_run_id = run_id;
    kept.last_fired_at = now;
    kept.fire_count += 1;
}

// TRIG-1.2
/// One turn of the thread of runs: what becomes of the cause.
pub(super) fn fire(
    host: &mut RunsHost,
    trigger_id: &str,
    key: &FiringKey,
    found: &Found,
    made: Made,
    now: i64,
) -> Result<Option<Fired>, CallError> {
    let name = key.text();
    let known = known(host.definition(DefinitionKind::Firing, &name)).map_err(of_store)?;
    let Some(definition) = host
        .definition(DefinitionKind::Trigger, trigger_id)
        .map_err(of_store)?
    else {
        return Ok(known.map(Fired::before));
    };
    let mut kept: Kept = kept(&definition).map_err(of_store)?;
    let waits = |known: &KeptFiring| found.has_waited && known.firing.status == WAITING;
    if known.as_ref().is_some_and(|known| !waits(known)) {
        if is_behind(&kept, &found.cause) {
            handle(&mut kept, &found.cause);
            keep(host, &definition, &kept, definition.updated_at);
        }
        return Ok(known.map(Fired::before));
    }
    if !kept.is_enabled() && !found.has_waited && !matches!(found.cause, Cause::Request(_)) {
        return Ok(None);
    }
    let mut firing = firing_of(trigger_id, &name, found, now);
    let mut becomes = |status: &str, reason: &str, message: String| {
        status.clone_into(&mut firing.status);
        reason.clone_into(&mut firing.reason);
        firing.message = message;
    };
    match edge(&mut kept, found, now) {
        Edge::None => return Ok(None),
        Edge::Cools(_) => becomes(SKIPPED, "COOLDOWN", "It fired too short a time ago.".to_owned()),
        Edge::Fires(_) if found.depth > DEPTH_MAX => {
            // TRIG-3.3
            becomes(
                SKIPPED,
                "DEPTH",
                format!("It would be the trigger number {} in a row.", found.depth),
            );
        }
        // TRIG-3.5: independent of any other obstacle.
        Edge::Fires(_) if found.is_too_costly => {
            becomes(FAILED, TOO_COSTLY, TOO_COSTLY_MESSAGE.to_owned());
        }
        Edge::Fires(_) => {
            kept.runs.retain(|run_id| lives(host, run_id));
            kept.waiting.retain(|waiting| *waiting != name);
            // A firing whose turn it is does not wait for those behind it.
            let n_waiting = if found.has_waited { 0 } else { kept.waiting.len() };
            let admission = admit(overlap_of(&kept.trigger), !kept.runs.is_empty(), n_waiting);
            let (status, reason, mut message) = admitted(host, &mut kept, admission, made, now)?;
            if reason == OVERLAP {
                message = overlapped(host, trigger_id, &kept, found).unwrap_or(message);
            }
            if status == STARTED {
                note_start(&mut kept, key.run_id().to_string(), now);
            }
            if status == WAITING && found.has_waited {
                // Nothing has changed: neither what it waits for nor its place.
                return Ok(known.map(Fired::before));
            }
            if status == WAITING {
                kept.waiting.push(name.clone());
            }
            becomes(status, &reason, message);
        }
    }
    handle(&mut kept, &found.cause);
    if firing.status == STARTED {
        firing.run_id.clone_from(&kept.last_run_id);
    }
    write(host, &definition, &kept, found, &firing, now);
    Ok(Some(Fired { firing, is_new: true }))
}

/// What became of a cause before. A firing that cannot be read is one all the same: its cause does not fire again.
pub(super) fn known(found: Result<Option<Definition>, StoreFault>) -> Result<Option<KeptFiring>, StoreFault> {
    let known = found.and_then(|found| found.map(|found| kept(&found)).transpose());
    let Err(StoreFault::CorruptDefinition { .. }) = known else {
        return known;
    };
    let firing = v1::Firing {
        status: FAILED.to_owned(),
        reason: DAMAGED.to_owned(),
        message: "What became of it cannot be read.".to_owned(),
        ..v1::Firing::default()
    };
    Ok(Some(KeptFiring {
        firing,
        ..KeptFiring::default()
    }))
}

/// Makes the run if nothing is in its way.
fn admitted(
    host: &mut RunsHost,
    kept: &mut Kept,
    admission: Admission,
    made: Made,
    now: i64,
) -> Result<(&'static str, String, String), CallError> {
    let overlaps = || {
        let message = "A run of it has not ended.".to_owned();
        Ok((SKIPPED, OVERLAP.to_owned(), message))
    };
    let failed = |reason, message| Ok((FAILED, reason, message));
    match (admission, made) {
        (Admission::Overlaps, _) => overlaps(),
        (Admission::QueueFull, _) => {
            let message = "As many firings wait as may.".to_owned();
            Ok((SKIPPED, "QUEUE_FULL".to_owned(), message))
        }
        (Admission::Wait, _) => Ok((WAITING, String::new(), String::new())),
        (Admission::Run, Made::Failed { reason, message }) => failed(reason, message),
        (Admission::Run, Made::Run(made)) => {
            let (create, links) = *made;
            match host.create_linked(create, links, now) {
                Ok(_) | Err(NotCreated::Exists(..)) => Ok((STARTED, String::new(), String::new())),
                Err(NotCreated::Full) => Err(CallError::Full),
                Err(NotCreated::Damaged(why)) => failed(DAMAGED.to_owned(), format!("{why}.")),
                Err(NotCreated::TooLarge(bound)) => failed(RUN_TOO_LARGE.to_owned(), format!("{bound}.")),
                // Another run of the saved plan lives, which the trigger has not started.
                Err(NotCreated::AlreadyRunning(_)) if kept.trigger.overlap == "queue" => {
                    Ok((WAITING, String::new(), String::new()))
                }
                Err(NotCreated::AlreadyRunning(_)) => overlaps(),
            }
        }
    }
}

/// True if the instant is one that the trigger does not know to be handled: its schedule was changed after the clock was set back.
fn is_behind(kept: &Kept, cause: &Cause) -> bool {
    matches!(cause, Cause::Due(at) if *at > kept.handled_ms)
}

fn handle(kept: &mut Kept, cause: &Cause) {
    if let Cause::Due(at) = cause {
        kept.handled_ms = kept.handled_ms.max(*at);
    }
}

// TRIG-4.1
/// Whether an edge fires; every other cause does, and so does an edge that has waited: it was counted before.
fn edge(kept: &mut Kept, found: &Found, now: i64) -> Edge {
    let (Cause::Edge(n), Some(Config::Condition(condition)), false) =
        (&found.cause, &kept.trigger.config, found.has_waited)
    else {
        return Edge::Fires(0);
    };
    let mut seen = Seen {
        was_true: kept.was_true,
        n_edges: kept.n_edges,
        fired_at: kept.edge_fired_at,
    };
    let edge = look(&mut seen, true, now, condition.cooldown_ms.unwrap_or(COOLDOWN_MS));
    if !matches!(edge, Edge::Fires(found) | Edge::Cools(found) if found == *n) {
        return Edge::None;
    }
    (kept.was_true, kept.n_edges, kept.edge_fired_at) = (seen.was_true, seen.n_edges, seen.fired_at);
    edge
}

fn write(
    host: &mut RunsHost,
    definition: &Definition,
    kept: &Kept,
    found: &Found,
    firing: &v1::Firing,
    now: i64,
) {
    let is_waiting = firing.status == WAITING;
    let record = KeptFiring {
        firing: firing.clone(),
        data: if is_waiting {
            found.data.clone()
        } else {
            Opaque::default()
        },
        depth: found.depth,
        fired_by: found.fired_by.clone(),
    };
    if !planted::is_on(Bug::RunFiringForgotten) {
        let change = put(definition.namespace.clone(), &firing.trigger_id, 0, now, &record);
        host.define(DefinitionKind::Firing, &firing.firing_id, change);
    }
    keep(host, definition, kept, definition.updated_at);
}

/// Writes what a trigger remembers. `at`: when it was changed.
pub(super) fn keep(host: &mut RunsHost, definition: &Definition, kept: &Kept, at: i64) {
    let owner = definition.owner.as_deref().unwrap_or_default();
    let change = put(definition.namespace.clone(), owner, definition.priority, at, kept);
    host.define(DefinitionKind::Trigger, &definition.name, change);
}

/// What is asked of runs for a firing.
pub(super) fn request_of(
    trigger_id: &str,
    kept: &Kept,
    key: &FiringKey,
    found: &Found,
) -> v1::CreateRunRequest {
    let mut request = kept.trigger.run.clone().unwrap_or_default();
    let (kind, event_type, event_id) = words(&found.cause);
    let event = StructBuilder::new()
        .text("type", &event_type)
        .text("id", &event_id)
        .object("data", found.data.as_encoded());
    #[expect(clippy::cast_precision_loss, reason = "times of this age are exact")]
    let cause = StructBuilder::new()
        .text("trigger_id", trigger_id)
        .text("kind", kind)
        .number("due_at", found.due_at as f64)
        .object("event", event.build().as_encoded());
    let input = request.input.take().unwrap_or_default();
    let input = StructBuilder::from_opaque(&input).object(INPUT_KEY, cause.build().as_encoded());
    request.input = Some(input.build());
    request.user_id.clone_from(&kept.trigger.user_id);
    request.priority = request.priority.or(kept.trigger.priority);
    trigger_id.clone_into(&mut request.trigger_id);
    "trigger".clone_into(&mut request.source);
    request.source_id = key.text();
    request
}

/// What a fault of a reader on the thread of runs means for a caller.
pub(super) fn of_store(fault: StoreFault) -> CallError {
    match fault {
        StoreFault::CorruptRun { .. } | StoreFault::CorruptDefinition { .. } => {
            CallError::Damaged(fault.to_string())
        }
        _ => CallError::Store,
    }
}

/// A firing with a run.
pub(super) const STARTED: &str = "started";
/// One that waits for another run.
pub(super) const WAITING: &str = "waiting";
/// One without a run, as it was meant.
pub(super) const SKIPPED: &str = "skipped";
/// One without a run, because it could not be made.
pub(super) const FAILED: &str = "failed";
/// Reason of a firing without a run: the run of an earlier firing has not ended.
pub(super) const OVERLAP: &str = "OVERLAP";
/// Why a firing has no run, or is not known, if something that is stored cannot be read.
const DAMAGED: &str = "DAMAGED";
/// Reason of a firing without a run, if matching the trigger's filter with its event exceeds the budget.
const TOO_COSTLY: &str = "FILTER_TOO_COSTLY";
const TOO_COSTLY_MESSAGE: &str =
    "Its filter and its expression look at more values of the event than one event pays for.";
/// Runs that a trigger remembers to see whether they live.
const RUNS_MAX: usize = 64;
