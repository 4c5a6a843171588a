//! An orchestrator under attack, its size and its descriptors, and somebody who means no harm.

use crate::canary::Canary;
use escapement_tests::plans::{self, RequestWords};
use escapement_tests::{Orchestrator, OrchestratorSettings, PrivateDirectory, TlsTunnel, usage, wait_for};
use escapement_wire::v1::SubmitPlanRequest;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::transport::{Channel, Endpoint};

/// How long a test waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The size of an attack: the first in `cargo verify`, the second where `ESCAPEMENT_LONG` is set.
pub(crate) fn scale<T>(short: T, long: T) -> T {
    if std::env::var_os("ESCAPEMENT_LONG").is_some() {
        long
    } else {
        short
    }
}

/// The place of the attack.
pub(crate) struct Den {
    pub(crate) orchestrator: Orchestrator,
    canary: Option<Canary>,
    before: Size,
    /// Dropped last.
    _directory: PrivateDirectory,
    _turn: SemaphorePermit<'static>,
}

/// What a process has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Memory now, in MiB.
    pub(crate) resident_mib: u64,
    /// The most memory that it ever had, in MiB.
    pub(crate) peak_mib: u64,
    pub(crate) descriptors: usize,
}

impl Den {
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    pub(crate) async fn start_with(
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        Self::start_as(1, change).await
    }

    /// Without another attack at the same time, which would slow down what is measured.
    pub(crate) async fn start_alone(
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        Self::start_as(N_TURNS, change).await
    }

    async fn start_as(
        n_turns: u32,
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        let turn = TURNS.acquire_many(n_turns).await.expect("it is never closed");
        let directory = PrivateDirectory::new("hostile").unwrap();
        let settings = change(OrchestratorSettings::new(directory.path()));
        let settings = settings.over_tls_if_asked(directory.path()).unwrap();
        let orchestrator = settings.start().await.unwrap();
        let canary = Canary::start(&orchestrator.url()).await;
        let before = size_of(orchestrator.process.id());
        Self {
            orchestrator,
            canary: Some(canary),
            before,
            _directory: directory,
            _turn: turn,
        }
    }

    /// One that speaks TLS, behind a tunnel for those who mean no harm.
    pub(crate) async fn start_over_tls() -> (Self, Arc<TlsTunnel>) {
        let directory = PrivateDirectory::new("tunnel").unwrap();
        let den = Self::start_with(|settings| settings.over_tls(directory.path()).unwrap()).await;
        let tunnel = den.orchestrator.tunnel.clone().unwrap();
        (den, tunnel)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.orchestrator.address()
    }

    /// A connection of its own.
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.orchestrator.url()).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) fn size(&self) -> Size {
        size_of(self.orchestrator.process.id())
    }

    /// Measures from here on: gives the size now and forgets the peak before it.
    pub(crate) fn measure(&self) -> Size {
        usage::forget_peak(self.orchestrator.process.id()).unwrap();
        self.size()
    }

    /// Lets the canary go before the end, for attacks that it cannot outlive by right.
    pub(crate) async fn stop_canary(&mut self) -> Vec<Duration> {
        self.canary.take().expect("it is stopped once").stop().await
    }

    /// The attack is over: everybody was served, no more memory was taken, and what was taken is given back.
    pub(crate) async fn finish(mut self, attack: &str, growth_mib_max: u64) {
        let mut took = match self.canary.take() {
            Some(canary) => canary.stop().await,
            None => Vec::new(),
        };
        let after = self.size();
        took.sort();
        let of = |percent| took.get(took.len() * percent / 100).copied().unwrap_or_default();
        eprintln!(
            "{attack}: {} calls of others, median {:?}, p99 {:?}, most {:?}; resident {} MiB before, {} after, {} at most",
            took.len(),
            of(50),
            of(99),
            took.last().copied().unwrap_or_default(),
            self.before.resident_mib,
            after.resident_mib,
            after.peak_mib,
        );
        assert!(self.orchestrator.process.is_running(), "the process lives");
        let grown = after.peak_mib.saturating_sub(self.before.resident_mib);
        assert!(grown <= growth_mib_max, "{attack} took {grown} MiB");
        let given_back = async || (self.size().descriptors <= self.before.descriptors + 2).then_some(());
        wait_for("the descriptors to be given back", LIMIT, given_back)
            .await
            .unwrap();
        self.orchestrator.stop().await.unwrap();
    }
}

fn size_of(process: u32) -> Size {
    Size {
        resident_mib: usage::resident_bytes(process).unwrap() >> 20,
        peak_mib: usage::peak_bytes(process).unwrap() >> 20,
        descriptors: usage::n_descriptors(process).unwrap(),
    }
}

/// A plan with one step of an action, under fresh ids.
pub(crate) fn submission(action: &str) -> SubmitPlanRequest {
    plans::request(plans::plan([plans::step(0, action)])).as_submission()
}

/// What plans under attack ask for.
pub(crate) fn environment() -> escapement_model::Opaque {
    plans::object(serde_json::json!({ "region": "eu" }))
}

/// Attacks at the same time. With more of them, how long others wait would be a measure of the machine.
const N_TURNS: u32 = 2;
static TURNS: Semaphore = Semaphore::const_new(N_TURNS as usize);
