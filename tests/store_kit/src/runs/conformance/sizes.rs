//! Stories about the largest that a store holds, and what is larger.

use bytes::Bytes;

use super::{Make, RunSample, batch, commit, reader, refused, stored};
use escapement_store::runs::limits::{
    CONTENT_BYTES_MAX, DEFINITION_BYTES_MAX, ENTRIES_MAX, ENTRY_BYTES_MAX, INPUT_REQUEST_BYTES_MAX,
    NAME_BYTES_MAX, NOTICE_BYTES_MAX, SNAPSHOT_BYTES_MAX,
};
use escapement_store::runs::{
    BatchOutcome, ClientRequest, Content, DefinitionChange, DefinitionKind, DefinitionOutcome, DefinitionPut,
    DefinitionWrite, ExpectedVersion, NewNotice, RunConflict, RunWrite, Snapshot,
};

/// The first write of a run with one part of that many bytes.
type Grown = (usize, fn(RunWrite, usize) -> RunWrite);

/// Each part of a write, with its bound.
const PARTS: [Grown; 8] = [
    (ENTRY_BYTES_MAX, |write, n| RunWrite {
        entries: vec![bytes(n)],
        ..write
    }),
    (SNAPSHOT_BYTES_MAX, |write, n| RunWrite {
        snapshot: Some(Snapshot {
            seq: 1,
            bytes: bytes(n),
        }),
        ..write
    }),
    (CONTENT_BYTES_MAX, |write, n| RunWrite {
        contents: vec![Content::new(bytes(n))],
        ..write
    }),
    (INPUT_REQUEST_BYTES_MAX, |mut write, n| {
        write.opened[0].record = bytes(n);
        write
    }),
    (NOTICE_BYTES_MAX, |write, n| RunWrite {
        notices: vec![notice("stream".to_owned(), n)],
        ..write
    }),
    (NAME_BYTES_MAX, |write, n| RunWrite {
        notices: vec![notice(name(n), 1)],
        ..write
    }),
    (NAME_BYTES_MAX, |mut write, n| {
        write.opened[0].owner = Some(name(n));
        if let Some(created) = &mut write.created {
            created.owner = Some(name(n));
        }
        write
    }),
    (NAME_BYTES_MAX, |write, n| RunWrite {
        requests: vec![ClientRequest {
            key: name(n),
            digest: [7; 32],
        }],
        ..write
    }),
];

pub(super) fn what_is_too_large_is_refused_alone(make: Make<'_>) {
    let mut subject = make();
    for (n, (max, grow)) in (1..).zip(PARTS) {
        let (large, other) = (RunSample::new(2 * n), RunSample::new(2 * n + 1));
        let write = grow(first(&large), max + 1);
        let conflict = refused(&mut *subject, [other.create(), write]);
        let RunConflict::TooLarge(bound) = conflict else {
            panic!("part {n}: {conflict:?}");
        };
        assert_eq!((bound.size, bound.max), (max as u64 + 1, max as u64), "part {n}");
        // The others go through without it, and so does that run once it is smaller.
        commit(&mut *subject, [other.create()]);
        commit(&mut *subject, [large.create()]);
    }
    let sample = RunSample::new(2);
    let behind = RunWrite::new(sample.run_id(), ENTRIES_MAX + 1, sample.progress(1));
    let conflict = refused(&mut *subject, [behind]);
    assert!(matches!(conflict, RunConflict::TooLarge(_)), "{conflict:?}");

    let large = definition("d", DEFINITION_BYTES_MAX + 1);
    let mut both = batch([RunSample::new(100).create()]);
    both.define(definition("small", 1));
    both.define(large.clone());
    let outcome = subject.store().commit(&both).expect("a healthy store commits");
    let is_second = matches!(outcome, BatchOutcome::DefinitionTooLarge { place: 1, .. });
    assert!(is_second, "{outcome:?}");
    let outcome = subject.store().define(&large).expect("a healthy store commits");
    assert!(matches!(outcome, DefinitionOutcome::TooLarge(_)), "{outcome:?}");
    let outcome = subject.store().define(&definition(&name(NAME_BYTES_MAX + 1), 1));
    let outcome = outcome.expect("a healthy store commits");
    assert!(matches!(outcome, DefinitionOutcome::TooLarge(_)), "{outcome:?}");
    let reader = reader(&mut *subject);
    for name in ["small", "d"] {
        let found = reader.definition(DefinitionKind::Goal, name).expect("reads");
        assert_eq!(found, None);
    }
}

pub(super) fn what_is_as_large_as_it_may_be_is_kept(make: Make<'_>) {
    let mut subject = make();
    for (n, (max, grow)) in (1..).zip(PARTS) {
        let sample = RunSample::new(n);
        let write = grow(first(&sample), max);
        commit(&mut *subject, [write.clone()]);
        subject.reopen();
        let found = stored(&mut *subject, &sample);
        assert_eq!(found.summary.next_seq, 2, "part {n}");
        let entry = reader(&mut *subject)
            .journal(sample.run_id(), 1, usize::MAX)
            .expect("reads")
            .expect("it is there");
        assert_eq!(entry.entries[0].bytes, write.entries[0], "part {n}");
    }
    let name = name(NAME_BYTES_MAX);
    let outcome = subject.store().define(&definition(&name, DEFINITION_BYTES_MAX));
    let outcome = outcome.expect("a healthy store commits");
    assert_eq!(outcome, DefinitionOutcome::Done { version: 1 });
}

fn first(sample: &RunSample) -> RunWrite {
    RunWrite {
        opened: vec![sample.input_request(1)],
        ..sample.create()
    }
}

fn bytes(n: usize) -> Bytes {
    vec![b'x'; n].into()
}

fn name(n: usize) -> String {
    "x".repeat(n)
}

fn notice(stream: String, n: usize) -> NewNotice {
    NewNotice {
        stream,
        at: 1,
        record: bytes(n),
        kept_max: 10,
    }
}

fn definition(name: &str, n: usize) -> DefinitionWrite {
    DefinitionWrite {
        kind: DefinitionKind::Goal,
        name: name.to_owned(),
        expected: ExpectedVersion::Any,
        change: DefinitionChange::Put(DefinitionPut {
            namespace: RunSample::new(1).created.namespace,
            owner: None,
            priority: 0,
            at: 1,
            record: bytes(n),
            contents: Vec::new(),
            pinned: Vec::new(),
        }),
    }
}
