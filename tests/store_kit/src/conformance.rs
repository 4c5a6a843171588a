//! The suite that every store passes, in plain functions that panic. Knows no implementation.
//!
//! A test hands over a way to make fresh stores; each story begins with one of its own.

mod batches;
mod lists;
mod operators;
mod removal;
mod restarts;
mod sample;
mod settling;

pub use self::sample::Sample;

use escapement_store::{Outcome, Reader, Store, StoredExecution, Write};

/// A store that can be closed and opened again on the same data.
pub trait ReopenableStore {
    /// Returns the store as it is open now.
    fn store(&mut self) -> &mut dyn Store;
    /// Ends the store as the end of its process would, and opens what is durable.
    fn reopen(&mut self);
}

/// Makes an empty store on each call.
pub type Make<'a> = &'a mut dyn FnMut() -> Box<dyn ReopenableStore>;

/// A story: a claim and its proof.
pub type Story = fn(Make<'_>);

/// All stories, for a test that wants to name the one that failed.
pub const STORIES: &[(&str, Story)] = &[
    (
        "an empty batch does nothing",
        batches::an_empty_batch_does_nothing,
    ),
    (
        "an execution goes from accepted to settled",
        batches::an_execution_goes_from_accepted_to_settled,
    ),
    (
        "what is accepted with a start runs at once",
        batches::what_is_accepted_with_a_start_runs_at_once,
    ),
    (
        "a queued execution can be settled unstarted",
        batches::a_queued_execution_can_be_settled_unstarted,
    ),
    ("an id is used once", batches::an_id_is_used_once),
    ("states only climb", batches::states_only_climb),
    (
        "an unknown execution is not found",
        batches::an_unknown_execution_is_not_found,
    ),
    (
        "writes of one batch see each other",
        batches::writes_of_one_batch_see_each_other,
    ),
    (
        "a conflict hurts only its own write",
        batches::a_conflict_hurts_only_its_own_write,
    ),
    (
        "large records come back whole",
        batches::large_records_come_back_whole,
    ),
    (
        "labels are kept to the letter",
        batches::labels_are_kept_to_the_letter,
    ),
    (
        "a list is newest first and pages without gaps",
        lists::a_list_is_newest_first_and_pages_without_gaps,
    ),
    (
        "every filter shows exactly what it says",
        lists::every_filter_shows_exactly_what_it_says,
    ),
    (
        "unsettled executions page oldest first",
        lists::unsettled_executions_page_oldest_first,
    ),
    ("counts follow every write", lists::counts_follow_every_write),
    (
        "what was acknowledged is there after a restart",
        restarts::what_was_acknowledged_is_there_after_a_restart,
    ),
    (
        "actions are remembered until they are forgotten",
        restarts::actions_are_remembered_until_they_are_forgotten,
    ),
    (
        "numbers go on after a restart",
        restarts::numbers_go_on_after_a_restart,
    ),
    (
        "ids stay used after a restart",
        restarts::ids_stay_used_after_a_restart,
    ),
    (
        "a reader sees whole batches while they are written",
        restarts::a_reader_sees_whole_batches,
    ),
    (
        "a reader sees what was acknowledged",
        restarts::a_reader_sees_what_was_acknowledged,
    ),
    (
        "what is settled pages in the order of settling",
        settling::what_is_settled_pages_in_the_order_of_settling,
    ),
    (
        "places of removed executions are not given again",
        settling::places_of_removed_executions_are_not_given_again,
    ),
    (
        "acts of operators are listed with their outcomes",
        operators::acts_are_listed_with_their_outcomes,
    ),
    (
        "an act of an operator has one outcome",
        operators::an_act_has_one_outcome,
    ),
    (
        "old entries of operators go, and the newest stays",
        operators::old_entries_go_and_the_newest_stays,
    ),
    (
        "what lives is never removed",
        removal::what_lives_is_never_removed,
    ),
    (
        "the default keeps everything",
        removal::the_default_keeps_everything,
    ),
    (
        "settled executions are removed by age",
        removal::settled_executions_are_removed_by_age,
    ),
    (
        "a clock that was ahead keeps nothing else",
        removal::a_clock_that_was_ahead_keeps_nothing_else,
    ),
    (
        "settled executions are removed by number",
        removal::settled_executions_are_removed_by_number,
    ),
    (
        "the number spares young executions",
        removal::the_number_spares_young_executions,
    ),
    (
        "what a reader has not come to is held for a while",
        removal::what_a_reader_has_not_come_to_is_held_for_a_while,
    ),
    (
        "ids of removed executions stay used",
        removal::ids_of_removed_executions_stay_used,
    ),
    (
        "forgotten ids can be used again",
        removal::forgotten_ids_can_be_used_again,
    ),
    (
        "lists and counts work across gaps",
        removal::lists_and_counts_work_across_gaps,
    ),
    ("a step of removal is bounded", removal::a_step_is_bounded),
    (
        "a reader sees an execution whole or removed",
        removal::a_reader_sees_an_execution_whole_or_removed,
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

fn commit(subject: &mut dyn ReopenableStore, batch: &[Write]) -> Vec<Outcome> {
    let outcomes = subject.store().commit(batch).expect("a healthy store commits");
    assert_eq!(outcomes.len(), batch.len(), "one outcome per write");
    outcomes
}

fn reader(subject: &mut dyn ReopenableStore) -> Box<dyn Reader> {
    subject.store().reader().expect("a healthy store gives readers")
}

/// What the store holds under the sample's id.
fn stored(subject: &mut dyn ReopenableStore, sample: &Sample) -> StoredExecution {
    let found = reader(subject)
        .execution(sample.execution_id())
        .expect("a healthy store reads");
    found.unwrap_or_else(|| panic!("execution {} is missing", sample.execution_id()))
}
