//! Stories about what a batch does to executions. Restarts nothing.

use super::{Make, Sample, commit, reader, stored};
use escapement_store::{Conflict, Counts, Outcome};

fn done(number: u64) -> Outcome {
    Outcome::Done { number }
}

pub(super) fn an_empty_batch_does_nothing(make: Make<'_>) {
    let mut subject = make();
    assert_eq!(commit(&mut *subject, &[]), []);
    assert_eq!(reader(&mut *subject).counts().expect("reads"), Counts::default());
}

pub(super) fn an_execution_goes_from_accepted_to_settled(make: Make<'_>) {
    let mut subject = make();
    let sample = Sample::new(1);
    assert_eq!(
        reader(&mut *subject)
            .execution(sample.execution_id())
            .expect("reads"),
        None
    );

    assert_eq!(commit(&mut *subject, &[sample.accept()]), [done(1)]);
    assert_eq!(stored(&mut *subject, &sample), sample.accepted(1));
    assert_eq!(
        reader(&mut *subject).audit(sample.execution_id()).expect("reads"),
        None
    );

    assert_eq!(commit(&mut *subject, &[sample.start()]), [done(1)]);
    assert_eq!(stored(&mut *subject, &sample), sample.started(1));
    assert_eq!(
        reader(&mut *subject).audit(sample.execution_id()).expect("reads"),
        None
    );

    assert_eq!(commit(&mut *subject, &[sample.settle(2)]), [done(1)]);
    assert_eq!(
        stored(&mut *subject, &sample),
        sample.settled(sample.started(1), 2)
    );
    let audit = reader(&mut *subject).audit(sample.execution_id()).expect("reads");
    assert_eq!(audit.as_ref(), Some(&sample.audit));
}

pub(super) fn what_is_accepted_with_a_start_runs_at_once(make: Make<'_>) {
    let mut subject = make();
    let sample = Sample::new(2).running();
    commit(&mut *subject, &[sample.accept()]);
    assert_eq!(stored(&mut *subject, &sample), sample.accepted(1));
    let again = Outcome::Conflict(Conflict::AlreadyStarted);
    assert_eq!(commit(&mut *subject, &[sample.start()]), [again]);
}

pub(super) fn a_queued_execution_can_be_settled_unstarted(make: Make<'_>) {
    let mut subject = make();
    let (unstarted, started) = (Sample::new(3), Sample::new(4));
    commit(&mut *subject, &[unstarted.accept(), started.accept()]);
    let mut with_start = started.settle(3);
    if let escapement_store::Write::Settle { started_at, .. } = &mut with_start {
        *started_at = Some(started.started_at());
    }
    assert_eq!(
        commit(&mut *subject, &[unstarted.settle(3), with_start]),
        [done(1), done(2)]
    );
    assert_eq!(
        stored(&mut *subject, &unstarted),
        unstarted.settled(unstarted.accepted(1), 3)
    );
    assert_eq!(
        stored(&mut *subject, &started),
        started.settled(started.started(2), 3)
    );
}

pub(super) fn an_id_is_used_once(make: Make<'_>) {
    let mut subject = make();
    let (first, other) = (Sample::new(5), Sample::new(6));
    commit(&mut *subject, &[first.accept()]);

    let used = Conflict::ExecutionIdUsed {
        request_digest: first.accept.request_digest,
    };
    let mut same_id = other.clone();
    same_id.accept.execution_id = first.execution_id();
    assert_eq!(
        commit(&mut *subject, &[first.accept()]),
        [Outcome::Conflict(used)],
        "both ids are used"
    );
    assert_eq!(
        commit(&mut *subject, &[same_id.accept()]),
        [Outcome::Conflict(used)]
    );

    let plan_used = Conflict::PlanIdUsed {
        execution_id: first.execution_id(),
    };
    let same_plan = other.clone().with_plan_of(&first);
    assert_eq!(
        commit(&mut *subject, &[same_plan.accept()]),
        [Outcome::Conflict(plan_used)]
    );

    assert_eq!(
        stored(&mut *subject, &first),
        first.accepted(1),
        "a refused accept changed something"
    );
    assert_eq!(
        reader(&mut *subject)
            .execution(other.execution_id())
            .expect("reads"),
        None
    );
    assert_eq!(
        commit(&mut *subject, &[other.accept()]),
        [done(2)],
        "a conflict used up a number"
    );
}

pub(super) fn states_only_climb(make: Make<'_>) {
    let mut subject = make();
    let sample = Sample::new(7);
    commit(&mut *subject, &[sample.accept(), sample.start()]);
    let again = commit(&mut *subject, &[sample.start()]);
    assert_eq!(again, [Outcome::Conflict(Conflict::AlreadyStarted)]);

    commit(&mut *subject, &[sample.settle(1)]);
    let settled = stored(&mut *subject, &sample);
    let mut late = Sample::new(8);
    late.accept.execution_id = sample.execution_id();
    let refused = commit(&mut *subject, &[sample.start(), late.settle(3), sample.settle(1)]);
    assert_eq!(refused, [Outcome::Conflict(Conflict::AlreadySettled); 3]);
    assert_eq!(
        stored(&mut *subject, &sample),
        settled,
        "a settled execution changed"
    );
    let audit = reader(&mut *subject).audit(sample.execution_id()).expect("reads");
    assert_eq!(
        audit,
        Some(sample.audit.clone()),
        "the audit of a settled execution changed"
    );
}

pub(super) fn an_unknown_execution_is_not_found(make: Make<'_>) {
    let mut subject = make();
    let sample = Sample::new(9);
    let refused = commit(&mut *subject, &[sample.start(), sample.settle(1)]);
    assert_eq!(refused, [Outcome::Conflict(Conflict::NotFound); 2]);
    let reader = reader(&mut *subject);
    assert_eq!(reader.execution(sample.execution_id()).expect("reads"), None);
    assert_eq!(reader.audit(sample.execution_id()).expect("reads"), None);
    assert_eq!(reader.counts().expect("reads"), Counts::default());
}

pub(super) fn writes_of_one_batch_see_each_other(make: Make<'_>) {
    let mut subject = make();
    let sample = Sample::new(10);
    let same_plan = Sample::new(11).with_plan_of(&sample);
    let batch = [
        sample.start(),
        sample.accept(),
        same_plan.accept(),
        sample.accept(),
        sample.start(),
        sample.start(),
        sample.settle(1),
        sample.settle(1),
        sample.accept(),
    ];
    let digest = Conflict::ExecutionIdUsed {
        request_digest: sample.accept.request_digest,
    };
    let expected = [
        Outcome::Conflict(Conflict::NotFound),
        done(1),
        Outcome::Conflict(Conflict::PlanIdUsed {
            execution_id: sample.execution_id(),
        }),
        Outcome::Conflict(digest),
        done(1),
        Outcome::Conflict(Conflict::AlreadyStarted),
        done(1),
        Outcome::Conflict(Conflict::AlreadySettled),
        Outcome::Conflict(digest),
    ];
    assert_eq!(commit(&mut *subject, &batch), expected);
    assert_eq!(
        stored(&mut *subject, &sample),
        sample.settled(sample.started(1), 1)
    );
    assert_eq!(
        reader(&mut *subject)
            .execution(same_plan.execution_id())
            .expect("reads"),
        None
    );
}

pub(super) fn a_conflict_hurts_only_its_own_write(make: Make<'_>) {
    let mut subject = make();
    let samples: Vec<Sample> = (20..24).map(Sample::new).collect();
    commit(&mut *subject, &[samples[0].accept()]);
    let batch = [
        samples[1].accept(),
        samples[0].accept(),
        samples[2].accept(),
        samples[3].start(),
    ];
    let outcomes = commit(&mut *subject, &batch);
    assert_eq!([outcomes[0], outcomes[2]], [done(2), done(3)]);
    assert!(matches!(
        outcomes[1],
        Outcome::Conflict(Conflict::ExecutionIdUsed { .. })
    ));
    assert_eq!(outcomes[3], Outcome::Conflict(Conflict::NotFound));
    for (number, sample) in (1..).zip(&samples[..3]) {
        assert_eq!(stored(&mut *subject, sample), sample.accepted(number));
    }
}

pub(super) fn large_records_come_back_whole(make: Make<'_>) {
    let mut subject = make();
    let large = Sample::with_record_bytes(30, 4 << 20).running();
    let empty = Sample::with_record_bytes(31, 0).running();
    commit(
        &mut *subject,
        &[large.accept(), empty.accept(), large.settle(1), empty.settle(1)],
    );
    for (number, sample) in [(1, &large), (2, &empty)] {
        // Compared without being printed: four million bytes are no message.
        assert!(
            stored(&mut *subject, sample) == sample.settled(sample.accepted(number), 1),
            "execution number {number} came back changed"
        );
        let audit = reader(&mut *subject).audit(sample.execution_id()).expect("reads");
        assert!(
            audit.as_ref() == Some(&sample.audit),
            "audit number {number} came back changed"
        );
    }
}

pub(super) fn labels_are_kept_to_the_letter(make: Make<'_>) {
    let mut subject = make();
    let mut sample = Sample::new(40);
    sample.accept.plan_name = "план 計画 🚦 'quoted' \"twice\" \u{0} %_".to_owned();
    sample.accept.user_id = Some(String::new());
    sample.accept.request_id = Some("\u{202e}right to left".to_owned());
    sample.accept.tags = ["", "ü", "u\u{308}", "🏷️", "with, comma", "a\u{0}b", "ü"]
        .map(str::to_owned)
        .to_vec();
    sample.accept.priority = i32::MIN;
    sample.accept.deadline_ms = i64::MAX;
    let mut bare = Sample::new(41);
    bare.accept.user_id = None;
    bare.accept.tags = Vec::new();
    commit(&mut *subject, &[sample.accept(), bare.accept()]);
    assert_eq!(stored(&mut *subject, &sample), sample.accepted(1));
    assert_eq!(stored(&mut *subject, &bare), bare.accepted(2));
}
