//! A worker's session that takes what it is given, says that it started, and never ends it. Light: one task, one connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use escapement_tests::raw_session::RawSession;
use escapement_tests::{Fault, ScriptedWorker, wait_for};
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::{AttemptAcks, Heartbeat, SessionResponse};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// A session that lives by itself. On drop its connection is closed without a word.
#[derive(Debug)]
pub(crate) struct Hoard {
    n_held: Arc<AtomicU64>,
    living: JoinHandle<Result<(), Fault>>,
}

impl Hoard {
    /// Opens a session for one action. The first heartbeat comes after this share of the interval,
    /// so that many sessions do not beat at one instant.
    ///
    /// # Errors
    /// It is not welcomed.
    pub(crate) async fn open(
        address: SocketAddr,
        action: &str,
        max_in_flight: u32,
        share: f64,
    ) -> Result<Self, Fault> {
        let mut session = RawSession::open(address).await?;
        let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&[action]), max_in_flight);
        session.send(ToOrchestrator::Hello(hello)).await?;
        let first = session.next().await?.ok_or("the session is over at once")?;
        let Some(FromOrchestrator::Welcome(welcome)) = first.message else {
            return Err(format!("the first answer is no welcome: {first:?}").into());
        };
        let interval = Duration::from_millis(welcome.heartbeat_interval_ms.unsigned_abs());
        let n_held = Arc::new(AtomicU64::new(0));
        let living = tokio::spawn(live(session, interval, share, Arc::clone(&n_held)));
        Ok(Self { n_held, living })
    }

    /// Returns the number of steps that it has.
    ///
    /// # Errors
    /// The session is over.
    pub(crate) fn n_held(&self) -> Result<u64, Fault> {
        if self.living.is_finished() {
            return Err("a session ended".into());
        }
        Ok(self.n_held.load(Ordering::Relaxed))
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        self.living.abort();
    }
}

/// Waits until they have so many steps, all together.
///
/// # Errors
/// A session is over, or waits too long.
pub(crate) async fn all_hold(hoards: &[Hoard], count: usize) -> Result<(), Fault> {
    let held = || hoards.iter().map(Hoard::n_held).sum::<Result<u64, Fault>>();
    let enough = async || match held() {
        Ok(n_held) if n_held < count as u64 => None,
        reached => Some(reached),
    };
    let n_held = wait_for("all steps to be taken", LIMIT, enough).await??;
    if n_held > count as u64 {
        return Err(format!("{n_held} steps were handed out for {count} executions of one step").into());
    }
    Ok(())
}

async fn live(
    mut session: RawSession,
    interval: Duration,
    share: f64,
    n_told: Arc<AtomicU64>,
) -> Result<(), Fault> {
    let mut ticks = interval_at(Instant::now() + interval.mul_f64(share), interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut n_heartbeats, mut n_held, mut hash) = (0, 0_u32, [0_u8; 16]);
    loop {
        let response = tokio::select! {
            // A heartbeat that is late costs the lease; what came is not lost meanwhile.
            biased;
            _ = ticks.tick() => None,
            response = session.next() => Some(response?.ok_or("the stream ended")?),
        };
        let Some(response) = response else {
            n_heartbeats += 1;
            let in_flight_hash = Bytes::copy_from_slice(&hash);
            let heartbeat = Heartbeat {
                n: n_heartbeats,
                in_flight: n_held,
                in_flight_hash,
            };
            session.send(ToOrchestrator::Heartbeat(heartbeat)).await?;
            continue;
        };
        let started = taken(&response)?;
        if started.is_empty() {
            continue;
        }
        for token in &started {
            hash.iter_mut()
                .zip(token.iter())
                .for_each(|(hash, byte)| *hash ^= byte);
        }
        let n_more = u32::try_from(started.len())?;
        n_held += n_more;
        let acks = AttemptAcks {
            started,
            ..AttemptAcks::default()
        };
        session.send(ToOrchestrator::AttemptAcks(acks)).await?;
        n_told.fetch_add(u64::from(n_more), Ordering::Relaxed);
    }
}

/// Returns the tokens of what came.
fn taken(response: &SessionResponse) -> Result<Vec<Bytes>, Fault> {
    match &response.message {
        Some(FromOrchestrator::Assignments(assignments)) => Ok(assignments
            .items
            .iter()
            .map(|item| item.attempt_token.clone())
            .collect()),
        Some(FromOrchestrator::HeartbeatAck(_)) => Ok(Vec::new()),
        // A step that is cancelled runs no more, and the figure would not be what it says.
        other => Err(format!("a session that only takes was sent {other:?}").into()),
    }
}

/// Loading a hundred thousand executions takes a while on a slow disk.
const LIMIT: Duration = Duration::from_secs(120);
