//! Applies a batch in one transaction, all of it or nothing. Opens nothing and decides nothing about what happens
//! after a fault.

use escapement_model::RunId;
use escapement_model::chain::{chain_begin, chain_next};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params, params_from_iter};

use super::columns::{SUMMARY, entry_sum, optional, place, snapshot_sum, sum, values};
use super::refusal::Refusal;
use super::rows::{self, INPUT_REQUEST, input_request_sum};
use super::tally::RunTally;
use super::{contents, definitions, endings, notices};
use super::{requests, tombstones};
use crate::StoreFault;
use crate::database::namespaces;
use crate::database::values::{bound, column_number, optional_text};
use crate::database::work;
use crate::runs::stored::{RunSummary, StoredInputRequest};
use crate::runs::write::{
    BatchOutcome, ClosedInputRequest, NewInputRequest, NewRun, RunBatch, RunConflict, RunProgress, RunWrite,
};

/// Applies the batch within the open transaction, all of it or nothing, and counts it in the tally.
pub(crate) fn apply(
    connection: &Connection,
    tally: &mut RunTally,
    batch: &RunBatch,
) -> Result<BatchOutcome, StoreFault> {
    let mut after = *tally;
    let mut at = None;
    let applied = work::whole(connection, || -> Result<(), Refusal> {
        apply_all(connection, &mut after, batch.writes(), &mut at)?;
        for write in batch.definitions() {
            definitions::overwrite(connection, &mut after, write)?;
        }
        Ok(())
    });
    match applied {
        Ok(()) => {
            *tally = after;
            Ok(BatchOutcome::Done)
        }
        Err(Refusal::Fault(fault)) => Err(fault),
        Err(Refusal::Conflict(conflict)) => {
            let run_id = at.expect("only a write of a run has a conflict");
            Ok(BatchOutcome::Refused { run_id, conflict })
        }
    }
}

/// Up to the first write that cannot be, and leaves its run in `at`.
fn apply_all(
    connection: &Connection,
    tally: &mut RunTally,
    writes: &[RunWrite],
    at: &mut Option<RunId>,
) -> Result<(), Refusal> {
    for write in writes {
        *at = Some(write.run_id);
        apply_one(connection, tally, write)?;
    }
    // Last, so that what one run releases and another one pins stays.
    for write in writes {
        *at = Some(write.run_id);
        contents::release_some(connection, write)?;
    }
    Ok(())
}

fn apply_one(connection: &Connection, tally: &mut RunTally, write: &RunWrite) -> Result<(), Refusal> {
    let before = match &write.created {
        Some(created) => new(connection, tally, write, created)?,
        None => rows::run(connection, &write.run_id)?.ok_or(RunConflict::NotFound)?,
    };
    if before.progress.ended_at.is_some() {
        return Err(RunConflict::Ended.into());
    }
    if write.next_seq != before.next_seq {
        let next_seq = before.next_seq;
        return Err(RunConflict::WrongSequence { next_seq }.into());
    }
    let mut run = before.clone();
    run.progress = write.progress;
    append(connection, &mut run, write)?;
    snapshot(connection, &mut run, write)?;
    contents::apply(connection, run.number, write)?;
    for opened in &write.opened {
        tally.input_request_last += 1;
        open(connection, tally.input_request_last, &run, opened)?;
    }
    for closed in &write.closed {
        close(connection, run.number, closed)?;
    }
    for request in &write.requests {
        requests::insert(connection, &run, request)?;
    }
    notices::insert(connection, tally, &write.notices)?;
    let has_ended = run.progress.ended_at.is_some();
    tally.n_live += u64::from(write.created.is_some());
    if has_ended {
        tally.n_live -= 1;
        tally.n_ended += 1;
        tally.endings_last += 1;
    }
    let ending = has_ended.then(|| endings::column(tally.endings_last));
    match write.created {
        Some(_) => insert(connection, &run, ending.as_ref()),
        None => update(connection, &before, &run, ending.as_ref()),
    }
}

/// Returns a run that is not there yet, before its first entry.
fn new(
    connection: &Connection,
    tally: &mut RunTally,
    write: &RunWrite,
    created: &NewRun,
) -> Result<RunSummary, Refusal> {
    let RunWrite { run_id, progress, .. } = write;
    let is_used = rows::number(connection, run_id)?.is_some()
        || (tally.n_removed > 0 && tombstones::find(connection, run_id)?.is_some());
    if is_used {
        return Err(RunConflict::RunIdUsed.into());
    }
    if let Some(request) = &created.request
        && let Some((run_id, digest)) = rows::created_by(connection, &request.key)?
    {
        return Err(RunConflict::RequestUsed { run_id, digest }.into());
    }
    tally.number_last += 1;
    Ok(RunSummary {
        number: tally.number_last,
        run_id: *run_id,
        created: created.clone(),
        progress: RunProgress {
            ended_at: None,
            ..*progress
        },
        first_seq: 1,
        next_seq: 1,
        snapshot_seq: 0,
        last_link: chain_begin(run_id),
    })
}

fn append(connection: &Connection, run: &mut RunSummary, write: &RunWrite) -> Result<(), Refusal> {
    let sql = "INSERT INTO journal (place, link, entry, checksum) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    for entry in &write.entries {
        let (place, link) = (
            place(run.number, run.next_seq),
            chain_next(&run.last_link, run.next_seq, entry),
        );
        insert.execute(params![place, link, &entry[..], entry_sum(place, &link, entry)])?;
        run.last_link = link;
        run.next_seq += 1;
    }
    Ok(())
}

/// Keeps the new snapshot and drops what it covers.
fn snapshot(connection: &Connection, run: &mut RunSummary, write: &RunWrite) -> Result<(), Refusal> {
    let number = column_number(run.number);
    if let Some(snapshot) = &write.snapshot {
        let sql = "INSERT OR REPLACE INTO snapshot (number, seq, bytes, checksum) VALUES (?1, ?2, ?3, ?4)";
        let (seq, bytes) = (snapshot.seq, &snapshot.bytes[..]);
        let sum = snapshot_sum(run.number, seq, bytes);
        connection
            .prepare_cached(sql)?
            .execute(params![number, column_number(seq), bytes, sum])?;
        run.snapshot_seq = seq;
    }
    let Some(keep_from) = write.keep_from.filter(|from| *from > run.first_seq) else {
        return Ok(());
    };
    if keep_from > run.snapshot_seq + 1 {
        return Err(RunConflict::NotCovered.into());
    }
    connection
        .prepare_cached("DELETE FROM journal WHERE place BETWEEN ?1 AND ?2")?
        .execute([place(run.number, run.first_seq), place(run.number, keep_from - 1)])?;
    run.first_seq = keep_from;
    Ok(())
}

fn open(
    connection: &Connection,
    number: u64,
    run: &RunSummary,
    opened: &NewInputRequest,
) -> Result<(), Refusal> {
    let request = StoredInputRequest {
        number,
        id: opened.id,
        run_id: run.run_id,
        namespace: opened.namespace.clone(),
        kind: opened.kind,
        state: opened.state,
        owner: opened.owner.clone(),
        opened_at: opened.opened_at,
        due_at: opened.due_at,
        closed_at: None,
        record: opened.record.clone(),
    };
    let sql = format!(
        "INSERT OR IGNORE INTO input_request ({INPUT_REQUEST}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
    );
    let n_inserted = connection.prepare_cached(&sql)?.execute(params![
        column_number(number),
        request.id.as_bytes(),
        column_number(run.number),
        request.run_id.as_bytes(),
        request.kind,
        request.state,
        request.owner,
        request.opened_at,
        request.due_at,
        request.closed_at,
        &request.record[..],
        input_request_sum(run.number, &request),
        namespaces::column_of(&request.namespace),
    ])?;
    if n_inserted == 0 {
        return Err(RunConflict::InputRequestIdUsed { id: opened.id }.into());
    }
    Ok(())
}

fn close(connection: &Connection, number: u64, closed: &ClosedInputRequest) -> Result<(), Refusal> {
    let id = closed.id;
    let mut request = match rows::input_request(connection, &id)? {
        Some((of, request)) if of == number && request.closed_at.is_none() => request,
        _ => return Err(RunConflict::InputRequestNotOpen { id }.into()),
    };
    request.state = closed.state;
    request.closed_at = Some(closed.closed_at);
    if let Some(record) = &closed.record {
        request.record = record.clone();
    }
    let sql =
        "UPDATE input_request SET state = ?2, closed_at = ?3, record = ?4, checksum = ?5 WHERE place = ?1";
    connection.prepare_cached(sql)?.execute(params![
        column_number(request.number),
        request.state,
        request.closed_at,
        &request.record[..],
        input_request_sum(number, &request),
    ])?;
    Ok(())
}

/// `ending`: its place in the order of ending, if it has ended.
fn insert(connection: &Connection, run: &RunSummary, ending: Option<&[u8; 8]>) -> Result<(), Refusal> {
    let sql = format!(
        "INSERT INTO run ({SUMMARY}, ending) VALUES \
         (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, \
         ?22, ?23)"
    );
    let namespace = optional_text(namespaces::column_of(&run.created.namespace));
    let columns =
        values(run)
            .into_iter()
            .chain([ValueRef::Integer(sum(run)), namespace, ending_value(ending)]);
    connection
        .prepare_cached(&sql)?
        .execute(params_from_iter(columns.map(bound)))?;
    Ok(())
}

fn ending_value(ending: Option<&[u8; 8]>) -> ValueRef<'_> {
    ending.map_or(ValueRef::Null, |place| ValueRef::Blob(place))
}

/// Names a column only if it changed: SQLite writes every index of a column that is named.
fn update(
    connection: &Connection,
    before: &RunSummary,
    run: &RunSummary,
    ending: Option<&[u8; 8]>,
) -> Result<(), Refusal> {
    let state = if run.progress.state == before.progress.state {
        ""
    } else {
        ", state = ?8"
    };
    let ended = match ending {
        None => "",
        Some(_) => ", ended_at = ?10, ending = ?11",
    };
    let sql = format!(
        "UPDATE run SET updated_at = ?2, due_at = ?3, first_seq = ?4, next_seq = ?5, snapshot_seq = ?6, \
         link = ?7, checksum = ?9{state}{ended} WHERE number = ?1"
    );
    let mut update = connection.prepare_cached(&sql)?;
    let values = [
        ValueRef::Integer(column_number(run.number)),
        ValueRef::Integer(run.progress.updated_at),
        optional(run.progress.due_at),
        ValueRef::Integer(column_number(run.first_seq)),
        ValueRef::Integer(column_number(run.next_seq)),
        ValueRef::Integer(column_number(run.snapshot_seq)),
        ValueRef::Blob(&run.last_link),
        ValueRef::Integer(run.progress.state.into()),
        ValueRef::Integer(sum(run)),
        optional(run.progress.ended_at),
        ending_value(ending),
    ];
    // The last two are named together or not at all.
    for (index, value) in (1..).zip(values).take(update.parameter_count()) {
        update.raw_bind_parameter(index, bound(value))?;
    }
    update.raw_execute()?;
    Ok(())
}
