//! Stories about what operators did. Checks no hash but by its own sum.

use escapement_model::BootId;
use sha2::{Digest, Sha256};

use super::{Make, Sample, commit, reader};
use escapement_store::{
    Conflict, OperatorAction, OperatorDeed, OperatorEntry, OperatorFilter, OperatorIntent, OperatorWrite,
    Outcome, Write,
};

fn intent(name: &str, rpc: &str) -> OperatorDeed {
    OperatorDeed::Intent(OperatorIntent {
        name: name.to_owned(),
        kind: "token".to_owned(),
        issuer: String::new(),
        peer: "127.0.0.1:1".to_owned(),
        rpc: rpc.to_owned(),
        request: "{}".to_owned(),
    })
}

fn outcome(intent: u64) -> OperatorDeed {
    OperatorDeed::Outcome {
        intent,
        outcome: format!("{{\"of\":{intent}}}"),
    }
}

fn write(at: i64, deed: OperatorDeed, keep_from: Option<i64>) -> Write {
    Write::Operator(OperatorWrite {
        at,
        boot_id: BootId::new([7; 16]),
        deed,
        keep_from,
    })
}

/// The hash that an entry must have, by the words of its documentation.
fn expected_hash(entry: &OperatorEntry) -> Vec<u8> {
    let mut bytes = entry.previous_hash.to_vec();
    bytes.extend(entry.number.to_be_bytes());
    bytes.extend(entry.at.to_be_bytes());
    bytes.extend([7; 16]);
    let (of, texts) = match &entry.deed {
        OperatorDeed::Intent(it) => (
            0,
            vec![&it.name, &it.kind, &it.issuer, &it.peer, &it.rpc, &it.request],
        ),
        OperatorDeed::Outcome { intent, outcome } => (*intent, vec![outcome]),
    };
    bytes.extend(of.to_be_bytes());
    for text in texts {
        bytes.extend(u32::try_from(text.len()).expect("short").to_be_bytes());
        bytes.extend(text.as_bytes());
    }
    Sha256::digest(bytes).to_vec()
}

/// The chain through these acts, from the first entry on.
fn assert_chained(actions: &[OperatorAction], first: u64, previous_hash: [u8; 32]) {
    let outcomes = actions.iter().filter_map(|action| action.outcome.as_ref());
    let mut entries: Vec<_> = actions
        .iter()
        .map(|action| &action.intent)
        .chain(outcomes)
        .collect();
    entries.sort_by_key(|entry| entry.number);
    let (mut number, mut last) = (first, previous_hash);
    for entry in entries {
        assert_eq!((entry.number, entry.previous_hash), (number, last));
        assert_eq!(entry.hash.to_vec(), expected_hash(entry));
        (number, last) = (number + 1, entry.hash);
    }
}

pub(super) fn acts_are_listed_with_their_outcomes(make: Make<'_>) {
    let mut subject = make();
    let sample = Sample::new(400);
    let batch = [
        write(10, intent("anna", "Drain"), None),
        sample.accept(),
        write(11, intent("bo", "Forget"), None),
    ];
    let done = |number| Outcome::Done { number };
    assert_eq!(commit(&mut *subject, &batch), [done(1), done(1), done(2)]);
    subject.reopen();
    assert_eq!(commit(&mut *subject, &[write(12, outcome(1), None)]), [done(3)]);
    commit(&mut *subject, &[write(13, intent("anna", "Forget"), None)]);
    subject.reopen();
    let reader = reader(&mut *subject);
    let list = |filter: OperatorFilter, before, limit| {
        let actions = reader.operator_actions(&filter, before, limit).expect("reads");
        actions
            .iter()
            .map(|action| action.intent.number)
            .collect::<Vec<_>>()
    };
    let all = OperatorFilter::default;
    let name = Some("anna".to_owned());
    let rpc = Some("Forget".to_owned());
    assert_eq!(list(all(), None, 10), [4, 2, 1]);
    assert_eq!(list(all(), None, 1), [4]);
    assert_eq!(list(all(), Some(4), 1), [2]);
    assert_eq!(list(OperatorFilter { name, ..all() }, None, 10), [4, 1]);
    assert_eq!(list(OperatorFilter { rpc, ..all() }, None, 10), [4, 2]);
    assert_eq!(
        list(
            OperatorFilter {
                is_open: true,
                ..all()
            },
            None,
            10
        ),
        [4, 2]
    );
    let actions = reader.operator_actions(&all(), None, 10).expect("reads");
    assert_eq!(actions[0].intent.deed, intent("anna", "Forget"));
    assert_eq!(
        actions[2].outcome.as_ref().map(|entry| entry.deed.clone()),
        Some(outcome(1))
    );
    assert_chained(&actions, 1, [0; 32]);
    assert_eq!(reader.counts().expect("reads").accepted(), 1);
}

pub(super) fn an_act_has_one_outcome(make: Make<'_>) {
    let mut subject = make();
    let batch = [
        write(1, outcome(1), None),
        write(1, intent("anna", "Drain"), None),
        write(1, outcome(1), None),
        write(1, outcome(1), None),
        write(1, outcome(2), None),
        write(1, intent("anna", "Drain"), None),
    ];
    let expected = [
        Outcome::Conflict(Conflict::NotFound),
        Outcome::Done { number: 1 },
        Outcome::Done { number: 2 },
        Outcome::Conflict(Conflict::AlreadySettled),
        Outcome::Conflict(Conflict::NotFound),
        Outcome::Done { number: 3 },
    ];
    assert_eq!(commit(&mut *subject, &batch), expected);
}

pub(super) fn old_entries_go_and_the_newest_stays(make: Make<'_>) {
    let mut subject = make();
    let batch: Vec<Write> = (1..=100)
        .map(|at| write(at, intent("anna", "Drain"), None))
        .collect();
    commit(&mut *subject, &batch);
    let kept = |subject: &mut dyn super::ReopenableStore| {
        let all = OperatorFilter::default();
        reader(subject).operator_actions(&all, None, 1000).expect("reads")
    };
    let hash_of_64 = kept(&mut *subject)[100 - 64].intent.hash;
    // A bounded number with each write.
    commit(&mut *subject, &[write(101, intent("anna", "Drain"), Some(1000))]);
    assert_eq!(kept(&mut *subject).len(), 37);
    assert_chained(&kept(&mut *subject), 65, hash_of_64);
    commit(&mut *subject, &[write(102, intent("anna", "Drain"), Some(1000))]);
    assert_eq!(kept(&mut *subject).len(), 1);
    subject.reopen();
    // What is not old stays, and so does what stands behind it.
    commit(&mut *subject, &[write(50, intent("anna", "Drain"), Some(102))]);
    commit(&mut *subject, &[write(103, intent("anna", "Drain"), Some(102))]);
    assert_eq!(kept(&mut *subject).len(), 3);
    assert_eq!(kept(&mut *subject)[0].intent.number, 104);
}
