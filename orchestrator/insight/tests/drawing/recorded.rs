//! Exported records: what random executions did is what is drawn, and a record that was changed is not drawn.

use super::markup::well_formed;
use escapement_codec::archive::file::pieces;
use escapement_contract::{AuditKind, NotCompleted, Settlement};
use escapement_fuzz::{Mutator, execution};
use escapement_insight::scene::{Activity, Outcome, Scene, State};
use escapement_insight::{View, read, svg, text};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How random executions ended, with their files.
fn files(n: u64) -> impl Iterator<Item = (Arc<Settlement>, Vec<u8>)> {
    (0..n).filter_map(|seed| {
        let (settlement, archive) = execution::archived(&Mutator::new(seed).any())?;
        Some((settlement, pieces(archive).flatten().collect()))
    })
}

/// A file with more than one step that is not large.
fn file() -> Vec<u8> {
    let mut files = files(100).map(|(_, file)| file);
    let found = files.find(|file| (2_000..6_000).contains(&file.len()));
    found.expect("one of them is")
}

/// What the record says of each step, told in another way than the drawing tells it.
fn expected(settlement: &Settlement) -> BTreeMap<String, (State, u32)> {
    let mut expected = BTreeMap::new();
    for entry in &settlement.audit {
        match &entry.kind {
            AuditKind::StepWaiting { step_id, attempt } => {
                expected.insert(step_id.to_string(), (State::Stopped, attempt - 1));
            }
            AuditKind::AttemptAssigned { step_id, attempt, .. } => {
                expected.insert(step_id.to_string(), (State::Stopped, *attempt));
            }
            AuditKind::StepCompleted {
                step_id, attempts, ..
            } => {
                expected.insert(step_id.to_string(), (State::Completed, *attempts));
            }
            AuditKind::StepNotCompleted {
                step_id,
                attempts,
                reason,
                ..
            } => {
                let state = if *reason == NotCompleted::Skipped {
                    State::Skipped
                } else {
                    State::Failed
                };
                expected.insert(step_id.to_string(), (state, *attempts));
            }
            _ => {}
        }
    }
    expected
}

#[test]
fn what_random_executions_did_is_what_is_drawn() {
    let mut seen = BTreeMap::new();
    for (settlement, file) in files(200) {
        let scene = read(&file, None).unwrap();
        let expected = expected(&settlement);
        for step in &scene.steps {
            let (state, n_attempts) = expected
                .get(&step.id.to_string())
                .copied()
                .unwrap_or((State::NeverRan, 0));
            assert_eq!((step.state, step.n_attempts), (state, n_attempts), "{step:?}");
            *seen.entry(state.as_str()).or_insert(0) += 1;
        }
        spans_fit(&scene, &settlement);
        well_formed(&svg(&scene, View::Both, 1_280));
        let drawing = text(&scene, View::Both, 80);
        let status = settlement.result.status.as_str();
        assert!(drawing.lines().nth(1).unwrap().starts_with(status), "{drawing}");
    }
    assert_eq!(
        seen.len(),
        5,
        "every state that a record can have was seen: {seen:?}"
    );
}

/// A step does one thing at a time, and each hand-out to a worker is one bar.
fn spans_fit(scene: &Scene, settlement: &Settlement) {
    let story = scene.story.as_ref().unwrap();
    for pair in story.spans.windows(2).filter(|pair| pair[0].step == pair[1].step) {
        assert!(pair[0].to_ms <= pair[1].from_ms, "{pair:?}");
    }
    assert!(story.spans.iter().all(|span| span.to_ms <= story.duration_ms));
    let n_running = story
        .spans
        .iter()
        .filter(|span| span.activity == Activity::Running)
        .count();
    let is_hand_out = |kind: &AuditKind| matches!(kind, AuditKind::AttemptAssigned { .. });
    assert_eq!(
        n_running,
        settlement
            .audit
            .iter()
            .filter(|entry| is_hand_out(&entry.kind))
            .count()
    );
    let n_failed = story
        .spans
        .iter()
        .filter(|span| matches!(span.outcome, Outcome::Failed(_)))
        .count();
    let failed = |kind: &AuditKind| matches!(kind, AuditKind::AttemptFailed { .. });
    assert!(
        n_failed
            <= settlement
                .audit
                .iter()
                .filter(|entry| failed(&entry.kind))
                .count()
    );
}

#[test]
fn a_record_that_was_changed_is_not_drawn() {
    let whole = file();
    assert!(read(&whole, None).is_ok());
    for at in (25..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        let problem = read(&changed, None).expect_err("it is refused").0;
        assert!(
            problem.contains("not as it was written") && problem.contains("orchestrator verify"),
            "{problem}"
        );
    }
    for n_bytes in (25..whole.len()).step_by(11) {
        assert!(read(&whole[..n_bytes], None).is_err(), "{n_bytes}");
    }
}

#[test]
fn a_record_holds_its_plan_and_takes_no_other() {
    let problem = read(&file(), Some(b"{}")).expect_err("it is refused").0;
    assert!(problem.contains("leave --plan out"), "{problem}");
}

#[test]
fn pieces_in_json_that_are_no_record_are_refused() {
    for (input, expected) in [
        (r#"{"data": "!"}"#, "data: invalid base64"),
        (r#"{"data": "AAAA"}"#, "this is no record file"),
        (r#"{"data": 7}"#, "data: invalid type"),
    ] {
        let problem = read(input.as_bytes(), None).expect_err("it is refused").0;
        assert!(problem.contains(expected), "{problem}");
    }
}
