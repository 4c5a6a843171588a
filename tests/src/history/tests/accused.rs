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
