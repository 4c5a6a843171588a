//! An execution: a small plan and whatever may happen to it, in lock step with the second interpreter. Nothing here is
//! a rule.

mod happened;
mod made;

use crate::lockstep::{Lockstep, border, invariants};
use crate::seeds;
use crate::source::Source;
use escapement_codec::archive::check::verify;
use escapement_codec::archive::{Archive, file};
use escapement_codec::audit;
use escapement_codec::stored::{encode_accepted, encode_settlement, input_log};
use escapement_contract::{
    Evidence, Execution, Input, Moment, Outcome, Phase, RequestDraft, Settlement, StepIndex, StepState,
    validate_request,
};
use escapement_tests::reference::decided::Command;
use escapement_tests::reference::retell;
use escapement_tests::reference::words::WithdrawReason;
use made::{completed, outcome};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Inputs after which an execution that does not end is a finding.
const INPUTS_MAX: usize = 5_000;

const ACCEPTED: Moment = Moment {
    monotonic_ms: 7_000,
    unix_ms: seeds::UNIX_MS,
};

pub(crate) fn run(input: &[u8]) {
    play(input);
}

/// Returns a valid request of few steps with small limits, made of the bytes.
pub fn draft(input: &[u8]) -> RequestDraft {
    made::draft(&mut Source::new(input))
}

/// Plays an execution: the first bytes are its plan, the others what happens to it. Says what did.
///
/// # Panics
/// If something is wrong: that is a finding.
pub fn play(input: &[u8]) -> BTreeSet<String> {
    let (draft, run) = to_the_end(input);
    let settlement = Arc::clone(run.both.core.settlement().expect("it has ended"));
    run.check_repetition();
    if run.comes_over_the_wire() {
        run.check_archive(&settlement);
    }
    check_retold(&draft, &settlement);
    run.what_happened()
}

/// How an execution ended that was played to its end, and its archive; `None` if it was told of an output that no message can
/// bring.
///
/// # Panics
/// As [`play`].
pub fn archived(input: &[u8]) -> Option<(Arc<Settlement>, Archive)> {
    let (_, run) = to_the_end(input);
    let settlement = run.both.core.settlement().expect("it has ended");
    let archive = || (Arc::clone(settlement), run.archive(settlement));
    run.comes_over_the_wire().then(archive)
}

fn to_the_end(input: &[u8]) -> (RequestDraft, Run) {
    let mut source = Source::new(input);
    let draft = made::draft(&mut source);
    let deadline_ms = seeds::UNIX_MS
        + match source.byte() {
            0..=239 => 600_000,
            byte => i64::from(byte) - 248,
        };
    let finish = source.pick(&[Finish::Diligence, Finish::Trouble, Finish::Silence]);
    let mut run = Run::new(&draft, deadline_ms, source.byte() >= 240);
    while !source.is_empty() && run.both.core.phase() != Phase::Settled {
        run.pass_time(&mut source);
        if let Some(input) = run.next_input(&mut source) {
            run.feed(input);
        }
    }
    run.end(finish);
    (draft, run)
}

/// What happens when the input has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    /// Writes are answered and time passes, nothing else.
    Silence,
    /// Every attempt is taken and completes.
    Diligence,
    /// Every attempt is taken and fails.
    Trouble,
}

struct Run {
    both: Lockstep,
    fed: Vec<(Moment, Input)>,
    /// Time passes before the steps run as well: deadlines in the queue, limits during the write of the start.
    dawdles: bool,
    /// The most steps that held a slot at a time.
    under_way_max: u32,
    saw: BTreeSet<String>,
}

impl Run {
    fn new(draft: &RequestDraft, deadline_ms: i64, dawdles: bool) -> Self {
        let Ok(request) = validate_request(draft.clone(), 256) else {
            panic!("the plan is valid by construction: {draft:?}")
        };
        let rules = border::rules(draft, deadline_ms);
        Self {
            both: Lockstep::accept(Arc::new(request), rules, execution_id(), deadline_ms, ACCEPTED),
            fed: Vec::new(),
            dawdles,
            under_way_max: 0,
            saw: BTreeSet::new(),
        }
    }

    fn pass_time(&mut self, source: &mut Source<'_>) {
        let byte = source.byte();
        if self.both.core.phase() < Phase::Running && !self.dawdles {
            return;
        }
        let now_ms = self.both.now.monotonic_ms;
        let step_due = self.both.reference.next_step_due_ms();
        let target = match byte {
            0..=127 => None,
            128..=175 => Some(now_ms + [1, 4, 5, 10, 20][usize::from(byte % 5)]),
            176..=207 => step_due,
            208..=219 => step_due.map(|due| due - 1),
            220..=231 => step_due.map(|due| due + 1),
            232..=233 => self.both.core.next_due_ms(),
            234 => self.both.reference.plan_due_ms(),
            235 => Some(now_ms + u64::from(source.word())),
            // The wall clock jumps.
            236.. => {
                self.both.now.unix_ms += (i64::from(byte) - 246) * 100_000;
                None
            }
        };
        if let Some(target) = target {
            self.advance_to(target);
        }
    }

    fn advance_to(&mut self, monotonic_ms: u64) {
        let ms = monotonic_ms.saturating_sub(self.both.now.monotonic_ms);
        self.both.pass(ms);
    }

    fn under_way(&self, pick: u8) -> Option<(StepIndex, StepState)> {
        let steps = self.both.steps();
        let under_way: Vec<(StepIndex, StepState)> = steps
            .map(|step| (step, self.both.core.step_state(step)))
            .filter(|(_, state)| attempt_of(*state).is_some())
            .collect();
        under_way.get(usize::from(pick) % under_way.len().max(1)).copied()
    }

    fn next_input(&self, source: &mut Source<'_>) -> Option<Input> {
        let kind = source.byte();
        let pick = source.byte();
        match kind {
            0..=175 => self.expected(source, kind, pick),
            176..=191 => {
                let (step, state) = self.under_way(pick)?;
                let attempt = attempt_of(state)?;
                let evidence = Evidence::ALL[usize::from(kind) % Evidence::ALL.len()];
                Some(Input::AttemptReturned {
                    step,
                    attempt,
                    evidence,
                })
            }
            192..=199 => {
                let (step, state) = self.under_way(pick)?;
                let attempt = attempt_of(state)?;
                Some(Input::ActionNotFound { step, attempt })
            }
            200..=207 => Some(Input::Tick),
            208..=219 => self.fed.last().map(|(_, input)| input.clone()),
            _ => Some(self.stray(source, kind, pick)),
        }
    }

    /// What comes next where nothing goes wrong.
    fn expected(&self, source: &mut Source<'_>, kind: u8, pick: u8) -> Option<Input> {
        match self.both.core.phase() {
            Phase::Queued => Some(Input::Start),
            Phase::Starting => Some(Input::StartPersisted),
            Phase::Settling => Some(Input::SettlePersisted),
            Phase::Settled => None,
            Phase::Running => {
                let (step, state) = self.under_way(pick)?;
                match state {
                    StepState::Waiting { attempt } => {
                        let worker = "worker-1".into();
                        Some(Input::Assigned {
                            step,
                            attempt,
                            worker,
                        })
                    }
                    StepState::Assigned { attempt } if kind < 100 => {
                        Some(Input::AttemptStarted { step, attempt })
                    }
                    StepState::Assigned { attempt } => {
                        let outcome = match outcome(source) {
                            // Only what has started can be lost.
                            Outcome::Lost => completed(),
                            other => other,
                        };
                        Some(Input::AttemptEnded {
                            step,
                            attempt,
                            outcome,
                        })
                    }
                    StepState::Started { attempt } => Some(Input::AttemptEnded {
                        step,
                        attempt,
                        outcome: outcome(source),
                    }),
                    _ => None,
                }
            }
        }
    }

    /// Something that fits by chance at best.
    fn stray(&self, source: &mut Source<'_>, kind: u8, pick: u8) -> Input {
        let steps = self.both.core.request().plan().canonical_order();
        // Now and then one that the plan does not have.
        let step = match pick {
            250.. => foreign_step(),
            _ => steps[usize::from(pick) % steps.len()],
        };
        let attempt = u32::from(pick % 5);
        match kind % 8 {
            0 => Input::Start,
            1 => Input::StartPersisted,
            2 => Input::SettlePersisted,
            3 => {
                let worker = "worker-2".into();
                Input::Assigned {
                    step,
                    attempt,
                    worker,
                }
            }
            4 => Input::AttemptStarted { step, attempt },
            5 => {
                let evidence = Evidence::Goodbye;
                Input::AttemptReturned {
                    step,
                    attempt,
                    evidence,
                }
            }
            6 => match outcome(source) {
                Outcome::Lost => Input::ActionNotFound { step, attempt },
                outcome => Input::AttemptEnded {
                    step,
                    attempt,
                    outcome,
                },
            },
            _ => Input::ActionNotFound { step, attempt },
        }
    }

    /// Gives one input to both, and looks at what it must not change.
    fn feed(&mut self, input: Input) {
        let now = self.both.now;
        let is_due = self
            .both
            .core
            .next_due_ms()
            .is_some_and(|due| due <= now.monotonic_ms);
        let mut before = self.both.core.clone();
        if is_due {
            // timers that are due belong to the time, not to the input.
            assert_eq!(before.handle(now, Input::Tick), Ok(()));
        }
        let answer = self.both.feed(0, &input);
        let expected = if is_due {
            before.handle(now, input.clone()).err()
        } else {
            // a refused input changes nothing.
            let refused = before.clone().handle(now, input.clone()).err();
            if let Some(refused) = &refused {
                assert_eq!((refused.input, refused.phase), (input.name(), before.phase()));
            }
            refused
        };
        assert_eq!(answer.is_accepted, expected.is_none());
        if is_due || !answer.is_accepted {
            while before.poll_effect().is_some() {}
            assert_eq!(
                format!("{before:?}"),
                format!("{:?}", self.both.core),
                "{input:?}"
            );
        }
        self.note("refused", !answer.is_accepted);
        let is_stopped =
            |command: &Command| matches!(command, Command::Withdraw(_, _, WithdrawReason::ExecutionEnded));
        let is_stopped = answer.commands.iter().any(is_stopped);
        self.note("stopped with attempts in flight", is_stopped);
        self.note(
            "a timer at the instant of an input",
            is_due && input != Input::Tick,
        );
        self.fed.push((now, input));
        assert!(self.fed.len() < INPUTS_MAX, "the execution does not end");
        invariants::check_state(&self.both, &answer.state);
        let progress = self.both.core.progress();
        let under_way = progress.steps_waiting + progress.steps_running + progress.steps_backing_off;
        self.under_way_max = self.under_way_max.max(under_way);
    }

    /// Goes on until the end: writes are answered, time passes, and attempts end as `finish` says.
    fn end(&mut self, finish: Finish) {
        while self.both.core.phase() != Phase::Settled {
            let is_running = self.both.core.phase() == Phase::Running;
            let next = match finish {
                Finish::Silence if is_running => None,
                Finish::Silence | Finish::Diligence => self.expected(&mut Source::new(&[]), 0, 0),
                // An outcome that failed with the first of the codes.
                Finish::Trouble => self.expected(&mut Source::new(&[100]), 0, 0),
            };
            if let Some(input) = next {
                self.feed(input);
            } else {
                let due = self.both.core.next_due_ms();
                self.advance_to(due.expect("what waits for nothing has a timer"));
                self.feed(Input::Tick);
            }
        }
    }

    /// the same inputs lead to the same.
    fn check_repetition(&self) {
        let core = &self.both.core;
        let request = Arc::clone(core.request());
        let (id, at) = (core.execution_id(), core.accepted_at());
        let mut again = Execution::accept(request, id, at, core.deadline(), ACCEPTED);
        for (now, input) in &self.fed {
            let _ = again.handle(*now, input.clone());
        }
        while again.poll_effect().is_some() {}
        assert_eq!(format!("{again:?}"), format!("{core:?}"));
    }

    /// Of an output that is no message the core is told `Undecodable`; here it is shown the bytes as well.
    fn comes_over_the_wire(&self) -> bool {
        self.fed.iter().all(|(_, input)| match input {
            Input::AttemptEnded {
                outcome: Outcome::Completed { output, .. },
                ..
            } => output.check().is_ok(),
            _ => true,
        })
    }

    fn archive(&self, settlement: &Settlement) -> Archive {
        let (core, id) = (&self.both.core, self.both.core.execution_id());
        let (result, audit) = encode_settlement(settlement);
        let accepted = encode_accepted(core.request(), id);
        let archive = Archive::of_store(id, *core.request().digest(), accepted, result, &audit);
        archive.expect("what is stored can be read")
    }

    /// what is stored can be taken away, is chained, and replays byte for byte.
    fn check_archive(&self, settlement: &Settlement) {
        let core = &self.both.core;
        let archive = self.archive(settlement);
        let verdict = verify(&archive);
        assert_eq!(verdict.differences, []);
        assert!(verdict.is_identical() && verdict.chain_intact);
        let decoded = archive.decode_result().expect("a result can be read");
        assert_eq!(decoded, border::result(&settlement.result));
        let inputs = archive.inputs.as_ref().expect("they are kept");
        let inputs = input_log::decode(inputs, core.request().plan(), &settlement.result.result_payload);
        assert_eq!(inputs.expect("they can be read"), settlement.inputs);
        assert!(settlement.inputs.is_complete, "no run here is so long");
        let pieces: Vec<_> = file::pieces(archive.clone()).collect();
        let read = file::read(&pieces.concat().into()).expect("the file can be read");
        assert_eq!((read.archive, read.faults), (archive, vec![]));
    }
}

/// A second interpreter that has the audit trail alone comes to the result as well.
fn check_retold(draft: &RequestDraft, settlement: &Settlement) {
    let entries: Vec<_> = settlement.audit.iter().map(audit::entry).collect();
    let (plan, facts) = border::plan_and_facts(draft);
    let result = border::result(&settlement.result);
    if let Err(difference) = retell(&plan, &facts, &entries, &result) {
        panic!("{difference}\nof {result:#?}\n{entries:#?}");
    }
}

fn execution_id() -> escapement_model::ExecutionId {
    seeds::id(3, 1).parse().expect("it is one")
}

/// Returns the last step of a plan that is larger than any that is played.
fn foreign_step() -> StepIndex {
    static STEP: OnceLock<StepIndex> = OnceLock::new();
    *STEP.get_or_init(|| {
        let mut draft = draft(&[]);
        let plan = draft.plan.as_mut().expect("it has one");
        let last = plan.steps[0].clone();
        plan.steps.extend((1..64).map(|n| escapement_contract::StepDraft {
            id: seeds::id(2, n),
            ..last.clone()
        }));
        let request = validate_request(draft, 256).expect("it is valid");
        *request.plan().canonical_order().last().expect("it has steps")
    })
}

fn attempt_of(state: StepState) -> Option<u32> {
    match state {
        StepState::Waiting { attempt } | StepState::Assigned { attempt } | StepState::Started { attempt } => {
            Some(attempt)
        }
        _ => None,
    }
}

pub(crate) use made::seeds;
