//! For each rule at least one history that breaks it and no other.

use super::told::{
    QUEUED, RUNNING, Told, entries, entry, execution, histories, plan, refused, settled, step, token,
};
use crate::history::{Answer, End, EntryKind, Life, Rule, State, Surface};

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
    histories! {
        Lost, ["Audit"]: accepted(1), seen(1, Surface::Audit, refused("EXECUTION_NOT_FOUND"));
    }
}

#[test]
fn a_state_never_goes_back() {
    histories! {
        Regress, ["accepted by call 6", "running before that question: call 4"]: accepted(1), got(1, RUNNING),
            got(1, QUEUED);
        Regress, ["running by call", "settled before"]: accepted(1), got(1, settled(5)), ends(Life::PowerCut),
            seen(1, Surface::Wait, RUNNING);
    }
}

#[test]
fn an_event_and_a_hand_out_raise_the_floor_as_answers_do() {
    histories! {
        Regress, ["handed out at 4"]: accepted(1), handed_out(1, 1, 9), got(1, QUEUED);
        Regress, ["its event was heard at 4"]: accepted(1), event(1, 5), ends(Life::Killed), got(1, RUNNING);
    }
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
    histories! {
        OneResult, ["event"]: executed(1, settled(5)), event(1, 6);
        OneResult, ["Watch"]: accepted(1), got(1, settled(5)),
            seen(1, Surface::Watch, entries(1..=3, 3, End::Result(6)));
    }
}

#[test]
fn an_execution_starts_once() {
    histories! {
        OneStart, ["1001", "1000"]: accepted(1), got(1, RUNNING),
            got(1, Answer::State(State::Running { started_at: 1001 }));
    }
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
    histories! {
        OneRequest, ["call 6", "it was accepted: call 2"]: accepted(1),
            submitted_with(1, 0, 2, 2, refused("EXECUTION_ID_IN_USE")), submitted(1, refused("EXECUTION_ID_IN_USE"));
    }
    // Refused first, accepted afterwards.
    let mut told = Told::new();
    let first = told.submit(1);
    let other = told.submit_with(1, 0, 2, 2);
    told.answer(first, refused("EXECUTION_ID_IN_USE"));
    told.checker.lost(other);
    told.submitted(1, QUEUED);
    told.breaks(Rule::OneRequest, &["refused as another one: call 2"]);
    histories! {
        // Nobody sent anything else.
        OneRequest, ["nobody sent another one"]: submitted(1, refused("EXECUTION_ID_IN_USE"));
    }
}

#[test]
fn a_plan_belongs_to_one_execution() {
    histories! {
        OnePlan, ["call 4", "has that plan: call 2"]: accepted(1), submitted_with(2, 0, 1, 2, QUEUED);
        OnePlan, ["this execution has it"]: accepted(1), unanswered(2, 0, 1, 2),
            submitted(1, refused("PLAN_ID_USED"));
        OnePlan, ["nobody else asked for it"]: submitted(1, refused("PLAN_ID_USED"));
    }
}

#[test]
fn nothing_comes_from_nothing() {
    histories! {
        FromNothing, ["nobody asked for it"]: got(1, QUEUED);
        FromNothing, ["nobody asked for that execution"]: handed_out(1, 1, 9);
        FromNothing, ["event"]: event(1, 5);
    }
    for reason in ["INVALID_PAYLOAD", "DEPENDENCY_UNRESOLVED"] {
        let mut told = Told::new();
        told.submitted(1, refused(reason));
        told.got(1, QUEUED);
        told.breaks(Rule::FromNothing, &["refused for good"]);
    }
    histories! {
        // Refused for want of room, absent, and nobody asked again.
        FromNothing, ["absent when nobody was asking for it any more"]: submitted(1, refused("QUEUE_FULL")),
            got(1, Answer::Absent), got(1, QUEUED);
        // Lost, and the life in which it may have arrived is over.
        FromNothing, ["absent"]: unanswered(1, 0, 1, 1), ends(Life::Killed), got(1, Answer::Absent), got(1, QUEUED);
    }
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
    histories! {
        // A settled record outlives its process, and so do the first two entries of any other.
        Entry, ["entry 4"]: accepted(1), seen(1, Surface::Audit, entries(1..=5, 5, End::Now)), ends(Life::PowerCut),
            seen(1, Surface::Audit, changed(3, |entry| entry.hash += 1));
        Entry, ["entry 1"]: accepted(1), seen(1, Surface::Audit, entries(1..=4, 9, End::Now)), ends(Life::PowerCut),
            seen(1, Surface::Audit, changed(0, |entry| entry.hash += 1));
        // What was seen of the record in the life in which it was seen settled is durable.
        Entry, ["entry 4"]: accepted(1), seen(1, Surface::Audit, entries(1..=4, 9, End::Open)), got(1, settled(5)),
            ends(Life::Killed), seen(1, Surface::Audit, changed(3, |entry| entry.hash += 1));
    }
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
    histories! {
        // It shrank.
        Record, ["has 2 entries", "it had 3"]: accepted(1), seen(1, Surface::Audit, with(&[1, 2, 3], 9, End::Now)),
            seen(1, Surface::Audit, with(&[1, 2], 9, End::Now));
        // Entries after the last one.
        Record, ["3 was the last one"]: accepted(1), seen(1, Surface::Audit, with(&[1, 2, 3], 3, End::Now)),
            seen(1, Surface::Watch, entries(4..=4, 9, End::Open));
        // The last one before the end.
        Record, ["entry 4 was seen before"]: accepted(1), seen(1, Surface::Audit, entries(4..=4, 9, End::Open)),
            seen(1, Surface::Audit, with(&[1, 2, 3], 3, End::Now));
        // Settled, and the record does not say so.
        Record, ["ends without `settled`"]: accepted(1), got(1, settled(5)),
            seen(1, Surface::Audit, with(&[1, 2], 9, End::Now));
        // A watch that ends in order before the end.
        Record, ["the watch ended in order before `settled`"]: accepted(1),
            seen(1, Surface::Watch, with(&[1, 2], 9, End::Now));
    }
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
    histories! {
        Regress, ["running before that question", "Audit"]: accepted(1),
            seen(1, Surface::Audit, entries(1..=2, 9, End::Now)), got(1, QUEUED);
        OneStart, ["started at 1000", "at 999"]: accepted(1),
            got(1, Answer::State(State::Running { started_at: 999 })),
            seen(1, Surface::Watch, entries(1..=3, 3, End::Result(5)));
        Lost, ["Audit"]: unanswered(1, 0, 1, 1), seen(1, Surface::Audit, entries(1..=1, 9, End::Now)),
            got(1, Answer::Absent);
    }
}

#[test]
fn an_outcome_is_accepted_once() {
    histories! {
        Outcome, ["accepted at 6, and before at 5"]: accepted(1), handed_out(1, 1, 9), outcome_accepted(9),
            outcome_accepted(9);
        // Two hand-outs of one attempt, two outcomes.
        Outcome, ["with token 0909", "with token 0808"]: accepted(1), handed_out(1, 1, 8), handed_out(1, 1, 9),
            outcome_accepted(8), outcome_accepted(9);
        Outcome, ["no worker was given that token"]: outcome_accepted(9);
    }
}

#[test]
fn a_token_names_one_attempt_and_attempts_count_up() {
    histories! {
        Outcome, ["the token was handed out before"]: accepted(1), handed_out(1, 1, 9), handed_out(1, 2, 9);
    }
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
    histories! {
        HandOut, ["step", "settled: call 4"]: accepted(1), got(1, settled(5)), handed_out(1, 1, 9);
    }
    // It left after the settled answer had come, wherever it was on its way.
    let mut told = Told::new();
    told.accepted(1);
    told.got(1, settled(5));
    let since = told.checker.mark();
    told.checker.arrived(execution(1), step(1), 1, token(9), since);
    told.breaks(Rule::HandOut, &["settled: call 4"]);
    histories! {
        HandOut, ["after its outcome was accepted at 5"]: accepted(1), handed_out(1, 1, 8), outcome_accepted(8),
            handed_out(1, 1, 9);
        HandOut, ["never resumed"]: accepted(1), handed_out(1, 1, 8), ends(Life::Killed), handed_out(1, 1, 9);
    }
}

#[test]
fn the_queue_keeps_its_order() {
    histories! {
        // Of equal priority: first come, first served.
        Order, ["still queued by call 8", "by call 6"]: accepted(1), accepted(2), got(2, RUNNING), got(1, QUEUED);
        // A higher priority goes first, though it came later, through a restart as well.
        Order, ["handed out at"]: accepted(1), accepted_with(2, 5), got(1, QUEUED), ends(Life::Killed),
            handed_out(1, 1, 9), got(2, QUEUED);
    }
}

#[test]
fn starts_by_an_even_clock_keep_the_order() {
    let running = |started_at| Answer::State(State::Running { started_at });
    histories! {
        // First come, first served; nobody looked between the two starts.
        Order, ["started at 1004 by call 6", "started at 1000 by call 8"]: accepted(1), accepted(2),
            got(1, running(1004)), got(2, running(1000)), starts_must_be_in_order();
        // A higher priority that came later, while the lower one was queued yet.
        Order, ["started at 1004", "started at 1000"]: accepted(1), accepted_with(2, 5), got(1, QUEUED),
            got(1, running(1000)), got(2, running(1004)), starts_must_be_in_order();
    }
}

#[test]
fn who_waits_for_a_result_gets_nothing_else() {
    histories! {
        EndsOnce, ["who waits for a result was told"]: executed(1, RUNNING);
    }
}

#[test]
fn every_accepted_execution_ends() {
    histories! {
        EndsOnce, ["never seen settled: call 2"]: accepted(1), accepted(2), got(2, settled(5)), all_must_be_settled();
    }
}

#[test]
fn a_list_misses_nothing_and_shows_nothing_older() {
    let all = |executions: Vec<(u8, State)>| Answer::Listed {
        executions: executions
            .into_iter()
            .map(|(n, state)| (execution(n), state))
            .collect(),
        is_complete: true,
    };
    histories! {
        Lost, ["not in the list of call 4"]: accepted(1), listed(all(vec![]));
        Regress, ["accepted by call 6 (List)"]: accepted(1), got(1, settled(5)),
            listed(all(vec![(1, State::Queued)]));
        Record, ["listed twice"]: accepted(1), listed(all(vec![(1, State::Queued), (1, State::Ended)]));
    }
}

#[test]
fn what_was_removed_stays_removed() {
    histories! {
        Regress, ["removed before that question"]: accepted(1), got(1, settled(5)),
            got(1, Answer::State(State::Removed)), got(1, settled(5));
    }
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
    histories! {
        Entry, ["entry 4 was taken back", "it is there"]: accepted(1),
            seen(1, Surface::Audit, entries(1..=5, 99, End::Now)),
            went_on(1, entry(4, 99), refused("RECORD_REWRITTEN"));
    }
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
