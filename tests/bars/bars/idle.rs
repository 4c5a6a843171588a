//! What the orchestrator takes while nothing happens: alone, and with very many sessions.

use std::time::Duration;

use escapement_tests::usage::{cpu_time, resident_bytes};
use escapement_tests::{Binaries, Fault, OrchestratorSettings, PrivateDirectory, documents, let_pass};
use escapement_wire::runs::v1::session_service_client::SessionServiceClient;
use escapement_wire::runs::v1::trigger_service_client::TriggerServiceClient;
use escapement_wire::runs::v1::{CreateSessionRequest, CreateTriggerRequest};
use serde_json::json;
use tokio::task::JoinSet;

use super::pairs::Pairs;
use crate::floor::Floor;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::sessions::Sessions;
use crate::statistics::Figure;

/// Returns an orchestrator that nobody talks to.
pub(crate) async fn idle(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let (mut memory, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..IDLE_ROUNDS {
        let directory = PrivateDirectory::new("bars")?;
        let orchestrator = OrchestratorSettings::new(directory.path()).start().await?;
        let id = orchestrator.process.id();
        busy.push(busy_percent(id, extent.idle / IDLE_ROUNDS).await?);
        memory.push(mebibytes(resident_bytes(id)?));
    }
    let program = Binaries::build()?.orchestrator.metadata()?.len();
    Ok(vec![
        Bar::new(
            "idle_memory",
            "idle orchestrator, resident memory",
            "MiB",
            Figure::of(memory),
            Aim::Under(20.0),
        ),
        Bar::new(
            "idle_cpu",
            "idle orchestrator, share of one core",
            "%",
            Figure::of(busy),
            Aim::Under(0.1),
        ),
        Bar::new(
            "program_size",
            "the program `orchestrator`",
            "MiB",
            Figure::of([mebibytes(program)]),
            Aim::Under(20.0),
        ),
    ])
}

/// Sessions that send heartbeats and nothing else.
pub(crate) async fn sessions(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let n = extent.sessions;
    let directory = PrivateDirectory::new("bars")?;
    let orchestrator = OrchestratorSettings::new(directory.path()).start().await?;
    let floor = Floor::start(directory.path()).await?;
    let product_id = orchestrator.process.id();
    let (mut memory, mut busy) = (Pairs::default(), Pairs::default());
    let (before, floor_before) = (resident_bytes(product_id)?, resident_bytes(floor.server_id())?);
    let (mut of_product, mut of_floor) = (Sessions::default(), Sessions::default());
    of_product.open(&orchestrator.url(), n).await?;
    of_floor.open(floor.url(), n).await?;
    for _ in 0..SESSION_ROUNDS {
        let span = extent.idle / SESSION_ROUNDS;
        // Both at once would share what waking up costs; the other's heartbeats are the same in both spans.
        busy.baseline.push(busy_percent(floor.server_id(), span).await?);
        busy.value.push(busy_percent(product_id, span).await?);
        memory
            .value
            .push(kibibytes_each(resident_bytes(product_id)?, before, n));
        memory.baseline.push(kibibytes_each(
            resident_bytes(floor.server_id())?,
            floor_before,
            n,
        ));
    }
    let n_ended = of_product.n_ended();
    if n_ended > 0 {
        return Err(format!("{n_ended} of {n} sessions ended").into());
    }
    Ok(vec![
        Bar::new(
            "session_memory",
            format!("memory of each of {n} idle sessions"),
            "KiB",
            memory.value(),
            Aim::Under(64.0),
        )
        .beside(memory.baseline("the same streams on bare tonic")),
        Bar::new(
            "sessions_cpu",
            format!("{n} idle sessions, share of one core"),
            "%",
            busy.value(),
            Aim::RatioUnder(1.3),
        )
        .beside(busy.baseline("the same heartbeats on bare tonic")),
    ])
}

/// Triggers and sessions of runs that wait for their time, a tenth of the triggers with conditions that are looked at meanwhile.
pub(crate) async fn at_rest(extent: &Extent) -> Result<Bar, Fault> {
    let directory = PrivateDirectory::new("bars")?;
    let orchestrator = OrchestratorSettings::new(directory.path()).start().await?;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let channel = orchestrator.channel();
        let (mut triggers, mut sessions) = (
            TriggerServiceClient::new(channel.clone()),
            SessionServiceClient::new(channel),
        );
        callers.spawn(async move {
            for n in (caller..AT_REST).step_by(CALLERS) {
                triggers.create_trigger(trigger(n)?).await?;
                sessions.create_session(CreateSessionRequest::default()).await?;
            }
            Ok::<(), Fault>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    let busy = busy_percent(orchestrator.process.id(), extent.idle).await?;
    Ok(Bar::new(
        "triggers_cpu",
        format!("{AT_REST} triggers and {AT_REST} sessions of runs at rest, share of one core"),
        "%",
        Figure::of([busy]),
        Aim::Under(1.0),
    ))
}

fn trigger(n: usize) -> Result<CreateTriggerRequest, Fault> {
    let mut trigger = json!({
        "name": format!("trigger {n}"),
        "run": {"document": {"schema": "escapement.plan/1", "name": "Bars", "steps": []}},
    });
    match n % 10 {
        0 => trigger["condition"] = json!({"expression": "input.runs.failed > 3"}),
        1 => trigger["event"] = json!({"type": "never"}),
        hour => trigger["schedule"] = json!({"cron": format!("0 {hour} 29 2 *")}),
    }
    documents::from_json(
        "escapement.runs.v1.CreateTriggerRequest",
        &json!({ "trigger": trigger }),
    )
}

/// How much of one core a process takes over this span.
async fn busy_percent(id: u32, span: Duration) -> Result<f64, Fault> {
    let (began, before) = (tokio::time::Instant::now(), cpu_time(id)?);
    let_pass(span).await;
    let busy = cpu_time(id)?.saturating_sub(before);
    Ok(100.0 * busy.as_secs_f64() / began.elapsed().as_secs_f64())
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn kibibytes_each(now: u64, before: u64, n: usize) -> f64 {
    now.saturating_sub(before) as f64 / 1024.0 / n as f64
}

const IDLE_ROUNDS: u32 = 3;
const SESSION_ROUNDS: u32 = 3;
/// Triggers, and sessions of runs.
const AT_REST: usize = 10_000;
const CALLERS: usize = 64;
