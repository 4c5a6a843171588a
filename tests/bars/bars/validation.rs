//! A large plan that is only validated.

use std::time::Instant;

use escapement_tests::Fault;
use tonic::transport::Channel;

use super::pairs::{Pairs, p50};
use crate::load::client;
use crate::plans::Template;
use crate::report::{Aim, Bar, Cost};
use crate::rounds::Extent;
use crate::stage::Stage;

/// 1024 steps, as a caller waits for the verdict.
pub(crate) async fn validation(extent: &Extent) -> Result<Vec<Bar>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::chain(1_024);
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    let mut added = Pairs::default();
    let (mut bill, mut floor_bill) = (stage.bill(), stage.floor_bill());
    let calls = extent.calls / 4;
    for _ in 0..extent.rounds {
        floor_bill.begin()?;
        let of_floor = validate_p50(&floor, &template, calls).await?;
        floor_bill.end(calls)?;
        bill.begin()?;
        let of_product = validate_p50(&product, &template, calls).await?;
        bill.end(calls)?;
        added.baseline.push(of_floor);
        added.value.push(of_product - of_floor);
    }
    let kibibytes = template.own_bytes() >> 10;
    Ok(vec![
        Bar::new(
            "validation_added",
            format!("what ValidatePlan of 1024 steps in {kibibytes} KiB adds to moving and decoding them, one caller, p50"),
            "ms",
            added.value(),
            Aim::Under(0.5),
        )
        .beside(added.baseline("floor, which moves and decodes the same"))
        .at(Cost::of("call", &bill, &floor_bill)),
    ])
}

async fn validate_p50(channel: &Channel, template: &Template, calls: usize) -> Result<f64, Fault> {
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
    Ok(p50(&latencies))
}
