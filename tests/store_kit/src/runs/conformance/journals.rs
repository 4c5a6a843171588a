//! Stories about journals and snapshots. Ends no run.

use bytes::Bytes;

use super::{ALL, Make, RunSample, commit, reader, refused, stored};
use escapement_model::chain::{chain_begin, chain_next};
use escapement_store::runs::{JournalEntry, RunConflict};

pub(super) fn a_journal_pages_by_bytes_without_gaps(make: Make<'_>) {
    let mut subject = make();
    let (sample, neighbour) = (RunSample::new(1), RunSample::new(2));
    let mut write = sample.append(2, 8);
    write.entries[3] = Bytes::from(vec![7; 100_000]);
    write.entries[4] = Bytes::new();
    commit(&mut *subject, [neighbour.create(), sample.create()]);
    commit(&mut *subject, [write.clone(), neighbour.append(2, 2)]);
    let reader = reader(&mut *subject);
    for bytes_max in [0, 1, 50, 1000, 100_050, ALL] {
        let mut found: Vec<JournalEntry> = Vec::new();
        loop {
            let from = found.len() as u64 + 1;
            let page = reader.journal(sample.run_id(), from, bytes_max).expect("reads");
            let page = page.expect("the run is there");
            assert_eq!((page.first_seq, page.next_seq), (1, 10));
            let n_bytes: usize = page.entries.iter().map(|entry| entry.bytes.len()).sum();
            assert!(n_bytes <= bytes_max || page.entries.len() == 1, "{bytes_max}");
            if page.entries.is_empty() {
                break;
            }
            found.extend(page.entries);
        }
        let seqs: Vec<u64> = found.iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (1..10).collect::<Vec<_>>());
        assert_eq!(found[0].bytes, sample.entry(1));
        let bytes: Vec<Bytes> = found[1..].iter().map(|entry| entry.bytes.clone()).collect();
        assert_eq!(bytes, write.entries);
    }
    let nobody = reader.journal(RunSample::new(3).run_id(), 1, ALL);
    assert_eq!(nobody.expect("reads"), None);
    let run = reader.run(sample.run_id(), 0).expect("reads").expect("is there");
    assert_eq!(run.tail.len(), 1, "a tail is bounded as a page is");
}

pub(super) fn the_chain_is_that_of_its_formula(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(4);
    commit(&mut *subject, [sample.create()]);
    commit(&mut *subject, [sample.append(2, 2)]);
    commit(&mut *subject, [sample.append(4, 1)]);
    let run = stored(&mut *subject, &sample);
    let mut link = chain_begin(&sample.run_id());
    for entry in &run.tail {
        link = chain_next(&link, entry.seq, &entry.bytes);
        assert_eq!(entry.link, link, "entry {}", entry.seq);
    }
    assert_eq!(run.summary.last_link, link);
}

pub(super) fn a_snapshot_covers_what_is_dropped(make: Make<'_>) {
    let mut subject = make();
    let sample = RunSample::new(5);
    commit(&mut *subject, [sample.create()]);
    let mut write = sample.append(2, 4);
    write.keep_from = Some(2);
    assert_eq!(refused(&mut *subject, [write.clone()]), RunConflict::NotCovered);
    write.snapshot = sample.snapshot(3);
    write.keep_from = Some(5);
    assert_eq!(refused(&mut *subject, [write.clone()]), RunConflict::NotCovered);
    write.keep_from = Some(3);
    commit(&mut *subject, [write]);

    let run = stored(&mut *subject, &sample);
    assert_eq!(run.snapshot, sample.snapshot(3));
    let seqs: Vec<u64> = run.tail.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, [4, 5], "behind the snapshot");
    let page = reader(&mut *subject).journal(sample.run_id(), 1, ALL);
    let page = page.expect("reads").expect("is there");
    assert_eq!(page.first_seq, 3);
    assert_eq!(page.entries[0].bytes, sample.entry(3));

    // The next one takes its place, and may cover everything.
    let mut write = sample.append(6, 0);
    write.snapshot = sample.snapshot(5);
    write.keep_from = Some(6);
    commit(&mut *subject, [write]);
    commit(&mut *subject, [sample.append(6, 1)]);
    let run = stored(&mut *subject, &sample);
    assert_eq!(run.snapshot, sample.snapshot(5));
    assert_eq!((run.summary.first_seq, run.summary.next_seq), (6, 7));
    assert_eq!(run.tail.len(), 1);
}
