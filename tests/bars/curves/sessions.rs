//! What idle worker sessions take: memory and processor time, of the orchestrator and of the floor. Gives them no work.

use std::time::{Duration, Instant};

use escapement_model::limits::HEARTBEAT_INTERVAL_MS;
use escapement_tests::usage::{cpu_time, resident_bytes};
use escapement_tests::{Fault, OrchestratorSettings, PrivateDirectory, let_pass};

use super::Size;
use super::data::{Curve, Role};
use crate::floor::Floor;
use crate::sessions::Sessions;

/// More and more sessions at one orchestrator and at one floor; each round has its own.
pub(super) async fn idle(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let (mut memory, mut processor) = (Curve::default(), Curve::default());
    for _ in 0..size.memory_rounds {
        let directory = PrivateDirectory::new("curves")?;
        let orchestrator = OrchestratorSettings::new(directory.path()).start().await?;
        let floor = Floor::start(directory.path()).await?;
        let_pass(INTERVAL).await;
        let mut sides = [
            Side::new(Role::Floor, floor.server_id(), floor.url())?,
            Side::new(Role::Product, orchestrator.process.id(), &orchestrator.url())?,
        ];
        for count in SESSIONS {
            for side in &mut sides {
                side.sessions.open(&side.url, count - side.count).await?;
                side.count = count;
            }
            // Each of them has beaten once, on both sides.
            let_pass(INTERVAL).await;
            for side in &mut sides {
                side.look(size.idle, &mut memory, &mut processor).await?;
            }
        }
    }
    Ok(vec![("sessions", memory), ("session_cpu", processor)])
}

/// A process with sessions.
struct Side {
    role: Role,
    id: u32,
    url: String,
    sessions: Sessions,
    count: usize,
    bytes_first: u64,
}

impl Side {
    fn new(role: Role, id: u32, url: &str) -> Result<Self, Fault> {
        Ok(Self {
            role,
            id,
            url: url.to_owned(),
            sessions: Sessions::default(),
            count: 0,
            bytes_first: resident_bytes(id)?,
        })
    }

    async fn look(&mut self, span: Duration, memory: &mut Curve, processor: &mut Curve) -> Result<(), Fault> {
        let (began, before) = (Instant::now(), cpu_time(self.id)?);
        let_pass(span).await;
        let share = cpu_time(self.id)?.saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64();
        let bytes = resident_bytes(self.id)?;
        let n_ended = self.sessions.n_ended();
        if n_ended > 0 {
            return Err(format!("{n_ended} of {} sessions ended", self.count).into());
        }
        let x = self.count as f64;
        let each = (bytes as f64 - self.bytes_first as f64) / x / 1_024.0;
        let name = "orchestrator";
        memory.note((name, self.role, "MiB"), x, bytes as f64 / 1_048_576.0);
        memory.note((name, self.role, "KiB each"), x, each);
        processor.note((name, self.role, "%"), x, share * 100.0);
        Ok(())
    }
}

const SESSIONS: [usize; 6] = [1, 10, 100, 500, 1_000, 2_000];
const INTERVAL: Duration = Duration::from_millis(HEARTBEAT_INTERVAL_MS);
