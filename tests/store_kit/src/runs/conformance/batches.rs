//! Stories about what a batch does to runs. Restarts nothing.

use escapement_model::Namespace;

use bytes::Bytes;

use super::{ALL, Make, ReopenableRuns, RunSample, batch, commit, reader, refused, stored};
use escapement_store::runs::{
    BatchOutcome, DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite, ExpectedVersion,
    RunBatch, RunConflict, RunCounts, RunRemoval, RunWrite,
};

pub(super) fn an_empty_batch_does_nothing(make: Make<'_>) {
    let mut subject = make();
    let outcome = subject.store().commit(&RunBatch::new()).expect("commits");
    assert_eq!(outcome, BatchOutcome::Done);
    assert_eq!(
        reader(&mut *subject).counts().expect("reads"),
        RunCounts::default()
    );
}

pub(super) fn a_run_grows_from_its_creation_to_its_end(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(1);
    assert_eq!(
        reader(&mut *subject).run(sample.run_id(), ALL).expect("reads"),
        None
    );

    commit(&mut *subject, [sample.create()]);
    let run = stored(&mut *subject, &sample);
    assert_eq!((run.summary.number, run.summary.next_seq), (1, 2));
    assert_eq!(run.summary.created, sample.created);
    assert_eq!(run.summary.progress, sample.progress(1));
    assert_eq!((run.snapshot, run.tail[0].bytes.clone()), (None, sample.entry(1)));

    commit(&mut *subject, [sample.append(2, 3)]);
    // Index columns change without an entry as well.
    let mut waits = RunWrite::new(sample.run_id(), 5, sample.progress(4));
    waits.progress.state = 200;
    commit(&mut *subject, [waits.clone()]);
    let run = stored(&mut *subject, &sample);
    assert_eq!((run.summary.progress, run.summary.next_seq), (waits.progress, 5));
    assert_eq!(run.tail.len(), 4);

    commit(&mut *subject, [sample.end(5)]);
    let run = stored(&mut *subject, &sample);
    assert_eq!(run.summary.progress, sample.ended(5));
    assert_eq!(run.summary.last_link, run.tail[4].link);
    let counts = reader(&mut *subject).counts().expect("reads");
    assert_eq!((counts.live, counts.ended), (0, 1));
}

pub(super) fn definitions_are_written_with_the_runs(make: Make<'_>) {
    let mut subject = make();
    let (first, second) = (RunSample::new(5), RunSample::new(6));
    let write = |name: &str, change| DefinitionWrite {
        kind: DefinitionKind::Firing,
        name: name.to_owned(),
        expected: ExpectedVersion::Any,
        change,
    };
    let put = |name: &str, record: &'static [u8]| {
        let put = DefinitionPut {
            namespace: Namespace::default(),
            owner: Some("trigger".to_owned()),
            priority: 0,
            at: 7,
            record: Bytes::from_static(record),
            contents: Vec::new(),
            pinned: Vec::new(),
        };
        write(name, DefinitionChange::Put(put))
    };
    let found = |subject: &mut dyn ReopenableRuns, name: &str| {
        let found = reader(subject).definition(DefinitionKind::Firing, name);
        let found = found.expect("reads");
        found.map(|found| (found.version, found.record))
    };

    let mut with = batch([first.create()]);
    with.define(put("a", b"one"));
    with.define(put("a", b"two"));
    with.define(put("b", b"one"));
    with.define(write("absent", DefinitionChange::Delete));
    assert_eq!(
        subject.store().commit(&with).expect("commits"),
        BatchOutcome::Done
    );
    subject.reopen();
    assert_eq!(found(&mut *subject, "a"), Some((1, Bytes::from_static(b"two"))));
    stored(&mut *subject, &first);

    // The wrong sequence of a run refuses all of it.
    let mut refused = batch([second.create(), first.append(7, 1)]);
    refused.define(write("a", DefinitionChange::Delete));
    let outcome = subject.store().commit(&refused).expect("commits");
    assert_ne!(outcome, BatchOutcome::Done);
    assert_eq!(found(&mut *subject, "a"), Some((1, Bytes::from_static(b"two"))));

    let mut alone = RunBatch::new();
    alone.define(write("a", DefinitionChange::Delete));
    assert!(!alone.is_empty());
    assert_eq!(
        subject.store().commit(&alone).expect("commits"),
        BatchOutcome::Done
    );
    subject.reopen();
    assert_eq!(found(&mut *subject, "a"), None);
    assert!(found(&mut *subject, "b").is_some());
}

pub(super) fn a_wrong_sequence_refuses_the_whole_batch(make: Make<'_>) {
    let mut subject = make();
    let (first, second, third) = (RunSample::new(2), RunSample::new(3), RunSample::new(4));
    commit(&mut *subject, [first.create(), second.create()]);
    let before = stored(&mut *subject, &first);
    let wrong = [first.append(2, 1), third.create(), second.append(3, 1)];
    let outcome = subject.store().commit(&batch(wrong)).expect("commits");
    let expected = BatchOutcome::Refused {
        run_id: second.run_id(),
        conflict: RunConflict::WrongSequence { next_seq: 2 },
    };
    assert_eq!(outcome, expected);
    assert_eq!(stored(&mut *subject, &first), before, "nothing of it was written");
    assert_eq!(
        reader(&mut *subject).summary(third.run_id()).expect("reads"),
        None
    );

    commit(
        &mut *subject,
        [first.append(2, 1), third.create(), second.append(2, 1)],
    );
    assert_eq!(
        stored(&mut *subject, &third).summary.number,
        3,
        "no number is left out"
    );
    let mut new = RunSample::new(5).create();
    new.next_seq = 2;
    let conflict = refused(&mut *subject, [new]);
    assert_eq!(conflict, RunConflict::WrongSequence { next_seq: 1 });
    let conflict = refused(&mut *subject, [RunSample::new(5).append(2, 1)]);
    assert_eq!(conflict, RunConflict::NotFound);
}

pub(super) fn an_ended_run_never_changes(make: Make<'_>) {
    let mut subject = make();
    let (sample, at_once) = (RunSample::new(6), RunSample::new(7));
    let mut ends_at_once = at_once.create();
    ends_at_once.progress = at_once.ended(1);
    commit(&mut *subject, [sample.create(), ends_at_once]);
    commit(&mut *subject, [sample.end(2)]);
    let before = stored(&mut *subject, &sample);
    assert_eq!(refused(&mut *subject, [sample.append(3, 1)]), RunConflict::Ended);
    assert_eq!(refused(&mut *subject, [at_once.append(2, 0)]), RunConflict::Ended);
    assert_eq!(stored(&mut *subject, &sample), before);
    let counts = reader(&mut *subject).counts().expect("reads");
    assert_eq!((counts.live, counts.ended), (0, 2));
}

pub(super) fn an_id_is_used_once(make: Make<'_>) {
    let mut subject = make();
    let (sample, other) = (RunSample::new(8), RunSample::new(9));
    commit(&mut *subject, [sample.create()]);
    let conflict = refused(&mut *subject, [other.create(), sample.create()]);
    assert_eq!(conflict, RunConflict::RunIdUsed, "its request is used, too");
}

pub(super) fn a_request_creates_one_run(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(10);
    let mut again = RunSample::new(11);
    again.created.request = sample.created.request.clone();
    let request = sample.created.request.clone().expect("a sample has one");
    let used = RunConflict::RequestUsed {
        run_id: sample.run_id(),
        digest: request.digest,
    };
    assert_eq!(
        refused(&mut *subject, [sample.create(), again.create()]),
        used,
        "writes of one batch see each other"
    );
    assert_eq!(
        reader(&mut *subject).created_by(&request.key).expect("reads"),
        None
    );
    commit(&mut *subject, [sample.create()]);
    assert_eq!(refused(&mut *subject, [again.create()]), used);
    let found = reader(&mut *subject).created_by(&request.key).expect("reads");
    assert_eq!(found, Some((sample.run_id(), request.digest)));

    // Also when the run is gone.
    commit(&mut *subject, [sample.end(2)]);
    let at_once = RunRemoval {
        keep_ended_ms: Some(0),
        ..RunRemoval::default()
    };
    let removed = subject.store().remove_ended(&at_once, i64::MAX).expect("removes");
    assert_eq!(removed.n_runs, 1);
    assert_eq!(refused(&mut *subject, [again.create()]), used);
    assert_eq!(refused(&mut *subject, [sample.create()]), RunConflict::RunIdUsed);
    again.created.request = None;
    commit(&mut *subject, [again.create()]);
}

pub(super) fn writes_of_one_run_become_one(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(12);
    let mut asks = sample.append(2, 1);
    asks.opened.push(sample.input_request(1));
    let mut ends = sample.end(4);
    ends.closed.push(sample.answer(1));
    commit(&mut *subject, [sample.create(), asks, sample.append(3, 1), ends]);
    let run = stored(&mut *subject, &sample);
    assert_eq!(run.summary.progress, sample.ended(4));
    let bytes: Vec<_> = run.tail.iter().map(|entry| entry.bytes.clone()).collect();
    assert_eq!(bytes, [1, 2, 3, 4].map(|seq| sample.entry(seq)));
    let open = reader(&mut *subject).open_input_requests(None, None, 10);
    assert_eq!(open.expect("reads").requests, []);
}
