//! People and services that make runs, look at them, meddle with them, and answer what they ask.

use crate::process::{Process, bounds};
use crate::world::{Happening, World};
use crate::{plans, specs};
use bytes::Bytes;
use escapement_model::opaque::ValueView;
use escapement_model::{InputRequestId, Opaque, RunId};
use escapement_run::journal::{AnswerType, Decision, InputRequest, RequestKind, Responder, ResponderKind};
use escapement_run::outcome::encoded;
use escapement_run::spec::{Constraints, Spec};
use escapement_run::{Answer, Input, OverrideWord, RewindScope, Rollback, ShownState, Upload, plan, preview};
use escapement_runs::NewRun;
use escapement_runs_host::{Create, NotCreated};
use escapement_runs_judge::{Done, Told};
use escapement_store::runs::ClientRequest;
use prost::Message;
use serde_json::json;
use std::sync::Arc;

/// A run that somebody wants.
#[derive(Debug)]
pub(crate) struct Job {
    key: String,
    spec: Spec,
    document: Opaque,
    /// The saved plan that it is a run of, if it is.
    saved_plan: Option<&'static str>,
    /// The run that it was told of.
    run: Option<[u8; 16]>,
    /// It was told that its run is there.
    pub(crate) is_told: bool,
}

impl World {
    pub(crate) fn new_job(&mut self) {
        let number = self.jobs.len();
        let is_goal = self.dice.percent(25);
        let document = loop {
            if is_goal {
                break specs::plan_of_goal();
            }
            let document = plans::document(&mut self.dice, false);
            match plan::read(&document) {
                Ok(plan) if specs::keeps(&plan, &Constraints::default()) => break document,
                Ok(_) => self.count("plans that break their constraints"),
                Err(_) => self.count("plans that are none"),
            }
        };
        let mut spec = match is_goal {
            true => specs::goal(&mut self.dice),
            false => specs::spec(&mut self.dice),
        };
        if self.dice.percent(60) {
            let plan = plan::read(&document).expect("it was read just now");
            spec.constraints = specs::constraints(&mut self.dice, (!is_goal).then_some(&plan));
        }
        self.jobs.push(Job {
            key: format!("request {number}"),
            spec,
            document,
            saved_plan: self.dice.percent(30).then_some(SAVED_PLAN),
            run: None,
            is_told: false,
        });
        self.plan(0, Happening::Asks { job: number });
    }

    /// A caller asks for its run: until it is told, and now and then once more.
    pub(crate) fn asks(&mut self, number: usize) {
        let job = &self.jobs[number];
        let again = Happening::Asks { job: number };
        let patience_ms = self.dice.between(200, 4_000);
        if !job.is_told || (self.is_stormy && self.dice.percent(60)) {
            self.plan(patience_ms, again);
        }
        if self.is_stormy && self.dice.percent(20) {
            let after_ms = self.dice.roll(5);
            self.plan(after_ms, Happening::Asks { job: number });
        }
        let now_ms = self.now_ms;
        let Some(process) = &mut self.process else {
            return;
        };
        let job = &self.jobs[number];
        let plan = Arc::new(plan::read(&job.document).expect("it was read before"));
        let digest = [u8::try_from(number).expect("there are few"); 32];
        let known = specs::profiles(&plan);
        let most = bounds(&preview(&plan, &job.spec, &known));
        // RUN-2.6
        let is_free = job.spec.constraints == Constraints::default()
            && plan.constraints == plan::Constraints::default();
        let profiles = match is_free && number % 5 == 3 {
            true => known.into_iter().map(specs::unknown).collect(),
            false => known,
        };
        let create = Create {
            run: NewRun {
                run_id: RunId::from_random(self.dice.bytes()),
                spec: job.spec.clone(),
                profiles,
                plan,
            },
            request: Some(ClientRequest {
                key: job.key.clone(),
                digest,
            }),
            saved_plan: job.saved_plan.map(str::to_owned),
        };
        let now = process.unix_ms(now_ms);
        let run_id = match process.host.create(create, now) {
            Ok(run_id) => {
                self.judge.promised(*run_id.as_bytes(), CREATED, most);
                run_id
            }
            Err(NotCreated::Exists(run_id, found)) => {
                assert_eq!(found, Some(digest), "the request is the same");
                run_id
            }
            Err(NotCreated::Full | NotCreated::AlreadyRunning(_)) => return,
            Err(NotCreated::Damaged(why)) => panic!("{why}"),
            Err(NotCreated::TooLarge(bound)) => panic!("{bound}"),
        };
        let (key, run) = (job.key.clone(), *run_id.as_bytes());
        process.tell(Told::Created { key, run });
    }

    /// A caller learns the id of its run.
    pub(crate) fn job_is_told(&mut self, key: &str, run: [u8; 16]) {
        let number = key.trim_start_matches("request ").parse::<usize>();
        let Some(job) = number.ok().and_then(|number| self.jobs.get_mut(number)) else {
            return;
        };
        (job.is_told, job.run) = (true, Some(run));
        let of_plan = self.jobs.iter().filter(|job| job.saved_plan.is_some());
        let live = of_plan
            .filter_map(|job| job.run)
            .filter(|run| !self.judge.has_ended(run));
        let n_live = live.count();
        if n_live > 1 {
            let text = format!("{n_live} runs of {SAVED_PLAN} live");
            self.judge.finds("RI16", text);
        }
    }

    /// Somebody does something to a run that lives.
    pub(crate) fn meddle(&mut self) {
        if self.is_stormy {
            let after_ms = self.dice.between(50, 4_000);
            self.plan(after_ms, Happening::Meddles);
        }
        let Some(process) = &self.process else { return };
        let ids: Vec<RunId> = process.host.runs().ids().collect();
        if ids.is_empty() {
            return;
        }
        let run_id = *self.dice.pick(&ids);
        if self.dice.percent(25) && self.holds_back() {
            return;
        }
        if ids.len() < RUNS_MAX && self.dice.percent(5) {
            return self.forks(run_id);
        }
        let Some(process) = &mut self.process else { return };
        let (run, _) = process.host.run(run_id).expect("it lives");
        let keys: Vec<String> = run.plan().steps.iter().map(|step| step.key.clone()).collect();
        if self.dice.percent(10) {
            return self.uploads(run_id);
        }
        let reason = "somebody".to_owned();
        // A run without a plan has no step to say something about.
        let words = if keys.is_empty() { 21 } else { 40 };
        let (input, done) = match self.dice.roll(words) {
            0..8 => (Input::Pause { reason }, Done::Pause),
            8..20 => (Input::Resume { reason }, Done::Resume),
            20 => (Input::Cancel { reason }, Done::Cancel),
            21..28 => {
                let scope = *self.dice.pick(&[RewindScope::Later, RewindScope::Dependents]);
                let rewind = Input::Rewind {
                    step_key: self.dice.pick(&keys).clone(),
                    scope,
                    allow_repeat_effects: self.dice.percent(70),
                };
                (rewind, Done::Rewind)
            }
            28..31 => {
                let rollback = *self.dice.pick(&[Rollback::Reset, Rollback::Restore(None)]);
                let rollback = Input::Rollback {
                    to: rollback,
                    allow_repeat_effects: self.dice.percent(70),
                };
                (rollback, Done::Rollback)
            }
            31..35 => {
                let step_key = self.dice.pick(&keys).clone();
                let word = match self.dice.roll(3) {
                    0 => OverrideWord::Complete(encoded(ValueView::Bool(true))),
                    1 => OverrideWord::Fail {
                        code: "OPERATOR".to_owned(),
                        message: "no".to_owned(),
                    },
                    _ => OverrideWord::Skip,
                };
                let word = Input::Override {
                    step_key,
                    word,
                    reason,
                };
                (word, Done::Override)
            }
            _ => {
                let data = plans::opaque(&json!({"n": self.dice.roll(9)}));
                (Input::Checkpoint { data }, Done::Checkpoint)
            }
        };
        self.try_input(run_id, input, done);
    }

    /// Somebody pauses a run before its turn comes; false if none waits for that.
    fn holds_back(&mut self) -> bool {
        let Some(process) = &mut self.process else {
            return false;
        };
        let ids: Vec<RunId> = process.host.runs().ids().collect();
        let waits = |run_id: &RunId| {
            let run = process.host.run(*run_id);
            run.is_some_and(|(run, _)| run.shown() == ShownState::Queued)
        };
        let Some(run_id) = ids.into_iter().find(waits) else {
            return false;
        };
        let reason = "not yet".to_owned();
        self.try_input(run_id, Input::Pause { reason }, Done::Pause);
        true
    }

    /// Somebody gives a run a file, now and then one that it has or one that is none.
    fn uploads(&mut self, run_id: RunId) {
        let name = format!("note-{}.txt", self.dice.roll(3));
        let n_bytes = *self.dice.pick(&[3, 20, 200, 40_000]);
        let content = Bytes::from(name.repeat(n_bytes / name.len() + 1).into_bytes()).slice(..n_bytes);
        let sha256 = escapement_model::encoder::sha256(&content);
        let upload = Input::Upload(Upload {
            artifact_type: "text".to_owned(),
            mime_type: "text/plain".to_owned(),
            name,
            content,
        });
        self.try_input(run_id, upload, Done::Upload { sha256 });
    }

    /// Hands an input in; its caller is told once it is durable, unless it is refused.
    fn try_input(&mut self, run_id: RunId, input: Input, what: Done) {
        let now_ms = self.now_ms;
        let since = self.judge.n_entries(run_id.as_bytes());
        let Some(process) = &mut self.process else { return };
        let now = process.unix_ms(now_ms);
        let repeats_nothing = matches!(
            input,
            Input::Rewind {
                allow_repeat_effects: false,
                ..
            } | Input::Rollback {
                allow_repeat_effects: false,
                ..
            }
        );
        let last = |process: &mut Process| {
            let run = process.host.run(run_id);
            run.map(|(run, _)| run.state().sequence)
        };
        let behind = last(process).filter(|_| repeats_nothing);
        match process.host.handle(run_id, input, now) {
            Ok(()) => {
                let run = *run_id.as_bytes();
                process.tell(Told::Done { run, since, what });
                if let (Some(behind), Some(until)) = (behind, last(process)) {
                    process.tell(Told::RepeatsNothing { run, behind, until });
                }
                self.count("verbs");
            }
            Err(_) => self.count("verbs refused"),
        }
    }

    /// Somebody looks at what people are asked, and answers some of it.
    pub(crate) fn looks_at_inbox(&mut self) {
        let after_ms = self.dice.between(300, 6_000);
        self.plan(after_ms, Happening::LooksAtInbox);
        let Some(process) = &self.process else { return };
        let open = process.reader.open_input_requests(None, None, 100);
        let open = open.expect("the store reads");
        for stored in open.requests {
            if self.is_stormy && self.dice.percent(40) {
                continue;
            }
            let request = InputRequest::decode(&stored.record[..]).expect("a record decodes");
            let answer = self.answer_to(stored.id, &request);
            self.answers(stored.run_id, answer.clone());
            if self.dice.percent(30) {
                // Once more, by the same or by another one.
                let mut again = answer;
                if self.dice.percent(50) {
                    again.responder = self.responder();
                }
                self.answers(stored.run_id, again);
            }
        }
        if !self.is_stormy {
            self.resumes_all();
        }
    }

    fn resumes_all(&mut self) {
        let Some(process) = &mut self.process else { return };
        let mut paused: Vec<RunId> = process.host.runs().ids().collect();
        paused.retain(|run_id| {
            let run = process.host.run(*run_id);
            run.is_some_and(|(run, _)| run.state().pause_wanted)
        });
        for run_id in paused {
            let reason = "go on".to_owned();
            self.try_input(run_id, Input::Resume { reason }, Done::Resume);
        }
    }

    fn answers(&mut self, run_id: RunId, answer: Answer) {
        let done = Done::Answer {
            request: answer.request_id.as_bytes().to_vec(),
            responder: answer.responder.id.clone(),
            digest: answer.subject_digest.to_vec(),
        };
        self.count("answers tried");
        let edited = match answer.decision {
            Decision::ApproveWithEdits => plan::read(&Opaque::from_encoded(answer.value.clone())).ok(),
            _ => None,
        };
        let input = match edited {
            Some(plan) => {
                let profiles = specs::profiles(&plan);
                Input::ApproveEdited { answer, profiles }
            }
            None => Input::Answer(answer),
        };
        self.try_input(run_id, input, done);
    }

    fn responder(&mut self) -> Responder {
        let agents = if self.is_stormy { 15 } else { 0 };
        let (id, kind) = if self.dice.percent(agents) {
            ("bob", ResponderKind::Agent)
        } else {
            let id = *self
                .dice
                .pick(&["bob", "bob", "carol", "carol", specs::USER, "eve"]);
            (id, ResponderKind::Person)
        };
        Responder {
            id: id.to_owned(),
            kind: kind.into(),
            verified: false,
            users: Vec::new(),
        }
    }

    fn answer_to(&mut self, request_id: InputRequestId, request: &InputRequest) -> Answer {
        let text = |text: &str| encoded(ValueView::Text(text));
        let (decision, value) = match request.kind() {
            RequestKind::Question => match request.answer_type() {
                AnswerType::Text if self.dice.percent(80) => (Decision::Answer, text("sure")),
                _ => (Decision::Answer, encoded(ValueView::Bool(true))),
            },
            RequestKind::Approval => match self.dice.roll(10) {
                0 => (Decision::Deny, Bytes::new()),
                1 | 2 if request.unit.is_some() => {
                    let edited = plans::opaque(&json!({"edited": self.dice.roll(9)}));
                    (Decision::ApproveWithEdits, edited.as_encoded().clone())
                }
                1 if self.dice.percent(50) => (Decision::Revise, Bytes::new()),
                1 => (Decision::ApproveWithEdits, self.child_plan.as_encoded().clone()),
                _ => (Decision::Approve, Bytes::new()),
            },
            RequestKind::RetryExtension | RequestKind::BudgetExtension => match self.dice.roll(3) {
                0 => (Decision::Fail, Bytes::new()),
                _ => (Decision::Extend, Bytes::new()),
            },
            RequestKind::AmbiguousEffect => match self.dice.roll(3) {
                0 => (Decision::Happened, text("it did")),
                1 => (Decision::DidNot, Bytes::new()),
                _ => (Decision::Fail, Bytes::new()),
            },
        };
        let mut subject_digest = request.subject_digest.clone();
        if self.is_stormy && self.dice.percent(10) {
            subject_digest = Bytes::from_static(&[9; 32]);
        }
        Answer {
            request_id,
            subject_digest,
            responder: self.responder(),
            decision,
            value,
            comment: String::new(),
        }
    }
}

/// The saved plan that some runs are of.
const SAVED_PLAN: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e02";
/// The entry with which a run is made.
const CREATED: u64 = 1;
/// So many run at a time, forks and children included.
const RUNS_MAX: usize = 12;
