//! Runs, beside the contract executions that they are made of: how long one takes, how many in a second, what an iteration
//! costs late in a loop, and what waiting for a person takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use escapement_model::Opaque;
use escapement_tests::usage::resident_bytes;
use escapement_tests::{Fault, documents, let_pass};
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::watch_run_response::Told;
use escapement_wire::runs::v1::{
    CreateRunRequest, ExportRunRequest, GetStepResultRequest, ListInputRequestsRequest,
    RespondToInputRequest, Responder, Run, WaitRunRequest, WatchRunRequest,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::pairs::{Pairs, p50};
use crate::load::{closed_loop, one_by_one};
use crate::plans::{ACTION, Template, payload};
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::Stage;

/// All bars of runs.
pub(crate) async fn runs(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let mut bars = vec![latency(extent).await?, rate(extent).await?];
    bars.extend(iterations(extent).await?);
    bars.extend(waiting(extent).await?);
    bars.push(journal().await?);
    Ok(bars)
}

/// One step, by one caller: a run beside a contract execution.
async fn latency(extent: &Extent) -> Result<Bar, Fault> {
    let stage = Stage::start().await?;
    let (plan, template) = (calls(1)?, Template::single());
    let mut latencies = Pairs::default();
    for _ in 0..extent.rounds {
        let of_executions = one_by_one(stage.channel()?, &template, extent.calls).await?;
        latencies.baseline.push(p50(&of_executions.latencies));
        let channel = stage.channel()?;
        let mut of_runs = Vec::with_capacity(extent.calls);
        for _ in 0..extent.calls {
            of_runs.push(run_to_its_end(&channel, &plan).await?);
        }
        of_runs.sort();
        latencies.value.push(p50(&of_runs));
    }
    Ok(Bar::new(
        "run_latency",
        "run of one step, one caller, p50",
        "ms",
        latencies.value(),
        Aim::RatioUnder(2.5),
    )
    .beside(latencies.baseline("contract execution of one step")))
}

/// Three steps, by 64 callers.
async fn rate(extent: &Extent) -> Result<Bar, Fault> {
    let stage = Stage::start().await?;
    let (plan, template) = (calls(3)?, Template::chain(3));
    let channels = stage.channels(CALLERS)?;
    run_together(&channels, &plan, WARM_UP).await?;
    let mut rates = Pairs::default();
    for _ in 0..extent.rounds {
        let of_executions = closed_loop(channels.clone(), &template, extent.span).await?;
        rates.baseline.push(of_executions.rate);
        rates
            .value
            .push(run_together(&channels, &plan, extent.span).await?);
    }
    Ok(Bar::new(
        "run_rate",
        format!("runs of three steps, {CALLERS} callers"),
        "runs/s",
        rates.value(),
        Aim::AtLeast(800.0),
    )
    .beside(rates.baseline("contract executions of three steps")))
}

/// Returns a loop of 1000 iterations, beside one of 100.
async fn iterations(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let (long, short) = (repeat(1000)?, repeat(100)?);
    let channel = stage.channel()?;
    let (mut rates, mut costs) = (Vec::new(), Pairs::default());
    for _ in 0..extent.rounds {
        let mut of_short = Duration::ZERO;
        for _ in 0..10 {
            of_short += run_to_its_end(&channel, &short).await?;
        }
        let of_long = run_to_its_end(&channel, &long).await?;
        rates.push(1000.0 / of_long.as_secs_f64());
        costs.value.push(of_long.as_secs_f64() * 1000.0);
        costs.baseline.push(of_short.as_secs_f64() * 1000.0);
    }
    Ok(vec![
        Bar::new(
            "loop_rate",
            "iterations of a loop of 1000, one caller and nothing else",
            "iterations/s",
            crate::statistics::Figure::of(rates),
            Aim::AtLeast(400.0),
        ),
        Bar::new(
            "loop_growth",
            "an iteration in a loop of 1000, beside one in a loop of 100",
            "us",
            costs.value(),
            Aim::RatioUnder(1.3),
        )
        .beside(costs.baseline("loop of 100")),
    ])
}

/// Runs that wait for an answer: what each takes of memory, and how soon the next step leaves once it is answered.
async fn waiting(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let plan = question()?;
    let channels = stage.channels(CALLERS)?;
    create_together(&channels, &plan, WARM_UP_RUNS).await?;
    let id = stage.orchestrator.process.id();
    let before = resident_bytes(id)?;
    create_together(&channels, &plan, extent.queued).await?;
    let grown = resident_bytes(id)?.saturating_sub(before) as f64;
    let mut answers = answer_some(&channels[0], (extent.calls / 5).min(PAGE_MAX)).await?;
    answers.sort();
    Ok(vec![
        Bar::new(
            "waiting_run_memory",
            format!("memory of each of {} runs that wait for an answer", extent.queued),
            "bytes",
            crate::statistics::Figure::of([grown / extent.queued as f64]),
            Aim::Under(1_024.0),
        ),
        Bar::new(
            "answer_latency",
            format!(
                "from an answer to the next call, {} runs waiting, p50",
                extent.queued
            ),
            "ms",
            crate::statistics::Figure::of([p50(&answers)]),
            Aim::Under(3.0),
        ),
    ])
}

/// What the journal holds of a step, beyond what the step is given and what it gives.
async fn journal() -> Result<Bar, Fault> {
    let stage = Stage::start().await?;
    let channel = stage.channel()?;
    let run_id = ended_run(&channel, &calls(JOURNAL_STEPS)?).await?.run_id;
    let mut client = RunServiceClient::new(channel);
    let request = ExportRunRequest {
        run_id: run_id.clone(),
    };
    let mut pieces = client.export_run(request).await?.into_inner();
    let mut record = Vec::new();
    while let Some(piece) = pieces.message().await? {
        record.extend_from_slice(&piece.data);
    }
    // The first two entries make the run and its plan; all others are about its steps.
    let n_bytes: usize = entries(&record)?.iter().skip(2).sum();
    let result = GetStepResultRequest {
        run_id,
        step_key: "call_0".to_owned(),
        ..GetStepResultRequest::default()
    };
    let output = client.get_step_result(result).await?.into_inner().size_bytes;
    let given: Opaque = documents::from_json("google.protobuf.Struct", &payload())?;
    let of_step = n_bytes as f64 / JOURNAL_STEPS as f64;
    let beyond = of_step - given.as_encoded().len() as f64 - output as f64;
    Ok(Bar::new(
        "step_journal",
        "journal of a step, beyond payload and output",
        "bytes",
        crate::statistics::Figure::of([beyond]),
        Aim::Under(1_536.0),
    ))
}

/// How many bytes each entry of a record has, its link included: proto/RUN_RECORD.md.
fn entries(record: &[u8]) -> Result<Vec<usize>, Fault> {
    let line = record.iter().position(|byte| *byte == b'\n');
    let mut frames = &record[line.ok_or("a record begins with a line")? + 1..];
    let mut entries = Vec::new();
    while !frames.is_empty() {
        let n_bytes = usize::try_from(prost::encoding::decode_varint(&mut frames)?)?;
        let (frame, rest) = frames
            .split_at_checked(n_bytes)
            .ok_or("the record ends within a frame")?;
        // Field 2: an entry.
        if frame.first() == Some(&0x12) {
            entries.push(frame.len());
        }
        frames = rest;
    }
    Ok(entries)
}

/// Creates a run and waits for its end.
pub(super) async fn run_to_its_end(channel: &Channel, request: &CreateRunRequest) -> Result<Duration, Fault> {
    let began = Instant::now();
    ended_run(channel, request).await?;
    Ok(began.elapsed())
}

/// The run, once it has completed.
async fn ended_run(channel: &Channel, request: &CreateRunRequest) -> Result<Run, Fault> {
    let mut client = RunServiceClient::new(channel.clone());
    let created = client.create_run(request.clone()).await?.into_inner();
    let mut run: Run = created.run.ok_or("a run that was created has a run")?;
    while run.completed_at.is_none() {
        let wait = WaitRunRequest {
            run_id: run.run_id.clone(),
            ..WaitRunRequest::default()
        };
        run = client
            .wait_run(wait)
            .await?
            .into_inner()
            .run
            .ok_or("a wait has a run")?;
    }
    match run.state() {
        State::Completed => Ok(run),
        _ => Err(format!("a run should complete, and ended so: {run:?}").into()),
    }
}

/// Runs again and again, a caller for each channel; gives the rate.
async fn run_together(
    channels: &[Channel],
    request: &CreateRunRequest,
    span: Duration,
) -> Result<f64, Fault> {
    let is_over = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for channel in channels {
        let (channel, request, is_over) = (channel.clone(), request.clone(), Arc::clone(&is_over));
        callers.spawn(async move {
            let mut n_runs = 0_usize;
            while !is_over.load(Ordering::Relaxed) {
                run_to_its_end(&channel, &request).await?;
                n_runs += 1;
            }
            Ok::<usize, Fault>(n_runs)
        });
    }
    let_pass(span).await;
    is_over.store(true, Ordering::Relaxed);
    let mut n_runs = 0;
    while let Some(ended) = callers.join_next().await {
        n_runs += ended??;
    }
    Ok(n_runs as f64 / began.elapsed().as_secs_f64())
}

/// Creates so many runs, by all callers together.
async fn create_together(
    channels: &[Channel],
    request: &CreateRunRequest,
    n_runs: usize,
) -> Result<(), Fault> {
    let mut callers = JoinSet::new();
    for (caller, channel) in channels.iter().enumerate() {
        let (mut client, request) = (RunServiceClient::new(channel.clone()), request.clone());
        let share = n_runs / channels.len() + usize::from(caller < n_runs % channels.len());
        callers.spawn(async move {
            for _ in 0..share {
                client.create_run(request.clone()).await?;
            }
            Ok::<(), Fault>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}

/// Answers some of those that wait; gives for each how long it took until the next call was on its way.
async fn answer_some(channel: &Channel, n_answers: usize) -> Result<Vec<Duration>, Fault> {
    let (mut inbox, mut runs) = (
        InboxServiceClient::new(channel.clone()),
        RunServiceClient::new(channel.clone()),
    );
    let page = ListInputRequestsRequest {
        page_size: Some(i32::try_from(n_answers)?),
        ..ListInputRequestsRequest::default()
    };
    let asked = inbox.list_input_requests(page).await?.into_inner().input_requests;
    let mut took = Vec::new();
    for request in asked {
        let watch = WatchRunRequest {
            run_id: request.run_id.clone(),
            from_sequence: 1,
        };
        let mut events = runs.watch_run(watch).await?.into_inner();
        let answer = RespondToInputRequest {
            input_request_id: request.input_request_id,
            answer: Some(Answer::Text("yes".to_owned())),
            responder: Some(Responder {
                id: "bars".to_owned(),
                ..Responder::default()
            }),
            ..RespondToInputRequest::default()
        };
        let began = Instant::now();
        inbox.respond_to_input(answer).await?;
        while let Some(told) = events.message().await? {
            if matches!(told.told, Some(Told::Event(event)) if event.event_type == "tool_called") {
                took.push(began.elapsed());
                break;
            }
        }
    }
    Ok(took)
}

/// Returns a run of so many calls, one after another.
pub(super) fn calls(n_steps: usize) -> Result<CreateRunRequest, Fault> {
    let steps = (0..n_steps).map(|index| call(&format!("call_{index}"))).collect();
    created(steps)
}

/// Returns a run of one call that is repeated.
fn repeat(n_iterations: usize) -> Result<CreateRunRequest, Fault> {
    let config = json!({"tool_name": ACTION, "tool_args": payload(), "max_iterations": n_iterations});
    created(vec![json!({"key": "again", "type": "loop", "config": config})])
}

/// Returns a run that asks, and then calls.
fn question() -> Result<CreateRunRequest, Fault> {
    let config = json!({"question": "Shall it go on?", "input_type": "text"});
    created(vec![
        json!({"key": "ask", "type": "user_input", "config": config}),
        call("call"),
    ])
}

fn call(key: &str) -> Value {
    json!({"key": key, "type": "tool_call", "config": {"tool_name": ACTION, "tool_args": payload()}})
}

fn created(steps: Vec<Value>) -> Result<CreateRunRequest, Fault> {
    let document = json!({"schema": "escapement.plan/1", "name": "Bars", "steps": steps});
    documents::from_json(
        "escapement.runs.v1.CreateRunRequest",
        &json!({"document": document, "autonomy_level": 4}),
    )
}

const CALLERS: usize = 64;
/// Steps of the run whose journal is measured.
const JOURNAL_STEPS: usize = 100;
/// The longest page of open requests.
const PAGE_MAX: usize = 200;
const WARM_UP: Duration = Duration::from_millis(500);
const WARM_UP_RUNS: usize = 500;
