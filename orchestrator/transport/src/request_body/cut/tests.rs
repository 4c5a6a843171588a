#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

/// What a message of so many bytes is on the wire.
fn message(bytes: usize) -> Vec<u8> {
    let length = u32::try_from(bytes).unwrap();
    [&[0][..], &length.to_be_bytes(), &vec![7; bytes]].concat()
}

fn pieces(stream: &[u8], frame_bytes: usize) -> Vec<Bytes> {
    let mut cut = MessageCut::default();
    let mut pieces = Vec::new();
    for frame in stream.chunks(frame_bytes) {
        cut.rest = Bytes::copy_from_slice(frame);
        while !cut.is_all_given() {
            pieces.push(cut.piece());
        }
    }
    pieces
}

#[test]
fn no_piece_reaches_beyond_a_head_or_a_message_and_no_byte_changes() {
    let sizes = [0, 3, LARGE_BYTES + 1, 0, 1];
    let stream: Vec<u8> = sizes.iter().flat_map(|bytes| message(*bytes)).collect();
    for frame_bytes in [1, 3, 7, 16 << 10, stream.len()] {
        assert_eq!(pieces(&stream, frame_bytes).concat(), stream, "{frame_bytes}");
    }
    let lengths: Vec<usize> = pieces(&stream, stream.len()).iter().map(Bytes::len).collect();
    assert_eq!(lengths, [5, 5, 3, 5, LARGE_BYTES + 1, 5, 5, 1]);
}

#[test]
fn what_follows_a_large_message_is_a_buffer_of_its_own() {
    let stream = [message(LARGE_BYTES + 1), message(1)].concat();
    let pieces = pieces(&stream, stream.len());
    assert!(
        !pieces[1].is_unique(),
        "the large message is a part of what has come"
    );
    assert!(pieces[2].is_unique());
}
