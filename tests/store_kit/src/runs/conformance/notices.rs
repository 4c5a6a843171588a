//! Notices, and definitions that change with a batch.

use escapement_model::Namespace;

use bytes::Bytes;

use super::{Make, ReopenableRuns, RunSample, reader};
use escapement_store::runs::limits::{NOTICE_AGE_MS_MAX, NOTICES_PER_STREAM_MAX};
use escapement_store::runs::{BatchOutcome, NewNotice, RunBatch};
use escapement_store::runs::{
    DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite, ExpectedVersion,
};

fn notice(stream: &str, at: i64, record: &str) -> NewNotice {
    NewNotice {
        stream: stream.to_owned(),
        at,
        record: Bytes::copy_from_slice(record.as_bytes()),
        kept_max: NOTICES_PER_STREAM_MAX,
    }
}

/// A run of its own for each batch of notices.
fn told(subject: &mut dyn ReopenableRuns, seed: u64, notices: Vec<NewNotice>) {
    let mut write = RunSample::new(seed).create();
    write.notices = notices;
    let mut batch = RunBatch::new();
    batch.add(write);
    let outcome = subject.store().commit(&batch).expect("it is taken");
    assert_eq!(outcome, BatchOutcome::Done);
}

/// A reader that comes back knows whether everything behind its number is still there, whatever went and whyever.
pub(super) fn what_went_from_a_stream_is_known_by_its_numbers(make: Make<'_>) {
    let mut subject = make();
    let until = |subject: &mut dyn ReopenableRuns, stream: &str, number: u64| {
        reader(subject).notices_until(stream, number).expect("it reads")
    };
    assert_eq!(until(subject.as_mut(), "a", 0), Some(0), "nothing was told yet");
    assert_eq!(
        until(subject.as_mut(), "a", 1),
        None,
        "no notice has had this number"
    );
    let few = |at| NewNotice {
        kept_max: 3,
        ..notice("a", at, "x")
    };
    // 1 is b's, 2 to 6 are a's, of which 4 to 6 are kept; 7 is b's.
    let mut notices = vec![notice("b", 0, "y")];
    notices.extend((0..5).map(few));
    notices.push(notice("b", 0, "y"));
    told(subject.as_mut(), 1, notices);
    subject.reopen();
    for (stream, number, expected) in [
        ("a", 0, None),
        ("a", 3, None),
        ("a", 4, Some(3)),
        ("a", 6, Some(5)),
        ("a", 7, Some(5)),
        ("a", 8, None),
        ("b", 0, Some(0)),
        ("b", 6, Some(1)),
        ("c", 0, Some(0)),
        ("c", 7, Some(0)),
    ] {
        assert_eq!(
            until(subject.as_mut(), stream, number),
            expected,
            "{stream} {number}"
        );
    }
    // All of it is old, and goes with what comes: 8 to 20 are c's. Then a begins anew with 21.
    let late = NOTICE_AGE_MS_MAX + 10;
    told(
        subject.as_mut(),
        2,
        (0..13).map(|_| notice("c", late, "z")).collect(),
    );
    assert_eq!(until(subject.as_mut(), "a", 6), None, "nothing is left of it");
    assert_eq!(
        until(subject.as_mut(), "a", 7),
        Some(0),
        "all that went came before"
    );
    told(subject.as_mut(), 3, vec![few(late)]);
    for (number, expected) in [(6, None), (7, Some(0)), (20, Some(0)), (21, Some(1))] {
        assert_eq!(until(subject.as_mut(), "a", number), expected, "{number}");
    }
}

/// A clock that went back keeps what came in between: what is left of a stream is its end.
pub(super) fn what_came_behind_a_young_notice_stays(make: Make<'_>) {
    let mut subject = make();
    let late = NOTICE_AGE_MS_MAX + 10;
    told(
        subject.as_mut(),
        1,
        vec![
            notice("b", late, "young"),
            notice("a", 0, "old"),
            notice("a", late, "young"),
        ],
    );
    let kept = reader(subject.as_mut()).notices("a", 0, 10).expect("it reads");
    assert_eq!(kept.len(), 2);
}

/// Notices have numbers in the order in which they came, and a reader goes on behind one, also after a restart.
pub(super) fn notices_are_read_by_stream_behind_a_number(make: Make<'_>) {
    let mut subject = make();
    for (seed, streams) in [(1, ["a", "b"]), (2, ["b", "a"])] {
        let mut write = RunSample::new(seed).create();
        write.notices = streams
            .map(|stream| notice(stream, 1, &format!("{stream}{seed}")))
            .into();
        let mut batch = RunBatch::new();
        batch.add(write);
        assert_eq!(
            subject.store().commit(&batch).expect("it is taken"),
            BatchOutcome::Done
        );
    }
    subject.reopen();
    let mut read = |stream: &str, after: u64| {
        let notices = reader(subject.as_mut())
            .notices(stream, after, 10)
            .expect("it reads");
        let told = notices.into_iter();
        told.map(|it| (it.number, String::from_utf8(it.record.to_vec()).expect("a text")))
            .collect::<Vec<_>>()
    };
    assert_eq!(read("a", 0), [(1, "a1".to_owned()), (4, "a2".to_owned())]);
    assert_eq!(read("b", 2), [(3, "b2".to_owned())]);
    assert_eq!(read("c", 0), []);
    assert_eq!(
        reader(subject.as_mut()).last_numbers().expect("it reads").notice,
        4
    );
}

/// Of each stream the newest are kept, and what is old goes with what comes; numbers go on.
pub(super) fn a_stream_is_bounded_by_number_and_by_age(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(1);
    let mut write = sample.create();
    let n = NOTICES_PER_STREAM_MAX + 7;
    write.notices = (0..n).map(|at| notice("a", at.cast_signed(), "x")).collect();
    write.notices.push(notice("b", 0, "old"));
    let mut batch = RunBatch::new();
    batch.add(write);
    subject.store().commit(&batch).expect("it is taken");
    let kept = reader(subject.as_mut()).notices("a", 0, 5_000).expect("it reads");
    assert_eq!(kept.len() as u64, NOTICES_PER_STREAM_MAX);
    assert_eq!(kept[0].number, 8);
    let mut write = RunSample::new(2).create();
    write.notices = (0..600)
        .map(|_| notice("c", NOTICE_AGE_MS_MAX + 5_000, "new"))
        .collect();
    let mut batch = RunBatch::new();
    batch.add(write);
    subject.store().commit(&batch).expect("it is taken");
    for (stream, wanted) in [("a", 0), ("b", 0), ("c", 600)] {
        let kept = reader(subject.as_mut())
            .notices(stream, 0, 5_000)
            .expect("it reads");
        assert_eq!(kept.len(), wanted, "{stream}");
    }
    assert_eq!(
        reader(subject.as_mut()).last_numbers().expect("it reads").notice,
        n + 601
    );
}

/// A definition changes with the runs of its batch, or not at all.
pub(super) fn a_definition_changes_with_its_batch(make: Make<'_>) {
    let mut subject = make();
    let put = |text: &str| DefinitionWrite {
        kind: DefinitionKind::Session,
        name: "s".to_owned(),
        expected: ExpectedVersion::Any,
        change: DefinitionChange::Put(DefinitionPut {
            namespace: Namespace::default(),
            owner: Some("ada".to_owned()),
            priority: 0,
            at: 1,
            record: Bytes::copy_from_slice(text.as_bytes()),
            contents: Vec::new(),
            pinned: Vec::new(),
        }),
    };
    let sample = RunSample::new(1);
    let mut batch = RunBatch::new();
    batch.define(put("one"));
    batch.define(put("two"));
    batch.add(sample.create());
    assert_eq!(
        subject.store().commit(&batch).expect("it is taken"),
        BatchOutcome::Done
    );
    subject.reopen();
    let found = reader(subject.as_mut()).definition(DefinitionKind::Session, "s");
    let found = found.expect("it reads").expect("it is there");
    assert_eq!((&found.record[..], found.version), (&b"two"[..], 1));
    let mut batch = RunBatch::new();
    batch.define(put("three"));
    batch.add(sample.create());
    let refused = subject.store().commit(&batch).expect("it is looked at");
    assert!(matches!(refused, BatchOutcome::Refused { .. }), "{refused:?}");
    let found = reader(subject.as_mut()).definition(DefinitionKind::Session, "s");
    assert_eq!(&found.expect("it reads").expect("it is there").record[..], b"two");
    let mut batch = RunBatch::new();
    batch.define(DefinitionWrite {
        change: DefinitionChange::Delete,
        ..put("")
    });
    assert!(!batch.is_empty());
    subject.store().commit(&batch).expect("it is taken");
    let found = reader(subject.as_mut()).definition(DefinitionKind::Session, "s");
    assert!(found.expect("it reads").is_none());
}
