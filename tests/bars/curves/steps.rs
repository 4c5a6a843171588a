//! Plans of more and more steps. Measures rates only; what one step costs follows from them.

use escapement_tests::Fault;
use tonic::transport::Channel;

use super::Size;
use super::data::{Curve, Role};
use crate::load::closed_loop;
use crate::plans::Template;
use crate::stage::Stage;

/// One caller: microseconds per step, in chains and in plans of independent steps.
pub(super) async fn one_caller(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let stage = Stage::start().await?;
    let (product, floor) = (stage.channel()?, stage.floor.channel()?);
    warm_up(size, &product, &floor).await?;
    let mut curve = Curve::default();
    for _ in 0..size.rounds {
        for n_steps in STEPS {
            let chain = Template::chain(n_steps);
            let independent = Template::independent(n_steps, AT_ONCE);
            for (name, template) in [("chain", chain), ("independent", independent)] {
                let of_floor = closed_loop(vec![floor.clone()], &template, size.span).await?.rate;
                let of_product = closed_loop(vec![product.clone()], &template, size.span)
                    .await?
                    .rate;
                let microseconds = |rate: f64| 1e6 / (rate * n_steps as f64);
                curve.note(
                    (name, Role::Product, "us"),
                    n_steps as f64,
                    microseconds(of_product),
                );
                curve.note((name, Role::Floor, "us"), n_steps as f64, microseconds(of_floor));
            }
        }
    }
    Ok(vec![("steps", curve)])
}

/// Many callers with chains: steps per second, all together.
pub(super) async fn many_callers(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let stage = Stage::start().await?;
    let (product, floor) = (stage.channels(CALLERS)?, stage.floor.channels(CALLERS)?);
    warm_up(size, &product[0], &floor[0]).await?;
    let mut curve = Curve::default();
    for _ in 0..size.rounds {
        for n_steps in STEPS {
            let template = Template::chain(n_steps);
            let of_floor = closed_loop(floor.clone(), &template, size.span).await?.rate;
            let of_product = closed_loop(product.clone(), &template, size.span).await?.rate;
            let x = n_steps as f64;
            curve.note(("Escapement", Role::Product, "steps/s"), x, of_product * x);
            curve.note(("Escapement", Role::Floor, "steps/s"), x, of_floor * x);
        }
    }
    Ok(vec![("chains", curve)])
}

async fn warm_up(size: &Size, product: &Channel, floor: &Channel) -> Result<(), Fault> {
    for channel in [product, floor] {
        closed_loop(vec![channel.clone()], &Template::chain(8), size.span / 4).await?;
    }
    Ok(())
}

const STEPS: [usize; 5] = [1, 8, 64, 256, 1_024];
const AT_ONCE: i32 = 256;
const CALLERS: usize = 16;
