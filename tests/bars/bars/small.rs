//! Plans of one and of three steps: how many in a second, and how long one takes.

use std::time::Duration;

use escapement_tests::Fault;

use super::pairs::{Pairs, p50};
use crate::floor::disk;
use crate::load::{billed_loop, closed_loop, one_by_one};
use crate::plans::Template;
use crate::report::{Aim, Bar, Cost};
use crate::rounds::Extent;
use crate::stage::Stage;

/// One step, by 64 callers and by one. The one has a store of its own: what 64 callers left behind would still be copied.
pub(crate) async fn single(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let mut bars = rates(extent).await?;
    bars.extend(latencies(extent).await?);
    Ok(bars)
}

async fn rates(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::single();
    let (product, floor) = (stage.channels(CALLERS)?, stage.floor.channels(CALLERS)?);
    closed_loop(floor.clone(), &template, WARM_UP).await?;
    closed_loop(product.clone(), &template, WARM_UP).await?;
    let mut rates = Pairs::default();
    let (mut bill, mut floor_bill) = (stage.bill(), stage.floor_bill());
    for _ in 0..extent.rounds {
        let rate = billed_loop(&mut floor_bill, &floor, &template, extent.span).await?;
        rates.baseline.push(rate);
        let rate = billed_loop(&mut bill, &product, &template, extent.span).await?;
        rates.value.push(rate);
    }
    let cost = Cost::of("execution", &bill, &floor_bill);
    Ok(vec![
        Bar::new(
            "single_step_rate_by_floor",
            format!("single-step executions, {CALLERS} callers, beside the floor"),
            "executions/s",
            rates.value(),
            Aim::RatioAtLeast(0.5),
        )
        .beside(rates.baseline("floor"))
        .at(cost),
        Bar::new(
            "single_step_rate",
            format!("single-step executions, {CALLERS} callers"),
            "executions/s",
            rates.value(),
            Aim::AtLeast(6_000.0),
        )
        .beside(rates.baseline("floor")),
    ])
}

async fn latencies(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::single();
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let mut latencies = Pairs::default();
    for _ in 0..extent.rounds {
        let of_floor = one_by_one(floor.clone(), &template, extent.calls).await?;
        let durable = disk::durable_writes(stage.directory(), extent.calls / 4)?;
        latencies
            .baseline
            .push(p50(&of_floor.latencies) + 2.0 * p50(&durable));
        let of_product = one_by_one(product.clone(), &template, extent.calls).await?;
        latencies.value.push(p50(&of_product.latencies));
    }
    Ok(vec![
        Bar::new(
            "single_step_latency",
            "single-step execution, one caller, p50",
            "ms",
            latencies.value(),
            Aim::Under(0.8),
        )
        .beside(latencies.baseline("floor and two durable writes")),
        Bar::new(
            "single_step_latency_by_floor",
            "single-step execution, one caller, p50, beside the floor",
            "ms",
            latencies.value(),
            Aim::RatioUnder(2.0),
        )
        .beside(latencies.baseline("floor and two durable writes")),
    ])
}

/// Three steps, one after another, by one caller.
pub(crate) async fn three(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::chain(3);
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let mut latencies = Pairs::default();
    for _ in 0..extent.rounds {
        let of_floor = one_by_one(floor.clone(), &template, extent.calls).await?;
        latencies.baseline.push(p50(&of_floor.latencies));
        let of_product = one_by_one(product.clone(), &template, extent.calls).await?;
        latencies.value.push(p50(&of_product.latencies));
    }
    Ok(vec![
        Bar::new(
            "three_steps_latency",
            "three sequential steps, one caller, p50",
            "ms",
            latencies.value(),
            Aim::Under(1.2),
        )
        .beside(latencies.baseline("floor")),
    ])
}

pub(super) const CALLERS: usize = 64;
pub(super) const WARM_UP: Duration = Duration::from_millis(500);
