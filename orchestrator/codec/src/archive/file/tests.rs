#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_model::ExecutionId;

fn record() -> Archive {
    Archive {
        execution_id: ExecutionId::from_random([1; 16]),
        request_digest: [2; 32],
        accepted: Bytes::from(vec![3; 100_000]),
        entries: (0..10).map(|number| Bytes::from(vec![number; 30])).collect(),
        inputs: Some(Bytes::from_static(b"inputs")),
        result: Bytes::new(),
        seal: Some(Bytes::from_static(b"seal")),
    }
}

fn file(record: &Archive) -> Bytes {
    let pieces: Vec<Bytes> = pieces(record.clone()).collect();
    assert!(
        pieces
            .iter()
            .all(|piece| (1..=PIECE_BYTES_MAX).contains(&piece.len()))
    );
    pieces.concat().into()
}

#[test]
fn what_is_written_is_read() {
    let without = Archive {
        inputs: None,
        seal: None,
        ..record()
    };
    let empty = Archive {
        entries: Vec::new(),
        accepted: Bytes::new(),
        ..record()
    };
    for record in [record(), without, empty] {
        let read = read(&file(&record)).unwrap();
        assert_eq!(read.archive, record);
        assert_eq!(read.faults, []);
    }
}

#[test]
fn every_byte_that_is_changed_or_missing_shows() {
    let record = Archive {
        accepted: Bytes::from_static(b"accepted"),
        ..record()
    };
    let whole = file(&record);
    let is_clean = |bytes: &Bytes| read(bytes).is_ok_and(|read| read.faults.is_empty());
    assert!(is_clean(&whole));
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.to_vec();
            changed[at] ^= 1 << bit;
            assert!(!is_clean(&changed.into()), "bit {bit} of byte {at}");
        }
        assert!(!is_clean(&whole.slice(..at)), "cut off at {at}");
    }
    let longer = [&whole[..], b"\0"].concat();
    let fault = &read(&longer.into()).unwrap().faults[0];
    assert_eq!(fault.what, "there is something behind the end");
}

#[test]
fn a_fault_says_where_it_is() {
    let mut bytes = file(&record()).to_vec();
    let key_of_the_fourth_entry = [0x1a, 30, 3, 3];
    let at = bytes
        .windows(4)
        .position(|window| window == key_of_the_fourth_entry);
    bytes[at.unwrap()] = 0x72;
    let fault = read(&bytes.into()).unwrap_err();
    assert_eq!((fault.n_frames, fault.sequence), (5, Some(4)));
    assert_eq!(fault.what, "the frame holds a part of an unknown kind");
    let fault = read(&Bytes::from_static(b"{}")).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "behind 0 frames, at byte 0: this is no record file"
    );
}
