//! Worker as a state machine. It has one session with the configured orchestrator,
//! one with each peer that this orchestrator names, and one capacity for all of them.
//! Does not do I/O, read a clock, generate random numbers or run a handler.
//!
//! Its driver owns the streams, the handler tasks and the clock.
//! They call `handle_*` when something happened, and then `poll_command` and `poll_transmit`
//! until both are empty, and `handle_timeout` at the time that `poll_timeout` names.
//! Times are milliseconds on any clock that never goes back.

#[cfg(test)]
mod tests;

use crate::capacity::CapacityOverrides;
use crate::error::WorkerError;
use crate::event::SessionEvent;
use crate::session::worker_state::WorkerState;
use crate::session::{Command, Session, TaskEnd};
use crate::worker::Worker;
use escapement_model::AttemptToken;
use escapement_wire::worker::v1::{Hello, SessionRequest, SessionResponse};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

/// A worker, over all its orchestrators and all its streams.
#[derive(Debug)]
pub struct Machine {
    worker_state: WorkerState,
    drain_grace_ms: u64,
    members: BTreeMap<OrchestratorId, Member>,
    members_ever: u32,
    /// The peers that the configured orchestrator named last.
    wanted: BTreeSet<String>,
    /// Addresses that turned out to lead to the configured orchestrator.
    aliases: BTreeSet<String>,
    stopping: bool,
    commands: VecDeque<(OrchestratorId, Command)>,
    /// Result, once the last session has ended.
    end: Result<(), WorkerError>,
    is_over: bool,
    told: bool,
}

/// Names one orchestrator in the calls of a [`Machine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrchestratorId(u32);

#[derive(Debug)]
struct Member {
    address: String,
    session: Session,
    /// True if the orchestrator is no longer a peer: its session drains.
    leaves: bool,
}

impl OrchestratorId {
    /// The one that the worker was built for.
    pub const CONFIGURED: Self = Self(0);
}

impl Machine {
    /// Creates a worker that connects at once.
    ///
    /// `hello` describes it: `worker_id`, `instance_id`, `actions`, `max_in_flight`, `labels` and `build` count.
    pub fn new(now_ms: u64, address: impl Into<String>, hello: Hello, drain_grace: Duration) -> Self {
        let address = address.into();
        let drain_grace_ms = u64::try_from(drain_grace.as_millis()).unwrap_or(u64::MAX);
        let configured = Member {
            session: Session::new(now_ms, address.clone(), drain_grace_ms),
            address,
            leaves: false,
        };
        Self {
            worker_state: WorkerState::new(hello),
            drain_grace_ms,
            members: BTreeMap::from([(OrchestratorId::CONFIGURED, configured)]),
            members_ever: 1,
            wanted: BTreeSet::new(),
            aliases: BTreeSet::new(),
            stopping: false,
            commands: VecDeque::new(),
            end: Ok(()),
            is_over: false,
            told: false,
        }
    }

    /// Returns the machine of a worker that was built, without its handlers.
    ///
    /// Its instance id is random, as for every built worker; a run that is to be repeated exactly begins with
    /// [`new`](Self::new).
    pub fn of(now_ms: u64, worker: &Worker) -> Self {
        Self::new(now_ms, &worker.address, worker.hello.clone(), worker.drain_grace)
    }

    /// Handles a message that was read.
    pub fn handle_message(&mut self, now_ms: u64, from: OrchestratorId, response: SessionResponse) {
        if let Some(member) = self.members.get_mut(&from) {
            member
                .session
                .handle_message(now_ms, response, &mut self.worker_state);
        }
        self.review(now_ms);
    }

    /// Handles the end of a stream: it ended, could not be opened, or was closed on command. `random` is any number, uniformly distributed.
    pub fn handle_disconnected(&mut self, now_ms: u64, from: OrchestratorId, random: u64, reason: String) {
        if let Some(member) = self.members.get_mut(&from) {
            member.session.handle_disconnected(now_ms, random, reason);
        }
        self.review(now_ms);
    }

    /// Handles the end of a handler task.
    pub fn handle_ended(&mut self, now_ms: u64, token: AttemptToken, end: TaskEnd) {
        self.worker_state.release(token);
        let owner = self.members.values_mut().find(|member| member.session.has(token));
        if let Some(member) = owner {
            member.session.handle_ended(now_ms, token, end);
        }
        self.review(now_ms);
    }

    /// Begins the stop of the worker: drain, then end.
    pub fn handle_stop(&mut self, now_ms: u64) {
        self.stopping = true;
        for member in self.members.values_mut() {
            member.session.handle_stop(now_ms);
        }
        self.review(now_ms);
    }

    /// Handles the time that has passed.
    pub fn handle_timeout(&mut self, now_ms: u64) {
        for member in self.members.values_mut() {
            member.session.handle_timeout(now_ms);
        }
        self.review(now_ms);
    }

    /// Handles a request of the program for more or less work. Every session passes it on.
    pub(crate) fn handle_overrides(&mut self, overrides: &CapacityOverrides) {
        overrides.apply_to(&mut self.worker_state);
    }

    /// Sets the maximum of concurrent attempts, at most 4096. 0 pauses.
    pub fn set_capacity(&mut self, max_in_flight: u32) {
        self.worker_state.set_max_in_flight(max_in_flight);
    }

    /// Sets the maximum of concurrent attempts of one action, at most 4096. 0 pauses.
    pub fn set_action_capacity(&mut self, name: &str, max_in_flight: u32) {
        self.worker_state.set_action_capacity(name, max_in_flight);
    }

    /// Offers these actions from now on, or takes them back. Names without a handler are ignored.
    pub fn set_actions_enabled(&mut self, names: &[&str], enabled: bool) {
        for name in names {
            self.worker_state.set_enabled(name, enabled);
        }
    }

    /// Returns the latest time for the next call of `handle_timeout`.
    pub fn poll_timeout(&self) -> Option<u64> {
        let wakes = self.members.values().map(|member| member.session.poll_timeout());
        wakes.flatten().min()
    }

    /// Returns the next command. Commands about handler tasks and events count for the worker as a whole.
    pub fn poll_command(&mut self) -> Option<(OrchestratorId, Command)> {
        self.commands.pop_front()
    }

    /// Returns true if `poll_transmit` has a message.
    pub fn wants_to_transmit(&self, to: OrchestratorId) -> bool {
        self.members
            .get(&to)
            .is_some_and(|member| member.session.wants_to_transmit(&self.worker_state))
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self, now_ms: u64, to: OrchestratorId) -> Option<SessionRequest> {
        let member = self.members.get_mut(&to)?;
        let request = member.session.poll_transmit(now_ms, &mut self.worker_state);
        Self::collect(to, member, &mut self.commands);
        request
    }

    /// Returns the worker's result, once.
    pub fn poll_finished(&mut self) -> Option<Result<(), WorkerError>> {
        if !self.is_over || std::mem::replace(&mut self.told, true) {
            return None;
        }
        Some(std::mem::replace(&mut self.end, Ok(())))
    }

    /// Returns the orchestrators that the worker has a session with, or seeks one.
    pub fn orchestrators(&self) -> impl Iterator<Item = OrchestratorId> {
        self.members.keys().copied()
    }

    /// Returns the address of an orchestrator.
    pub fn address(&self, orchestrator: OrchestratorId) -> Option<&str> {
        self.members
            .get(&orchestrator)
            .map(|member| member.address.as_str())
    }

    /// Returns the number of handler tasks that run, or at least have not been reported as ended.
    pub fn tasks(&self) -> usize {
        self.worker_state.tasks()
    }

    /// Attempts that no orchestrator has released the worker from, with or without a handler task.
    pub fn in_flight(&self) -> usize {
        self.members
            .values()
            .map(|member| member.session.attempts().count())
            .sum()
    }

    /// Outcomes that no orchestrator has acknowledged yet.
    pub fn unacknowledged_outcomes(&self) -> usize {
        self.members
            .values()
            .map(|member| member.session.unacknowledged())
            .sum()
    }

    /// Messages of kinds that this revision does not know.
    pub fn ignored_messages(&self) -> u64 {
        self.members
            .values()
            .map(|member| member.session.ignored_messages())
            .sum()
    }

    /// Draws the consequences of one session for the others.
    fn review(&mut self, now_ms: u64) {
        let last = self.members.last_key_value().map(|(id, _)| *id);
        let mut next = self.members.first_key_value().map(|(id, _)| *id);
        // Without those that are added in the loop.
        while let Some(id) = next.filter(|id| Some(*id) <= last) {
            let member = self.members.get_mut(&id).expect("it was found just now");
            Self::collect(id, member, &mut self.commands);
            let peers = member.session.poll_peers();
            let finished = member.session.poll_finished();
            // What other peers know of each other is not asked: two lists that differ would fight.
            if let Some(peers) = peers.filter(|_| id == OrchestratorId::CONFIGURED) {
                self.wanted = self.peers_of(peers);
            }
            if let Some(end) = finished {
                self.finished(now_ms, id, end);
            }
            let after = (Bound::Excluded(id), Bound::Unbounded);
            next = self.members.range(after).next().map(|(id, _)| *id);
        }
        if self.members.len() > 1 || !self.wanted.is_empty() {
            self.drop_aliases();
            self.match_peers(now_ms);
        }
        self.is_over = self.members.is_empty();
    }

    /// Returns the addresses that lead to another orchestrator, judged by the addresses alone.
    /// A peer keeps the scheme of the first: no orchestrator can make a worker speak without encryption.
    fn peers_of(&self, addresses: Vec<String>) -> BTreeSet<String> {
        let configured = self.members.get(&OrchestratorId::CONFIGURED);
        let own = configured.map(|member| plain(&member.address));
        let is_encrypted = own.as_ref().is_some_and(|own| own.starts_with("https://"));
        let scheme = if is_encrypted { "https://" } else { "http://" };
        addresses
            .iter()
            .map(|address| plain(address))
            .filter(|address| address.starts_with(scheme) && Some(address) != own.as_ref())
            .take(PEERS_MAX)
            .collect()
    }

    /// Begins sessions with new peers, and ends those with former ones.
    fn match_peers(&mut self, now_ms: u64) {
        if self.stopping {
            return;
        }
        for (id, member) in &mut self.members {
            let is_peer = self.wanted.contains(&member.address) && !self.aliases.contains(&member.address);
            if *id == OrchestratorId::CONFIGURED || is_peer != member.leaves {
                continue;
            }
            member.leaves = !is_peer;
            if member.leaves {
                member.session.handle_leave(now_ms, LEAVE_GRACE_MS);
            } else {
                member.session.rejoin();
            }
            Self::collect(*id, member, &mut self.commands);
        }
        let present: BTreeSet<&String> = self.members.values().map(|member| &member.address).collect();
        let new: Vec<String> = self
            .wanted
            .iter()
            .filter(|address| !present.contains(address) && !self.aliases.contains(*address))
            .cloned()
            .collect();
        for address in new {
            self.add_peer(now_ms, now_ms, address);
        }
    }

    fn add_peer(&mut self, now_ms: u64, connect_at_ms: u64, address: String) {
        let id = OrchestratorId(self.members_ever);
        self.members_ever += 1;
        let mut member = Member {
            session: Session::new(connect_at_ms, address.clone(), self.drain_grace_ms),
            address,
            leaves: false,
        };
        member.session.handle_timeout(now_ms);
        Self::collect(id, &mut member, &mut self.commands);
        self.members.insert(id, member);
    }

    /// Handles the final end of a session.
    fn finished(&mut self, now_ms: u64, id: OrchestratorId, end: Result<(), WorkerError>) {
        let superseded = matches!(end, Err(WorkerError::Superseded));
        if id == OrchestratorId::CONFIGURED && superseded && self.may_have_superseded_itself() {
            let member = self.members.get_mut(&id).expect("it has just ended");
            member
                .session
                .revive("superseded, perhaps by a session of this worker under another address".to_owned());
            Self::collect(id, member, &mut self.commands);
            return;
        }
        let member = self.remove(id);
        if id == OrchestratorId::CONFIGURED {
            self.end = worst(std::mem::replace(&mut self.end, Ok(())), end);
            if !self.stopping {
                // It refuses the worker for good: what the peers gave it is finished.
                self.handle_stop(now_ms);
            }
            return;
        }
        match end {
            Ok(()) => {}
            Err(WorkerError::DrainIncomplete { .. }) if self.stopping => {
                self.end = worst(std::mem::replace(&mut self.end, Ok(())), end);
            }
            Err(refusal) => {
                let event = SessionEvent::Disconnected {
                    orchestrator: member.address.clone(),
                    reason: refusal.to_string(),
                    left: false,
                };
                self.commands.push_back((id, Command::Tell(event)));
                if !member.leaves && !self.stopping {
                    // The others still want the worker, and this one may want it later.
                    self.add_peer(now_ms, now_ms.saturating_add(REFUSED_PEER_MS), member.address);
                }
            }
        }
    }

    /// Removes a session: its stream is dropped, and its handler tasks are cancelled.
    fn remove(&mut self, id: OrchestratorId) -> Member {
        let mut member = self
            .members
            .remove(&id)
            .expect("only a session that is there ends");
        Self::collect(id, &mut member, &mut self.commands);
        let reason = "the session has ended".to_owned();
        self.commands.push_back((id, Command::Close { reason }));
        for token in member
            .session
            .attempts()
            .filter(|token| self.worker_state.runs(*token))
        {
            self.commands.push_back((id, Command::Cancel(token)));
            self.commands.push_back((id, Command::Abort(token)));
        }
        member
    }

    /// Returns true if a session with a peer may be one with the configured orchestrator.
    fn may_have_superseded_itself(&self) -> bool {
        let boot_id = |id: &OrchestratorId| self.members.get(id).and_then(|member| member.session.boot_id());
        let own = boot_id(&OrchestratorId::CONFIGURED);
        self.members
            .iter()
            .filter(|(id, _)| **id != OrchestratorId::CONFIGURED)
            .any(|(id, member)| match boot_id(id) {
                None => member.session.is_greeting(),
                known => known == own,
            })
    }

    /// Leaves every peer that is the process of the configured orchestrator: its sessions would supersede each other.
    fn drop_aliases(&mut self) {
        let configured = self.members.get(&OrchestratorId::CONFIGURED);
        let Some(own) = configured.and_then(|member| member.session.boot_id()) else {
            return;
        };
        let aliases: Vec<OrchestratorId> = self
            .members
            .iter()
            .filter(|(id, member)| {
                **id != OrchestratorId::CONFIGURED && member.session.boot_id() == Some(own)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in aliases {
            let member = self.remove(id);
            self.aliases.insert(member.address);
        }
    }

    fn collect(id: OrchestratorId, member: &mut Member, commands: &mut VecDeque<(OrchestratorId, Command)>) {
        while let Some(command) = member.session.poll_command() {
            commands.push_back((id, command));
        }
    }
}

/// Returns an address as it is compared.
fn plain(address: &str) -> String {
    address.trim().trim_end_matches('/').to_ascii_lowercase()
}

/// Returns the result that the program gets of two results.
fn worst(one: Result<(), WorkerError>, other: Result<(), WorkerError>) -> Result<(), WorkerError> {
    match (one, other) {
        (
            Err(WorkerError::DrainIncomplete { unsettled: one }),
            Err(WorkerError::DrainIncomplete { unsettled: other }),
        ) => Err(WorkerError::DrainIncomplete {
            unsettled: one + other,
        }),
        (Ok(()) | Err(WorkerError::DrainIncomplete { .. }), Err(other)) => Err(other),
        (one, Ok(()) | Err(_)) => one,
    }
}

/// Peers that a worker keeps sessions with.
const PEERS_MAX: usize = 64;
/// Milliseconds for the attempts of a peer that vanished from the list. The worker itself does not hurry.
const LEAVE_GRACE_MS: u64 = 3_600_000;
/// Milliseconds until a peer that refused the worker is tried again.
const REFUSED_PEER_MS: u64 = 60_000;
