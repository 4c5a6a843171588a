//! Requests that are too large, too deep, without an end, half there, slow, or no message at all.

use crate::den::{Den, scale, submission};
use crate::frames::{
    DATA, END_HEADERS, GET, HEADERS, LIST, SESSION, SUBMIT, VALIDATE, WATCH, call, frame, headers,
};
use crate::wire::{Flood, Wire, nested, status_of};
use escapement_tests::let_pass;
use escapement_tests::raw_session::framed;
use prost::Message as _;
use std::time::Duration;
use tokio::task::JoinSet;

const INVALID_ARGUMENT: i32 = 3;
const RESOURCE_EXHAUSTED: i32 = 8;
const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_message_is_refused() {
    let den = Den::start().await;
    let whole = framed(&submission("nobody").encode_to_vec()).to_vec();
    let compressed = [&[1][..], &whole[1..]].concat();
    let lies = [&[0, 0xff, 0xff, 0xff, 0xff][..], &[0; 100]].concat();
    let deep = {
        let mut value = Vec::new();
        // A list in a list in a list, in the environment.
        for _ in 0..10_000 {
            let list = nested(1, &value);
            value = nested(6, &list);
            if value.len() > 400_000 {
                break;
            }
        }
        framed(&nested(2, &nested(1, &nested(2, &value)))).to_vec()
    };
    for (path, more, body, codes) in [
        // Compression is not on, so nothing is ever blown up.
        (
            SUBMIT,
            &[("grpc-encoding", "gzip")][..],
            compressed.clone(),
            &[UNIMPLEMENTED][..],
        ),
        (SUBMIT, &[], compressed, &[UNIMPLEMENTED, INTERNAL]),
        (SUBMIT, &[], lies.clone(), &[RESOURCE_EXHAUSTED]),
        (GET, &[], lies, &[RESOURCE_EXHAUSTED]),
        (SUBMIT, &[], vec![0x77; 5_000], &[RESOURCE_EXHAUSTED]),
        (SUBMIT, &[], framed(&[0xff; 5_000]).to_vec(), &[INVALID_ARGUMENT]),
        (SUBMIT, &[], deep, &[INVALID_ARGUMENT]),
        (SUBMIT, &[], whole[..whole.len() - 1].to_vec(), &[INTERNAL]),
        (SUBMIT, &[], Vec::new(), &[INTERNAL]),
        ("/nothing/Here", &[], whole, &[UNIMPLEMENTED]),
    ] {
        for _ in 0..scale(1, 20) {
            let (code, _) = status_of(den.address(), path, more, body.clone()).await;
            assert!(
                codes.contains(&code),
                "{path} {more:?} with {} bytes: {code}",
                body.len()
            );
        }
    }
    den.finish("what is no message", 96).await;
}

/// Six megabytes are allowed, more are not, and whoever sends without an end is not listened to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_never_end_are_not_listened_to_for_long() {
    let den = Den::start().await;
    let mut senders = JoinSet::new();
    for n in 0..scale(8, 64) {
        let address = den.address();
        let path = [SUBMIT, VALIDATE, LIST, SESSION][n % 4];
        senders.spawn(async move {
            for _ in 0..2 {
                let mut wire = Wire::open(address).await;
                let mut begin = call(path, 1);
                begin.extend(frame(DATA, 0, 1, &[0, 0x7f, 0xff, 0xff, 0xff]));
                assert_eq!(wire.flood(&begin).await, Flood::Sent);
                let more = frame(DATA, 0, 1, &[0; 16_384]);
                for _ in 0..scale(1_000, 10_000) {
                    if wire.flood(&more).await != Flood::Sent {
                        break;
                    }
                }
            }
        });
    }
    senders.join_all().await;
    den.finish("requests without an end", scale(256, 700)).await;
}

/// Many half-sent requests of every size, and a byte now and then for some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_requests_cost_no_other_request_its_place() {
    let den = Den::start().await;
    let mut wires = Vec::new();
    for n in 0..scale(24, 80) {
        let mut wire = Wire::open(den.address()).await;
        let mut bytes = Vec::new();
        for stream in 0..200 {
            let path = [GET, SUBMIT, LIST, VALIDATE, WATCH][stream as usize % 5];
            bytes.extend(call(path, 2 * stream + 1));
            bytes.extend(frame(DATA, 0, 2 * stream + 1, &[0, 0, 0, 1]));
        }
        assert_eq!(wire.flood(&bytes).await, Flood::Sent, "connection {n}");
        wires.push(wire);
    }
    // A few have sent nearly everything of something large.
    for _ in 0..scale(4, 16) {
        let mut wire = Wire::open(den.address()).await;
        let mut begin = call(SUBMIT, 1);
        begin.extend(frame(DATA, 0, 1, &[0, 0, 0x4f, 0xff, 0xff]));
        assert_eq!(wire.flood(&begin).await, Flood::Sent);
        let _dried_up = wire.flood(&frame(DATA, 0, 1, &[0; 16_000]).repeat(300)).await;
        wires.push(wire);
    }
    for _ in 0..scale(10, 100) {
        for wire in &mut wires {
            let _ended = wire.flood(&frame(DATA, 0, 1, &[0])).await;
        }
        let_pass(Duration::from_millis(100)).await;
    }
    drop(wires);
    den.finish("half-sent requests", scale(300, 700)).await;
}

/// Headers that are large, many, odd, or lie about what follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_headers_are_refused_or_passed_over() {
    let den = Den::start().await;
    let long = "v".repeat(120);
    let many: Vec<(String, &str)> = (0..250).map(|n| (format!("x-{n}"), long.as_str())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let odd = [
        &many[..],
        &[("grpc-timeout", "99999999999H")],
        &[("grpc-timeout", "0n")],
        &[("grpc-timeout", "-1S")],
        &[("content-length", "18446744073709551615")],
        &[("content-length", "5")],
        &[("grpc-status", "0")],
        &[("connection", "close")],
        &[("transfer-encoding", "chunked")],
        &[("UPPER", "case")],
        &[(":late", "pseudo")],
        &[("x", "line\r\nbreak")],
        &[("", "")],
    ];
    for _ in 0..scale(5, 100) {
        for more in odd {
            let mut wire = Wire::open(den.address()).await;
            let block = headers(GET, more);
            let mut bytes = Vec::new();
            let mut chunks = block.chunks(16_000);
            let first = chunks.next().unwrap();
            let is_whole = first.len() == block.len();
            bytes.extend(frame(HEADERS, if is_whole { END_HEADERS } else { 0 }, 1, first));
            let rest: Vec<_> = chunks.collect();
            for (n, chunk) in rest.iter().enumerate() {
                let flags = if n + 1 == rest.len() { END_HEADERS } else { 0 };
                bytes.extend(frame(crate::frames::CONTINUATION, flags, 1, chunk));
            }
            bytes.extend(frame(DATA, 1, 1, &framed(b"\x0a\x03abc")));
            let _closed_meanwhile = wire.flood(&bytes).await;
            let _answer = wire.read_for(Duration::from_millis(5)).await;
        }
    }
    den.finish("odd headers", 96).await;
}
