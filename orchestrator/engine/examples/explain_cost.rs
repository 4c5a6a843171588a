//! Measures what explaining an execution of 1024 steps costs the engine, and what its words cost after that.
//! Judges nothing.
#![allow(clippy::print_stdout, reason = "a measurement on a terminal")]

use escapement_contract::{
    Moment, Outcome, PlanDraft, Reported, Request, RequestDraft, RetryPolicyDraft, StepDraft,
    validate_request,
};
use escapement_engine::{
    ActionSpec, AttemptReport, CallerId, Effect, Engine, EngineConfig, ExplainAnswer, Explained, FromWorker,
    Hello, Input, Reply, SessionKey, StoreWrite, Submission, Submitter, ToWorker, UntilDecided, WriteOutcome,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{AttemptToken, BootId, ExecutionId, InstanceId, Opaque, PlanId, SessionId, StepId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

const STEPS: usize = 1024;
const ROUNDS: u32 = 200;
const NOW: Moment = Moment {
    monotonic_ms: 0,
    unix_ms: 1_700_000_000_000,
};

fn uuid(n: u64) -> [u8; 16] {
    let mut bytes = [0x5a; 16];
    bytes[8..].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes
}

fn request(n: u64, at_a_time: usize, depends_on: impl Fn(usize) -> Vec<usize>) -> Arc<Request> {
    let id = |step: usize| StepId::from_random(uuid(n << 16 | step as u64)).to_string();
    let step = |step: usize| StepDraft {
        id: id(step),
        action: "render".into(),
        payload: Some(Opaque::default()),
        depends_on: depends_on(step).into_iter().map(id).collect(),
        on_failure: 2,
        ..StepDraft::default()
    };
    let plan = PlanDraft {
        id: PlanId::from_random(uuid(n)).to_string(),
        version: 1,
        created_at: 1,
        steps: (0..STEPS).map(step).collect(),
        name: "cost".into(),
        context_requirements: vec!["region".into()],
        retry_policy: Some(RetryPolicyDraft {
            max_attempts: Some(100),
            backoff_ms: Some(0),
            retryable_error_codes: vec!["*".into()],
            ..RetryPolicyDraft::default()
        }),
        ..PlanDraft::default()
    };
    let draft = RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "north").build()),
        max_concurrent_steps: Some(at_a_time as i32),
        ..RequestDraft::default()
    };
    Arc::new(validate_request(draft, 1024).expect("the example's own request is valid"))
}

/// An engine whose store and workers answer at once; a worker ends each attempt in the same way, while it may.
struct Measured {
    engine: Engine,
    now: Moment,
    /// The store answers no settlement.
    holds_ends: bool,
    n_reports: usize,
    seq: u64,
    explained: Option<Explained>,
}

impl Measured {
    fn new(running_max: usize) -> Self {
        let mut config = EngineConfig::new(BootId::new([7; 16]), [9; 32]);
        config.max_running_executions = running_max;
        Self {
            engine: Engine::new(config, NOW),
            now: NOW,
            holds_ends: false,
            n_reports: 0,
            seq: 0,
            explained: None,
        }
    }

    fn input(&mut self, input: Input) {
        let mut batch = vec![input];
        while !batch.is_empty() {
            for input in batch.drain(..) {
                self.engine.handle(self.now, input);
            }
            self.engine.finish_batch(self.now);
            while let Some(effect) = self.engine.poll_effect() {
                batch.extend(self.answer(effect));
            }
        }
    }

    fn answer(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Write {
                content: StoreWrite::Settle { .. },
                ..
            } if self.holds_ends => None,
            Effect::Write { write, .. } => Some(Input::Stored {
                write,
                outcome: WriteOutcome::Durable,
            }),
            Effect::Send {
                message: ToWorker::Assignments(items),
                ..
            } => {
                let tokens: Vec<AttemptToken> = items.iter().map(|item| item.token).collect();
                let n_reports = tokens.len().min(self.n_reports);
                self.n_reports -= n_reports;
                let failed = || {
                    AttemptReport::Outcome(Outcome::Failed(Reported {
                        code: "BUSY".into(),
                        ..Reported::default()
                    }))
                };
                let items = tokens[..n_reports]
                    .iter()
                    .map(|token| (*token, failed()))
                    .collect();
                (n_reports > 0).then(|| {
                    self.seq += 1;
                    let message = FromWorker::Outcomes {
                        items,
                        unreadable: Vec::new(),
                    };
                    Input::SessionMessage {
                        session: SessionKey(1),
                        seq: self.seq,
                        message,
                    }
                })
            }
            Effect::Reply {
                reply: Reply::Explained(ExplainAnswer::Live(explained)),
                ..
            } => {
                self.explained = Some(*explained);
                None
            }
            _ => None,
        }
    }

    fn submit(&mut self, n: u64, request: &Arc<Request>) -> ExecutionId {
        let fresh_id = ExecutionId::from_random(uuid(n ^ 0xffff_0000));
        self.input(Input::Submit(Submission {
            submitter: Submitter::ForAccept(CallerId(n).into()),
            request: Arc::clone(request),
            fresh_id,
            until_decided: UntilDecided::default(),
        }));
        fresh_id
    }

    fn worker(&mut self, max_in_flight: u32, n_reports: usize) {
        (self.n_reports, self.seq) = (n_reports, 1);
        self.input(Input::SessionOpened {
            session: SessionKey(1),
            session_id: SessionId::new([1; 16]),
        });
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            worker_id: "worker".into(),
            instance_id: InstanceId::new([1; 16]),
            actions: vec![ActionSpec {
                name: "render".into(),
                max_in_flight: 0,
                description: String::new(),
                input_schema: String::new(),
                waits: false,
            }],
            max_in_flight,
            in_flight: Vec::new(),
            labels: BTreeMap::new(),
            build: String::new(),
            hello_number: 0,
            previous_session_id: None,
        };
        self.input(Input::SessionMessage {
            session: SessionKey(1),
            seq: 1,
            message: FromWorker::Hello(hello),
        });
    }

    fn measure(&mut self, what: &str, execution_id: ExecutionId) {
        let caller = CallerId(0).into();
        // The best of many: the machine may be busy with other things.
        let (mut engine_us, mut words_us) = (u128::MAX, u128::MAX);
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            self.engine
                .handle(self.now, Input::Explain { caller, execution_id });
            engine_us = engine_us.min(begin.elapsed().as_micros());
            let effect = self.engine.poll_effect().expect("a question is answered at once");
            self.answer(effect);
            let explained = self.explained.take().expect("what is live is explained");
            let plan = explained.request.plan();
            let begin = Instant::now();
            let steps = explained.explanation.steps.iter();
            bytes = steps
                .map(|facts| facts.describe(plan).len() + facts.rules().concat().len())
                .sum();
            words_us = words_us.min(begin.elapsed().as_micros());
        }
        println!("{what}: engine {engine_us} us, words {words_us} us ({bytes} bytes)");
    }
}

fn main() {
    let free = |_| Vec::new();
    let mut one = Measured::new(1_000);
    let id = one.submit(1, &request(1, 1024, free));
    one.measure("1024 steps that wait for a worker", id);
    one.worker(1_024, 0);
    one.measure("1024 steps that a worker has", id);

    let mut full = Measured::new(1_000);
    let id = full.submit(1, &request(1, 1024, free));
    full.worker(1_024, 4_500);
    full.measure("1024 steps with a record of 16384 entries and more", id);
    (full.holds_ends, full.now.monotonic_ms) = (true, 1_000_000_000);
    full.input(Input::Tick);
    full.measure("the same while its end is being written", id);

    let mut dense = Measured::new(1_000);
    let id = dense.submit(
        1,
        &request(1, 1, |step| (step.saturating_sub(100)..step).collect()),
    );
    dense.measure("1024 steps with 97350 dependencies", id);

    let mut crowd = Measured::new(1_000);
    let ids: Vec<_> = (1..=20)
        .map(|n| crowd.submit(n, &request(n, 1024, free)))
        .collect();
    crowd.measure("1024 steps behind 19456 others", ids[19]);

    let mut queue = Measured::new(1);
    let small = request(1, 1, free);
    let mut last = queue.submit(1, &small);
    for n in 2..300 {
        last = queue.submit(n, &request(n, 1, free));
    }
    queue.measure("1024 steps of a queued execution", last);
}
