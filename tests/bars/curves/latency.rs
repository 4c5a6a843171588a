//! Latency under a load that does not wait: arrivals by a schedule, each latency from its scheduled moment.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use escapement_tests::{Dice, Fault, let_pass};
use escapement_wire::v1::ExecutePlanRequest;
use escapement_wire::v1::plan_result::Status;
use tokio::runtime::Handle;
use tonic::transport::Channel;

use super::Size;
use super::data::{Curve, Role};
use crate::load::{client, closed_loop};
use crate::plans::Template;
use crate::report::number;
use crate::stage::Stage;
use crate::statistics::{Figure, quantile};

/// Percentiles at three loads, for the product and for the floor with the same arrivals.
pub(super) async fn by_load(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::single();
    let (product, floor) = (stage.channels(CONNECTIONS)?, stage.floor.channels(CONNECTIONS)?);
    closed_loop(floor.clone(), &template, size.span / 4).await?;
    closed_loop(product.clone(), &template, size.span / 4).await?;
    let mut highest = Vec::new();
    for _ in 0..size.rounds {
        highest.push(closed_loop(product.clone(), &template, size.span).await?.rate);
    }
    let highest = Figure::of(highest).median;
    let mut curve = Curve::default();
    curve.notes.push(loads_in_words(highest));
    for round in 0..size.rounds {
        for (percent, name) in LOADS {
            let due = arrivals(highest * percent / 100.0, size.latency_span, round as u64);
            let mut sides = [(Role::Floor, &floor), (Role::Product, &product)];
            // Who comes second must not always be the same.
            sides.rotate_left(round % 2);
            for (role, channels) in sides {
                // What the one before left to be done, such as a checkpoint, is not this one's.
                let_pass(REST).await;
                let latencies = open_loop(channels, &template, &due).await?;
                for percentile in PERCENTILES {
                    let latency = quantile(&latencies, percentile / 100.0);
                    curve.note((name, role, "ms"), percentile, latency.as_secs_f64() * 1_000.0);
                }
            }
        }
    }
    Ok(vec![("latency", curve)])
}

fn loads_in_words(highest: f64) -> String {
    let loads = LOADS.map(|(percent, name)| format!("{name} are {}", number(highest * percent / 100.0)));
    format!(
        "The highest rate was {} executions/s, of which {}.",
        number(highest),
        loads.join(", ")
    )
}

/// When each of them is due, from the beginning: a Poisson process, the same for the same seed.
fn arrivals(rate: f64, span: Duration, seed: u64) -> Vec<Duration> {
    let mut dice = Dice::new(seed);
    let mut due = Vec::new();
    let mut at = 0.0;
    loop {
        // In (0, 1], so that its logarithm is finite.
        let chance = ((dice.any() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        at -= chance.ln() / rate;
        if at > span.as_secs_f64() && !due.is_empty() {
            return due;
        }
        due.push(Duration::from_secs_f64(at));
    }
}

/// Executes a plan at each of these moments, whatever has become of those before; sorted latencies.
async fn open_loop(
    channels: &[Channel],
    template: &Template,
    due: &[Duration],
) -> Result<Vec<Duration>, Fault> {
    // Requests are made before, so that making them delays nobody.
    let requests: Vec<ExecutePlanRequest> = due.iter().map(|_| template.fresh()).collect();
    let clients: Arc<[_]> = channels.iter().map(|channel| client(channel.clone())).collect();
    let (due, handle) = (due.to_vec(), Handle::current());
    // A thread of its own: the runtime's timers count whole milliseconds.
    let (tx, calls) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let began = Instant::now();
        let mut calls = Vec::with_capacity(due.len());
        for (index, (due, request)) in due.into_iter().zip(requests).enumerate() {
            let due = began + due;
            while let Some(early) = due
                .checked_duration_since(Instant::now())
                .filter(|early| !early.is_zero())
            {
                thread::park_timeout(early);
            }
            let mut client = clients[index % clients.len()].clone();
            calls.push(handle.spawn(async move {
                let answer = client.execute_plan(request).await?.into_inner();
                let latency = due.elapsed();
                match answer.result {
                    Some(result) if result.status() == Status::Success => Ok(latency),
                    other => Err(Fault::from(format!(
                        "a plan should succeed, and ended so: {other:?}"
                    ))),
                }
            }));
        }
        // Whoever waits for them is there until they come.
        let _ = tx.send(calls);
    });
    let mut latencies = Vec::new();
    for call in calls.await? {
        latencies.push(call.await??);
    }
    latencies.sort();
    Ok(latencies)
}

const LOADS: [(f64, &str); 3] = [(5.0, "5 %"), (50.0, "50 %"), (80.0, "80 %")];
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
const CONNECTIONS: usize = 64;
const REST: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::arrivals;
    use std::time::Duration;

    #[test]
    fn arrivals_come_at_the_rate_and_in_order_and_the_same_for_the_same_seed() {
        let span = Duration::from_secs(10);
        let due = arrivals(1_000.0, span, 7);
        assert!((9_500..10_500).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted() && due.last().is_some_and(|last| *last <= span));
        assert_eq!(due, arrivals(1_000.0, span, 7));
        assert_ne!(due, arrivals(1_000.0, span, 8));
    }

    #[test]
    fn gaps_are_those_of_arrivals_that_know_nothing_of_each_other() {
        let due = arrivals(1_000.0, Duration::from_secs(10), 1);
        let mean = due.last().unwrap().as_secs_f64() / due.len() as f64;
        let longer = due
            .windows(2)
            .filter(|pair| (pair[1] - pair[0]).as_secs_f64() > mean)
            .count();
        // One in e of all gaps is longer than the mean; even gaps would give none or half.
        let share = longer as f64 / due.len() as f64;
        assert!((0.34..0.40).contains(&share), "{share}");
    }
}
