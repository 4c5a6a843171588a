//! The dearest message of each kind that a worker may send: as many entries, as long texts, as large bytes as are taken.
//! Sends nothing.

use bytes::Bytes;
use escapement_model::limits;
use escapement_tests::ScriptedWorker;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::{
    ActionSpec, AttemptAcks, AttemptOutcome, Capacity, Drain, Goodbye, Heartbeat, Hello, InFlight, Outcomes,
    RegisterActions, Snapshot,
};

/// A message that costs as much as one of its kind can.
pub(crate) struct Dear {
    /// `Session: ` and its name in `SessionRequest`.
    pub(crate) name: &'static str,
    /// What makes it dear.
    pub(crate) worst: &'static str,
    /// The message with this number; names and tokens of different numbers are different ones.
    pub(crate) message: fn(u64) -> Message,
}

/// At least one of each kind.
pub(crate) const DEAR: [Dear; 13] = [
    Dear {
        name: "Session: hello",
        worst: "1,024 names, 16,384 invented attempts",
        message: |n| {
            Message::Hello(Hello {
                actions: names(n),
                in_flight: invented(n),
                ..greeting(n)
            })
        },
    },
    Dear {
        name: "Session: register_actions",
        worst: "1,024 new names",
        message: |n| registration(n, names(n)),
    },
    Dear {
        name: "Session: register_actions",
        worst: "the same 1,024 names again",
        message: |n| registration(n, names(0)),
    },
    Dear {
        name: "Session: register_actions",
        worst: "schemas of 3.9 MiB in all",
        message: |n| registration(n, schemas(62)),
    },
    Dear {
        name: "Session: capacity",
        worst: "levels for 1,024 actions",
        message: |n| {
            Message::Capacity(Capacity {
                revision: n,
                max_in_flight: 1,
                per_action: names(0).into_iter().map(|action| (action.name, 1)).collect(),
            })
        },
    },
    Dear {
        name: "Session: heartbeat",
        worst: "with the hash of other attempts",
        message: |n| {
            Message::Heartbeat(Heartbeat {
                n,
                in_flight: 7,
                in_flight_hash: token(n, 7),
            })
        },
    },
    Dear {
        name: "Session: attempt_acks",
        worst: "16,384 invented tokens",
        message: |n| {
            Message::AttemptAcks(AttemptAcks {
                stopped: (0..LIST_MAX).map(|k| token(n, k)).collect(),
                ..AttemptAcks::default()
            })
        },
    },
    Dear {
        name: "Session: outcomes",
        worst: "16,384 of invented tokens",
        message: |n| {
            let item = |k| AttemptOutcome {
                attempt_token: token(n, k),
                ..AttemptOutcome::default()
            };
            Message::Outcomes(Outcomes {
                items: (0..LIST_MAX).map(item).collect(),
            })
        },
    },
    Dear {
        name: "Session: outcomes",
        worst: "one whose token has 3.9 MiB, which comes back",
        message: |_| {
            let item = AttemptOutcome {
                attempt_token: Bytes::from(vec![7; LARGE]),
                ..AttemptOutcome::default()
            };
            Message::Outcomes(Outcomes { items: vec![item] })
        },
    },
    Dear {
        name: "Session: snapshot",
        worst: "16,384 invented attempts",
        message: |n| {
            Message::Snapshot(Snapshot {
                n,
                last_assignment_seq: n,
                in_flight: invented(n),
            })
        },
    },
    Dear {
        name: "Session: drain",
        worst: "a reason of 3.9 MiB",
        message: |_| {
            Message::Drain(Drain {
                deadline_ms: 1,
                reason: "x".repeat(LARGE),
            })
        },
    },
    Dear {
        name: "Session: drain",
        worst: "again and again",
        message: |_| Message::Drain(Drain::default()),
    },
    Dear {
        name: "Session: goodbye",
        worst: "a reason of 3.9 MiB",
        message: |_| {
            Message::Goodbye(Goodbye {
                reason: "x".repeat(LARGE),
            })
        },
    },
];

/// The first message of a worker that means no harm; workers of different numbers are different instances.
pub(crate) fn greeting(n: u64) -> Hello {
    Hello {
        instance_id: token(n, u64::MAX),
        ..ScriptedWorker::hello_for(Vec::new(), 1)
    }
}

/// As many actions as a session may offer, under names as long as they may be.
pub(crate) fn names(n: u64) -> Vec<ActionSpec> {
    let spec = |k| ActionSpec {
        name: format!("{n:050}{k:050}"),
        ..ActionSpec::default()
    };
    (0..limits::SESSION_ACTIONS_MAX as u64).map(spec).collect()
}

/// `count` actions with input schemas as large as they may be.
fn schemas(count: usize) -> Vec<ActionSpec> {
    let mut actions = names(0);
    actions.truncate(count);
    for action in &mut actions {
        let around = r#"{"title":""}"#.len();
        let fill = "x".repeat(limits::INPUT_SCHEMA_BYTES_MAX - around);
        action.input_schema = format!(r#"{{"title":"{fill}"}}"#);
    }
    actions
}

fn registration(n: u64, actions: Vec<ActionSpec>) -> Message {
    Message::RegisterActions(RegisterActions { revision: n, actions })
}

fn invented(n: u64) -> Vec<InFlight> {
    let item = |k| InFlight {
        attempt_token: token(n, k),
        phase: Phase::Running.into(),
    };
    (0..LIST_MAX).map(item).collect()
}

pub(crate) fn token(n: u64, k: u64) -> Bytes {
    Bytes::from([n.to_be_bytes(), k.to_be_bytes()].concat())
}

/// Items of one list that a worker may send.
const LIST_MAX: u64 = 16_384;
/// A text or bytes that fit one message.
const LARGE: usize = limits::SESSION_MESSAGE_BYTES_MAX - (100 << 10);
