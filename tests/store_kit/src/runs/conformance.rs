//! The suite that every store of runs passes, in plain functions that panic. Knows no implementation.
//!
//! A test hands over a way to make fresh stores; each story begins with one of its own.

mod batches;
mod bounds;
mod definitions;
mod endings;
mod journals;
mod lists;
mod notices;
mod references;
mod removal;
mod restarts;
mod revisions;
mod sample;
mod sizes;

pub use self::sample::{
    Dice, RANDOM_DEFINITIONS, RANDOM_RUNS, RunSample, random_batch, random_definition, random_revision,
};

use escapement_store::runs::{BatchOutcome, RunBatch, RunConflict, RunReader, RunStore, RunWrite, StoredRun};

/// A store of runs that can be closed and opened again on the same data.
pub trait ReopenableRuns {
    /// Returns the store as it is open now.
    fn store(&mut self) -> &mut dyn RunStore;
    /// Ends the store as the end of its process would, and opens what is durable.
    fn reopen(&mut self);
}

/// Makes an empty store on each call.
pub type Make<'a> = &'a mut dyn FnMut() -> Box<dyn ReopenableRuns>;

/// A story: a claim and its proof.
pub type Story = fn(Make<'_>);

/// All stories, for a test that wants to name the one that failed.
pub const STORIES: &[(&str, Story)] = &[
    (
        "an empty batch does nothing",
        batches::an_empty_batch_does_nothing,
    ),
    (
        "a run grows from its creation to its end",
        batches::a_run_grows_from_its_creation_to_its_end,
    ),
    (
        "a wrong sequence refuses the whole batch",
        batches::a_wrong_sequence_refuses_the_whole_batch,
    ),
    (
        "what is too large is refused alone",
        sizes::what_is_too_large_is_refused_alone,
    ),
    (
        "what is as large as it may be is kept",
        sizes::what_is_as_large_as_it_may_be_is_kept,
    ),
    ("an ended run never changes", batches::an_ended_run_never_changes),
    ("an id is used once", batches::an_id_is_used_once),
    (
        "definitions of a batch are written with its runs or not at all",
        batches::definitions_are_written_with_the_runs,
    ),
    ("a request creates one run", batches::a_request_creates_one_run),
    (
        "writes of one run become one",
        batches::writes_of_one_run_become_one,
    ),
    (
        "a journal pages by bytes without gaps",
        journals::a_journal_pages_by_bytes_without_gaps,
    ),
    (
        "the chain is that of its formula",
        journals::the_chain_is_that_of_its_formula,
    ),
    (
        "a snapshot covers what is dropped",
        journals::a_snapshot_covers_what_is_dropped,
    ),
    (
        "a content is kept until the last run releases it",
        references::a_content_is_kept_until_the_last_run_releases_it,
    ),
    (
        "a run that is purged keeps documents alone",
        references::a_run_that_is_purged_keeps_documents_alone,
    ),
    (
        "a missing content cannot be pinned",
        references::a_missing_content_cannot_be_pinned,
    ),
    (
        "input requests are listed while they are open",
        references::input_requests_are_listed_while_they_are_open,
    ),
    (
        "an input request closes once and in its run",
        references::an_input_request_closes_once_and_in_its_run,
    ),
    (
        "lists are in order and page without gaps",
        lists::lists_are_in_order_and_page_without_gaps,
    ),
    (
        "every filter shows exactly what it says",
        lists::every_filter_shows_exactly_what_it_says,
    ),
    ("live runs page oldest first", lists::live_runs_page_oldest_first),
    (
        "a page looks at a bounded number of rows",
        bounds::a_page_looks_at_a_bounded_number_of_rows,
    ),
    (
        "a queue is listed from its front",
        lists::a_queue_is_listed_from_its_front,
    ),
    (
        "a definition changes version by version",
        definitions::a_definition_changes_version_by_version,
    ),
    (
        "definitions are listed by owner and in order",
        definitions::definitions_are_listed_by_owner_and_in_order,
    ),
    (
        "definitions are listed by name",
        definitions::definitions_are_listed_by_name,
    ),
    (
        "a page of definitions is bounded in bytes",
        definitions::a_page_of_definitions_is_bounded_in_bytes,
    ),
    (
        "a definition keeps what it refers to",
        definitions::a_definition_keeps_what_it_refers_to,
    ),
    (
        "a revision is found while it is referred to",
        revisions::a_revision_is_found_while_it_is_referred_to,
    ),
    (
        "the newest run of a plan is found",
        definitions::the_newest_run_of_a_plan_is_found,
    ),
    (
        "a request is answered once",
        definitions::a_request_is_answered_once,
    ),
    (
        "notices are read by stream behind a number",
        notices::notices_are_read_by_stream_behind_a_number,
    ),
    (
        "a stream is bounded by number and by age",
        notices::a_stream_is_bounded_by_number_and_by_age,
    ),
    (
        "what went from a stream is known by its numbers",
        notices::what_went_from_a_stream_is_known_by_its_numbers,
    ),
    (
        "what came behind a young notice stays",
        notices::what_came_behind_a_young_notice_stays,
    ),
    (
        "a definition changes with its batch",
        notices::a_definition_changes_with_its_batch,
    ),
    (
        "what was acknowledged is there after a restart",
        restarts::what_was_acknowledged_is_there_after_a_restart,
    ),
    (
        "a reader sees whole batches while they are written",
        restarts::a_reader_sees_whole_batches,
    ),
    (
        "live runs are never removed",
        removal::live_runs_are_never_removed,
    ),
    (
        "ended runs are removed by age",
        removal::ended_runs_are_removed_by_age,
    ),
    (
        "ended runs are removed by number",
        removal::ended_runs_are_removed_by_number,
    ),
    (
        "ids of removed runs stay used until they are forgotten",
        removal::ids_of_removed_runs_stay_used_until_they_are_forgotten,
    ),
    ("what others refer to stays", removal::what_others_refer_to_stays),
    ("a step of removal is bounded", removal::a_step_is_bounded),
    (
        "runs have places in the order of ending",
        endings::runs_have_places_in_the_order_of_ending,
    ),
    (
        "a batch that is refused gives no place",
        endings::a_batch_that_is_refused_gives_no_place,
    ),
    (
        "what a policy removes is known by the places",
        endings::what_a_policy_removes_is_known_by_the_places,
    ),
    (
        "a run that is removed by its name leaves its place empty",
        endings::a_run_that_is_removed_by_its_name_leaves_its_place_empty,
    ),
    (
        "what readers have not come to is held for a time",
        endings::what_readers_have_not_come_to_is_held_for_a_time,
    ),
    (
        "one run is removed when it has ended",
        removal::one_run_is_removed,
    ),
    (
        "a run is discarded whether it has ended or not",
        removal::a_run_is_discarded_whether_it_has_ended_or_not,
    ),
];

/// Runs all stories.
///
/// # Panics
/// If the store does not conform; the message begins with the story.
pub fn run(make: Make<'_>) {
    for (claim, story) in STORIES {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| story(make)));
        if let Err(panic) = outcome {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            panic!("{claim}: {said}");
        }
    }
}

/// More bytes than any story writes.
const ALL: usize = usize::MAX;

fn batch(writes: impl IntoIterator<Item = RunWrite>) -> RunBatch {
    let mut batch = RunBatch::new();
    for write in writes {
        batch.add(write);
    }
    batch
}

fn commit(subject: &mut dyn ReopenableRuns, writes: impl IntoIterator<Item = RunWrite>) {
    let outcome = subject.store().commit(&batch(writes));
    assert_eq!(outcome.expect("a healthy store commits"), BatchOutcome::Done);
}

/// What refuses a batch of these writes.
fn refused(subject: &mut dyn ReopenableRuns, writes: impl IntoIterator<Item = RunWrite>) -> RunConflict {
    match subject
        .store()
        .commit(&batch(writes))
        .expect("a healthy store commits")
    {
        BatchOutcome::Refused { conflict, .. } => conflict,
        outcome @ (BatchOutcome::Done | BatchOutcome::DefinitionTooLarge { .. }) => {
            panic!("no run of it is refused: {outcome:?}")
        }
    }
}

fn reader(subject: &mut dyn ReopenableRuns) -> Box<dyn RunReader> {
    subject.store().reader().expect("a healthy store gives readers")
}

/// What the store holds under the sample's id.
fn stored(subject: &mut dyn ReopenableRuns, sample: &RunSample) -> StoredRun {
    let found = reader(subject).run(sample.run_id(), ALL);
    found
        .expect("a healthy store reads")
        .unwrap_or_else(|| panic!("run {} is missing", sample.run_id()))
}
