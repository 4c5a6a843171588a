//! What idle worker sessions take of the orchestrator: memory and processor time. Gives them no work.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use escapement_tests::{Fault, OrchestratorSettings, PrivateDirectory, let_pass};
use tokio::task::JoinSet;

use super::Size;
use super::data::{Curve, Role};
use super::hoard::{Hoard, all_beat};
use super::memory::MIB;
use crate::process::{cpu_time, resident_bytes};

/// More and more sessions at one orchestrator; each round has its own.
pub(super) async fn idle(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let (mut memory, mut processor) = (Curve::default(), Curve::default());
    for _ in 0..size.memory_rounds {
        let directory = PrivateDirectory::new("curves")?;
        let orchestrator = OrchestratorSettings::new(directory.path()).start().await?;
        let id = orchestrator.process.id();
        let_pass(REST).await;
        let bytes_first = resident_bytes(id)?;
        let mut sessions = Vec::new();
        for count in SESSIONS {
            open(&mut sessions, count, orchestrator.address()).await?;
            all_beat(&sessions).await?;
            let_pass(REST).await;
            let (began, before) = (Instant::now(), cpu_time(id)?);
            let_pass(size.idle).await;
            let share = (cpu_time(id)? - before).as_secs_f64() / began.elapsed().as_secs_f64();
            let bytes = resident_bytes(id)?;
            // All of them are still there.
            all_beat(&sessions).await?;
            let (x, n) = (count as f64, count as f64);
            let each = (bytes as f64 - bytes_first as f64) / n / 1_024.0;
            memory.note(("orchestrator", Role::Product, "MiB"), x, bytes as f64 / MIB);
            memory.note(("orchestrator", Role::Product, "KiB each"), x, each);
            processor.note(("orchestrator", Role::Product, "%"), x, share * 100.0);
        }
    }
    Ok(vec![("sessions", memory), ("session_cpu", processor)])
}

/// Opens more until there are so many, some at a time.
async fn open(sessions: &mut Vec<Hoard>, count: usize, address: SocketAddr) -> Result<(), Fault> {
    while sessions.len() < count {
        let mut opening = JoinSet::new();
        for number in sessions.len()..count.min(sessions.len() + AT_ONCE) {
            // Beats spread over the interval, as those of workers that started at different times do.
            let share = (number % SHARES + 1) as f64 / SHARES as f64;
            opening.spawn(Hoard::open(address, "idle", 1, share));
        }
        while let Some(opened) = opening.join_next().await {
            sessions.push(opened??);
        }
    }
    Ok(())
}

const SESSIONS: [usize; 6] = [1, 10, 100, 500, 1_000, 2_000];
const AT_ONCE: usize = 50;
const SHARES: usize = 97;
const REST: Duration = Duration::from_secs(1);
