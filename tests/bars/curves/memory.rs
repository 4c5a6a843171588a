//! What queued and running executions take of the orchestrator's memory. Looks from outside: resident pages, as the kernel counts them.

use std::time::Duration;

use escapement_tests::usage::resident_bytes;
use escapement_tests::{Fault, Orchestrator, OrchestratorSettings, PrivateDirectory, let_pass};
use tonic::transport::{Channel, Endpoint};

use super::Size;
use super::data::{Curve, Role};
use crate::hoard::{Hoard, all_hold};
use crate::load::submit_together;
use crate::plans::{ACTION, Template};

/// Executions that wait, with the default limit of what is kept in memory and with all kept there.
pub(super) async fn queued(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let mut curve = Curve::default();
    let own_bytes = Template::single().own_bytes();
    for _ in 0..size.memory_rounds {
        for (name, in_memory) in [("default", None), ("all in memory", Some(ALL_QUEUED))] {
            let directory = PrivateDirectory::new("curves")?;
            let mut settings =
                OrchestratorSettings::new(directory.path()).flag("--max-running-executions", 1);
            if let Some(count) = in_memory {
                settings = settings.flag("--max-queued-in-memory", count);
            }
            let orchestrator = settings.start().await?;
            // The only place is taken, and stays so.
            let holder = [Hoard::open(orchestrator.address(), ACTION, 1, 1.0).await?];
            let mut filling = Filling::begin(orchestrator, name).await?;
            all_hold(&holder, 1).await?;
            for count in size.executions {
                // One of them runs.
                filling.grow_to(count + 1).await?;
                filling.note(&mut curve)?;
            }
            holder[0].n_held()?;
        }
        for count in size.executions {
            let own = (count * own_bytes) as f64 / MIB;
            curve.note(
                ("the requests' own bytes", Role::Reference, "MiB"),
                *count as f64,
                own,
            );
        }
    }
    curve.notes.push(format!(
        "A request takes {own_bytes} bytes in the caller's own encoding."
    ));
    Ok(vec![("queued", curve)])
}

/// Executions that run, each with its step at a worker.
pub(super) async fn running(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let most = size.executions.iter().max().copied().unwrap_or_default();
    let mut curve = Curve::default();
    for _ in 0..size.memory_rounds {
        let directory = PrivateDirectory::new("curves")?;
        let settings = OrchestratorSettings::new(directory.path());
        let orchestrator = settings
            .flag("--max-running-executions", 2 * most)
            .start()
            .await?;
        let n_holders = (most + FIRST).div_ceil(IN_FLIGHT_MAX as usize);
        let mut holders = Vec::new();
        for number in 0..n_holders {
            let share = (number + 1) as f64 / n_holders as f64;
            holders.push(Hoard::open(orchestrator.address(), ACTION, IN_FLIGHT_MAX, share).await?);
        }
        let mut filling = Filling::begin(orchestrator, "orchestrator").await?;
        for count in size.executions {
            filling.grow_to(*count).await?;
            all_hold(&holders, *count).await?;
            filling.note(&mut curve)?;
        }
        all_hold(&holders, filling.count).await?;
    }
    Ok(vec![("running", curve)])
}

/// An orchestrator that gets more and more executions.
struct Filling {
    orchestrator: Orchestrator,
    channels: Vec<Channel>,
    name: &'static str,
    count: usize,
    bytes_first: u64,
}

impl Filling {
    /// With the first of them, so that what is made once, such as buffers of connections, is not counted.
    async fn begin(orchestrator: Orchestrator, name: &'static str) -> Result<Self, Fault> {
        let endpoint = Endpoint::from_shared(orchestrator.url())?;
        let channels = (0..CALLERS).map(|_| endpoint.connect_lazy()).collect();
        let mut filling = Self {
            orchestrator,
            channels,
            name,
            count: 0,
            bytes_first: 0,
        };
        filling.grow_to(FIRST).await?;
        filling.bytes_first = filling.resident()?;
        Ok(filling)
    }

    /// Submits until there are so many, and lets the orchestrator come to rest.
    async fn grow_to(&mut self, count: usize) -> Result<(), Fault> {
        let template = Template::single();
        let request = move || {
            let mut request = template.fresh_submit();
            if let Some(plan) = &mut request.plan {
                // Nothing may end while it is counted.
                plan.timeout_ms = Some(TIMEOUT_MS);
            }
            request
        };
        submit_together(&self.channels, count - self.count, request).await?;
        self.count = count;
        let_pass(REST).await;
        Ok(())
    }

    fn note(&self, curve: &mut Curve) -> Result<(), Fault> {
        let bytes = self.resident()?;
        // The one that runs while others are queued is not what is counted.
        let shown = (self.count / 1_000 * 1_000) as f64;
        let each = (bytes as f64 - self.bytes_first as f64) / (self.count - FIRST) as f64;
        curve.note((self.name, Role::Product, "MiB"), shown, bytes as f64 / MIB);
        curve.note((self.name, Role::Product, "KiB each"), shown, each / 1_024.0);
        Ok(())
    }

    fn resident(&self) -> Result<u64, Fault> {
        resident_bytes(self.orchestrator.process.id())
    }
}

/// Executions that are there before the counting begins.
const FIRST: usize = 256;
const CALLERS: usize = 32;
const ALL_QUEUED: usize = 1_000_000;
/// As many as a session may have.
const IN_FLIGHT_MAX: u32 = 4_096;
const TIMEOUT_MS: i64 = 24 * 3_600_000;
/// Longer than a checkpoint of the store takes.
const REST: Duration = Duration::from_secs(1);
const MIB: f64 = 1_048_576.0;
