//! Histories that look bad and are legal: overlap, lost answers, crashes, refusals.

use super::told::{
    QUEUED, RUNNING, Told, entries, entry, execution, histories, plan, refused, settled, step, token,
};
use crate::history::{Answer, Ask, End, Life, State, Surface};

#[test]
fn answers_to_questions_that_overlap_may_come_in_any_order() {
    let mut told = Told::new();
    let submission = told.submit(1);
    let early = told.look(1, Surface::Get);
    let earlier = told.look(1, Surface::List);
    let late = told.look(1, Surface::Wait);
    told.answer(late, settled(5));
    told.answer(early, RUNNING);
    told.answer(earlier, Answer::Absent);
    told.answer(submission, QUEUED);
    told.got(1, settled(5));
    told.accuses_nobody();
}

#[test]
fn a_submission_without_an_answer_may_be_absent_and_may_be_accepted() {
    let mut told = Told::new();
    let call = told.submit(1);
    told.got(1, Answer::Absent);
    told.checker.lost(call);
    told.got(1, Answer::Absent);
    // Still on its way, in the same life.
    told.got(1, QUEUED);
    // Absent for ever.
    told.unanswered(2, 0, 2, 2);
    told.ends(Life::Killed);
    told.got(2, Answer::Absent);
    told.got(2, Answer::Absent);
    // Accepted just before the crash.
    told.unanswered(3, 0, 3, 3);
    told.ends(Life::PowerCut);
    told.got(3, QUEUED);
    // Asked again, and a connection that outlived a crash brought it.
    let call = told.submit(4);
    told.ends(Life::PowerCut);
    told.got(4, Answer::Absent);
    told.answer(call, QUEUED);
    told.got(4, QUEUED);
    told.accuses_nobody();
}

#[test]
fn refusals_for_want_of_something_prove_nothing() {
    let mut told = Told::new();
    for reason in ["QUEUE_FULL", "STORE_FULL", "STORE_FAILED", "STOPPING"] {
        told.submitted(1, refused(reason));
    }
    told.got(1, QUEUED);
    told.submitted(1, refused("QUEUE_FULL"));
    told.seen(1, Surface::Audit, refused("STOPPING"));
    told.got(1, QUEUED);
    told.accuses_nobody();
}

#[test]
fn another_request_and_another_execution_are_refused() {
    let mut told = Told::new();
    told.accepted(1);
    told.submitted_with(1, 0, 2, 2, refused("EXECUTION_ID_IN_USE"));
    told.submitted_with(3, 0, 1, 3, refused("PLAN_ID_USED"));
    told.got(3, Answer::Absent);
    told.submitted(1, RUNNING);
    told.executed(1, settled(5));
    // The refusal comes before the acceptance that caused it.
    let first = told.submit_with(4, 0, 4, 4);
    told.submitted_with(4, 0, 5, 5, refused("EXECUTION_ID_IN_USE"));
    told.answer(first, QUEUED);
    told.accuses_nobody();
}

#[test]
fn the_record_of_what_ran_at_a_crash_is_written_anew() {
    let restarted = |sequence: u64| {
        let mut entry = entry(sequence, 7);
        entry.hash += if sequence > 2 { 1000 } else { 0 };
        entry
    };
    for life in [Life::Killed, Life::PowerCut] {
        let mut told = Told::new();
        told.accepted(1);
        let watch = told.look(1, Surface::Watch);
        told.checker.piece(watch, entries(1..=5, 99, End::Open));
        told.ends(life);
        // A piece that was on its way.
        told.checker.piece(watch, entries(6..=6, 99, End::Open));
        told.checker.lost(watch);
        let anew = Answer::Entries {
            first: 1,
            entries: (1..=7).map(restarted).collect(),
            end: End::Result(5),
        };
        told.seen(1, Surface::Watch, anew.clone());
        told.ends(life);
        told.seen(1, Surface::Watch, anew);
        told.got(1, settled(5));
        told.accuses_nobody();
    }
    // Seen settled only after the crash: what was seen before it is not durable.
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, entries(1..=5, 99, End::Now));
    told.ends(Life::Killed);
    told.got(1, settled(5));
    let anew = Answer::Entries {
        first: 1,
        entries: (1..=7).map(restarted).collect(),
        end: End::Now,
    };
    told.seen(1, Surface::Audit, anew);
    told.accuses_nobody();
}

#[test]
fn pages_and_pieces_overlap() {
    let mut told = Told::new();
    told.accepted(1);
    let short = told.look(1, Surface::Audit);
    let watch = told.look(1, Surface::Watch);
    told.checker.piece(watch, entries(1..=1, 9, End::Open));
    told.checker.piece(watch, entries(2..=4, 9, End::Open));
    told.seen(1, Surface::Audit, entries(3..=5, 9, End::Open));
    told.answer(short, entries(1..=2, 9, End::Now));
    told.checker.piece(watch, entries(5..=8, 9, End::Open));
    told.answer(watch, entries(9..=9, 9, End::Result(5)));
    told.seen(1, Surface::Audit, entries(7..=9, 9, End::Now));
    // Everything came in pieces, the end alone is left.
    let watch = told.look(1, Surface::Watch);
    told.checker.piece(watch, entries(1..=9, 9, End::Open));
    let nothing = Answer::Entries {
        first: 1,
        entries: vec![],
        end: End::Result(5),
    };
    told.answer(watch, nothing);
    told.accuses_nobody();
}

#[test]
fn an_attempt_that_never_ran_is_handed_out_again() {
    let mut told = Told::new();
    told.accepted(1);
    let session = told.checker.mark();
    told.handed_out(1, 1, 1);
    told.handed_out(1, 1, 2);
    told.outcome_accepted(2);
    told.handed_out(1, 2, 3);
    told.got(1, settled(5));
    // On its way since before the end; and the answer to an outcome that counted came late.
    told.checker.arrived(execution(1), step(2), 1, token(4), session);
    told.outcome_accepted(3);
    // Where only arrivals are seen, one may be missing, and they may come in any order.
    told.accepted(2);
    told.checker.arrived(execution(2), step(1), 3, token(5), session);
    told.checker.arrived(execution(2), step(1), 1, token(6), session);
    told.accuses_nobody();
}

#[test]
fn an_order_that_cannot_be_known_is_no_violation() {
    let mut told = Told::new();
    // Asked at the same time: either may be first.
    let [one, two] = [1, 2].map(|n| told.submit(n));
    told.answer(one, QUEUED);
    told.answer(two, QUEUED);
    told.got(2, RUNNING);
    told.got(1, QUEUED);
    told.accuses_nobody();
    histories! {
        // The higher priority came when the lower one may have run.
        Nobody, []: accepted(1), accepted_with(2, 9), got(1, RUNNING), got(2, QUEUED);
    }
    // The question left before the other one was known to run.
    let mut told = Told::new();
    told.accepted(1);
    told.accepted_with(2, 9);
    told.got(1, QUEUED);
    let early = told.look(2, Surface::Get);
    told.got(1, RUNNING);
    told.answer(early, QUEUED);
    told.accuses_nobody();
    // Other workers begin it, and none was there for the first.
    let mut told = Told::new();
    told.accepted(1);
    let other = told.checker.ask(Ask::Submit {
        execution: execution(2),
        plan: plan(2),
        digest: 2,
        priority: 0,
        queue: 1,
        waits: false,
    });
    told.answer(other, QUEUED);
    told.got(2, RUNNING);
    told.got(1, QUEUED);
    told.accuses_nobody();
    // A child goes ahead of the queue.
    let mut told = Told::new();
    told.accepted(1);
    let child = told.submit(2);
    told.checker.nested(execution(2));
    told.answer(child, RUNNING);
    told.got(1, QUEUED);
    told.accuses_nobody();
}

#[test]
fn starts_at_one_time_or_of_an_open_order_are_no_violation() {
    let running = |started_at| Answer::State(State::Running { started_at });
    let mut told = Told::new();
    // In order; at the same time; and the higher priority came when the lower one may have run.
    told.accepted(1);
    told.accepted(2);
    told.accepted(3);
    told.got(1, running(1000));
    told.got(2, running(1010));
    told.got(3, running(1010));
    told.accepted_with(4, 9);
    told.got(4, running(1020));
    // Two whose submissions overlapped.
    let [five, six] = [5, 6].map(|n| told.submit(n));
    told.answer(five, QUEUED);
    told.answer(six, QUEUED);
    told.got(6, running(1030));
    told.got(5, running(1040));
    // Two that start together, and whose clocks were set in different parts of a millisecond.
    told.accepted(7);
    told.accepted(8);
    told.got(8, running(1050));
    told.got(7, running(1051));
    told.starts_must_be_in_order();
    told.accuses_nobody();
}

#[test]
fn what_never_started_ends_in_the_queue_without_a_place_in_the_order() {
    histories! {
        Nobody, []: accepted(1), accepted(2), got(2, settled(5)), got(1, QUEUED);
    }
}

#[test]
fn a_list_shows_what_it_must_and_may_show_more() {
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    told.accepted(2);
    let list = told.checker.ask(Ask::List);
    told.accepted(3);
    let listed = [(1, State::Ended), (2, State::Running { started_at: 4 })];
    told.answer(
        list,
        Answer::Listed {
            executions: listed
                .into_iter()
                .map(|(n, state)| (execution(n), state))
                .collect(),
            is_complete: true,
        },
    );
    told.got(1, Answer::State(State::Removed));
    told.submitted(1, refused("EXECUTION_REMOVED"));
    let list = told.checker.ask(Ask::List);
    told.answer(
        list,
        Answer::Listed {
            executions: vec![(execution(3), State::Queued)],
            is_complete: false,
        },
    );
    assert_ne!(plan(1), plan(2));
    told.accuses_nobody();
}

#[test]
fn a_watcher_goes_on_behind_what_is_there_and_always_gets_the_end() {
    histories! {
        Nobody, []: accepted(1), seen(1, Surface::Watch, entries(1..=5, 99, End::Open)),
            went_on(1, entry(5, 99), entries(6..=6, 99, End::Open)), ends(Life::Killed),
            went_on(1, entry(6, 99), refused("RECORD_REWRITTEN")),
            went_on(1, entry(2, 99), entries(3..=7, 7, End::Result(5))),
            went_on(1, entry(7, 7), entries(7..=7, 7, End::Result(5))),
            went_on(1, entry(5, 99), entries(6..=7, 7, End::Result(5))),
            seen(1, Surface::Audit, entries(1..=7, 7, End::Now));
    }
}
