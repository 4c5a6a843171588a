//! A large plan that is only validated.

use std::time::Instant;

use escapement_tests::Fault;
use tonic::transport::Channel;

use super::pairs::{Pairs, milliseconds};
use crate::load::client;
use crate::plans::Template;
use crate::report::{Aim, Bar};
use crate::rounds::Extent;
use crate::stage::Stage;
use crate::statistics::quantile;

/// 1024 steps, as a caller waits for the verdict.
pub(crate) async fn validation(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::chain(1_024);
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let mut latencies = Pairs::default();
    for _ in 0..extent.rounds {
        latencies
            .baseline
            .push(p50(&floor, &template, extent.calls / 4).await?);
        latencies
            .value
            .push(p50(&product, &template, extent.calls / 4).await?);
    }
    Ok(vec![
        Bar::new(
            "validation_latency",
            "ValidatePlan of 1024 steps, one caller, p50",
            "ms",
            latencies.value(),
            Aim::Under(1.0),
        )
        .beside(latencies.baseline("floor, which decodes the same and answers the same")),
    ])
}

async fn p50(channel: &Channel, template: &Template, calls: usize) -> Result<f64, Fault> {
    let mut client = client(channel.clone());
    let mut latencies = Vec::with_capacity(calls);
    for _ in 0..calls {
        let request = template.fresh_validate();
        let began = Instant::now();
        let answer = client.validate_plan(request).await?.into_inner();
        latencies.push(began.elapsed());
        if !answer.valid {
            return Err(format!("a plan should be valid: {:?}", answer.violations).into());
        }
    }
    latencies.sort();
    Ok(milliseconds(quantile(&latencies, 0.5)))
}
