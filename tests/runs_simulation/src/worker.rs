//! Workers: processes with handlers, whose deeds are noted outside of everything that is judged.

use crate::artifacts::{self, Files};
use crate::contract::{HEARTBEAT_MS, handed};
use crate::dice::Dice;
use crate::models;
use crate::plans::opaque;
use crate::world::{Happening, World};
use escapement_contract::{Outcome, Reported};
use escapement_engine::{
    Assignment, AttemptReport, FromWorker, InFlight, InFlightPhase, KeepOrStop, RejectReason, ToWorker,
};
use escapement_model::codes::Severity;
use escapement_model::planted::{self, Bug};
use escapement_model::{AttemptToken, ExecutionId, InstanceId, Opaque};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One process of a worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) instance: InstanceId,
    /// 1 for the first.
    process: u64,
    has: BTreeMap<AttemptToken, Body>,
    n_heartbeats: u64,
    is_welcome: bool,
}

/// An attempt that it has.
#[derive(Debug)]
struct Body {
    execution_id: ExecutionId,
    action: String,
    payload: Opaque,
    environment: Opaque,
    timeout_ms: u64,
    began: bool,
    finished: Option<Outcome>,
}

impl Worker {
    pub(crate) fn new(process: u64, dice: &mut Dice) -> Self {
        Self {
            instance: InstanceId::new(dice.bytes()),
            process,
            has: BTreeMap::new(),
            n_heartbeats: 0,
            is_welcome: false,
        }
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let item = |(token, body): (&AttemptToken, &Body)| InFlight {
            token: *token,
            phase: match (&body.finished, body.began) {
                (Some(_), _) => InFlightPhase::Finished,
                (None, true) => InFlightPhase::Running,
                (None, false) => InFlightPhase::Received,
            },
        };
        self.has.iter().map(item).collect()
    }
}

impl World {
    /// The process is gone with everything that it had, and another one takes its place.
    pub(crate) fn worker_crashes(&mut self, place: usize) {
        self.count("fault: worker crash");
        let process = self.workers[place].process + 1;
        self.workers[place] = Worker::new(process, &mut self.dice);
        if let Some(contract) = &mut self.contract {
            contract.hang_up(place);
        }
        let after_ms = self.dice.between(100, 20_000);
        self.plan(after_ms, Happening::WorkerConnects { place });
    }

    pub(crate) fn worker_connects(&mut self, place: usize) {
        let Some(contract) = &mut self.contract else {
            return;
        };
        let worker = &mut self.workers[place];
        worker.is_welcome = false;
        contract.connect(place, worker.instance, worker.in_flight(), &mut self.dice);
    }

    pub(crate) fn heartbeat(&mut self, place: usize) {
        self.plan(HEARTBEAT_MS - 1_000, Happening::Heartbeat { place });
        let worker = &mut self.workers[place];
        if let Some(contract) = &mut self.contract
            && worker.is_welcome
        {
            worker.n_heartbeats += 1;
            contract.hear(
                place,
                FromWorker::Heartbeat {
                    n: worker.n_heartbeats,
                    in_flight_hash: None,
                },
            );
        }
    }

    /// A worker reads a message.
    pub(crate) fn worker_reads(&mut self, place: usize, message: ToWorker) {
        match message {
            ToWorker::Welcome(welcome) => {
                self.workers[place].is_welcome = true;
                for (token, verdict) in welcome.verdicts {
                    match verdict {
                        KeepOrStop::Stop => self.stop(place, token),
                        KeepOrStop::Keep => self.report(place, token),
                    }
                }
            }
            ToWorker::Assignments(items) => items.into_iter().for_each(|item| self.assigned(place, item)),
            ToWorker::OutcomeAcks(items) => {
                for (token, _) in items {
                    self.workers[place].has.remove(&token);
                }
            }
            ToWorker::Cancels(items) => {
                for item in items {
                    if self.workers[place]
                        .has
                        .get(&item.token)
                        .is_none_or(|body| body.finished.is_none())
                    {
                        self.stop(place, item.token);
                    }
                }
            }
            ToWorker::SnapshotRequest { n } => {
                let snapshot = FromWorker::Snapshot {
                    n,
                    last_assignment_seq: u64::MAX,
                    in_flight: self.workers[place].in_flight(),
                };
                self.say(place, snapshot);
            }
            ToWorker::SessionError { .. } => {
                self.count("session errors");
                self.workers[place].is_welcome = false;
                self.plan(1_000, Happening::WorkerConnects { place });
            }
            ToWorker::HeartbeatAck { .. }
            | ToWorker::UnknownOutcomes(_)
            | ToWorker::DrainStarted { .. }
            | ToWorker::Reconnect { .. } => {}
        }
    }

    fn say(&mut self, place: usize, message: FromWorker) {
        if let Some(contract) = &mut self.contract {
            contract.hear(place, message);
        }
    }

    fn stop(&mut self, place: usize, token: AttemptToken) {
        let body = self.workers[place].has.remove(&token);
        let began = body.is_none_or(|body| body.began);
        let acks = FromWorker::AttemptAcks {
            started: Vec::new(),
            rejected: if began {
                Vec::new()
            } else {
                vec![(token, RejectReason::Cancelled)]
            },
            stopped: if began { vec![token] } else { Vec::new() },
        };
        self.say(place, acks);
    }

    fn assigned(&mut self, place: usize, item: Assignment) {
        self.count("assignments");
        let (payload, environment, action) = handed(&item.request, item.step);
        let body = Body {
            execution_id: item.execution_id,
            action,
            payload,
            environment,
            timeout_ms: item.timeout_ms,
            began: false,
            finished: None,
        };
        self.workers[place].has.insert(item.token, body);
        let process = self.workers[place].process;
        let after_ms = self.dice.roll(20);
        let token = item.token;
        self.plan(
            after_ms,
            Happening::BodyBegins {
                place,
                process,
                token,
            },
        );
    }

    pub(crate) fn body_begins(&mut self, place: usize, process: u64, token: AttemptToken) {
        let worker = &mut self.workers[place];
        let Some(body) = worker.has.get_mut(&token).filter(|_| worker.process == process) else {
            return;
        };
        body.began = true;
        let id = *body.execution_id.as_bytes();
        self.judge
            .began(id, body.payload.as_encoded(), body.environment.as_encoded());
        let mut takes_ms = self.dice.roll(300);
        if self.is_stormy && self.dice.percent(4) {
            takes_ms = body.timeout_ms * 2;
        }
        let started = FromWorker::AttemptAcks {
            started: vec![token],
            rejected: Vec::new(),
            stopped: Vec::new(),
        };
        self.say(place, started);
        self.plan(
            takes_ms,
            Happening::BodyEnds {
                place,
                process,
                token,
            },
        );
    }

    pub(crate) fn body_ends(&mut self, place: usize, process: u64, token: AttemptToken) {
        let worker = &mut self.workers[place];
        let Some(body) = worker.has.get_mut(&token).filter(|_| worker.process == process) else {
            return;
        };
        let outcome = result_of(body, self.now_ms, self.is_stormy, &mut self.files, &mut self.dice);
        body.finished = Some(outcome.clone());
        if let Outcome::Completed { output, .. } = &outcome {
            let id = body.execution_id;
            self.judge.reported(*id.as_bytes(), output.as_encoded());
            if planted::is_on(Bug::RunOutcomeEarly) {
                self.ends_early(id, output);
            }
        }
        self.report(place, token);
        if self.is_stormy && self.dice.percent(5) {
            self.report(place, token);
        }
    }

    /// Tells what a handler came to, as often as it takes.
    fn report(&mut self, place: usize, token: AttemptToken) {
        let body = self.workers[place].has.get(&token);
        let Some(outcome) = body.and_then(|body| body.finished.clone()) else {
            return;
        };
        let items = vec![(token, AttemptReport::Outcome(outcome))];
        let unreadable = Vec::new();
        self.say(place, FromWorker::Outcomes { items, unreadable });
    }
}

/// What a handler comes to.
fn result_of(body: &Body, now_ms: u64, is_stormy: bool, files: &mut Files, dice: &mut Dice) -> Outcome {
    let mark = format!("mark-{:016x}", dice.any());
    let completed = |mut output: Value| {
        output["mark"] = json!(mark);
        Outcome::completed(opaque(&output))
    };
    if body.action == "file.stat" && dice.percent(40) {
        return failed("E_ONCE");
    }
    if body.action == "file.stat" && dice.percent(80) {
        return artifacts::found(&body.payload, now_ms, files, dice)
            .map_or_else(|| failed("E_ONCE"), completed);
    }
    match body.action.as_str() {
        "llm.chat" => return completed(models::answer(&body.payload, dice)),
        "plan.make" if dice.percent(90) => return completed(models::plan(dice)),
        "check.safe" if dice.percent(90) => return completed(models::verdict(dice)),
        _ => {}
    }
    match dice.roll(100) {
        0..15 => failed("E_ONCE"),
        15..17 => failed("INVALID_PAYLOAD"),
        17..20 => failed("APPROVAL_REQUIRED"),
        20..22 => failed("CALLS_OFF"),
        22..24 => {
            let text = "x".repeat(40_000);
            completed(json!({"content": text}))
        }
        24..27 if is_stormy => completed(json!({"$pause": true})),
        // A patch of the session, and one that is none.
        27..40 => {
            let patch =
                json!({"last": dice.roll(99), "gone": null, "deep": {"n": dice.roll(9), "old": null}});
            let artifacts = artifacts::declared(&body.action, &mark, now_ms, files, dice);
            completed(json!({"$state_patch": patch, "$artifacts": artifacts, "n": dice.roll(9)}))
        }
        40 => completed(json!({"$state_patch": [1]})),
        _ => {
            let artifacts = artifacts::declared(&body.action, &mark, now_ms, files, dice);
            completed(json!({"content": "done", "$artifacts": artifacts, "n": dice.roll(9)}))
        }
    }
}

fn failed(code: &str) -> Outcome {
    Outcome::Failed(Reported {
        code: code.to_owned(),
        message: "it did not work".to_owned(),
        severity: Some(Severity::Error),
        ..Reported::default()
    })
}
