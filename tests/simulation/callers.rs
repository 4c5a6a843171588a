//! Those who hand in plans and look at what becomes of them, each with a lossy connection of its own.
//! What the orchestrator does with a question is in `edge`; what is right is judged by the history checker.

use crate::plans::{self, Ids};
use crate::shares;
use crate::world::{Happening, World};
use escapement_contract::Request;
use escapement_model::ExecutionId;
use escapement_tests::history::{self, Answer, Ask, CallId, Entry, State, Surface, hash_of_bytes};
use escapement_wire::v1;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A caller.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// Nothing passes in this direction until then.
    pub(crate) asks_stalled_until_ms: u64,
    pub(crate) answers_stalled_until_ms: u64,
}

/// A plan that somebody hands in, and what its caller knows of it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) caller: usize,
    pub(crate) id: ExecutionId,
    /// The place of its namespace.
    pub(crate) namespace: usize,
    pub(crate) request: Arc<Request>,
    pub(crate) known: Known,
    /// Its caller has gone away for good.
    is_abandoned: bool,
    /// The last entry of its record that its caller has seen.
    seen: Option<Seen>,
}

/// An entry that a caller has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    entry: Entry,
    /// Its hash in the chain.
    pub(crate) hash: [u8; 32],
}

/// What a caller knows of a plan that it has handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Nothing,
    Accepted,
    Settled,
    /// For good: its id, or its plan's, is somebody else's.
    Refused,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Submit {
        job: usize,
        waits: bool,
    },
    Get(ExecutionId),
    Wait {
        id: ExecutionId,
        timeout_ms: u64,
    },
    Audit(ExecutionId),
    Watch {
        id: ExecutionId,
        from: u64,
        /// The entry before, if its hash is named.
        after: Option<Seen>,
        reads: Reads,
    },
    List {
        page: usize,
    },
}

/// How a watcher reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    AtOnce,
    Slowly,
    Never,
}

/// A question that is on its way, or its answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) caller: usize,
    /// Whose plan it is about, where the caller goes on with that plan.
    job: Option<usize>,
    pub(crate) question: Question,
    /// As the checker of the history knows it.
    history: CallId,
    /// The last entry of a stream that has come so far.
    seen: Option<Seen>,
    /// What of a list was read so far.
    pub(crate) listed: Vec<(ExecutionId, State)>,
    /// The next item of a stream comes no earlier.
    pub(crate) stream_at_ms: u64,
    /// The process to which its connection goes; 0: none was there.
    pub(crate) boot: u64,
}

/// What comes back.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    State(State),
    Absent,
    Refused(&'static str),
    Listed(Vec<(ExecutionId, State)>),
    /// Of a record, from the first one asked for. `end`: the result, with the last one.
    Entries {
        entries: Vec<Entry>,
        /// The last one of them.
        last: Option<Seen>,
        end: history::End,
    },
    /// The connection is gone.
    Broken,
}

/// Names an answer or a part of a stream.
pub(crate) type CallNumber = u64;

impl World {
    // ---- plans ----

    /// A caller hands in a plan, at whatever rate there is.
    pub(crate) fn submit_some(&mut self) {
        if !self.is_stormy || self.jobs.len() >= self.scenario.n_plans_max {
            return;
        }
        self.submit_plan(None);
        let after_ms = self.dice.roll(self.scenario.plan_every_ms * 2);
        self.plan(after_ms, Happening::Submit);
    }

    pub(crate) fn submit_plan(&mut self, parent: Option<ExecutionId>) {
        let ids = self.ids_of_a_plan();
        let unix_ms = self.unix_ms();
        let of_parent = self.jobs.iter().find(|job| Some(job.id) == parent);
        let of_another = ids.namespace.or(of_parent.map(|job| job.namespace));
        let place = of_another.unwrap_or_else(|| self.dice.index(shares::NAMES.len()));
        let namespace = shares::namespace(place);
        let request = plans::request(&mut self.dice, unix_ms, &self.scenario, parent, &ids, namespace);
        let id = request.execution_id().expect("simulated requests name it");
        self.storage.shares_judge.handed_in(id, place, parent.is_some());
        self.storage.turns_judge.handed_in(id, place, &request);
        let caller = self.dice.index(self.callers.len());
        self.jobs.push(Job {
            caller,
            id,
            namespace: place,
            request,
            known: Known::Nothing,
            is_abandoned: false,
            seen: None,
        });
        self.submit(self.jobs.len() - 1);
        if parent.is_some() {
            self.history.nested(id);
        }
    }

    /// Fresh ones, and now and then one that is in use.
    fn ids_of_a_plan(&mut self) -> Ids {
        let mut ids = Ids::default();
        if !self.jobs.is_empty() && self.dice.percent(4) {
            let other = &self.jobs[self.dice.index(self.jobs.len())];
            if self.dice.percent(50) {
                ids.execution = Some(other.id.to_string());
                ids.priority = Some(other.request.plan().priority());
                ids.namespace = Some(other.namespace);
            } else {
                ids.plan = Some(other.request.plan().id().to_string());
            }
            self.tally().count("plans with an id that is in use");
        }
        ids
    }

    fn submit(&mut self, job: usize) {
        let waits = self.dice.percent(30);
        self.truth.tally.count("plans submitted");
        self.ask(self.jobs[job].caller, Some(job), Question::Submit { job, waits });
    }

    /// A caller goes on with a plan of its own: until it knows the result.
    pub(crate) fn go_on(&mut self, job: usize) {
        let Job {
            id, caller, known, ..
        } = self.jobs[job];
        if self.jobs[job].is_abandoned || self.calls.values().any(|asked| asked.job == Some(job)) {
            return;
        }
        match known {
            Known::Settled | Known::Refused => {}
            Known::Nothing => self.submit(job),
            Known::Accepted => {
                let question = match self.dice.roll(10) {
                    0..=3 => self.wait_for(id),
                    4..=7 => {
                        let seen = self.jobs[job].seen;
                        let from = seen.map_or(1, |seen| seen.entry.sequence + 1);
                        // Now and then one that does not care what it saw before.
                        let after = seen.filter(|_| self.dice.percent(80));
                        let reads = *self.dice.pick(&[Reads::AtOnce, Reads::AtOnce, Reads::Slowly]);
                        Question::Watch {
                            id,
                            from,
                            after,
                            reads,
                        }
                    }
                    8 => Question::Get(id),
                    _ => return self.submit(job),
                };
                self.ask(caller, Some(job), question);
            }
        }
    }

    fn wait_for(&mut self, id: ExecutionId) -> Question {
        let timeout_ms = *self.dice.pick(&[0, 500, 5_000, 20_000]);
        Question::Wait { id, timeout_ms }
    }

    /// Somebody looks at whatever there is.
    pub(crate) fn look_around(&mut self) {
        if !self.is_stormy {
            return;
        }
        if !self.jobs.is_empty() {
            let id = self.jobs[self.dice.index(self.jobs.len())].id;
            let caller = self.dice.index(self.callers.len());
            let question = match self.dice.roll(12) {
                0..=3 => Question::Get(id),
                4..=5 => self.wait_for(id),
                6..=7 => Question::Audit(id),
                8..=9 => {
                    let reads = *self.dice.pick(&[Reads::AtOnce, Reads::Slowly, Reads::Never]);
                    let from = *self.dice.pick(&[1, 1, 3]);
                    Question::Watch {
                        id,
                        from,
                        after: None,
                        reads,
                    }
                }
                _ => Question::List {
                    page: self.dice.index(5) + 1,
                },
            };
            self.ask(caller, None, question);
        }
        let after_ms = self.dice.roll(self.scenario.look_every_ms * 2);
        self.plan(after_ms, Happening::Look);
    }

    /// After the calm: every plan is asked for once more, on every surface.
    pub(crate) fn look_at_everything(&mut self) {
        for job in 0..self.jobs.len() {
            let id = self.jobs[job].id;
            let caller = self.dice.index(self.callers.len());
            let reads = Reads::AtOnce;
            self.ask(caller, None, Question::Get(id));
            self.ask(
                caller,
                None,
                Question::Wait {
                    id,
                    timeout_ms: 1_000,
                },
            );
            self.ask(caller, None, Question::Audit(id));
            let (from, after) = (1, None);
            self.ask(
                caller,
                None,
                Question::Watch {
                    id,
                    from,
                    after,
                    reads,
                },
            );
            // What was never accepted stays so.
            if self.jobs[job].known == Known::Settled {
                let waits = self.dice.percent(50);
                self.ask(caller, None, Question::Submit { job, waits });
            }
        }
        self.ask(0, None, Question::List { page: 3 });
    }

    /// Returns every plan that somebody still cares for has its answer.
    pub(crate) fn callers_rest(&self) -> bool {
        self.calls.values().all(Asked::never_ends)
            && self
                .jobs
                .iter()
                .all(|job| job.is_abandoned || matches!(job.known, Known::Settled | Known::Refused))
    }

    // ---- questions ----

    fn ask(&mut self, caller: usize, job: Option<usize>, question: Question) {
        self.n_calls += 1;
        let call = self.n_calls;
        let history = self.history.ask(self.ask_of(question));
        self.trace.note(
            self.now_ms,
            format_args!("call {call}: caller {caller} asks {question:?}"),
        );
        let asked = Asked {
            caller,
            job,
            question,
            history,
            seen: None,
            listed: Vec::new(),
            stream_at_ms: 0,
            boot: self.orchestrator.as_ref().map_or(0, |process| process.boot),
        };
        self.calls.insert(call, asked);
        if self.is_stormy && self.dice.percent(self.scenario.lost_percent) {
            self.tally().count("fault: question lost");
        } else {
            let ms = self.ms_to_orchestrator(caller);
            self.plan(ms, Happening::QuestionArrives { call });
            if self.is_stormy && matches!(question, Question::Submit { .. }) && self.dice.percent(5) {
                // Somebody between them asks twice.
                self.tally().count("fault: question doubled");
                let again = self.history.ask(self.ask_of(question));
                self.history.lost(again);
                let ms = ms + self.dice.roll(2_000);
                self.plan(ms, Happening::QuestionArrives { call });
            }
        }
        let patience_ms = match question {
            Question::Wait { timeout_ms, .. } => timeout_ms + self.dice.between(200, 3_000),
            Question::Submit { waits: true, .. } | Question::Watch { .. } => self.dice.between(2_000, 30_000),
            _ => self.dice.between(500, 5_000),
        };
        self.plan(patience_ms, Happening::CallerGivesUp { call });
    }

    fn ask_of(&self, question: Question) -> Ask {
        let (execution, surface) = match question {
            Question::Submit { job, waits } => {
                let request = &self.jobs[job].request;
                let mut digest = [0; 8];
                digest.copy_from_slice(&request.digest()[..8]);
                return Ask::Submit {
                    execution: self.jobs[job].id,
                    plan: request.plan().id(),
                    digest: u64::from_be_bytes(digest),
                    priority: request.plan().priority(),
                    queue: queue_of(&self.jobs[job]),
                    waits,
                };
            }
            Question::List { .. } => return Ask::List,
            Question::Get(id) => (id, Surface::Get),
            Question::Wait { id, .. } => (id, Surface::Wait),
            Question::Audit(id) => (id, Surface::Audit),
            Question::Watch {
                id: execution,
                after: Some(after),
                ..
            } => {
                let after = after.entry;
                return Ask::GoOn { execution, after };
            }
            Question::Watch { id, .. } => (id, Surface::Watch),
        };
        Ask::Look { execution, surface }
    }

    /// How long a message to the orchestrator takes.
    fn ms_to_orchestrator(&mut self, caller: usize) -> u64 {
        let stalled_ms = self.callers[caller]
            .asks_stalled_until_ms
            .saturating_sub(self.now_ms);
        stalled_ms + self.dice.roll(self.scenario.caller_latency_ms_max + 1)
    }

    /// Brings something back to whoever asked; it may get lost.
    pub(crate) fn tell(&mut self, call: CallNumber, told: Told) {
        let Some(asked) = self.calls.get_mut(&call) else {
            return;
        };
        let caller = &self.callers[asked.caller];
        let stalled_ms = caller.answers_stalled_until_ms.saturating_sub(self.now_ms);
        let late_ms = stalled_ms + self.dice.roll(self.scenario.caller_latency_ms_max + 1);
        // What belongs to one stream comes in its order.
        asked.stream_at_ms = asked.stream_at_ms.max(self.now_ms + late_ms);
        let after_ms = asked.stream_at_ms - self.now_ms;
        let is_part = told.is_part();
        if self.is_stormy && !is_part && self.dice.percent(self.scenario.lost_percent) {
            self.tally().count("fault: answer lost");
            return;
        }
        self.plan(after_ms, Happening::AnswerArrives { call, told });
    }

    /// An answer is there, or a part of it.
    pub(crate) fn answer_arrives(&mut self, call: CallNumber, told: Told) {
        let Some(asked) = self.calls.get_mut(&call) else {
            return;
        };
        self.trace
            .note(self.now_ms, format_args!("call {call} hears {told:?}"));
        if let Told::Entries {
            entries,
            last,
            end: end @ history::End::Open,
        } = told
        {
            asked.seen = last.or(asked.seen);
            let first = first_of(asked.question);
            self.history
                .piece(asked.history, Answer::Entries { first, entries, end });
            return;
        }
        let asked = self.calls.remove(&call).expect("it was there a line ago");
        self.truth.tally.count(&format!("answers: {}", told.name()));
        self.conclude(asked, told);
    }

    /// The caller does not wait any longer, and the orchestrator hears of it, at some time.
    pub(crate) fn caller_gives_up(&mut self, call: CallNumber) {
        let Some(asked) = self.calls.remove(&call) else {
            return;
        };
        self.trace
            .note(self.now_ms, format_args!("call {call} is given up"));
        self.truth.tally.count("calls given up");
        let mut after_ms = self.ms_to_orchestrator(asked.caller);
        if self.dice.percent(20) {
            after_ms += 5_000;
        }
        self.plan(after_ms, Happening::CallerLeaves { call });
        self.conclude(asked, Told::Broken);
    }

    /// Nothing more comes of a question: the checker hears what came of it, and its caller goes on.
    fn conclude(&mut self, asked: Asked, told: Told) {
        let Asked {
            job,
            question,
            history,
            seen,
            ..
        } = asked;
        self.learn(job, question, &told);
        let is_broken = matches!(told, Told::Broken);
        match told {
            Told::Broken => self.history.lost(history),
            Told::State(state) => self.history.answer(history, Answer::State(state)),
            Told::Absent => self.history.answer(history, Answer::Absent),
            Told::Refused(reason) => self.history.answer(history, Answer::Refused(reason.to_owned())),
            Told::Listed(executions) => {
                let is_complete = true;
                self.history.answer(
                    history,
                    Answer::Listed {
                        executions,
                        is_complete,
                    },
                );
            }
            Told::Entries { entries, end, .. } => {
                let first = first_of(question);
                self.history
                    .answer(history, Answer::Entries { first, entries, end });
            }
        }
        let Some(job) = job else { return };
        if seen.is_some() {
            self.jobs[job].seen = seen;
        }
        if self.is_stormy && is_broken && self.dice.percent(self.scenario.abandon_percent) {
            self.tally().count("plans abandoned");
            self.jobs[job].is_abandoned = true;
        }
        let after_ms = self.dice.between(20, 3_000);
        self.plan(after_ms, Happening::GoOn { job });
    }

    fn learn(&mut self, job: Option<usize>, question: Question, told: &Told) {
        let Some(job) = job.map(|job| &mut self.jobs[job]) else {
            return;
        };
        let known = match told {
            Told::State(State::Settled { .. }) => Known::Settled,
            Told::Entries {
                end: history::End::Result(_),
                ..
            } => Known::Settled,
            Told::State(_) => Known::Accepted,
            Told::Refused("EXECUTION_ID_IN_USE" | "PLAN_ID_USED" | "NESTED_TOO_DEEP") => Known::Refused,
            Told::Refused("RECORD_REWRITTEN") => {
                job.seen = None;
                return;
            }
            Told::Absent => panic!("{} was accepted, and is absent: {question:?}", job.id),
            Told::Refused(_) | Told::Listed(_) | Told::Entries { .. } | Told::Broken => return,
        };
        if job.known != Known::Settled {
            job.known = known;
        }
    }
}

/// Returns the first entry that is wanted.
fn first_of(question: Question) -> u64 {
    match question {
        Question::Watch { from, .. } => from,
        _ => 1,
    }
}

impl Seen {
    pub(crate) fn of(entry: &v1::AuditEntry) -> Self {
        Self {
            entry: Entry::of(entry),
            hash: entry.hash.as_slice().try_into().expect("a hash has 32 bytes"),
        }
    }
}

impl Asked {
    /// It waits for nothing that could come.
    fn never_ends(&self) -> bool {
        matches!(
            self.question,
            Question::Watch {
                reads: Reads::Never,
                ..
            }
        )
    }
}

impl Told {
    /// More of the same answer follows.
    fn is_part(&self) -> bool {
        matches!(
            self,
            Self::Entries {
                end: history::End::Open,
                ..
            }
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Self::State(State::Queued) => "queued",
            Self::State(State::Running { .. }) => "running",
            Self::State(State::Settled { .. }) => "settled",
            Self::State(State::Ended | State::Removed) => "ended",
            Self::Absent => "absent",
            Self::Refused(reason) => reason,
            Self::Listed(_) => "a list",
            Self::Entries {
                end: history::End::Result(_),
                ..
            } => "entries to the last",
            Self::Entries { .. } => "entries",
            Self::Broken => "a broken connection",
        }
    }
}

/// The same for executions of one namespace that begin with the same actions. One that names its deadline may be one that ends at its
/// start, and that is not held back with the others: it has a queue of its own.
fn queue_of(
    Job {
        id,
        namespace,
        request,
        ..
    }: &Job,
) -> u64 {
    if request.deadline_ms().is_some() {
        return hash_of_bytes(id.to_string().as_bytes());
    }
    let plan = request.plan();
    let steps = plan.canonical_order().iter().map(|index| plan.step(*index));
    let first = steps.filter(|step| step.depends_on().is_empty());
    let first = first.take(request.max_concurrent_steps() as usize);
    let mut actions: BTreeSet<&str> = first.map(|step| step.action()).collect();
    actions.insert(shares::NAMES[*namespace]);
    hash_of_bytes(actions.into_iter().collect::<Vec<_>>().join(" ").as_bytes())
}
