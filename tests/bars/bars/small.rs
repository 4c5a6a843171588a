//! Plans of one and of three steps: how many in a second, and how long one takes.

use std::time::Duration;

use escapement_tests::Fault;

use super::pairs::{Pairs, milliseconds};
use crate::floor::disk;
use crate::load::{closed_loop, one_by_one};
use crate::plans::Template;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::Stage;
use crate::statistics::quantile;

/// One step, by 64 callers and by one.
pub(crate) async fn single(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::single();
    let product = (0..CALLERS)
        .map(|_| stage.channel())
        .collect::<Result<Vec<_>, _>>()?;
    let floor = (0..CALLERS)
        .map(|_| stage.floor.channel())
        .collect::<Result<Vec<_>, _>>()?;
    closed_loop(floor.clone(), &template, WARM_UP).await?;
    closed_loop(product.clone(), &template, WARM_UP).await?;
    let (mut rates, mut latencies) = (Pairs::default(), Pairs::default());
    for _ in 0..extent.rounds {
        rates
            .baseline
            .push(closed_loop(floor.clone(), &template, extent.span).await?.rate);
        rates
            .value
            .push(closed_loop(product.clone(), &template, extent.span).await?.rate);
        let floor_p50 = p50(one_by_one(floor[0].clone(), &template, extent.calls)
            .await?
            .latencies);
        let disk_p50 = p50(disk::durable_writes(stage.directory(), extent.calls / 4)?);
        latencies.baseline.push(floor_p50 + 2.0 * disk_p50);
        latencies
            .value
            .push(p50(one_by_one(product[0].clone(), &template, extent.calls)
                .await?
                .latencies));
    }
    Ok(vec![
        Bar {
            name: "single_step_rate_by_floor",
            what: format!("single-step executions, {CALLERS} callers, beside the floor"),
            unit: "executions/s",
            value: rates.value(),
            baseline: Some(rates.baseline("floor")),
            aim: Aim::RatioAtLeast(0.5),
        },
        Bar {
            name: "single_step_rate",
            what: format!("single-step executions, {CALLERS} callers"),
            unit: "executions/s",
            value: rates.value(),
            baseline: Some(rates.baseline("floor")),
            aim: Aim::AtLeast(6_000.0),
        },
        Bar {
            name: "single_step_latency",
            what: "single-step execution, one caller, p50".to_owned(),
            unit: "ms",
            value: latencies.value(),
            baseline: Some(latencies.baseline("floor and two durable writes")),
            aim: Aim::Under(1.0),
        },
        Bar {
            name: "single_step_latency_by_floor",
            what: "single-step execution, one caller, p50, beside the floor".to_owned(),
            unit: "ms",
            value: latencies.value(),
            baseline: Some(latencies.baseline("floor and two durable writes")),
            aim: Aim::RatioUnder(3.0),
        },
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
        latencies.baseline.push(p50(of_floor.latencies));
        let of_product = one_by_one(product.clone(), &template, extent.calls).await?;
        latencies.value.push(p50(of_product.latencies));
    }
    Ok(vec![Bar {
        name: "three_steps_latency",
        what: "three sequential steps, one caller, p50".to_owned(),
        unit: "ms",
        value: latencies.value(),
        baseline: Some(latencies.baseline("floor")),
        aim: Aim::Under(1.5),
    }])
}

/// In milliseconds.
fn p50(latencies: Vec<Duration>) -> f64 {
    milliseconds(quantile(&latencies, 0.5))
}

const CALLERS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(500);
