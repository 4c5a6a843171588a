//! Plans of very many steps: what one step costs in them.

use escapement_tests::Fault;
use tonic::transport::Channel;

use super::pairs::Pairs;
use crate::load::{billed_loop, one_by_one};
use crate::plans::Template;
use crate::report::{Aim, Bar, Cost};
use crate::rounds::Extent;
use crate::stage::Stage;

/// Chains of 1024 steps by 64 callers and by one, beside the floor; and a step of one beside a step of a chain of 64.
pub(crate) async fn chain(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let (long, short) = (Template::chain(1_024), Template::chain(64));
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let (many, many_of_floor) = (stage.channels(CALLERS)?, stage.floor.channels(CALLERS)?);
    let (mut bill, mut floor_bill) = (stage.bill(), stage.floor_bill());
    let (mut together, mut rates, mut costs) = (Pairs::default(), Pairs::default(), Pairs::default());
    for _ in 0..extent.rounds {
        // The span bounds when the last chain begins; each is counted to its end.
        let rate = billed_loop(&mut floor_bill, &many_of_floor, &long, extent.span).await?;
        together.baseline.push(rate * long.n_steps() as f64);
        let rate = billed_loop(&mut bill, &many, &long, extent.span).await?;
        together.value.push(rate * long.n_steps() as f64);
        rates
            .baseline
            .push(steps_per_second(&floor, &long, extent.plans).await?);
        let rate = steps_per_second(&product, &long, extent.plans).await?;
        rates.value.push(rate);
        costs.value.push(1e6 / rate);
        let rate = steps_per_second(&product, &short, extent.plans * 16).await?;
        costs.baseline.push(1e6 / rate);
    }
    let cost = Cost::of("chain of 1024", &bill, &floor_bill);
    Ok(vec![
        Bar::new(
            "chain_rate_by_floor",
            format!("chains of 1024 steps, {CALLERS} callers, beside the floor"),
            "steps/s",
            together.value(),
            Aim::RatioAtLeast(0.5),
        )
        .beside(together.baseline("floor")),
        Bar::new(
            "chain_rate",
            format!("chains of 1024 steps, {CALLERS} callers"),
            "steps/s",
            together.value(),
            Aim::AtLeast(20_000.0),
        )
        .beside(together.baseline("floor"))
        .at(cost),
        Bar::new(
            "lone_chain_rate",
            "chain of 1024 steps, one caller and nothing else",
            "steps/s",
            rates.value(),
            Aim::RatioAtLeast(0.8),
        )
        .beside(rates.baseline("floor")),
        Bar::new(
            "chain_step_cost",
            "a step in a chain of 1024, beside one in a chain of 64",
            "us",
            costs.value(),
            Aim::RatioUnder(1.1),
        )
        .beside(costs.baseline("chain of 64")),
    ])
}

/// 1024 steps that wait for nobody.
pub(crate) async fn independent(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::independent(1_024, 256);
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let mut rates = Pairs::default();
    let (mut bill, mut floor_bill) = (stage.bill(), stage.floor_bill());
    let n_plans = extent.plans * 4;
    for _ in 0..extent.rounds {
        floor_bill.begin()?;
        rates
            .baseline
            .push(steps_per_second(&floor, &template, n_plans).await?);
        floor_bill.end(n_plans)?;
        bill.begin()?;
        rates
            .value
            .push(steps_per_second(&product, &template, n_plans).await?);
        bill.end(n_plans)?;
    }
    let cost = Cost::of("plan of 1024 steps", &bill, &floor_bill);
    Ok(vec![
        Bar::new(
            "independent_rate_by_floor",
            "1024 independent steps, 256 at once, one caller, beside the floor",
            "steps/s",
            rates.value(),
            Aim::RatioAtLeast(0.4),
        )
        .beside(rates.baseline("floor")),
        Bar::new(
            "independent_rate",
            "1024 independent steps, 256 at once, one caller",
            "steps/s",
            rates.value(),
            Aim::AtLeast(40_000.0),
        )
        .beside(rates.baseline("floor"))
        .at(cost),
    ])
}

const CALLERS: usize = 64;

async fn steps_per_second(channel: &Channel, template: &Template, plans: usize) -> Result<f64, Fault> {
    let sample = one_by_one(channel.clone(), template, plans).await?;
    Ok(sample.rate * template.n_steps() as f64)
}
