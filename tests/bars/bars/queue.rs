//! A hundred thousand executions that wait, of one namespace and of a hundred: what each takes of memory, and whether the last are
//! accepted as fast as the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use escapement_tests::usage::resident_bytes;
use escapement_tests::{Fault, OrchestratorSettings, PrivateDirectory};
use escapement_wire::v1::SubmitPlanRequest;
use tonic::transport::{Channel, Endpoint};

use super::pairs::Pairs;
use crate::hoard::{Hoard, all_hold};
use crate::load::submit_together;
use crate::plans::{ACTION, Template};
use crate::report::{Aim, Bar};
use crate::rounds::Extent;

/// Returns all bars from two queues, one after the other.
pub(crate) async fn queue(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let (mut bytes, mut rates) = (Pairs::default(), Pairs::default());
    let (mut bytes_of_many, mut rates_of_many) = (Pairs::default(), Pairs::default());
    for _ in 0..extent.queues {
        let filled = fill(extent.queued, 1).await?;
        let of_many = fill(extent.queued, N_NAMESPACES).await?;
        bytes_of_many.value.push(of_many.bytes_beyond_plans);
        bytes_of_many.baseline.push(filled.bytes_beyond_plans);
        rates_of_many.value.push(of_many.last_rate);
        rates_of_many.baseline.push(filled.last_rate);
        bytes.value.push(filled.bytes_beyond_plans);
        bytes.baseline.push(filled.bytes_each);
        rates.value.push(filled.last_rate);
        rates.baseline.push(filled.first_rate);
    }
    let n = extent.queued;
    Ok(vec![
        Bar::new(
            "queued_memory",
            format!(
                "memory of each of {n} queued executions beyond the bytes of the {PLANS_IN_MEMORY} plans that are resident"
            ),
            "bytes",
            bytes.value(),
            Aim::Under(2_048.0),
        )
        .beside(bytes.baseline("nothing subtracted")),
        Bar::new(
            "queued_accept_rate",
            format!("accepts of the last tenth of {n}"),
            "executions/s",
            rates.value(),
            Aim::RatioAtLeast(STEADY),
        )
        .beside(rates.baseline("the first tenth")),
        Bar::new(
            "queued_memory_of_namespaces",
            format!("the same memory, the {n} of {N_NAMESPACES} namespaces"),
            "bytes",
            bytes_of_many.value(),
            Aim::Under(2_048.0),
        )
        .beside(bytes_of_many.baseline("of one namespace")),
        Bar::new(
            "queued_accept_rate_of_namespaces",
            format!("accepts of the last tenth of {n}, of {N_NAMESPACES} namespaces"),
            "executions/s",
            rates_of_many.value(),
            Aim::RatioAtLeast(STEADY),
        )
        .beside(rates_of_many.baseline("of one namespace")),
    ])
}

struct Filled {
    /// All of the growth, by the number of executions.
    bytes_each: f64,
    /// Without what the plans that stay in memory take in the caller's own encoding.
    bytes_beyond_plans: f64,
    first_rate: f64,
    last_rate: f64,
}

/// Queues `n_executions` on a fresh store, of so many namespaces in turn. One runs at a worker that never ends it, the others
/// wait for it.
async fn fill(n_executions: usize, n_namespaces: usize) -> Result<Filled, Fault> {
    let directory = PrivateDirectory::new("bars")?;
    let settings = OrchestratorSettings::new(directory.path())
        .flag("--max-running-executions", 1)
        .flag("--max-queued-in-memory", PLANS_IN_MEMORY);
    let orchestrator = settings.start().await?;
    let holder = [Hoard::open(orchestrator.address(), ACTION, 1, 1.0).await?];
    let plans = Plans::new(n_namespaces);
    let channels: Vec<Channel> = (0..CALLERS)
        .map(|_| Ok(Endpoint::from_shared(orchestrator.url())?.connect_lazy()))
        .collect::<Result<_, Fault>>()?;
    // Connections and what every process grows by at first are not counted.
    let id = orchestrator.process.id();
    let tenth = n_executions / 10;
    submit(&channels, &plans, WARM_UP).await?;
    all_hold(&holder, 1).await?;
    let before = resident_bytes(id)?;
    let first_rate = submit(&channels, &plans, tenth).await?;
    submit(&channels, &plans, n_executions - 2 * tenth).await?;
    let last_rate = submit(&channels, &plans, tenth).await?;
    let grown = resident_bytes(id)?.saturating_sub(before) as f64;
    // Those of the warm-up are resident as well, and counted before.
    let resident = PLANS_IN_MEMORY.saturating_sub(WARM_UP).min(n_executions) * plans.template.own_bytes();
    holder[0].n_held()?;
    Ok(Filled {
        bytes_each: grown / n_executions as f64,
        bytes_beyond_plans: (grown - resident as f64) / n_executions as f64,
        first_rate,
        last_rate,
    })
}

/// Submits so many, by all callers together; gives the rate.
async fn submit(channels: &[Channel], plans: &Plans, n_executions: usize) -> Result<f64, Fault> {
    let plans = plans.clone();
    let took = submit_together(channels, n_executions, move || plans.next()).await?;
    Ok(n_executions as f64 / took.as_secs_f64())
}

/// What is handed in: each of the next namespace.
#[derive(Clone)]
struct Plans {
    template: Template,
    n_namespaces: usize,
    n_made: Arc<AtomicUsize>,
}

impl Plans {
    fn new(n_namespaces: usize) -> Self {
        Self {
            template: Template::single(),
            n_namespaces,
            n_made: Arc::default(),
        }
    }

    fn next(&self) -> SubmitPlanRequest {
        let namespace = match self.n_made.fetch_add(1, Ordering::Relaxed) % self.n_namespaces {
            0 => String::new(),
            n => format!("tenant-{n}"),
        };
        SubmitPlanRequest {
            namespace,
            ..self.template.fresh_submit()
        }
    }
}

const CALLERS: usize = 64;
const N_NAMESPACES: usize = 100;
const WARM_UP: usize = 500;
/// The default of `--max-queued-in-memory`: the plans of all others are on the disk alone.
const PLANS_IN_MEMORY: usize = 10_000;
/// "Does not fall": the noise of two spans that follow each other is let through.
const STEADY: f64 = 0.9;
