//! Floods of frames that cost the sender nothing. Each has a name that its victims gave it.

use crate::den::{Den, scale};
use crate::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, GET, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, PRIORITY,
    PUSH_PROMISE, RST_STREAM, SETTINGS, SUBMIT, WATCH, WINDOW_UPDATE, call, frame, headers, setting,
    whole_call,
};
use crate::wire::{Flood, Wire};
use std::net::SocketAddr;
use tokio::task::JoinSet;

/// Several connections do the same at the same time.
async fn each<Attack>(den: &Den, n_connections: usize, attack: impl Fn(SocketAddr) -> Attack)
where
    Attack: Future<Output = Sent> + Send + 'static,
{
    let mut attackers = JoinSet::new();
    for _ in 0..n_connections {
        attackers.spawn(attack(den.address()));
    }
    let mut all = Sent::default();
    for sent in attackers.join_all().await {
        all.n_bytes += sent.n_bytes;
        all.n_closed += sent.n_closed;
    }
    eprintln!(
        "{} KiB sent, {} connections were closed on the attackers",
        all.n_bytes >> 10,
        all.n_closed
    );
    assert!(
        all.n_bytes > 1 << 20 || all.n_closed >= n_connections,
        "the attack did nothing: {all:?}"
    );
}

/// What an attacker came to.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    n_bytes: usize,
    n_closed: usize,
}

impl Sent {
    fn note(&mut self, flood: &Flood, bytes: &[u8]) {
        match flood {
            Flood::Sent => self.n_bytes += bytes.len(),
            Flood::Closed => self.n_closed += 1,
            Flood::Stuck => {}
        }
    }
}

/// The same bytes again and again, over new connections where the old one was closed.
async fn again(address: SocketAddr, begin: &[u8], bytes: &[u8], n_times: usize, deaf: bool) -> Sent {
    let mut sent = Sent::default();
    let mut wire = None;
    for _ in 0..n_times {
        if wire.is_none() {
            let mut fresh = Wire::open(address).await;
            if fresh.flood(begin).await != Flood::Sent {
                sent.n_closed += 1;
                continue;
            }
            wire = Some(fresh);
        }
        let Some(open) = &mut wire else {
            unreachable!("it was opened a line ago");
        };
        let flood = if deaf {
            open.flood_deaf(bytes).await
        } else {
            open.flood(bytes).await
        };
        sent.note(&flood, bytes);
        match flood {
            Flood::Sent => {}
            // It is not read from any more: the flood has dried up.
            Flood::Stuck => return sent,
            Flood::Closed if sent.n_closed >= CLOSED_MAX => return sent,
            Flood::Closed => wire = None,
        }
    }
    sent
}

/// CVE-2023-44487: open and reset, as fast as it goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rapid_resets() {
    let den = Den::start().await;
    for (path, is_whole) in [(GET, false), (GET, true), (WATCH, true), (SUBMIT, false)] {
        each(&den, 4, |address| async move {
            let mut sent = Sent::default();
            for _ in 0..scale(10, 200) {
                let mut wire = Wire::open(address).await;
                let mut bytes = Vec::new();
                for n in 0..1_000 {
                    let stream = 2 * n + 1;
                    let opened = if is_whole {
                        whole_call(path, stream, b"\x0a\x24aaaaaaaa-0000-4000-8000-000000000000")
                    } else {
                        call(path, stream)
                    };
                    bytes.extend(opened);
                    bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
                }
                sent.note(&wire.flood(&bytes).await, &bytes);
            }
            sent
        })
        .await;
    }
    den.finish("rapid resets", 96).await;
}

/// CVE-2024-27316 and its like: headers that never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_headers() {
    let den = Den::start().await;
    each(&den, 4, |address| async move {
        let begin = frame(HEADERS, 0, 1, &headers(GET, &[]));
        // Fields that were never seen before, without an end.
        let field = [&[0, 5][..], b"x-aaa", &[100], &[b'v'; 100]].concat();
        let more = frame(CONTINUATION, 0, 1, &field.repeat(100));
        again(address, &begin, &more, scale(1_000, 10_000), false).await
    })
    .await;
    each(&den, 4, |address| async move {
        let begin = frame(HEADERS, 0, 1, &headers(GET, &[]));
        let nothing = frame(CONTINUATION, 0, 1, &[]).repeat(1_000);
        again(address, &begin, &nothing, scale(1_000, 10_000), false).await
    })
    .await;
    den.finish("endless headers", 96).await;
}

/// An HPACK bomb: one large field in the table, and then thousands of references to it, of one byte each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_headers_that_stand_for_large_ones() {
    let den = Den::start().await;
    each(&den, 4, |address| async move {
        let mut sent = Sent::default();
        for _ in 0..scale(100, 1_000) {
            let mut wire = Wire::open(address).await;
            let mut stored = headers(GET, &[]);
            // With indexing: a name of one byte and a value of 3,900 (127 and two bytes more).
            stored.extend([0x40, 1, b'x', 0x7f, 0xbd, 0x1d]);
            stored.extend(vec![b'v'; 127 + 0x3d + (0x1d << 7)]);
            let mut bytes = frame(HEADERS, END_HEADERS | 1, 1, &stored);
            for n in 1..20 {
                let mut block = headers(GET, &[]);
                block.extend(vec![0x80 | 62; 12_000]);
                bytes.extend(frame(HEADERS, END_HEADERS | 1, 2 * n + 1, &block));
            }
            sent.note(&wire.flood(&bytes).await, &bytes);
        }
        sent
    })
    .await;
    den.finish("header bombs", 96).await;
}

/// CVE-2019-9512, -9515: pings and settings, whose answers nobody reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_and_settings_without_end() {
    let den = Den::start().await;
    let settings = frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 65_535));
    let frames = [
        frame(PING, 0, 0, &[7; 8]),
        frame(PING, ACK, 0, &[7; 8]),
        settings,
        frame(SETTINGS, 0, 0, &[]),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]),
        frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        // Kinds that nobody has heard of.
        frame(0x42, 0xff, 0, &[1; 32]),
    ];
    for frame in frames {
        for deaf in [false, true] {
            let frame = frame.clone();
            each(&den, 2, move |address| {
                let frames = frame.repeat(1_000);
                async move { again(address, &[], &frames, scale(200, 5_000), deaf).await }
            })
            .await;
        }
    }
    den.finish("pings and settings", 96).await;
}

/// CVE-2019-9518: frames that carry nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_frames_without_end() {
    let den = Den::start().await;
    for path in [SUBMIT, crate::frames::SESSION] {
        each(&den, 2, move |address| async move {
            let begin = call(path, 1);
            let nothing = frame(DATA, 0, 1, &[]).repeat(1_000);
            again(address, &begin, &nothing, scale(1_000, 10_000), false).await
        })
        .await;
        // Padding alone, which counts for the window and brings nothing.
        each(&den, 2, move |address| async move {
            let begin = call(path, 1);
            let padding = frame(DATA, 8, 1, &[&[255][..], &[0; 255]].concat()).repeat(100);
            again(address, &begin, &padding, scale(500, 5_000), false).await
        })
        .await;
    }
    den.finish("empty frames", 96).await;
}

/// What no rule allows, each on a connection of its own; each ends it or is passed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_break_the_rules() {
    let den = Den::start().await;
    let window = |stream, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    let opened = call(SUBMIT, 1);
    let after_opening = |bytes: Vec<u8>| [opened.clone(), bytes].concat();
    let frames = [
        ("a window that grows by nothing", window(0, 0)),
        ("a window beyond its limit", window(0, 0x7fff_ffff).repeat(2)),
        (
            "a stream's window beyond its limit",
            after_opening(window(1, 0x7fff_ffff).repeat(2)),
        ),
        ("a window of a stream that never was", window(9, 1)),
        (
            "windows as settings beyond their limit",
            frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, u32::MAX)),
        ),
        ("settings of half a length", frame(SETTINGS, 0, 0, &[0; 5])),
        ("settings on a stream", frame(SETTINGS, 0, 1, &[])),
        ("an even stream", call(GET, 2)),
        ("stream zero", call(GET, 0)),
        ("streams that go back", [call(GET, 9), call(GET, 3)].concat()),
        ("data before headers", frame(DATA, 0, 1, &[1; 10])),
        ("data on stream zero", frame(DATA, 0, 0, &[1; 10])),
        (
            "headers inside headers",
            [frame(HEADERS, 0, 1, &headers(GET, &[])), call(GET, 3)].concat(),
        ),
        ("a continuation of nothing", frame(CONTINUATION, 0, 1, &[0; 10])),
        (
            "a stream that depends on itself",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 7]),
        ),
        (
            "a promise of a client",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
        ),
        ("a reset of what never was", frame(RST_STREAM, 0, 5, &[0; 4])),
        ("a reset of half a length", frame(RST_STREAM, 0, 1, &[0; 3])),
        ("a ping of half a length", frame(PING, 0, 0, &[0; 7])),
        (
            "padding longer than its frame",
            after_opening(frame(DATA, 8, 1, &[255, 0])),
        ),
        (
            "a goodbye and more calls",
            [frame(GOAWAY, 0, 0, &[0; 8]), call(GET, 1)].concat(),
        ),
        (
            "a table larger than allowed",
            frame(HEADERS, END_HEADERS, 1, &[0x3f, 0xff, 0xff, 0xff, 0x0f]),
        ),
        (
            "a field that is not there",
            frame(HEADERS, END_HEADERS, 1, &[0xff, 0xff, 0x0f]),
        ),
        (
            "a number without an end",
            frame(HEADERS, END_HEADERS, 1, &[0xff; 1_000]),
        ),
        ("no method and no path", frame(HEADERS, END_HEADERS, 1, &[])),
        ("a frame that is too large", frame(DATA, 0, 1, &[0; 20_000])),
    ];
    for _ in 0..scale(5, 200) {
        for (_what, bytes) in &frames {
            let mut wire = Wire::open(den.address()).await;
            let _closed_meanwhile = wire.flood(bytes).await;
        }
    }
    den.finish("broken rules", 64).await;
}

/// New connections that one attacker makes for one flood.
const CLOSED_MAX: usize = 200;
