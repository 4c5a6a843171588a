//! The entries of a journal, read from their bytes. Field numbers are those that journals are stored with.

mod artifacts;
mod models;
mod spec;
mod unit;

use crate::wire::Message;
use std::collections::BTreeMap;

pub(crate) use artifacts::{Declared, Verified};
pub(crate) use models::{AskedCall, Budget, KINDS, Usage};
pub(crate) use spec::Spec;
pub(crate) use unit::{RANGE, Unit};

/// Bytes, in place or by their hash.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stored {
    pub(crate) inline: Vec<u8>,
    pub(crate) digest: Option<[u8; 32]>,
}

/// What a person is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) id: Vec<u8>,
    pub(crate) kind: u32,
    pub(crate) unit: Option<Unit>,
    pub(crate) digest: Vec<u8>,
    pub(crate) expires_at: i64,
    /// The part of the budget that it is about: a place in [`KINDS`].
    pub(crate) budget: usize,
    /// True if it is about something that went wrong, or a handler wants it.
    pub(crate) has_error: bool,
    /// The execution of an earlier revision, or of another run, that it is about; empty if there is none.
    pub(crate) earlier: Vec<u8>,
    /// The payload that it is about.
    pub(crate) subject: Option<Stored>,
    pub(crate) action: String,
    /// Unit's own attempt that it is about; 0 without one.
    pub(crate) attempt: u32,
    /// Amounts of an extension: used, the limit, and the limit as it will be.
    pub(crate) extension: Option<[u64; 3]>,
}

/// What a person said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) id: Vec<u8>,
    pub(crate) responder: String,
    /// 2 is an agent.
    pub(crate) responder_kind: u32,
    pub(crate) decision: u32,
    pub(crate) value: Option<Stored>,
    pub(crate) digest: Vec<u8>,
}

/// An attempt that is intended.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) unit: Unit,
    pub(crate) attempt: u32,
    pub(crate) action: String,
    pub(crate) request: Stored,
    pub(crate) subject: Vec<u8>,
    /// What it may use, if it asks a model.
    pub(crate) reserved: Option<Usage>,
    /// The model that it asks.
    pub(crate) model: String,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) unit: Unit,
    pub(crate) attempt: u32,
    /// 0 is completed.
    pub(crate) class: u32,
    pub(crate) output: Option<Stored>,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Created {
        run: Vec<u8>,
        spec: Box<Spec>,
        input: Stored,
        environment: Stored,
    },
    Planned {
        digest: Vec<u8>,
        n_steps: u32,
        document: Stored,
        /// Action and risk.
        risks: Vec<(String, u32)>,
        /// Actions whose repetition may be noticed.
        effects: Vec<String>,
        /// The types of artifacts that actions make.
        produces: BTreeMap<String, Vec<String>>,
        /// The generation that made it, or 0.
        generation: u32,
        /// What it may not call.
        disabled: Vec<String>,
    },
    /// Knowledge of the actions of a run that waited for it in the queue.
    ActionsKnown {
        risks: Vec<(String, u32)>,
        effects: Vec<String>,
    },
    /// An artifact was declared or uploaded.
    Declared(Box<Declared>),
    /// The run looks at artifacts of these types.
    Verifying(Vec<String>),
    Verified(Verified),
    GenerationStarted(u32),
    GenerationEnded {
        generation: u32,
        accepted: bool,
    },
    Replanned {
        disabled: Vec<String>,
        substitutes: bool,
        falls_back: bool,
    },
    UnitMemoized {
        unit: Unit,
        output: Stored,
        /// What it is the result of.
        key: Vec<u8>,
    },
    BudgetAwaited(Unit),
    ToolsAsked {
        unit: Unit,
        calls: Vec<AskedCall>,
    },
    SessionRead {
        state: Option<Stored>,
        version: u64,
    },
    StatePatched {
        patch: Stored,
        state: Option<Stored>,
    },
    Started,
    StepStarted(u32),
    EvaluationRequested {
        evaluation: u32,
        unit: Unit,
    },
    Evaluated {
        evaluation: u32,
        value: bool,
        failed: bool,
    },
    Called(Box<Called>),
    Output(Output),
    Retrying {
        unit: Unit,
        retry: u32,
        due_at: i64,
        budget: u32,
    },
    UnitFailed(Unit),
    StepCompleted {
        step: u32,
        output: Option<Stored>,
    },
    StepFailed {
        step: u32,
        code: String,
        message: String,
    },
    StepSkipped {
        step: u32,
    },
    StepBlocked(u32),
    StepReset(u32),
    Asked(Asked),
    Decided(Said),
    Answered(Said),
    Expired(Vec<u8>),
    Closed(Vec<u8>),
    PauseRequested,
    Paused,
    Resumed,
    Recovered {
        /// Lead of the times of the run over the clock of the start.
        ahead_ms: u64,
    },
    /// Part of the time since the last entry in which the process could do nothing.
    Stalled {
        ms: u64,
    },
    Checkpoint,
    RolledBack(String),
    ChildStarted {
        unit: Unit,
        run: Vec<u8>,
        /// What it may use.
        reserved: Option<Usage>,
    },
    ChildEnded {
        unit: Unit,
        output: Option<Stored>,
        /// What it used.
        usage: Option<Usage>,
        /// Effects that are in doubt then.
        n_doubts: usize,
    },
    /// Limit that is over, and its milliseconds.
    TimedOut {
        limit: u32,
        ms: u64,
    },
    Completed,
    Failed {
        timed_out: bool,
    },
    Cancelled,
    Failing {
        step: Option<u32>,
        drains: bool,
    },
    Memoized {
        step: u32,
        output: Option<Stored>,
        units: Vec<Option<Stored>>,
        /// What they are the results of.
        keys: Vec<Vec<u8>>,
    },
    /// One that this decoder does not know.
    Other,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    pub(crate) at: i64,
    /// What a run says with its end that it used.
    pub(crate) spent: Option<Usage>,
    pub(crate) event: Event,
}

/// # Errors
/// Says what is wrong with the bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Entry, String> {
    let entry = Message::parse(bytes)?;
    let kinds: Vec<u32> = entry.numbers().filter(|number| *number >= 10).collect();
    let [kind] = kinds[..] else {
        return Err(format!("an entry says one thing, and not {kinds:?}"));
    };
    let body = entry.message(kind)?;
    let event = match kind {
        10..=17 => of_attempts(kind, &body)?,
        18..=24 | 43 => of_steps(kind, &body)?,
        25..=29 => of_people(kind, &body)?,
        44..=61 => models::of_models(kind, &body)?,
        _ => of_run(kind, &body)?,
    };
    Ok(Entry {
        sequence: entry.number(1),
        at: entry.signed(2),
        spent: models::usage(&entry, 3)?,
        event,
    })
}

fn of_attempts(kind: u32, body: &Message<'_>) -> Result<Event, String> {
    Ok(match kind {
        10 => Event::Created {
            run: body.bytes(1).to_vec(),
            spec: Box::new(spec::read(&body.message(2)?)?),
            input: stored(&body.message(3)?),
            environment: stored(&body.message(4)?),
        },
        11 => Event::Planned {
            digest: body.bytes(2).to_vec(),
            n_steps: body.small(5),
            document: stored(&body.message(6)?),
            risks: risks(body, 4)?,
            effects: effects(body, 4)?,
            produces: produces(body)?,
            generation: body.small(18),
            disabled: body.texts(21),
        },
        12 => Event::Started,
        13 => Event::StepStarted(body.small(1)),
        14 => Event::EvaluationRequested {
            evaluation: body.small(1),
            unit: Unit::of(&body.message(2)?),
        },
        15 => Event::Evaluated {
            evaluation: body.small(1),
            value: body.number(2) != 0,
            failed: body.has(3),
        },
        16 => Event::Called(Box::new(Called {
            unit: Unit::of(&body.message(1)?),
            attempt: body.small(2),
            action: body.text(3),
            request: stored(&body.message(4)?),
            subject: body.bytes(5).to_vec(),
            reserved: models::usage(body, 55)?,
            model: body.text(56),
        })),
        _ => Event::Output(Output {
            unit: Unit::of(&body.message(1)?),
            attempt: body.small(2),
            class: body.small(3),
            output: optional(body, 4)?,
        }),
    })
}

fn of_steps(kind: u32, body: &Message<'_>) -> Result<Event, String> {
    Ok(match kind {
        18 => Event::Retrying {
            unit: Unit::of(&body.message(1)?),
            retry: body.small(2),
            due_at: body.signed(3),
            budget: body.small(5),
        },
        19 => Event::UnitFailed(Unit::of(&body.message(1)?)),
        20 => Event::StepCompleted {
            step: body.small(1),
            output: optional(body, 2)?,
        },
        21 => {
            let error = body.message(2)?;
            Event::StepFailed {
                step: body.small(1),
                code: error.text(1),
                message: error.text(2),
            }
        }
        22 => Event::StepSkipped { step: body.small(1) },
        23 => Event::StepBlocked(body.small(1)),
        24 => Event::StepReset(body.small(1)),
        _ => {
            let units = body.all(3).map(|unit| optional(&Message::parse(unit)?, 1));
            Event::Memoized {
                step: body.small(1),
                output: optional(body, 2)?,
                units: units.collect::<Result<_, _>>()?,
                keys: body.all(3).map(key).collect::<Result<_, _>>()?,
            }
        }
    })
}

fn of_people(kind: u32, body: &Message<'_>) -> Result<Event, String> {
    Ok(match kind {
        25 => {
            let unit = match body.has(3) {
                true => Some(Unit::of(&body.message(3)?)),
                false => None,
            };
            Event::Asked(Asked {
                id: body.bytes(1).to_vec(),
                kind: body.small(2),
                unit,
                digest: body.bytes(7).to_vec(),
                expires_at: body.signed(9),
                budget: body.small(55) as usize,
                has_error: body.has(10),
                earlier: body.bytes(17).to_vec(),
                subject: optional(body, 8)?,
                action: body.text(18),
                attempt: body.small(19),
                extension: match body.has(21) {
                    true => {
                        let amounts = body.message(21)?;
                        Some([1, 2, 3].map(|number| amounts.number(number)))
                    }
                    false => None,
                },
            })
        }
        26 => Event::Decided(said(body)?),
        27 => Event::Answered(said(body)?),
        28 => Event::Expired(body.bytes(1).to_vec()),
        _ => Event::Closed(body.bytes(1).to_vec()),
    })
}

fn of_run(kind: u32, body: &Message<'_>) -> Result<Event, String> {
    Ok(match kind {
        30 => Event::PauseRequested,
        31 => Event::Paused,
        32 => Event::Resumed,
        33 => Event::Recovered {
            ahead_ms: body.number(9),
        },
        34 => Event::Checkpoint,
        35 => Event::RolledBack(body.text(1)),
        36 => Event::ChildStarted {
            unit: Unit::of(&body.message(1)?),
            run: body.bytes(2).to_vec(),
            reserved: models::usage(body, 4)?,
        },
        37 => Event::ChildEnded {
            unit: Unit::of(&body.message(1)?),
            output: optional(body, 2)?,
            usage: models::usage(body, 4)?,
            n_doubts: body.all(5).count(),
        },
        38 => Event::TimedOut {
            limit: body.small(1),
            ms: body.number(2),
        },
        39 => Event::Completed,
        40 => Event::Failed {
            timed_out: body.number(2) != 0,
        },
        41 => Event::Cancelled,
        42 => {
            let error = body.message(1)?;
            Event::Failing {
                step: error.has(3).then(|| error.small(3)),
                drains: body.number(2) != 0,
            }
        }
        64 => Event::Stalled { ms: body.number(1) },
        63 => Event::ActionsKnown {
            risks: risks(body, 1)?,
            effects: effects(body, 1)?,
        },
        _ => Event::Other,
    })
}

fn key(unit: &[u8]) -> Result<Vec<u8>, String> {
    Ok(Message::parse(unit)?.bytes(2).to_vec())
}

fn stored(message: &Message<'_>) -> Stored {
    Stored {
        inline: message.bytes(1).to_vec(),
        digest: message.bytes(2).try_into().ok(),
    }
}

fn optional(body: &Message<'_>, number: u32) -> Result<Option<Stored>, String> {
    if body.has(number) {
        Ok(Some(stored(&body.message(number)?)))
    } else {
        Ok(None)
    }
}

fn said(body: &Message<'_>) -> Result<Said, String> {
    let responder = body.message(2)?;
    Ok(Said {
        id: body.bytes(1).to_vec(),
        responder: responder.text(1),
        responder_kind: responder.small(2),
        decision: body.small(3),
        value: optional(body, 4)?,
        digest: body.bytes(6).to_vec(),
    })
}

fn risks(body: &Message<'_>, field: u32) -> Result<Vec<(String, u32)>, String> {
    let risk = |profile: &[u8]| {
        let profile = Message::parse(profile)?;
        Ok((profile.text(1), profile.small(3)))
    };
    body.all(field).map(risk).collect()
}

/// The types of artifacts that actions make.
fn produces(body: &Message<'_>) -> Result<BTreeMap<String, Vec<String>>, String> {
    let of_action = |profile: &[u8]| {
        let profile = Message::parse(profile)?;
        Ok((profile.text(1), profile.texts(7)))
    };
    body.all(4).map(of_action).collect()
}

/// Those that change something, or act on somebody, and may not be repeated.
fn effects(body: &Message<'_>, field: u32) -> Result<Vec<String>, String> {
    let effect = |profile: &[u8]| {
        let profile = Message::parse(profile)?;
        let may_not_repeat = matches!(profile.small(2), 0 | 4) && profile.number(4) == 0;
        Ok(may_not_repeat.then(|| profile.text(1)))
    };
    let all: Result<Vec<Option<String>>, String> = body.all(field).map(effect).collect();
    Ok(all?.into_iter().flatten().collect())
}
