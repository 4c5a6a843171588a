//! What users are told of a run: texts that follow from its entries. Tells nobody.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::encoder::sha256;
use escapement_model::hex;
use escapement_model::opaque::{ValueView, value, value_of};
use escapement_model::{Namespace, RunId};
use escapement_run::journal::{Entry, Event, Failure, PlanCreated, Stored};
use escapement_run::plan::{Plan, Step};
use escapement_run::spec::{Notices, Spec, namespace_named};
use escapement_run::state::{RunState, StepStage, StepState};
use escapement_run::template::json_text;
use escapement_run::{CRASH_LOOP, Commit, DISCARDED, Run};
use prost::{Enumeration, Message};

use crate::texts::Texts;

/// A notice as it is stored.
#[derive(Clone, PartialEq, Message)]
pub struct Notice {
    /// What kind it is.
    #[prost(enumeration = "NoticeKind", tag = "1")]
    pub kind: i32,
    /// What it says, at most 64 KiB.
    #[prost(string, tag = "2")]
    pub text: String,
    /// The run, 16 bytes.
    #[prost(bytes = "bytes", tag = "3")]
    pub run_id: Bytes,
    /// The entry of its journal that it tells of.
    #[prost(uint64, tag = "4")]
    pub sequence: u64,
    /// The step that it is about; empty if there is none.
    #[prost(string, tag = "5")]
    pub step_key: String,
    /// Whose run it is; empty for one of before this was kept.
    #[prost(string, tag = "6")]
    pub user_id: String,
}

/// What kind of notice it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum NoticeKind {
    /// How far it is.
    Status = 0,
    /// The answer.
    Agent = 1,
    /// What the user should know of the run as such.
    System = 2,
}

/// A notice of a run's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRow {
    /// Whose outboxes it goes into.
    pub streams: Vec<String>,
    /// Unix milliseconds.
    pub at: i64,
    /// The encoded [`Notice`].
    pub record: Bytes,
}

/// Returns the stream of everything that a user of that namespace is told.
pub fn stream_of_user(namespace: &Namespace, user_id: &str) -> String {
    match namespace.as_str() {
        Namespace::DEFAULT => named("u", &format!("u {user_id}")),
        name => named("U", &format!("U {name} {user_id}")),
    }
}

/// The stream of what runs of a session tell.
pub fn stream_of_session(namespace: &Namespace, session_id: &str) -> String {
    match namespace.as_str() {
        Namespace::DEFAULT => named("s", &format!("s {session_id}")),
        name => named("S", &format!("S {name} {session_id}")),
    }
}

/// Returns the stream of this name, or of its digest if the name is too long for one. No name of a stream
/// begins as a digest's does.
fn named(kind: &str, name: &str) -> String {
    match name.len() <= STREAM_BYTES_MAX {
        true => name.to_string(),
        false => format!("#{kind} {}", hex::text(&sha256(name.as_bytes()))),
    }
}

// RUN-14.8
/// What the entries of a commit tell the user of the run.
pub(crate) fn of(run: &Run, commit: &Commit) -> Vec<NoticeRow> {
    let spec = &run.state().spec;
    let told = spec.notices();
    let streams = streams_of(spec);
    if streams.is_empty() {
        return Vec::new();
    }
    // An entry is told with the plan that it is about. The first plan of a run takes no other one's place.
    let is_plan = |entry: &&Entry| matches!(entry.event, Some(Event::PlanCreated(_)));
    let n_plans = commit.events.iter().filter(is_plan).count();
    let mut n_first = n_plans.saturating_sub(commit.replaced.len());
    let mut plans = commit.replaced.iter().chain([run.plan()]);
    let mut telling = Telling {
        plan: plans.next().expect("a run has a plan"),
        texts: Texts::of(&spec.locale),
        steps: &run.state().steps,
        commit,
    };
    let mut rows = Vec::new();
    for entry in &commit.events {
        if is_plan(&entry) {
            match n_first.checked_sub(1) {
                Some(rest) => n_first = rest,
                None => telling.plan = plans.next().expect("each revision has a plan"),
            }
        }
        let said = entry.event.as_ref().and_then(|event| telling.said(event));
        let Some((kind, step, text)) = said else {
            continue;
        };
        if told == Notices::End && kind == NoticeKind::Status {
            continue;
        }
        let notice = Notice {
            kind: kind.into(),
            text: bounded(text),
            run_id: run.state().run_id.clone(),
            sequence: entry.sequence,
            step_key: step.map_or_else(String::new, |step| step.key.clone()),
            user_id: spec.user_id.clone(),
        };
        rows.push(NoticeRow {
            streams: streams.clone(),
            at: entry.at,
            record: Bytes::from(notice.encode_to_vec()),
        });
    }
    rows
}

/// What tells the user that a damaged run is discarded; `None` if its user is told nothing, or is not known any more. The state is that
/// after its last entry that can be read.
pub fn notice_of_damaged(state: &RunState, at: i64) -> Option<NoticeRow> {
    let streams = streams_of(&state.spec);
    let run_id = RunId::from_bytes(state.run_id[..].try_into().ok()?)?;
    let notice = Notice {
        kind: NoticeKind::System.into(),
        text: format!("{run_id} → {}", Texts::of(&state.spec.locale).discarded),
        run_id: state.run_id.clone(),
        sequence: state.sequence,
        step_key: String::new(),
        user_id: state.spec.user_id.clone(),
    };
    (!streams.is_empty()).then(|| NoticeRow {
        streams,
        at,
        record: Bytes::from(notice.encode_to_vec()),
    })
}

/// Where a run tells its user something; nowhere if it tells nothing.
fn streams_of(spec: &Spec) -> Vec<String> {
    if spec.notices() == Notices::None || !spec.parent_run_id.is_empty() {
        return Vec::new();
    }
    let namespace = namespace_named(&spec.namespace);
    let mut streams = Vec::from([stream_of_user(&namespace, &spec.user_id)]);
    if !spec.session_id.is_empty() {
        streams.push(stream_of_session(&namespace, &spec.session_id));
    }
    streams
}

/// What a notice is, which step it is about, and what it says.
type Said<'a> = Option<(NoticeKind, Option<&'a Step>, String)>;

struct Telling<'a> {
    plan: &'a Plan,
    texts: &'static Texts,
    /// After the commit.
    steps: &'a [StepState],
    commit: &'a Commit,
}

impl<'a> Telling<'a> {
    // RUN-14.9
    fn said(&self, event: &Event) -> Said<'a> {
        let (texts, name) = (self.texts, &self.plan.name);
        let of_run = |kind, text| Some((kind, None, text));
        match event {
            Event::RunStarted(_) => self.summary(),
            Event::PlanCreated(PlanCreated { number: 2.., .. }) => self.summary(),
            Event::StepStarted(step) => self.status(step.step, |place| place),
            Event::StepCompleted(completed) => {
                self.status(completed.step, |place| format!("{place} → {}", texts.done))
            }
            Event::StepFailed(failed) => self.status(failed.step, |place| {
                format!("{place} → {} ({})", texts.failed, failure(&failed.error))
            }),
            Event::StepRetrying(retrying) if retrying.retry > 0 => {
                let step = self.plan.steps.get(retrying.unit.step as usize)?;
                let text = format!(
                    "{} {}/{}: {}",
                    texts.retry,
                    retrying.retry,
                    retrying.budget,
                    described(step)
                );
                Some((NoticeKind::Status, Some(step), text))
            }
            Event::InputRequested(request) => {
                let step = request
                    .unit
                    .and_then(|unit| self.plan.steps.get(unit.step as usize));
                let text = format!("{}: {}", texts.asks, request.question);
                Some((NoticeKind::System, step, text))
            }
            // RUN-9.5
            Event::PauseRequested(pause) if pause.reason.starts_with(CRASH_LOOP) => of_run(
                NoticeKind::System,
                format!("{name} → {} ({})", texts.paused, pause.reason),
            ),
            Event::RunRecovered(_) => of_run(NoticeKind::Status, format!("{name}: {}", texts.goes_on)),
            Event::RunCompleted(end) => {
                let answer = self.answer(end.output.as_ref());
                of_run(NoticeKind::Agent, self.with_failures(answer, end.partial))
            }
            Event::RunFailed(end) => {
                let word = if end.timed_out {
                    texts.timed_out
                } else {
                    texts.failed
                };
                of_run(
                    NoticeKind::System,
                    format!("{name} → {word} ({})", failure(&end.error)),
                )
            }
            Event::RunCancelled(end) if end.reason == DISCARDED => {
                of_run(NoticeKind::System, format!("{name} → {}", texts.discarded))
            }
            Event::RunCancelled(end) => of_run(
                NoticeKind::System,
                format!("{name} → {} ({})", texts.cancelled, end.reason),
            ),
            _ => None,
        }
    }

    /// All steps, before the first one begins.
    fn summary(&self) -> Said<'a> {
        if self.plan.steps.is_empty() {
            return None;
        }
        let mut text = format!("{}: {}", self.texts.plan, self.plan.name);
        for (n, step) in (1..).zip(&self.plan.steps) {
            text.push_str(&format!("\n{n}. {}", described(step)));
        }
        Some((NoticeKind::Status, None, text))
    }

    fn status(&self, step: u32, text: impl FnOnce(String) -> String) -> Said<'a> {
        let (n, n_steps) = (step + 1, self.plan.steps.len());
        let step = self.plan.steps.get(step as usize)?;
        let place = format!("{} {n}/{n_steps}: {}", self.texts.step, described(step));
        Some((NoticeKind::Status, Some(step), text(place)))
    }

    /// Returns the output of the run as a text.
    fn answer(&self, output: Option<&Stored>) -> String {
        let bytes = output.and_then(|output| self.load(output)).unwrap_or_default();
        match value(&bytes) {
            Ok(ValueView::Null) | Err(_) => self.texts.done.to_string(),
            Ok(ValueView::Text(text)) => text.to_string(),
            Ok(ValueView::Struct(object)) => match value_of(object, "decision") {
                Some(ValueView::Text(text)) => text.to_string(),
                _ => json_text(ValueView::Struct(object)),
            },
            Ok(other) => json_text(other),
        }
    }

    /// Returns an answer, and how many steps failed on the way to it, if any did.
    fn with_failures(&self, answer: String, is_partial: bool) -> String {
        if !is_partial {
            return answer;
        }
        let failed = self.steps.iter().filter(|step| step.stage() == StepStage::Failed);
        let failed_of = (self.texts.failed_of)(failed.count(), self.steps.len());
        format!("{answer}\n{failed_of}")
    }

    fn load(&self, stored: &Stored) -> Option<Bytes> {
        let Some(digest) = stored.content() else {
            return Some(stored.inline.clone());
        };
        let blob = self.commit.blobs.iter().find(|(known, _)| *known == digest);
        blob.map(|(_, bytes)| bytes.clone())
    }
}

/// What a step is about, at most 60 code points.
fn described(step: &Step) -> String {
    let texts = [&step.description, &step.name, &step.key];
    let text = texts.into_iter().find(|text| !text.is_empty());
    text.map_or_else(String::new, |text| {
        text.chars().take(DESCRIPTION_CHARS_MAX).collect()
    })
}

fn failure(error: &Failure) -> String {
    format!("{}: {}", error.code, error.message)
}

/// Returns the text, with a mark if it was cut.
fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - CUT.len()));
        text.push_str(CUT);
    }
    text
}

/// Code points of a description.
const DESCRIPTION_CHARS_MAX: usize = 60;
/// Bytes of the name of a stream.
pub const STREAM_BYTES_MAX: usize = 1_024;
/// Bytes of a text.
const TEXT_BYTES_MAX: usize = 64 << 10;
const CUT: &str = " … (cut)";
