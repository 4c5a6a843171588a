//! Histories that look bad and are legal: overlap, lost answers, crashes.

use super::told::{QUEUED, RUNNING, Told, settled};
use crate::history::{Answer, Life, Surface};

#[test]
fn answers_to_questions_that_overlap_may_come_in_any_order() {
    let mut told = Told::new();
    told.accepted(1);
    let early = told.look(1, Surface::Get);
    let late = told.look(1, Surface::Wait);
    told.answer(late, settled(5));
    told.answer(early, RUNNING);
    told.got(1, settled(5));
    told.is_legal();
}

#[test]
fn a_submission_without_an_answer_may_be_absent_and_may_be_accepted() {
    let mut told = Told::new();
    let call = told.submit(1);
    told.got(1, Answer::Absent);
    told.checker.lost(call);
    told.got(1, Answer::Absent);
    told.got(1, QUEUED);
    let call = told.submit(2);
    told.checker.lost(call);
    told.ends(Life::Killed);
    told.got(2, Answer::Absent);
    told.is_legal();
}
