//! Artifacts of a run: what its outputs declare, what looks at them find, and what must be there before it completes.
//! Knows a few media types.

use super::Desk;
use super::book::{Book, Stage};
use crate::canonical::sha256 as digest_of;
use crate::journal::{Called, Declared, Output, RANGE, Unit, Verified};
use crate::wire::Value;
use std::collections::BTreeMap;

/// The artifacts of the results that count.
#[derive(Debug, Default)]
pub(super) struct Artifacts {
    /// By their numbers.
    known: BTreeMap<u32, Artifact>,
    /// The run looks at them.
    pub(super) verifies: bool,
}

/// One of them.
#[derive(Debug)]
struct Artifact {
    declared: Declared,
    /// What is known of its content, if that is given.
    given: Option<Found>,
    /// The look at it that lives.
    live: Option<u32>,
    looks: u32,
    /// How the latest look ended, and with what.
    last: Option<(u32, Option<Value>)>,
    /// When it is looked at again; 0 if it is not.
    again_at: i64,
    /// True if it is right, false if it is wrong.
    verdict: Option<bool>,
}

/// What is known of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    n_bytes: u64,
    sha256: Vec<u8>,
    /// Its first bytes.
    magic: Vec<u8>,
}

impl Artifact {
    /// True if the latest look ended in a way that another one may change.
    fn is_looked_at_again(&self) -> bool {
        let class = self.last.as_ref().map(|(class, _)| *class);
        matches!(class, Some(1 | 2 | 4 | 5)) && self.looks < LOOKS_MAX
    }

    /// Whether it is what it is said to be, by what is known.
    fn is_right(&self) -> bool {
        let found = match (&self.given, &self.last) {
            (Some(given), _) => Some(given.clone()),
            (None, Some((0, Some(output)))) => found_by(output),
            (None, _) => None,
        };
        let said = &self.declared;
        found.is_some_and(|found| {
            found.n_bytes >= BYTES_MIN
                && said.n_bytes.is_none_or(|n_bytes| n_bytes == found.n_bytes)
                && (said.sha256.is_empty() || said.sha256 == found.sha256)
                && begins_as(&said.mime_type, &found.magic)
                && is_of_type(&said.mime_type, &said.kind)
        })
    }
}

impl Artifacts {
    /// Another revision begins: what was uploaded stays.
    pub(super) fn begin_anew(&mut self) {
        self.known.retain(|_, artifact| artifact.declared.unit.is_none());
        self.verifies = false;
    }

    /// A step begins anew: what it made counts no more.
    pub(super) fn set_back(&mut self, step: u32) {
        let is_other = |artifact: &Artifact| artifact.declared.unit.is_none_or(|unit| unit.step != step);
        self.known.retain(|_, artifact| is_other(artifact));
        self.verifies = false;
    }

    /// When the next look is due, while the run verifies.
    pub(super) fn due_at(&self) -> Option<i64> {
        let again = self.known.values().map(|artifact| artifact.again_at);
        again.filter(|at| self.verifies && *at > 0).min()
    }

    /// True if this look lives.
    pub(super) fn awaits(&self, unit: Unit, attempt: u32) -> bool {
        let artifact = self.known.get(&(unit.index % RANGE));
        artifact.is_some_and(|artifact| {
            let epoch = artifact.declared.unit.map(|unit| unit.epoch);
            artifact.live == Some(attempt) && epoch == Some(unit.epoch)
        })
    }
}

impl Book {
    /// An output declares an artifact, or somebody has uploaded one.
    pub(super) fn declared(&mut self, declared: Declared, desk: &mut Desk<'_>) {
        if declared.unit.is_some() {
            desk.count("artifacts declared");
        }
        let given = declared.content.as_ref().map(|content| {
            let content = desk.load(content);
            Found {
                n_bytes: content.len() as u64,
                sha256: digest_of(&content).to_vec(),
                magic: content.into_iter().take(MAGIC_BYTES).collect(),
            }
        });
        let artifact = Artifact {
            given,
            live: None,
            looks: 0,
            last: None,
            again_at: 0,
            verdict: None,
            declared,
        };
        let number = artifact.declared.number;
        if self.artifacts.known.insert(number, artifact).is_some() {
            desk.finds(
                "RI9",
                &format!("artifact {number} has a number that was used before"),
            );
        }
    }

    // RI18
    /// All steps have ended, and the run looks at what it has made.
    pub(super) fn verifies(&mut self, wanted: &[String], desk: &mut Desk<'_>) {
        desk.count("runs that verify");
        (self.artifacts.verifies, self.doings.looks) = (true, true);
        if wanted != self.wanted {
            desk.finds(
                "RI18",
                &format!("looks for {wanted:?}, and must make {:?}", self.wanted),
            );
        }
    }

    fn has_settled_steps(&self) -> bool {
        let is_open = |stage| matches!(stage, Stage::Pending | Stage::Running);
        !self.steps.iter().any(|step| is_open(step.stage))
    }

    // RI3, RI8, RI9, RI18
    /// A look at an artifact is intended: of one that must be there, while nothing else is to be done.
    pub(super) fn looks(&mut self, called: &Called, desk: &mut Desk<'_>) {
        desk.count("looks at artifacts");
        let unit = called.unit;
        let verifies = self.artifacts.verifies && self.has_settled_steps() && self.cause.is_none();
        if !verifies {
            desk.finds("RI18", &format!("{unit:?} looks, and the run does not verify"));
        }
        let (at, wanted) = (self.at, &self.wanted);
        let Some(artifact) = self.artifacts.known.get_mut(&(unit.index % RANGE)) else {
            return desk.finds(
                "RI7",
                &format!("{unit:?} looks at what is no artifact of the run"),
            );
        };
        let of = artifact.declared.unit.map(|unit| (unit.step, unit.epoch));
        if of != Some((unit.step, unit.epoch)) || called.action != LOOK_ACTION {
            desk.finds(
                "RI9",
                &format!("{unit:?} looks by {} at what {of:?} made", called.action),
            );
        }
        if artifact.live.is_some() {
            desk.finds("RI3", &format!("{unit:?} looks while another look lives"));
        }
        let is_wanted = wanted.contains(&artifact.declared.kind) && artifact.given.is_none();
        if artifact.verdict.is_some() || !is_wanted {
            desk.finds("RI18", &format!("{unit:?} looks, and nobody wants to know"));
        }
        if called.attempt != artifact.looks + 1 || called.attempt > LOOKS_MAX {
            let looks = artifact.looks;
            desk.finds(
                "RI8",
                &format!("look {} of {unit:?} follows {looks}", called.attempt),
            );
        }
        if artifact.again_at > at {
            desk.finds("RI8", &format!("{unit:?} looks again before its time"));
        }
        if called.attempt > 1 {
            desk.count("looks again");
        }
        (artifact.live, artifact.looks, artifact.again_at) = (Some(called.attempt), called.attempt, 0);
    }

    // RI10
    /// A look names the path that was declared, and nothing else.
    pub(super) fn check_look(&self, called: &Called, payload: &Value, desk: &mut Desk<'_>) {
        let artifact = self.artifacts.known.get(&(called.unit.index % RANGE));
        let path = artifact.map(|artifact| Value::Text(artifact.declared.path.clone()));
        let expected = path.map(|path| Value::Object([("path".to_owned(), path)].into()));
        if expected.as_ref() != Some(payload) {
            let unit = called.unit;
            desk.finds(
                "RI10",
                &format!("{unit:?} looks at {payload:?}, not {expected:?}"),
            );
        }
    }

    // RI3
    /// A look has ended.
    pub(super) fn has_looked(&mut self, output: &Output, value: Option<Value>, desk: &mut Desk<'_>) {
        let unit = output.unit;
        let Some(artifact) = self.artifacts.known.get_mut(&(unit.index % RANGE)) else {
            return desk.finds(
                "RI7",
                &format!("{unit:?} has looked at what is no artifact of the run"),
            );
        };
        if artifact.live.take() != Some(output.attempt) {
            let text = format!("look {} of {unit:?} ends, and does not live", output.attempt);
            desk.finds("RI3", &text);
        }
        artifact.last = Some((output.class, value));
    }

    // RI18
    /// An artifact is judged, or is looked at again.
    pub(super) fn verified(&mut self, verified: &Verified, desk: &mut Desk<'_>) {
        let (at, number) = (self.at, verified.number);
        let Some(artifact) = self.artifacts.known.get_mut(&number) else {
            return desk.finds(
                "RI7",
                &format!("{number} is judged, and is no artifact of the run"),
            );
        };
        if artifact.verdict.is_some() || artifact.live.is_some() {
            desk.finds(
                "RI18",
                &format!("artifact {number} is judged twice, or too early"),
            );
        }
        artifact.again_at = verified.again_at;
        let is_repeated = artifact.given.is_none() && artifact.is_looked_at_again();
        if is_repeated != (verified.again_at > 0) {
            let (looks, last) = (artifact.looks, &artifact.last);
            let text = format!(
                "artifact {number}: after {looks} looks and {last:?} again at {}",
                verified.again_at
            );
            return desk.finds("RI18", &text);
        }
        if is_repeated {
            let least_at = at.saturating_add(LOOK_AGAIN_MS << (artifact.looks - 1));
            if verified.again_at < least_at {
                let text = format!(
                    "artifact {number} is looked at again at {}, not {least_at}",
                    verified.again_at
                );
                desk.finds("RI8", &text);
            }
            return;
        }
        let (is_right, expected) = (verified.problem.is_empty(), artifact.is_right());
        if is_right != expected {
            let text = format!(
                "artifact {number} is right: {is_right} ({}), not {expected}",
                verified.problem
            );
            desk.finds("RI18", &text);
        }
        artifact.verdict = Some(is_right);
        let maker = artifact.declared.unit.filter(|_| !is_right);
        if let Some(maker) = maker {
            self.made_what_is_wrong(maker, desk);
        }
        desk.count(match is_right {
            true => "artifacts that are right",
            false => "artifacts that are wrong",
        });
    }

    // RI18
    /// The run completes: one artifact of each type that it must make was seen to be right.
    pub(super) fn check_made(&self, desk: &mut Desk<'_>) {
        for wanted in &self.wanted {
            let mut known = self.artifacts.known.values();
            let is_made =
                |artifact: &Artifact| artifact.declared.kind == *wanted && artifact.verdict == Some(true);
            if !known.any(is_made) {
                desk.finds(
                    "RI18",
                    &format!("completes without an artifact of the type {wanted:?}"),
                );
            }
            desk.count("artifacts that a run must make");
        }
    }
}

/// What an output of the action that looks says; `None` if it says too little.
fn found_by(output: &Value) -> Option<Found> {
    if !matches!(output.field("exists"), None | Some(Value::Bool(true))) {
        return None;
    }
    let Some(Value::Number(bits)) = output.field("size_bytes") else {
        return None;
    };
    let hex = |key: &str| match output.field(key) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Text(text)) => bytes_of(text),
        Some(_) => None,
    };
    Some(Found {
        n_bytes: f64::from_bits(*bits) as u64,
        sha256: hex("sha256")?,
        magic: output.text("magic_hex").and_then(bytes_of)?,
    })
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    Some(
        digits?
            .chunks(2)
            .map(|two| two.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}

/// Of the media types that are made here.
fn begins_as(mime_type: &str, magic: &[u8]) -> bool {
    match mime_type {
        "image/png" => magic.starts_with(b"\x89PNG\r\n\x1a\n"),
        "text/plain" => !magic.contains(&0),
        _ => true,
    }
}

/// Of the types that are made here.
fn is_of_type(mime_type: &str, kind: &str) -> bool {
    match kind {
        "image" => mime_type.starts_with("image/"),
        "text" => mime_type.starts_with("text/"),
        _ => true,
    }
}

/// The action that looks at files.
const LOOK_ACTION: &str = "file.stat";
/// Looks at one artifact.
const LOOKS_MAX: u32 = 4;
/// Time before the second look; it doubles.
const LOOK_AGAIN_MS: i64 = 1_000;
/// Bytes of the smallest artifact.
const BYTES_MIN: u64 = 10;
/// First bytes that are looked at.
const MAGIC_BYTES: usize = 16;
