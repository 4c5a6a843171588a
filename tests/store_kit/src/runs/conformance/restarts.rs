//! Stories about restarts and about readers beside the writer.

use super::sample::content;
use super::{ALL, Make, RunSample, batch, commit, reader, stored};
use escapement_store::runs::{BatchOutcome, RunConflict};

pub(super) fn what_was_acknowledged_is_there_after_a_restart(make: Make<'_>) {
    let mut subject = make();
    let samples: Vec<RunSample> = (1..=5).map(RunSample::new).collect();
    for sample in &samples {
        let mut creates = sample.create();
        creates.contents = vec![content(4)];
        creates.opened = vec![sample.input_request(1)];
        commit(&mut *subject, [creates]);
        let mut goes_on = sample.append(2, 3);
        goes_on.snapshot = sample.snapshot(3);
        commit(&mut *subject, [goes_on]);
    }
    commit(&mut *subject, [samples[1].end(5)]);
    let before: Vec<_> = samples
        .iter()
        .map(|sample| stored(&mut *subject, sample))
        .collect();
    let open = reader(&mut *subject).open_input_requests(None, None, 100);
    let open = open.expect("reads");

    subject.reopen();
    let after: Vec<_> = samples
        .iter()
        .map(|sample| stored(&mut *subject, sample))
        .collect();
    assert_eq!(after, before);
    let now = reader(&mut *subject).open_input_requests(None, None, 100);
    assert_eq!(now.expect("reads"), open);
    let counts = reader(&mut *subject).counts().expect("reads");
    assert_eq!((counts.live, counts.ended), (4, 1));
    let again = subject
        .store()
        .commit(&batch([samples[2].create()]))
        .expect("commits");
    let used = BatchOutcome::Refused {
        run_id: samples[2].run_id(),
        conflict: RunConflict::RunIdUsed,
    };
    assert_eq!(again, used);
    let mut next = RunSample::new(6).create();
    next.opened = vec![RunSample::new(6).input_request(1)];
    commit(&mut *subject, [next, samples[2].append(5, 1)]);
    assert_eq!(stored(&mut *subject, &RunSample::new(6)).summary.number, 6);
    let id = RunSample::new(6).input_request(1).id;
    let asked = reader(&mut *subject).input_request(id).expect("reads");
    assert_eq!(asked.expect("is there").number, 6, "numbers go on");
}

pub(super) fn a_reader_sees_whole_batches(make: Make<'_>) {
    let mut subject = make();
    let (one, two) = (RunSample::new(1), RunSample::new(2));
    let one_id = one.run_id();
    commit(&mut *subject, [one.create(), two.create()]);
    let beside = reader(&mut *subject);
    std::thread::scope(|scope| {
        let looks = scope.spawn(move || {
            for _ in 0..200 {
                let live = beside.live(None, 10).expect("reads");
                let next: Vec<u64> = live.iter().map(|run| run.next_seq).collect();
                assert_eq!(next[0], next[1], "both runs grow in the same batches");
                let run = beside.run(one_id, ALL).expect("reads").expect("is there");
                let n_behind = run.summary.next_seq - 1 - run.summary.snapshot_seq;
                assert_eq!(
                    run.tail.len() as u64,
                    n_behind,
                    "row and journal are of one moment"
                );
            }
        });
        for turn in 1..=60 {
            let seq = turn * 2;
            let mut write = one.append(seq, 2);
            if turn % 5 == 0 {
                write.snapshot = one.snapshot(seq);
                write.keep_from = Some(seq);
            }
            commit(&mut *subject, [write, two.append(seq, 2)]);
        }
        looks.join().expect("the reader saw whole batches");
    });
}
