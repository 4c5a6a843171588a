//! What a planner costs beyond its own time: generations that are refused, and one that gives the plan that then runs.
//! The planner is the action `echo`, which answers at once with the plan that it is sent.

use std::time::{Duration, Instant};

use escapement_tests::{Fault, documents};
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{CreateRunRequest, Run, WaitRunRequest};
use serde_json::{Value, json};
use tonic::transport::Channel;

use super::pairs::{Pairs, p50};
use crate::plans::ACTION;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::Stage;
use crate::statistics::Figure;

/// Returns both bars of planners.
pub(crate) async fn planning(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let channel = stage.channel()?;
    let n_runs = extent.calls / 10;
    let (refused, planned, given) = (refused()?, planned()?, given()?);
    let (mut of_generations, mut of_plans) = (Vec::new(), Pairs::default());
    for _ in 0..extent.rounds {
        let failed = many(&channel, &refused, n_runs, State::Failed).await?;
        of_generations.push(failed / f64::from(GENERATIONS));
        let planned = many(&channel, &planned, n_runs, State::Completed).await?;
        let given = many(&channel, &given, n_runs, State::Completed).await?;
        of_plans.value.push(planned - given);
        of_plans.baseline.push(given);
    }
    Ok(vec![
        Bar::new(
            "generation_overhead",
            format!("generation of a planner that answers at once with a plan of {STEPS} steps that is refused, p50"),
            "ms",
            Figure::of(of_generations),
            Aim::Under(OVERHEAD_MS_MAX),
        ),
        Bar::new(
            "planned_run_overhead",
            "run of one step whose planner answers at once, without that of a run that is given the plan, p50",
            "ms",
            of_plans.value(),
            Aim::Under(OVERHEAD_MS_MAX),
        )
        .beside(of_plans.baseline("run that is given its plan")),
    ])
}

/// So many runs, one after another; gives the median of the milliseconds from the request to the end that each has to come to.
async fn many(
    channel: &Channel,
    request: &CreateRunRequest,
    n_runs: usize,
    end: State,
) -> Result<f64, Fault> {
    let mut client = RunServiceClient::new(channel.clone());
    let mut latencies: Vec<Duration> = Vec::with_capacity(n_runs);
    for _ in 0..n_runs {
        let began = Instant::now();
        let created = client.create_run(request.clone()).await?.into_inner();
        let mut run: Run = created.run.ok_or("a run that was created has a run")?;
        while run.completed_at.is_none() {
            let wait = WaitRunRequest {
                run_id: run.run_id.clone(),
                ..WaitRunRequest::default()
            };
            let ended = client.wait_run(wait).await?.into_inner();
            run = ended.run.ok_or("a wait has a run")?;
        }
        latencies.push(began.elapsed());
        if run.state() != end {
            return Err(format!("a run should end as {end:?}, and ended so: {run:?}").into());
        }
    }
    latencies.sort();
    Ok(p50(&latencies))
}

/// Returns a goal whose planner always calls an action that there is not.
fn refused() -> Result<CreateRunRequest, Fault> {
    let mut steps: Vec<Value> = (1..STEPS)
        .map(|index| step(&format!("call_{index}"), ACTION))
        .collect();
    steps.push(step("ghost", "bars.ghost"));
    goal(&document(&steps))
}

/// Returns a goal whose planner is right at once.
fn planned() -> Result<CreateRunRequest, Fault> {
    goal(&document(&[step("call", ACTION)]))
}

/// Returns the plan of that planner.
fn given() -> Result<CreateRunRequest, Fault> {
    let document = document(&[step("call", ACTION)]);
    created(&json!({"document": document, "autonomy_level": 4}))
}

/// Returns a goal whose planner gives this plan each time.
fn goal(document: &Value) -> Result<CreateRunRequest, Fault> {
    created(&json!({
        "goal": "Hold the planner against its bar",
        "planner": {"action": ACTION, "parameters": {"plan": document}},
        "limits": {"max_generations": GENERATIONS},
        "autonomy_level": 4,
    }))
}

fn created(request: &Value) -> Result<CreateRunRequest, Fault> {
    documents::from_json("escapement.runs.v1.CreateRunRequest", request)
}

fn document(steps: &[Value]) -> Value {
    json!({"schema": "escapement.plan/1", "name": "Bars", "steps": steps})
}

fn step(key: &str, action: &str) -> Value {
    json!({"key": key, "type": "tool_call", "config": {"tool_name": action, "tool_args": {"kg": 3}}})
}

/// Generations of a run that gets no plan.
const GENERATIONS: u32 = 10;
/// Steps of a plan that is refused.
const STEPS: usize = 20;
/// Milliseconds of a generation beyond the model's own.
const OVERHEAD_MS_MAX: f64 = 10.0;
