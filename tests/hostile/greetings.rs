//! What is no HTTP/2 at all: silence, noise, TLS, HTTP/1, halves of a beginning.

use crate::den::{Den, scale};
use crate::frames::{PREFACE, SETTINGS, frame};
use crate::wire::{Flood, Wire};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_speaks_something_else_is_let_go_at_once() {
    let den = Den::start().await;
    let tls_hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 500]].concat();
    let huge_frame = [PREFACE, &[0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0]].concat();
    let no_settings = [PREFACE, &frame(6, 0, 0, &[0; 8])].concat();
    let upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    let greetings: [(&str, &[u8]); 7] = [
        ("TLS", &tls_hello),
        ("HTTP/1.1", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("HTTP/1.0", b"GET / HTTP/1.0\r\n\r\n"),
        ("an upgrade", upgrade),
        ("zeros", &[0; 4_096]),
        ("noise", &[0xa5; 65_536]),
        ("a frame that is too large", &huge_frame),
    ];
    for _ in 0..scale(4, 40) {
        for (what, said) in greetings {
            let mut wire = Wire::silent(den.address()).await;
            let _closed_meanwhile = wire.flood(said).await;
            let begin = Instant::now();
            wire.expect_closed(what).await;
            assert!(
                begin.elapsed() < Duration::from_secs(4),
                "{what}: closed after {:?}",
                begin.elapsed()
            );
        }
    }
    // Who answers no ping is let go after some patience.
    let mut wire = Wire::silent(den.address()).await;
    assert_eq!(wire.flood(&no_settings).await, Flood::Sent);
    wire.expect_closed("a ping before settings").await;
    den.finish("greetings", 64).await;
}

/// Random bytes behind a right beginning: each connection ends or goes on, and nothing else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_behind_a_right_beginning_harms_nobody() {
    let den = Den::start().await;
    let mut dice = escapement_tests::Dice::new(1);
    let mut noise = move || dice.any();
    for _ in 0..scale(300, 10_000) {
        let mut wire = Wire::open(den.address()).await;
        for _ in 0..8 {
            let [kind, flags, stream, length] = [noise() % 12, noise(), noise() % 4, noise() % 64];
            let payload: Vec<u8> = (0..length).map(|_| noise().to_le_bytes()[0]).collect();
            let [kind, flags] = [kind, flags].map(|n| n.to_le_bytes()[0]);
            let stream = u32::try_from(stream).unwrap();
            if wire.flood(&frame(kind, flags, stream, &payload)).await != Flood::Sent {
                break;
            }
        }
    }
    den.finish("noise", 64).await;
}

/// Slower than anybody needs to be: a byte now and then, of the beginning, of a frame's head, of headers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_says_a_byte_now_and_then_keeps_a_connection_and_no_more() {
    let den = Den::start().await;
    let begin = [
        PREFACE,
        &frame(SETTINGS, 0, 0, &[]),
        // Headers of which each byte is allowed and which never end.
        &frame(
            crate::frames::HEADERS,
            0,
            1,
            &crate::frames::headers(crate::frames::GET, &[]),
        ),
        &[0, 0x40, 0, crate::frames::CONTINUATION, 0, 0, 0, 0, 1],
    ]
    .concat();
    let mut wires = Vec::new();
    for n in 0..scale(300, 3_000) {
        let mut wire = Wire::silent(den.address()).await;
        let said = begin.len() * n / scale(300, 3_000);
        assert_eq!(wire.flood(&begin[..said]).await, Flood::Sent);
        wires.push((wire, said));
    }
    for _ in 0..scale(5, 50) {
        for (wire, said) in &mut wires {
            let byte = begin.get(*said).copied().unwrap_or(0);
            let _closed_meanwhile = wire.flood(&[byte]).await;
            *said += 1;
        }
        escapement_tests::let_pass(Duration::from_millis(100)).await;
    }
    drop(wires);
    den.finish("a byte now and then", scale(64, 256)).await;
}
