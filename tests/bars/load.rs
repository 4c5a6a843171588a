//! Callers that each wait for an answer before they ask again. Measures calls, judges none but that it succeeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use escapement_model::limits::{ANSWER_MESSAGE_BYTES_MAX, CALLER_MESSAGE_BYTES_MAX};
use escapement_tests::{Fault, let_pass};
use escapement_wire::v1::SubmitPlanRequest;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::plans::Template;
use crate::process::Bill;

/// What callers saw.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Answers per second, over all callers.
    pub(crate) rate: f64,
    /// Sorted.
    pub(crate) latencies: Vec<Duration>,
}

/// Returns a client with room for the largest messages.
pub(crate) fn client(channel: Channel) -> PlanExecutionServiceClient<Channel> {
    PlanExecutionServiceClient::new(channel)
        .max_encoding_message_size(CALLER_MESSAGE_BYTES_MAX * 2)
        .max_decoding_message_size(ANSWER_MESSAGE_BYTES_MAX)
}

/// Executes the plan again and again: one caller for each channel given, for so long.
///
/// # Errors
/// A call fails, or a plan does not succeed.
pub(crate) async fn closed_loop(
    channels: Vec<Channel>,
    template: &Template,
    span: Duration,
) -> Result<Sample, Fault> {
    let is_over = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let callers: Vec<_> = channels
        .into_iter()
        .map(|channel| tokio::spawn(call_until(channel, template.clone(), Arc::clone(&is_over))))
        .collect();
    let_pass(span).await;
    is_over.store(true, Ordering::Relaxed);
    // Counted to the last answer: what was begun is finished, in both.
    let mut latencies = Vec::new();
    for caller in callers {
        latencies.append(&mut caller.await??);
    }
    let rate = latencies.len() as f64 / began.elapsed().as_secs_f64();
    latencies.sort();
    Ok(Sample { rate, latencies })
}

/// The same, put on a bill; gives the rate.
///
/// # Errors
/// As [`closed_loop`].
pub(crate) async fn billed_loop(
    bill: &mut Bill,
    channels: &[Channel],
    template: &Template,
    span: Duration,
) -> Result<f64, Fault> {
    bill.begin()?;
    let sample = closed_loop(channels.to_vec(), template, span).await?;
    bill.end(sample.latencies.len())?;
    Ok(sample.rate)
}

/// Executes the plan so many times, one after another.
///
/// # Errors
/// As [`closed_loop`].
pub(crate) async fn one_by_one(channel: Channel, template: &Template, calls: usize) -> Result<Sample, Fault> {
    let mut client = client(channel);
    let mut latencies = Vec::with_capacity(calls);
    let began = Instant::now();
    for _ in 0..calls {
        latencies.push(execute(&mut client, template).await?);
    }
    let rate = calls as f64 / began.elapsed().as_secs_f64();
    latencies.sort();
    Ok(Sample { rate, latencies })
}

/// Submits so many, by all callers together: one for each channel. Gives how long the accepts took.
///
/// # Errors
/// A call fails.
pub(crate) async fn submit_together(
    channels: &[Channel],
    n_executions: usize,
    request: impl Fn() -> SubmitPlanRequest + Clone + Send + 'static,
) -> Result<Duration, Fault> {
    let left = Arc::new(AtomicUsize::new(n_executions));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for channel in channels {
        let (mut client, left, request) = (client(channel.clone()), Arc::clone(&left), request.clone());
        callers.spawn(async move {
            let take = |left: usize| left.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
            {
                client.submit_plan(request()).await?;
            }
            Ok::<(), Fault>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(began.elapsed())
}

async fn call_until(
    channel: Channel,
    template: Template,
    is_over: Arc<AtomicBool>,
) -> Result<Vec<Duration>, Fault> {
    let mut client = client(channel);
    let mut latencies = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        latencies.push(execute(&mut client, &template).await?);
    }
    Ok(latencies)
}

/// One execution, from the request to the answer.
async fn execute(
    client: &mut PlanExecutionServiceClient<Channel>,
    template: &Template,
) -> Result<Duration, Fault> {
    let mut request = tonic::Request::new(template.fresh());
    if let Some(credentials) = &template.credentials {
        request
            .metadata_mut()
            .insert("authorization", credentials.clone());
    }
    let began = Instant::now();
    let answer = client.execute_plan(request).await?.into_inner();
    let elapsed = began.elapsed();
    match answer.result {
        Some(result) if result.status() == Status::Success => Ok(elapsed),
        other => Err(format!("a plan should succeed, and ended so: {other:?}").into()),
    }
}
