//! Plans of very many steps: what one step costs in them.

use escapement_tests::Fault;
use tonic::transport::Channel;

use super::pairs::Pairs;
use crate::load::{closed_loop, one_by_one};
use crate::plans::Template;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::Stage;

/// Chains of 1024 steps by 64 callers and by one, beside the floor; and a step of one beside a step of a chain of 64.
pub(crate) async fn chain(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let (long, short) = (Template::chain(1_024), Template::chain(64));
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let many = (0..CALLERS)
        .map(|_| stage.channel())
        .collect::<Result<Vec<_>, _>>()?;
    let many_of_floor = (0..CALLERS)
        .map(|_| stage.floor.channel())
        .collect::<Result<Vec<_>, _>>()?;
    let (mut together, mut rates, mut costs) = (Pairs::default(), Pairs::default(), Pairs::default());
    for _ in 0..extent.rounds {
        // The span bounds when the last chain begins; each is counted to its end.
        let of_floor = closed_loop(many_of_floor.clone(), &long, extent.span).await?;
        together.baseline.push(of_floor.rate * long.n_steps() as f64);
        let of_product = closed_loop(many.clone(), &long, extent.span).await?;
        together.value.push(of_product.rate * long.n_steps() as f64);
        rates
            .baseline
            .push(steps_per_second(&floor, &long, extent.plans).await?);
        let rate = steps_per_second(&product, &long, extent.plans).await?;
        rates.value.push(rate);
        costs.value.push(1e6 / rate);
        let rate = steps_per_second(&product, &short, extent.plans * 16).await?;
        costs.baseline.push(1e6 / rate);
    }
    Ok(vec![
        Bar {
            name: "chain_rate",
            what: format!("chains of 1024 steps, {CALLERS} callers"),
            unit: "steps/s",
            value: together.value(),
            baseline: Some(together.baseline("floor")),
            aim: Aim::AtLeast(20_000.0),
        },
        Bar {
            name: "lone_chain_rate",
            what: "chain of 1024 steps, one caller and nothing else".to_owned(),
            unit: "steps/s",
            value: rates.value(),
            baseline: Some(rates.baseline("floor")),
            aim: Aim::AtLeast(20_000.0),
        },
        Bar {
            name: "chain_step_cost",
            what: "a step in a chain of 1024, beside one in a chain of 64".to_owned(),
            unit: "us",
            value: costs.value(),
            baseline: Some(costs.baseline("chain of 64")),
            aim: Aim::RatioUnder(1.3),
        },
    ])
}

/// 1024 steps that wait for nobody.
pub(crate) async fn independent(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::independent(1_024, 256);
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let mut rates = Pairs::default();
    for _ in 0..extent.rounds {
        rates
            .baseline
            .push(steps_per_second(&floor, &template, extent.plans * 2).await?);
        rates
            .value
            .push(steps_per_second(&product, &template, extent.plans * 2).await?);
    }
    Ok(vec![Bar {
        name: "independent_rate",
        what: "1024 independent steps, 256 at once, one caller".to_owned(),
        unit: "steps/s",
        value: rates.value(),
        baseline: Some(rates.baseline("floor")),
        aim: Aim::AtLeast(40_000.0),
    }])
}

const CALLERS: usize = 64;

async fn steps_per_second(channel: &Channel, template: &Template, plans: usize) -> Result<f64, Fault> {
    let sample = one_by_one(channel.clone(), template, plans).await?;
    Ok(sample.rate * template.n_steps() as f64)
}
