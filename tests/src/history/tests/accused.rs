//! For each rule at least one history that breaks it and no other.

use super::told::{QUEUED, RUNNING, Told, entries, entry, execution, plan, refused, settled, step, token};
use crate::history::{Answer, Ask, End, EntryKind, Life, Rule, State, Surface};

#[test]
fn an_accepted_execution_that_is_absent_is_lost() {
    for life in [Life::Killed, Life::PowerCut, Life::Drained] {
        let mut told = Told::new();
        told.accepted(1);
        told.ends(life);
        told.got(1, Answer::Absent);
        told.breaks(
            Rule::Lost,
            &[
                "call 6 (Get), asked at 6, answered at 7",
                "call 2 (Submit), asked at 2, answered at 3",
            ],
        );
    }
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, refused("EXECUTION_NOT_FOUND"));
    told.breaks(Rule::Lost, &["Audit"]);
}

#[test]
fn a_state_never_goes_back() {
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, RUNNING);
    told.got(1, QUEUED);
    told.breaks(
        Rule::Regress,
        &["accepted by call 6", "running before that question: call 4"],
    );

    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    told.ends(Life::PowerCut);
    told.seen(1, Surface::Wait, RUNNING);
    told.breaks(Rule::Regress, &["running by call", "settled before"]);
}

#[test]
fn an_event_and_a_hand_out_raise_the_floor_as_answers_do() {
    let mut told = Told::new();
    told.accepted(1);
    told.handed_out(1, 1, 9);
    told.got(1, QUEUED);
    told.breaks(Rule::Regress, &["handed out at 4"]);

    let mut told = Told::new();
    told.accepted(1);
    told.checker.event(execution(1), 5);
    told.ends(Life::Killed);
    told.got(1, RUNNING);
    told.breaks(Rule::Regress, &["its event was heard at 4"]);
}

#[test]
fn the_result_is_the_same_on_every_surface() {
    for surface in [Surface::Get, Surface::Wait, Surface::Execute, Surface::Store] {
        let mut told = Told::new();
        told.accepted(1);
        told.got(1, settled(5));
        told.seen(1, surface, settled(6));
        told.breaks(Rule::OneResult, &["0000000000000006", "0000000000000005"]);
    }
    let mut told = Told::new();
    let call = told.execute(1);
    told.answer(call, settled(5));
    told.checker.event(execution(1), 6);
    told.breaks(Rule::OneResult, &["event"]);

    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    told.seen(1, Surface::Watch, entries(1..=3, 3, End::Result(6)));
    told.breaks(Rule::OneResult, &["Watch"]);
}

#[test]
fn an_execution_starts_once() {
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, RUNNING);
    told.got(1, Answer::State(State::Running { started_at: 1001 }));
    told.breaks(Rule::OneStart, &["1001", "1000"]);
}

#[test]
fn two_requests_under_one_id_are_never_both_accepted() {
    let mut told = Told::new();
    let first = told.submit_with(1, 0, 1, 1);
    let second = told.submit_with(1, 0, 2, 2);
    told.answer(first, QUEUED);
    told.answer(second, QUEUED);
    told.breaks(Rule::OneRequest, &["call 3", "call 2"]);
}

#[test]
fn the_same_request_attaches() {
    let mut told = Told::new();
    told.accepted(1);
    let other = told.submit_with(1, 0, 2, 2);
    told.answer(other, refused("EXECUTION_ID_IN_USE"));
    let again = told.submit(1);
    told.answer(again, refused("EXECUTION_ID_IN_USE"));
    told.breaks(Rule::OneRequest, &["call 6", "it was accepted: call 2"]);

    // Refused first, accepted afterwards.
    let mut told = Told::new();
    let first = told.submit(1);
    let other = told.submit_with(1, 0, 2, 2);
    told.answer(first, refused("EXECUTION_ID_IN_USE"));
    told.checker.lost(other);
    let again = told.submit(1);
    told.answer(again, QUEUED);
    told.breaks(Rule::OneRequest, &["refused as another one: call 2"]);

    // Nobody sent anything else.
    let mut told = Told::new();
    let first = told.submit(1);
    told.answer(first, refused("EXECUTION_ID_IN_USE"));
    told.breaks(Rule::OneRequest, &["nobody sent another one"]);
}

#[test]
fn a_plan_belongs_to_one_execution() {
    let mut told = Told::new();
    told.accepted(1);
    let other = told.submit_with(2, 0, 1, 2);
    told.answer(other, QUEUED);
    told.breaks(Rule::OnePlan, &["call 4", "has that plan: call 2"]);

    let mut told = Told::new();
    told.accepted(1);
    let other = told.submit_with(2, 0, 1, 2);
    told.checker.lost(other);
    let again = told.submit(1);
    told.answer(again, refused("PLAN_ID_USED"));
    told.breaks(Rule::OnePlan, &["this execution has it"]);

    let mut told = Told::new();
    let call = told.submit(1);
    told.answer(call, refused("PLAN_ID_USED"));
    told.breaks(Rule::OnePlan, &["nobody else asked for it"]);
}

#[test]
fn nothing_comes_from_nothing() {
    let mut told = Told::new();
    told.got(1, QUEUED);
    told.breaks(Rule::FromNothing, &["nobody asked for it"]);

    let mut told = Told::new();
    told.handed_out(1, 1, 9);
    told.breaks(Rule::FromNothing, &["nobody asked for that execution"]);

    let mut told = Told::new();
    told.checker.event(execution(1), 5);
    told.breaks(Rule::FromNothing, &["event"]);

    for reason in ["INVALID_PAYLOAD", "DEPENDENCY_UNRESOLVED"] {
        let mut told = Told::new();
        let call = told.submit(1);
        told.answer(call, refused(reason));
        told.got(1, QUEUED);
        told.breaks(Rule::FromNothing, &["refused for good"]);
    }

    // Refused for want of room, absent, and nobody asked again.
    let mut told = Told::new();
    let call = told.submit(1);
    told.answer(call, refused("QUEUE_FULL"));
    told.got(1, Answer::Absent);
    told.got(1, QUEUED);
    told.breaks(
        Rule::FromNothing,
        &["absent when nobody was asking for it any more"],
    );

    // Lost, and the life in which it may have arrived is over.
    let mut told = Told::new();
    let call = told.submit(1);
    told.checker.lost(call);
    told.ends(Life::Killed);
    told.got(1, Answer::Absent);
    told.got(1, QUEUED);
    told.breaks(Rule::FromNothing, &["absent"]);
}

#[test]
fn an_entry_never_changes() {
    let changed = |at: usize, change: fn(&mut crate::history::Entry)| {
        let mut list: Vec<_> = (1..=5).map(|sequence| entry(sequence, 5)).collect();
        change(&mut list[at]);
        Answer::Entries {
            first: 1,
            entries: list,
            end: End::Now,
        }
    };
    for at in 0..4 {
        let mut told = Told::new();
        told.accepted(1);
        told.seen(1, Surface::Watch, entries(1..=5, 5, End::Result(5)));
        told.seen(1, Surface::Audit, changed(at, |entry| entry.hash += 1));
        told.breaks(Rule::Entry, &[&format!("entry {}", at + 1), "Audit", "Watch"]);
    }
    // A settled record outlives its process, and so do the first two entries of any other.
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, entries(1..=5, 5, End::Now));
    told.ends(Life::PowerCut);
    told.seen(1, Surface::Audit, changed(3, |entry| entry.hash += 1));
    told.breaks(Rule::Entry, &["entry 4"]);

    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, entries(1..=4, 9, End::Now));
    told.ends(Life::PowerCut);
    told.seen(1, Surface::Audit, changed(0, |entry| entry.hash += 1));
    told.breaks(Rule::Entry, &["entry 1"]);

    // What was seen of the record in the life in which it was seen settled is durable.
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, entries(1..=4, 9, End::Open));
    told.got(1, settled(5));
    told.ends(Life::Killed);
    told.seen(1, Surface::Audit, changed(3, |entry| entry.hash += 1));
    told.breaks(Rule::Entry, &["entry 4"]);
}

#[test]
fn a_record_is_whole() {
    let with = |sequences: &[u64], last: u64, end: End| Answer::Entries {
        first: 1,
        entries: sequences.iter().map(|sequence| entry(*sequence, last)).collect(),
        end,
    };
    // A gap, a repetition, a late beginning.
    for sequences in [&[1, 2, 4][..], &[1, 1], &[2, 3]] {
        let mut told = Told::new();
        told.accepted(1);
        told.seen(1, Surface::Audit, with(sequences, 9, End::Now));
        told.breaks(Rule::Record, &["should follow"]);
    }
    // It shrank.
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, with(&[1, 2, 3], 9, End::Now));
    told.seen(1, Surface::Audit, with(&[1, 2], 9, End::Now));
    told.breaks(Rule::Record, &["has 2 entries", "it had 3"]);
    // Entries after the last one.
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, with(&[1, 2, 3], 3, End::Now));
    told.seen(1, Surface::Watch, entries(4..=4, 9, End::Open));
    told.breaks(Rule::Record, &["3 was the last one"]);
    // The last one before the end.
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, entries(4..=4, 9, End::Open));
    told.seen(1, Surface::Audit, with(&[1, 2, 3], 3, End::Now));
    told.breaks(Rule::Record, &["entry 4 was seen before"]);
    // Settled, and the record does not say so.
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    told.seen(1, Surface::Audit, with(&[1, 2], 9, End::Now));
    told.breaks(Rule::Record, &["ends without `settled`"]);
    // A watch that ends in order before the end.
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Watch, with(&[1, 2], 9, End::Now));
    told.breaks(Rule::Record, &["the watch ended in order before `settled`"]);
    // A gap between two pieces of one stream.
    let mut told = Told::new();
    told.accepted(1);
    let watch = told.look(1, Surface::Watch);
    told.checker.piece(watch, with(&[1, 2], 9, End::Open));
    told.checker.piece(watch, with(&[4], 9, End::Open));
    told.breaks(Rule::Record, &["entry 4 where 3 should follow"]);
}

#[test]
fn entries_show_a_state() {
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, entries(1..=2, 9, End::Now));
    told.got(1, QUEUED);
    told.breaks(Rule::Regress, &["running before that question", "Audit"]);

    let mut told = Told::new();
    told.accepted(1);
    told.got(1, Answer::State(State::Running { started_at: 999 }));
    told.seen(1, Surface::Watch, entries(1..=3, 3, End::Result(5)));
    told.breaks(Rule::OneStart, &["started at 1000", "at 999"]);

    let mut told = Told::new();
    let call = told.submit(1);
    told.checker.lost(call);
    told.seen(1, Surface::Audit, entries(1..=1, 9, End::Now));
    told.got(1, Answer::Absent);
    told.breaks(Rule::Lost, &["Audit"]);
}

#[test]
fn an_outcome_is_accepted_once() {
    let mut told = Told::new();
    told.accepted(1);
    told.handed_out(1, 1, 9);
    told.checker.outcome_accepted(token(9));
    told.checker.outcome_accepted(token(9));
    told.breaks(Rule::Outcome, &["accepted at 6, and before at 5"]);

    // Two hand-outs of one attempt, two outcomes.
    let mut told = Told::new();
    told.accepted(1);
    told.handed_out(1, 1, 8);
    told.handed_out(1, 1, 9);
    told.checker.outcome_accepted(token(8));
    told.checker.outcome_accepted(token(9));
    told.breaks(Rule::Outcome, &["with token 0909", "with token 0808"]);

    let mut told = Told::new();
    told.checker.outcome_accepted(token(9));
    told.breaks(Rule::Outcome, &["no worker was given that token"]);
}

#[test]
fn a_token_names_one_attempt_and_attempts_count_up() {
    let mut told = Told::new();
    told.accepted(1);
    told.handed_out(1, 1, 9);
    told.handed_out(1, 2, 9);
    told.breaks(Rule::Outcome, &["the token was handed out before"]);

    for attempts in [&[2][..], &[1, 3], &[1, 2, 1]] {
        let mut told = Told::new();
        told.accepted(1);
        for (attempt, of_token) in attempts.iter().zip(1..) {
            told.handed_out(1, *attempt, of_token);
        }
        told.breaks(Rule::Outcome, &["the attempt before it was"]);
    }
}

#[test]
fn nothing_is_handed_out_when_it_is_over() {
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    told.handed_out(1, 1, 9);
    told.breaks(Rule::HandOut, &["step", "settled: call 4"]);

    // It left after the settled answer had come, wherever it was on its way.
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    let since = told.checker.mark();
    told.checker.arrived(execution(1), step(1), 1, token(9), since);
    told.breaks(Rule::HandOut, &["settled: call 4"]);

    let mut told = Told::new();
    told.accepted(1);
    told.handed_out(1, 1, 8);
    told.checker.outcome_accepted(token(8));
    told.handed_out(1, 1, 9);
    told.breaks(Rule::HandOut, &["after its outcome was accepted at 5"]);

    let mut told = Told::new();
    told.accepted(1);
    told.handed_out(1, 1, 8);
    told.ends(Life::Killed);
    told.handed_out(1, 1, 9);
    told.breaks(Rule::HandOut, &["never resumed"]);
}

#[test]
fn the_queue_keeps_its_order() {
    // Of equal priority: first come, first served.
    let mut told = Told::new();
    told.accepted(1);
    told.accepted(2);
    told.got(2, RUNNING);
    told.got(1, QUEUED);
    told.breaks(Rule::Order, &["still queued by call 8", "by call 6"]);

    // A higher priority goes first, though it came later, through a restart as well.
    let mut told = Told::new();
    told.accepted(1);
    told.accepted_with(2, 5);
    told.got(1, QUEUED);
    told.ends(Life::Killed);
    told.handed_out(1, 1, 9);
    told.got(2, QUEUED);
    told.breaks(Rule::Order, &["handed out at"]);
}

#[test]
fn starts_by_an_even_clock_keep_the_order() {
    let running = |started_at| Answer::State(State::Running { started_at });
    // First come, first served; nobody looked between the two starts.
    let mut told = Told::new();
    told.accepted(1);
    told.accepted(2);
    told.got(1, running(1004));
    told.got(2, running(1000));
    told.checker.starts_must_be_in_order();
    told.breaks(
        Rule::Order,
        &["started at 1004 by call 6", "started at 1000 by call 8"],
    );

    // A higher priority that came later, while the lower one was queued yet.
    let mut told = Told::new();
    told.accepted(1);
    told.accepted_with(2, 5);
    told.got(1, QUEUED);
    told.got(1, running(1000));
    told.got(2, running(1004));
    told.checker.starts_must_be_in_order();
    told.breaks(Rule::Order, &["started at 1004", "started at 1000"]);
}

#[test]
fn who_waits_for_a_result_gets_nothing_else() {
    let mut told = Told::new();
    let call = told.execute(1);
    told.answer(call, RUNNING);
    told.breaks(Rule::EndsOnce, &["who waits for a result was told"]);
}

#[test]
fn every_accepted_execution_ends() {
    let mut told = Told::new();
    told.accepted(1);
    told.accepted(2);
    told.got(2, settled(5));
    told.checker.all_must_be_settled();
    told.breaks(Rule::EndsOnce, &["never seen settled: call 2"]);
}

#[test]
fn a_list_misses_nothing_and_shows_nothing_older() {
    let listed = |executions: Vec<(u8, State)>| Answer::Listed {
        executions: executions
            .into_iter()
            .map(|(n, state)| (execution(n), state))
            .collect(),
        is_complete: true,
    };
    let mut told = Told::new();
    told.accepted(1);
    let list = told.checker.ask(Ask::List);
    told.answer(list, listed(vec![]));
    told.breaks(Rule::Lost, &["not in the list of call 4"]);

    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    let list = told.checker.ask(Ask::List);
    told.answer(list, listed(vec![(1, State::Queued)]));
    told.breaks(Rule::Regress, &["accepted by call 6 (List)"]);

    let mut told = Told::new();
    told.accepted(1);
    let list = told.checker.ask(Ask::List);
    told.answer(list, listed(vec![(1, State::Queued), (1, State::Ended)]));
    told.breaks(Rule::Record, &["listed twice"]);
}

#[test]
fn what_was_removed_stays_removed() {
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    told.got(1, Answer::State(State::Removed));
    told.got(1, settled(5));
    told.breaks(Rule::Regress, &["removed before that question"]);
}

#[test]
fn a_history_in_which_too_little_happened_proves_nothing() {
    let mut told = Told::new();
    told.accepted(1);
    told.ends(Life::PowerCut);
    told.checker.count("bit flips", 3);
    let report = told
        .checker
        .finish(&[("submissions", 1), ("power cuts", 2), ("bit flips", 3)]);
    assert_eq!(report.violations.len(), 1);
    assert_eq!(report.violations[0].rule, Rule::Floor);
    assert!(report.violations[0].text.contains("1 power cuts"), "{report}");
    assert_eq!(report.counted("lives"), 2);
}

#[test]
fn the_hash_of_an_entry_and_of_a_result_sees_every_field() {
    use escapement_wire::v1;
    let result = v1::PlanResult::default();
    let changed = v1::PlanResult {
        duration_ms: 1,
        ..result.clone()
    };
    assert_ne!(
        crate::history::hash_of_result(&result),
        crate::history::hash_of_result(&changed)
    );
    let started = |at| v1::AuditEntry {
        hash: Vec::new(),
        sequence: 2,
        at,
        event: Some(v1::audit_entry::Event::Started(v1::ExecutionStarted {
            started_at: 7,
        })),
    };
    let [first, second] = [1, 2].map(|at| crate::history::Entry::of(&started(at)));
    assert_ne!(first.hash, second.hash);
    assert_eq!((first.sequence, first.kind), (2, EntryKind::Started { at: 7 }));
    assert_eq!(plan(1), plan(1));
}

#[test]
fn a_watcher_is_told_that_its_record_was_rewritten_where_that_is_so_and_nowhere_else() {
    let mut told = Told::new();
    told.accepted(1);
    told.seen(1, Surface::Audit, entries(1..=5, 99, End::Now));
    told.went_on(1, entry(4, 99), refused("RECORD_REWRITTEN"));
    told.breaks(Rule::Entry, &["entry 4 was taken back", "it is there"]);

    // Another history goes on as if it were the one that the watcher saw.
    for seen_before in [true, false] {
        let mut told = Told::new();
        told.accepted(1);
        told.seen(1, Surface::Audit, entries(1..=5, 99, End::Now));
        told.ends(Life::Killed);
        let went_on = |told: &mut Told| {
            let mut other = entry(5, 99);
            other.hash += 1000;
            told.went_on(1, other, entries(6..=7, 7, End::Result(5)));
        };
        if seen_before {
            told.seen(1, Surface::Audit, entries(1..=7, 7, End::Now));
            went_on(&mut told);
        } else {
            went_on(&mut told);
            told.seen(1, Surface::Audit, entries(1..=7, 7, End::Now));
        }
        told.breaks(Rule::Entry, &["entry 5 is"]);
    }
}
