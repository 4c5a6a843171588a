#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says where its assumption broke"
)]

use bytes::Bytes;
use escapement_wire::worker::v1::session_request::Message as Said;
use escapement_wire::worker::v1::session_response::Message as Told;
use escapement_wire::worker::v1::{
    Goodbye, Heartbeat, HeartbeatAck, Hello, SessionRequest, SessionResponse, Welcome,
};
use prost::Message;

use super::{Compared, SessionRecording, Tap, compare};
use crate::session_journal::{Event, Journal};

const TOKEN: &str = "07070707070707070707070707070707";

fn token() -> Bytes {
    Bytes::from_static(&[7; 16])
}

/// Returns a frame of HTTP/2 with the bytes.
fn frame(kind: u8, flags: u8, stream: u32, bytes: &[u8]) -> Vec<u8> {
    let n = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    let head = [&n[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, bytes].concat()
}

/// Returns a message on a stream, in two frames, the second of them padded.
fn message(stream: u32, message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let n = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    let whole = [&[0], &n[..], &bytes].concat();
    let (one, other) = whole.split_at(whole.len() / 2);
    let padded = [&[3], other, &[0, 0, 0]].concat();
    [frame(0, 0, stream, one), frame(0, 8, stream, &padded)].concat()
}

fn said(seq: u64, said: Said) -> SessionRequest {
    SessionRequest {
        seq,
        message: Some(said),
    }
}

fn told(seq: u64, told: Told) -> SessionResponse {
    SessionResponse {
        seq,
        message: Some(told),
    }
}

fn hello() -> SessionRequest {
    let hello = Hello {
        worker_id: "w".to_owned(),
        instance_id: token(),
        hello_number: 1,
        ..Hello::default()
    };
    said(1, Said::Hello(hello))
}

fn welcome() -> SessionResponse {
    let welcome = Welcome {
        session_id: token(),
        ..Welcome::default()
    };
    told(1, Told::Welcome(welcome))
}

/// Three messages each way on stream 5, in pieces of `n` bytes; stream 3 is another call.
fn spoken(n: usize) -> SessionRecording {
    let recording = SessionRecording::default();
    let [mut up, mut down] = recording.connection();
    let heartbeat = |n| Heartbeat {
        n,
        ..Heartbeat::default()
    };
    let to_target = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        message(
            3,
            &Goodbye {
                reason: "another call".to_owned(),
            },
        ),
        message(5, &hello()),
        message(5, &said(2, Said::Heartbeat(heartbeat(1)))),
        message(5, &said(3, Said::Heartbeat(heartbeat(2)))),
    ];
    let to_client = [
        message(
            3,
            &Goodbye {
                reason: "its answer".to_owned(),
            },
        ),
        message(5, &welcome()),
        message(
            5,
            &told(
                2,
                Told::HeartbeatAck(HeartbeatAck {
                    n: 1,
                    ..HeartbeatAck::default()
                }),
            ),
        ),
        message(
            5,
            &told(
                3,
                Told::HeartbeatAck(HeartbeatAck {
                    n: 2,
                    ..HeartbeatAck::default()
                }),
            ),
        ),
        frame(1, 1, 5, b"trailers"),
    ];
    let pour = |tap: &mut Tap, bytes: Vec<u8>| bytes.chunks(n).for_each(|piece| tap.take(piece));
    pour(&mut up, to_target.concat());
    pour(&mut down, to_client.concat());
    recording
}

const HELLO: &str = concat!(
    r#""worker":"w","instance":"TOKEN","hello_number":1,"previous":null,"#,
    r#""max_in_flight":0,"actions":{},"in_flight":{}"#
);
/// The journal of it.
const NOTED: &str = r#"{"t":0,"s":0,"dir":"shell","m":"boot","boot":"00"}
{"t":1,"s":1,"dir":"shell","m":"opened"}
{"t":1,"s":1,"dir":"in","seq":1,"m":"hello",HELLO}
{"t":1,"s":1,"dir":"out","seq":1,"m":"welcome","session":"TOKEN","refused":[],"verdicts":{}}
{"t":2,"s":1,"dir":"in","seq":2,"m":"heartbeat","n":1,"hash":null}
{"t":2,"s":1,"dir":"out","seq":2,"m":"heartbeat_ack","n":1}
{"t":3,"s":1,"dir":"in","seq":3,"m":"heartbeat","n":2,"hash":null}
{"t":3,"s":1,"dir":"out","seq":3,"m":"heartbeat_ack","n":2}
{"t":9,"s":1,"dir":"shell","m":"closed"}
"#;

fn journal(text: &str) -> Vec<Event> {
    let text = text.replace("HELLO", HELLO).replace("TOKEN", TOKEN);
    Journal::of_text(&text).map(Result::unwrap).collect()
}

#[test]
fn a_session_is_read_from_the_wire_however_its_bytes_are_cut() {
    let expected = Compared {
        n_sessions: 1,
        n_messages: 6,
    };
    for n in [1, 2, 7, 1_000] {
        let wire = spoken(n).sessions();
        assert_eq!(compare(&wire, &journal(NOTED)), Ok(expected), "pieces of {n}");
        assert!(wire[0].is_ended);
    }
}

#[test]
fn a_journal_that_says_more_less_or_other_than_the_wire_is_accused() {
    let wire = spoken(1_000).sessions();
    let without = |line: usize| {
        let lines = NOTED.lines().enumerate().filter(|(at, _)| *at != line);
        lines.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let twice = NOTED.replace(
        "{\"t\":9",
        "{\"t\":8,\"s\":1,\"dir\":\"out\",\"seq\":4,\"m\":\"heartbeat_ack\",\"n\":3}\n{\"t\":9",
    );
    let heard_more = NOTED.replace(
        "{\"t\":9",
        "{\"t\":8,\"s\":1,\"dir\":\"in\",\"seq\":4,\"m\":\"drain\"}\n{\"t\":9",
    );
    let lies = [
        without(3),
        without(5),
        without(7),
        twice,
        heard_more,
        NOTED.replace("heartbeat_ack\",\"n\":2", "heartbeat_ack\",\"n\":4"),
        NOTED.replace("HELLO", &HELLO.replace("\"w\"", "\"v\"")),
    ];
    for lie in lies {
        assert!(compare(&wire, &journal(&lie)).is_err(), "{lie}");
    }
}

#[test]
fn a_journal_that_a_crash_cut_off_is_compared_as_far_as_it_goes() {
    let wire = spoken(1_000).sessions();
    let cut: String = NOTED.lines().take(5).map(|line| format!("{line}\n")).collect();
    assert_eq!(compare(&wire, &journal(&cut)).unwrap().n_messages, 3);
}

#[test]
fn behind_a_gap_nothing_is_read() {
    let recording = SessionRecording::default();
    let [mut up, _down] = recording.connection();
    up.take(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    up.gap();
    up.take(&message(1, &hello()));
    assert!(recording.sessions().is_empty());
}
