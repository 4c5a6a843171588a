//! Who gets a part, who waits for one, and for how long.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

fn tenant(name: &str) -> Tenant {
    Some(name.into())
}

#[test]
fn a_tenant_has_at_most_as_many_as_it_leaves_free_however_many_it_takes_at_a_time() {
    for n in [1, 2, 5, 10] {
        let share = Share::new(120);
        let take_all = |tenant: &Tenant| {
            let mut parts = Vec::new();
            loop {
                match share.take(tenant, n) {
                    Ok(part) => parts.push(part),
                    Err(why) => return (parts, why),
                }
            }
        };
        let (first, why) = take_all(&tenant("first"));
        assert_eq!((first.len() * n, why), (60, NotFree::PartTaken));
        let (second, why) = take_all(&tenant("second"));
        assert_eq!((second.len() * n, why), (30, NotFree::PartTaken));
        assert!(share.take(&tenant("third"), n).is_ok());
        assert_eq!(share.take(&tenant("third"), 31).unwrap_err(), NotFree::AllTaken);
        drop((first, second));
        assert_eq!(share.n_taken(), 0);
        assert!(share.ledger().has_no_parts());
        // With nobody to share with all of them can be had.
        assert_eq!(take_all(&None).0.len() * n, 120);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_what_is_given_back_or_hears_that_it_was_too_long() {
    let share = Share::new(2);
    let patience = Duration::from_secs(5);
    let (one, other) = (tenant("one"), tenant("other"));
    let part = share.wait(&one, 1, patience).await.unwrap();
    let begun = Instant::now();
    // There is one left, which is not for the same tenant.
    let refused = share.wait(&one, 1, patience).await.unwrap_err();
    assert_eq!((refused, begun.elapsed()), (NotFree::PartTaken, patience));
    let of_other = share.wait(&other, 1, patience).await.unwrap();
    let mut waiting = pin!(share.wait(&one, 1, patience));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(part);
    assert!(waiting.await.is_ok());
    drop(of_other);
}
