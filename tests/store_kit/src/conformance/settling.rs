//! Stories about the order of settling. Damages nothing.

use bytes::Bytes;

use super::{Make, ReopenableStore, Sample, commit, reader};
use escapement_store::{Removal, SettledPage, StoredExecution};

/// Returns all pages behind that place.
fn pages(subject: &mut dyn ReopenableStore, mut after: u64, limit: usize) -> Vec<(u64, StoredExecution)> {
    let reader = reader(subject);
    let mut all = Vec::new();
    loop {
        let page = reader.settled(after, limit).expect("a healthy store reads");
        assert!(
            page.executions.len() <= limit,
            "{} of {limit}",
            page.executions.len()
        );
        assert_eq!(page.damaged, None);
        let Some((last, _)) = page.executions.last() else {
            return all;
        };
        after = *last;
        all.extend(page.executions);
    }
}

/// What a page shows of a settled execution.
fn shown(place: u64, number: u64, sample: &Sample) -> (u64, StoredExecution) {
    let execution = StoredExecution {
        record: Bytes::new(),
        ..sample.settled(sample.accepted(number), 2)
    };
    (place, execution)
}

pub(super) fn what_is_settled_pages_in_the_order_of_settling(make: Make<'_>) {
    let mut subject = make();
    let samples: Vec<Sample> = (300..310).map(Sample::new).collect();
    let accepts: Vec<_> = samples.iter().map(Sample::accept).collect();
    commit(&mut *subject, &accepts);
    let page = reader(&mut *subject)
        .settled(0, 10)
        .expect("a healthy store reads");
    assert_eq!(page, SettledPage::default(), "nothing is settled");

    let order = [3, 0, 9, 4, 1];
    let mut expected = Vec::new();
    for (place, index) in (1..).zip(order) {
        commit(&mut *subject, &[samples[index].settle(2)]);
        // A conflict takes no place.
        commit(&mut *subject, &[samples[index].settle(2)]);
        expected.push(shown(place, index as u64 + 1, &samples[index]));
    }
    for limit in [1, 2, 5, 100] {
        assert_eq!(pages(&mut *subject, 0, limit), expected);
    }
    subject.reopen();
    let both = [samples[8].settle(2), samples[2].settle(2)];
    commit(&mut *subject, &both);
    expected.push(shown(6, 9, &samples[8]));
    expected.push(shown(7, 3, &samples[2]));
    assert_eq!(pages(&mut *subject, 0, 3), expected);
    assert_eq!(pages(&mut *subject, 4, 3), expected[4..]);
    let end = reader(&mut *subject)
        .settled(7, 3)
        .expect("a healthy store reads");
    assert_eq!((end.executions.len(), end.last, end.removed), (0, 7, 0));
}

pub(super) fn places_of_removed_executions_are_not_given_again(make: Make<'_>) {
    let mut subject = make();
    let samples: Vec<Sample> = (400..406).map(Sample::new).collect();
    let accepts: Vec<_> = samples.iter().map(Sample::accept).collect();
    commit(&mut *subject, &accepts);
    // The first that was accepted is the third that is settled.
    for index in [2, 1, 0, 3] {
        commit(&mut *subject, &[samples[index].settle(2)]);
    }
    let keep = |count| Removal {
        keep_settled_count: Some(count),
        ..Removal::default()
    };
    let remove = |subject: &mut dyn ReopenableStore, count| {
        let removed = subject.store().remove_settled(&keep(count), i64::MAX);
        assert_eq!(removed.expect("a healthy store removes").n_executions, 1);
    };
    remove(&mut *subject, 3);
    let page = reader(&mut *subject)
        .settled(0, 10)
        .expect("a healthy store reads");
    let places: Vec<u64> = page.executions.iter().map(|(place, _)| *place).collect();
    // A reader goes on from every place that is kept, however early its execution was accepted.
    assert_eq!((places, page.last, page.removed), (vec![2, 3, 4], 4, 1));
    for count in [2, 1, 0] {
        remove(&mut *subject, count);
    }
    subject.reopen();
    commit(&mut *subject, &[samples[5].settle(2)]);
    assert_eq!(pages(&mut *subject, 0, 10), [shown(5, 6, &samples[5])]);
    let page = reader(&mut *subject)
        .settled(0, 10)
        .expect("a healthy store reads");
    assert_eq!((page.last, page.removed), (5, 4));
}
