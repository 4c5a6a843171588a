//! What the operator may set and what the shell must bring. Reads neither flags nor environment.

use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::{AttemptSeal, BootId};

/// Settings of one engine. Every duration is in milliseconds.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Names this process lifetime.
    pub boot_id: BootId,
    /// Makes the tokens of attempts, so that none can be guessed and each shows that it is one.
    pub attempt_seal: AttemptSeal,
    /// Executions that run at a time, nested ones not counted. At least 1.
    pub max_running_executions: usize,
    /// Executions that are accepted and not settled, at a time. At least 1.
    pub max_live_executions: usize,
    /// Queued executions whose requests are kept in memory; the others wait in the store alone. At least 1.
    pub queued_in_memory_max: usize,
    /// What a deadline that the caller leaves open grants for waiting in the queue.
    pub queue_allowance_ms: u64,
    /// For how long after the start every action counts as registered.
    pub registration_grace_ms: u64,
    /// For how long an action stays registered after its last worker left.
    pub registration_memory_ms: u64,
    /// Actions that are registered without a worker; a `*` at the end of a name stands for anything.
    pub declared_actions: Vec<Arc<str>>,
    /// Time between a worker's heartbeats.
    pub heartbeat_interval_ms: u64,
    /// How long a worker may go on without an acknowledged heartbeat.
    pub lease_ms: u64,
    /// What the engine waits beyond the lease, so that the worker expires first.
    pub lease_margin_ms: u64,
    /// How long a worker that said "no capacity" is left alone.
    pub rejection_pause_ms: u64,
    /// How long after a cancel that was not answered it is sent again.
    pub cancel_repeat_ms: u64,
    /// What a cancel grants the handler.
    pub cancel_grace_ms: u64,
    /// How long after an assignment that was not answered the worker is asked for a snapshot.
    pub snapshot_after_ms: u64,
    /// The shortest time between two snapshots of one session that nothing but its heartbeats ask for.
    pub snapshot_pause_ms: u64,
    /// Messages that a session may send at once, beyond those that its work explains.
    pub session_messages_burst: u32,
    /// Messages each second by which that allowance grows again.
    pub session_messages_per_second: u32,
    /// Worker sessions at a time.
    pub max_sessions: usize,
    /// Writes of one record before the engine gives up and asks to be stopped.
    pub persist_attempts_max: u32,
    /// Pause before a failed write, or a failed load, is tried again; doubles each time, up to `persist_retry_ms_max`.
    pub persist_retry_ms: u64,
    /// The longest such pause.
    pub persist_retry_ms_max: u64,
    /// Attempts that ended, remembered so that a repeated outcome gets the right answer.
    pub ended_attempts_max: usize,
}

impl EngineConfig {
    /// Returns the defaults, for a boot id and the secret random bytes from which tokens of attempts are made.
    pub fn new(boot_id: BootId, token_key: [u8; 32]) -> Self {
        use escapement_model::limits;
        Self {
            boot_id,
            attempt_seal: AttemptSeal::new(token_key),
            max_running_executions: 1024,
            max_live_executions: 200_000,
            queued_in_memory_max: 10_000,
            queue_allowance_ms: 3_600_000,
            registration_grace_ms: 10_000,
            registration_memory_ms: 3_600_000,
            declared_actions: Vec::new(),
            heartbeat_interval_ms: limits::HEARTBEAT_INTERVAL_MS,
            lease_ms: limits::LEASE_MS,
            lease_margin_ms: limits::LEASE_MARGIN_MS,
            rejection_pause_ms: 100,
            cancel_repeat_ms: 1_000,
            cancel_grace_ms: 1_000,
            snapshot_after_ms: 2_000,
            snapshot_pause_ms: 30_000,
            session_messages_burst: 2_000,
            session_messages_per_second: 200,
            max_sessions: 10_000,
            persist_attempts_max: 10,
            persist_retry_ms: 50,
            persist_retry_ms_max: 5_000,
            ended_attempts_max: 65_536,
        }
    }

    /// How long the store is left alone after this many failures, in milliseconds.
    pub(crate) fn retry_pause_ms(&self, failures: u32) -> u64 {
        let pause_ms = self.persist_retry_ms.saturating_mul(1 << failures.min(16));
        pause_ms.min(self.persist_retry_ms_max)
    }
}
