//! What somebody does who means it: entries swapped, taken out, doubled and put in, parts of two records joined,
//! and every hash computed anew. The chain finds the first, only the replay the last.

use crate::corpus;
use crate::readers;
use bytes::Bytes;
use escapement_tests::Dice;
use escapement_tests::chain::{self, Kind};
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;
use prost::Message;

/// Content and kind of each frame but the last.
type Parts = Vec<(Kind, Vec<u8>)>;

/// The first entry stands behind the header and the request.
const FIRST: usize = 2;

fn n_entries(parts: &Parts) -> usize {
    parts.iter().filter(|(kind, _)| *kind == Kind::Entry).count()
}

/// Both readers find something, and name this entry first.
fn assert_named(parts: &Parts, entry: usize, what: &str) {
    let file = readers::file_of(parts);
    for said in [readers::orchestrator(&file), readers::second(&file)] {
        assert_eq!(said.entry, Some(entry as u64), "{what}: {said:#?}");
    }
}

fn assert_found(parts: &Parts, what: &str) {
    let file = readers::file_of(parts);
    for said in [readers::orchestrator(&file), readers::second(&file)] {
        assert!(!said.is_good(), "{what}");
    }
}

//
#[test]
fn an_entry_that_is_swapped_taken_out_doubled_or_put_in_is_named() {
    for (name, file) in corpus::all() {
        let parts = readers::parts(&file);
        let n = n_entries(&parts);
        let stranger = readers::parts(&corpus::all()["success"])[FIRST + 1].clone();
        for at in 0..n {
            let mut swapped = parts.clone();
            let other = (at + 1) % n;
            swapped.swap(FIRST + at, FIRST + other);
            assert_named(
                &swapped,
                at.min(other) + 1,
                &format!("{name}: {at} and {other} swapped"),
            );

            let mut shorter = parts.clone();
            shorter.remove(FIRST + at);
            assert_named(&shorter, at + 1, &format!("{name}: {at} taken out"));

            let mut doubled = parts.clone();
            doubled.insert(FIRST + at, doubled[FIRST + at].clone());
            assert_named(&doubled, at + 2, &format!("{name}: {at} doubled"));

            let mut longer = parts.clone();
            longer.insert(FIRST + at, stranger.clone());
            if longer[FIRST + at] != parts[FIRST + at] {
                assert_named(&longer, at + 1, &format!("{name}: one put in before {at}"));
            }
        }
    }
}

//
#[test]
fn parts_of_two_records_do_not_fit_together() {
    let all = corpus::all();
    let names: Vec<&String> = all.keys().collect();
    for (n, name) in names.iter().enumerate() {
        let parts = readers::parts(&all[*name]);
        let others = readers::parts(&all[names[(n + 1) % names.len()]]);
        for kind in [
            Kind::Header,
            Kind::Accepted,
            Kind::Inputs,
            Kind::Result,
            Kind::Seal,
        ] {
            let place = |parts: &Parts| parts.iter().position(|(of, _)| *of == kind).unwrap();
            let mut mixed = parts.clone();
            mixed[place(&parts)] = others[place(&others)].clone();
            assert_found(&mixed, &format!("{name} with another {kind:?}"));
        }
        let mut mixed: Parts = parts
            .iter()
            .filter(|(kind, _)| *kind != Kind::Entry)
            .cloned()
            .collect();
        let entries = others.iter().filter(|(kind, _)| *kind == Kind::Entry).cloned();
        mixed.splice(FIRST..FIRST, entries);
        assert_named(&mixed, 1, &format!("{name} with the entries of another"));
    }
}

//
#[test]
fn inputs_and_seal_are_not_taken_out_unseen() {
    for (name, file) in corpus::all() {
        let parts = readers::parts(&file);
        for gone in [&[Kind::Inputs][..], &[Kind::Seal], &[Kind::Inputs, Kind::Seal]] {
            let rest: Parts = parts
                .iter()
                .filter(|(kind, _)| !gone.contains(kind))
                .cloned()
                .collect();
            let said = readers::orchestrator(&readers::file_of(&rest));
            assert!(!said.is_good(), "{name} without {gone:?}");
        }
    }
}

/// Somebody changes one part and computes every hash anew.
fn forge(file: &Bytes, change: impl FnOnce(&mut Parts)) -> Bytes {
    let mut parts = readers::parts(file);
    change(&mut parts);
    chain::rehash(&mut parts);
    readers::file_of(&parts)
}

/// The chain holds, and the replay does not.
fn assert_forged(name: &str, forged: &Bytes, entry: Option<u64>) {
    let second = readers::second(forged);
    assert!(second.is_good(), "{name}: the hashes fit: {second:#?}");
    let said = readers::orchestrator(forged);
    assert!(!said.is_good(), "{name}: the core decides something else");
    if entry.is_some() {
        assert_eq!(said.entry, entry, "{name}: {said:#?}");
    }
}

#[test]
fn hashes_that_are_computed_anew_are_the_same_where_nothing_has_changed() {
    for (name, file) in corpus::all() {
        assert_eq!(forge(&file, |_| {}), file, "{name}");
    }
}

//
#[test]
fn a_consistent_forgery_of_an_entry_is_found_by_the_replay() {
    for (name, file) in corpus::all() {
        let n = n_entries(&readers::parts(&file));
        for at in 0..n {
            let forged = forge(&file, |parts| change_entry(&mut parts[FIRST + at].1));
            // The time and the deadline of the first entry are what the replay begins with.
            let expected = (at > 0).then_some(at as u64 + 1);
            if expected.is_some() {
                assert_forged(&name, &forged, expected);
            }
        }
        let shorter = forge(&file, |parts| {
            parts.remove(FIRST + 1);
        });
        assert!(!readers::orchestrator(&shorter).is_good(), "{name}");
    }
}

/// Another time, which no replay leads to.
fn change_entry(content: &mut Vec<u8>) {
    let mut entry = v1::AuditEntry::decode(content.as_slice()).unwrap();
    entry.at += 1;
    *content = entry.encode_to_vec();
}

//
#[test]
fn a_consistent_forgery_of_a_result_is_found_by_the_replay() {
    let changes: [fn(&mut v1::PlanResult); 5] = [
        |result| result.completed_at += 1,
        |result| result.steps_executed += 1,
        |result| result.plan_id = result.execution_id.clone(),
        |result| result.status = 3 - result.status % 3,
        |result| {
            result.error = match result.error.take() {
                Some(_) => None,
                None => Some(v1::ExecutionError::default()),
            };
        },
    ];
    for (name, file) in corpus::all() {
        for change in changes {
            let forged = forge(&file, |parts| {
                let (_, content) = parts.iter_mut().find(|(kind, _)| *kind == Kind::Result).unwrap();
                let mut result = v1::PlanResult::decode(content.as_slice()).unwrap();
                change(&mut result);
                *content = result.encode_to_vec();
            });
            if forged != file {
                assert!(!readers::orchestrator(&forged).is_good(), "{name}");
            }
        }
    }
}

//
#[test]
fn a_consistent_forgery_of_the_inputs_is_found_by_the_replay() {
    for (name, file) in corpus::all() {
        let inputs_of = |parts: &Parts| {
            let (_, content) = parts.iter().find(|(kind, _)| *kind == Kind::Inputs).unwrap();
            v1::ExecutionInputs::decode(content.as_slice()).unwrap()
        };
        let n = inputs_of(&readers::parts(&file)).inputs.len();
        for at in 0..n {
            let forged = forge(&file, |parts| {
                let mut inputs = inputs_of(parts);
                inputs.inputs.remove(at);
                put_inputs(parts, &inputs);
            });
            assert_forged(&format!("{name} without input {at}"), &forged, None);
        }
        let forged = forge(&file, |parts| {
            let mut inputs = inputs_of(parts);
            inputs.decisions[7] ^= 1;
            put_inputs(parts, &inputs);
        });
        assert_forged(&format!("{name} with other decisions"), &forged, None);
    }
}

/// A log that was cut off for want of room is compared as far as it goes, so nobody may cut one off who has room.
//
#[test]
fn inputs_that_somebody_cut_off_are_not_taken_for_too_many() {
    for (name, file) in corpus::all() {
        let forged = forge(&file, |parts| {
            let (_, content) = parts.iter().find(|(kind, _)| *kind == Kind::Inputs).unwrap();
            let mut inputs = v1::ExecutionInputs::decode(content.as_slice()).unwrap();
            inputs.inputs.clear();
            inputs.decisions = vec![0; 32];
            inputs.truncated = true;
            put_inputs(parts, &inputs);
        });
        assert_forged(&name, &forged, None);
    }
}

fn put_inputs(parts: &mut Parts, inputs: &v1::ExecutionInputs) {
    let (_, content) = parts.iter_mut().find(|(kind, _)| *kind == Kind::Inputs).unwrap();
    *content = inputs.encode_to_vec();
}

/// What no replay can find: a run that never was, told without a contradiction. Only a seal that is kept elsewhere shows it.
#[test]
fn a_forgery_of_output_and_result_together_shows_in_the_seal_alone() {
    let file = &corpus::all()["success"];
    let forged = forge(file, |parts| {
        let (_, content) = parts.iter_mut().find(|(kind, _)| *kind == Kind::Result).unwrap();
        let mut result = v1::PlanResult::decode(content.as_slice()).unwrap();
        let payload = result.result_payload.as_mut().unwrap();
        let mut object = escapement_wire::json::from_opaque(payload).unwrap();
        for output in object.values_mut() {
            *output = serde_json::json!({ "done": "never" });
        }
        *payload = escapement_wire::json::to_opaque(&object);
        *content = result.encode_to_vec();
    });
    assert!(readers::second(&forged).is_good());
    assert!(
        readers::orchestrator(&forged).is_good(),
        "{:#?}",
        readers::orchestrator(&forged)
    );
    assert_ne!(chain::check(&forged).seal, chain::check(file).seal);
}

/// Bytes in any disorder: both readers say so, and neither falls over.
#[test]
fn mutants_of_records_are_read_without_a_panic() {
    let all: Vec<Bytes> = corpus::all().into_values().collect();
    let mut dice = Dice::new(11);
    for _ in 0..1_500 {
        let mut bytes = dice.pick(&all).to_vec();
        let mut parts = readers::parts(&bytes);
        let mends = dice.percent(60);
        for _ in 0..=dice.roll(3) {
            let content = match mends {
                // Inside a part, so that the hashes around it can be made to fit.
                true => {
                    let at = dice.roll(parts.len() as u64) as usize;
                    &mut parts[at].1
                }
                false => &mut bytes,
            };
            mutate(&mut dice, content);
        }
        if mends {
            chain::rehash(&mut parts);
            bytes = readers::file_of(&parts).to_vec();
        }
        let bytes = Bytes::from(bytes);
        let (first, second) = (readers::orchestrator(&bytes), readers::second(&bytes));
        // What holds for a reader that replays holds for one that does not.
        // But for ids in capital letters: callers may give them, what is written has none, and the second reader insists on that.
        let has_capitals = second
            .findings
            .iter()
            .any(|found| found.contains("is no id") || found.contains("the execution id is none"));
        if first.is_good() && !has_capitals {
            assert!(second.is_good(), "{second:#?}");
        }
    }
}

fn mutate(dice: &mut Dice, content: &mut Vec<u8>) {
    if content.is_empty() {
        return;
    }
    let at = dice.roll(content.len() as u64) as usize;
    match dice.roll(5) {
        0 => content[at] ^= 1 << dice.roll(8),
        1 => content[at] = dice.roll(256) as u8,
        2 => content.truncate(at),
        3 => {
            let to = (at + dice.roll(9) as usize).min(content.len());
            content.drain(at..to);
        }
        _ => {
            let to = (at + dice.roll(30) as usize).min(content.len());
            let piece = content[at..to].to_vec();
            content.splice(at..at, piece);
        }
    }
}

/// An execution that never started has no step in its record.
#[test]
fn what_never_ran_has_no_attempt_in_its_record() {
    for name in ["failure-in-the-queue", "failure-for-want-of-context"] {
        let parts = readers::parts(&corpus::all()[name]);
        let entries = parts.iter().filter(|(kind, _)| *kind == Kind::Entry);
        for (_, content) in entries {
            let entry = v1::AuditEntry::decode(content.as_slice()).unwrap();
            assert!(!matches!(entry.event, Some(Event::StepWaiting(_))), "{name}");
        }
    }
}
