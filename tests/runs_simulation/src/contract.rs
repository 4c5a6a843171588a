//! One process of the contract: the real engine in its real host, over the real conversions and a store on a disk that fails.
//! Moves no message: see `world`.

use crate::dice::Dice;
use crate::specs::ACTIONS;
use crate::world::START_UNIX_MS;
use escapement_codec::request::request_draft;
use escapement_codec::stored;
use escapement_contract::{Moment, Request, validate_request};
use escapement_engine::{
    ActionSpec, Caller, CallerId, EngineConfig, FromWorker, Hello, InFlight, Input, NamespaceKey, Reply,
    SessionKey, Submission, Submitter, ToWorker, UntilDecided,
};
use escapement_host::recovery::{self, Unsettled};
use escapement_host::{Batch, Committer, Host, Links, Message, Output, Route, WriteQueue};
use escapement_model::{BootId, ExecutionId, InstanceId, Opaque, SessionId};
use escapement_run::outcome::{ContractEnd, ContractError};
use escapement_runs_judge::Accepted;
use escapement_store::{ListFilter, Reader, Store};
use escapement_store_kit::{Memory, MemoryDisk};
use escapement_wire::v1;
use prost::Message as _;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

/// Callers and workers wait in the world.
#[derive(Debug)]
pub(crate) struct Simulated;

impl Links for Simulated {
    type Caller = ExecutionId;
    type Session = usize;
    type Attempt = Infallible;
    type RunBatch = Infallible;

    fn is_given_up(_: &ExecutionId) -> bool {
        false
    }
}

/// What the process wants done.
#[derive(Debug)]
pub(crate) enum Wants {
    /// The port waits for this.
    Answered(ExecutionId, Reply),
    /// A worker reads this.
    Tell(usize, ToWorker),
    /// The stream of a worker has ended.
    Hung(usize),
}

/// The process.
pub(crate) struct Contract {
    host: Host<Simulated>,
    committer: Committer<Memory>,
    reader: Box<dyn Reader>,
    writes: WriteQueue,
    batch: Batch<Simulated>,
    began_at_ms: u64,
    pub(crate) offset_ms: i64,
    next_caller: u64,
    next_session: u64,
    n_commits: u64,
    /// By the worker's place.
    sessions: BTreeMap<usize, (SessionKey, u64)>,
}

impl Contract {
    pub(crate) fn open(disk: &MemoryDisk, now_ms: u64, offset_ms: i64, dice: &mut Dice) -> Self {
        let boot_id = BootId::new(dice.bytes());
        let mut config = EngineConfig::new(boot_id, [7; 32]);
        config.max_running_executions = 4;
        config.lease_ms = LEASE_MS;
        config.heartbeat_interval_ms = HEARTBEAT_MS;
        let store = disk.open();
        let reader = store.reader().expect("a model of a disk reads");
        let recovered: Unsettled =
            recovery::unsettled(reader.as_ref(), false, 100).expect("nothing is damaged");
        let mut process = Self {
            host: Host::new(
                config,
                Moment {
                    monotonic_ms: 0,
                    unix_ms: unix_ms(now_ms, offset_ms),
                },
            ),
            committer: Committer::new(store),
            reader,
            writes: WriteQueue::default(),
            batch: Batch::default(),
            began_at_ms: now_ms,
            offset_ms,
            next_caller: 1,
            next_session: 1,
            n_commits: 0,
            sessions: BTreeMap::new(),
        };
        let moment = process.moment(now_ms);
        process.host.handle_recovered(moment, recovered.into_inputs());
        process
    }

    fn moment(&self, now_ms: u64) -> Moment {
        Moment {
            monotonic_ms: now_ms - self.began_at_ms,
            unix_ms: unix_ms(now_ms, self.offset_ms),
        }
    }

    /// When it has something to do.
    pub(crate) fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        if !self.batch.is_empty() || !self.writes.is_empty() {
            return Some(now_ms);
        }
        let due_ms = self.host.next_due_ms()?;
        Some(due_ms.saturating_add(self.began_at_ms).max(now_ms))
    }

    /// Submits a request and waits for its end. `deadline` converts times to the clock of the contract.
    ///
    /// # Errors
    /// Says why it is not one.
    pub(crate) fn submit(
        &mut self,
        execution_id: ExecutionId,
        bytes: &[u8],
        deadline: impl FnOnce(i64) -> i64,
    ) -> Result<(), String> {
        let mut request = v1::SubmitPlanRequest::decode(bytes).map_err(|why| why.to_string())?;
        request.deadline_ms = request.deadline_ms.map(deadline);
        let request = validate_request(request_draft(request), 1).map_err(|why| format!("{why:?}"))?;
        let caller = CallerId(self.next_caller);
        self.next_caller += 1;
        let input = Input::Submit(Submission {
            namespace: NamespaceKey::default(),
            submitter: Submitter::ForEnd(Caller::from(caller)),
            request: Arc::new(request),
            fresh_id: execution_id,
            may_nest: true,
            until_decided: UntilDecided::default(),
        });
        let route = Route::Caller(caller, execution_id);
        self.batch.messages.push(Message { input, route });
        Ok(())
    }

    /// A worker opens its stream and says what it has.
    pub(crate) fn connect(
        &mut self,
        place: usize,
        instance_id: InstanceId,
        in_flight: Vec<InFlight>,
        dice: &mut Dice,
    ) {
        if let Some((session, _)) = self.sessions.remove(&place) {
            self.push(Input::SessionClosed(session), Route::None);
        }
        let session = SessionKey(self.next_session);
        self.next_session += 1;
        let opened = Input::SessionOpened {
            session,
            session_id: SessionId::new(dice.bytes()),
        };
        self.push(opened, Route::Session(session, place));
        self.sessions.insert(place, (session, 0));
        let actions = ACTIONS.iter().map(|name| ActionSpec {
            name: (*name).to_owned(),
            max_in_flight: 0,
            description: String::new(),
            input_schema: String::new(),
            waits: false,
            traits: bytes::Bytes::new(),
        });
        self.hear(
            place,
            FromWorker::Hello(Hello {
                protocol_min: 1,
                protocol_max: 1,
                worker_id: Arc::from(format!("worker-{place}")),
                instance_id,
                actions: actions.collect(),
                max_in_flight: 3,
                in_flight,
                labels: BTreeMap::new(),
                build: String::new(),
                hello_number: 0,
                previous_session_id: None,
                owner: "".into(),
            }),
        );
    }

    /// The stream of a worker is gone.
    pub(crate) fn hang_up(&mut self, place: usize) {
        if let Some((session, _)) = self.sessions.remove(&place) {
            self.push(Input::SessionClosed(session), Route::None);
        }
    }

    /// A worker says something; false if it has no stream.
    pub(crate) fn hear(&mut self, place: usize, message: FromWorker) -> bool {
        let Some((session, seq)) = self.sessions.get_mut(&place) else {
            return false;
        };
        *seq += 1;
        let input = Input::SessionMessage {
            session: *session,
            seq: *seq,
            message,
        };
        self.push(input, Route::None);
        true
    }

    fn push(&mut self, input: Input, route: Route<Simulated>) {
        self.batch.messages.push(Message { input, route });
    }

    /// Does what there is to do now.
    ///
    /// # Errors
    /// The process has died of its store.
    pub(crate) fn run(&mut self, now_ms: u64) -> Result<Vec<Wants>, ()> {
        let moment = self.moment(now_ms);
        self.host.handle_batch(moment, &mut self.batch, &mut |_| {});
        let mut wants = Vec::new();
        while let Some(output) = self.host.poll_output() {
            match output {
                Output::Write(jobs) => self.writes.handle_jobs(jobs),
                Output::Load(wanted) => {
                    for id in wanted {
                        let loaded = recovery::load(self.reader.as_ref(), id);
                        self.batch.loaded.push((id, loaded));
                    }
                }
                Output::Answer(execution_id, reply) => wants.push(Wants::Answered(execution_id, reply)),
                Output::Send { session, message, .. } => {
                    if let Some(place) = self.host.session(session) {
                        wants.push(Wants::Tell(*place, message));
                    }
                }
                Output::EndSession { session, link, .. } => {
                    self.push(Input::SessionClosed(session), Route::None);
                    if self.sessions.get(&link).is_some_and(|(open, _)| *open == session) {
                        self.sessions.remove(&link);
                        wants.push(Wants::Hung(link));
                    }
                }
                Output::GiveUp { .. } => return Err(()),
                Output::EmitEvent(_)
                | Output::NotifyErrorHandler(_)
                | Output::WorkerLost { .. }
                | Output::Note(_)
                | Output::Drained { .. } => {}
            }
        }
        if !self.writes.is_empty() {
            let commit = self.writes.poll_commit();
            let answers = self.committer.handle_commit(&commit).map_err(drop)?;
            self.batch.stored.push(answers);
            self.n_commits += 1;
        }
        Ok(wants)
    }

    /// Returns all durable executions.
    pub(crate) fn executions(&self) -> Vec<Accepted> {
        let listed = self.reader.list(&ListFilter::default(), None, usize::MAX);
        let listed = listed.expect("a model of a disk reads").into_iter();
        let accepted = listed.map(|summary| Accepted {
            execution: *summary.execution_id.as_bytes(),
            completed: summary.settled_at.map(|_| summary.status == COMPLETED),
        });
        accepted.collect()
    }

    /// Returns the number of commits that were acknowledged since the process started.
    pub(crate) fn n_commits(&self) -> u64 {
        self.n_commits
    }

    /// How an execution ended, as the store has it; `None` if it has not.
    pub(crate) fn end_of(&self, execution_id: ExecutionId) -> Option<ContractEnd> {
        let stored = self
            .reader
            .execution(execution_id)
            .expect("a model of a disk reads")?;
        let result = stored::decode_result(&stored.result?).expect("a result can be read");
        let audit = self
            .reader
            .audit(execution_id)
            .expect("a model of a disk reads")?;
        let entries = stored::decode_audit(&audit).expect("a record can be read");
        let is_assigned =
            |entry: &v1::AuditEntry| matches!(entry.event, Some(v1::audit_entry::Event::AttemptAssigned(_)));
        let assigned = entries.iter().any(is_assigned);
        let error = result.error.map(|error| {
            let context = error.context.unwrap_or_default();
            ContractError {
                retry_after_ms: 0,
                fatal: error.severity == i32::from(v1::execution_error::Severity::Fatal),
                code: error.error_code,
                message: error.message,
                reason: text_of(&context, "reason"),
            }
        });
        Some(ContractEnd {
            output: error
                .is_none()
                .then(|| only_output(&result.result_payload.unwrap_or_default())),
            error,
            steps_executed: u32::try_from(result.steps_executed).unwrap_or(0),
            assigned,
        })
    }
}

/// What a worker was handed.
pub(crate) fn handed(request: &Request, step: escapement_contract::StepIndex) -> (Opaque, Opaque, String) {
    let step = request.plan().step(step);
    (
        step.payload().clone(),
        request.environment().clone(),
        step.action().to_owned(),
    )
}

fn only_output(payload: &Opaque) -> Opaque {
    use escapement_model::opaque::ValueView;
    match payload.entries().next() {
        Some(Ok((_, ValueView::Struct(output)))) => {
            Opaque::from_encoded(bytes::Bytes::copy_from_slice(output))
        }
        _ => Opaque::default(),
    }
}

fn text_of(object: &Opaque, key: &str) -> Option<String> {
    use escapement_model::opaque::{ValueView, value_of};
    match value_of(object.as_encoded(), key) {
        Some(ValueView::Text(text)) => Some(text.to_owned()),
        _ => None,
    }
}

fn unix_ms(now_ms: u64, offset_ms: i64) -> i64 {
    START_UNIX_MS + i64::try_from(now_ms).expect("a simulation is short") + offset_ms
}

/// Status of an execution that completed, as the store numbers it.
const COMPLETED: u8 = 1;
/// How long a worker may go on without a heartbeat.
pub(crate) const LEASE_MS: u64 = 15_000;
/// Time between heartbeats.
pub(crate) const HEARTBEAT_MS: u64 = 5_000;
