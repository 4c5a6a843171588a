//! Who keeps a place and who loses it.

use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

fn is_lost(place: &mut Place) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(place.lost()).poll(&mut context).is_ready()
}

#[test]
fn the_one_that_has_waited_longest_goes_for_one_that_comes() {
    let newcomers = Newcomers::new(2);
    let mut first = newcomers.enter();
    let mut second = newcomers.enter();
    assert!(!is_lost(&mut first) && !is_lost(&mut second));
    let mut third = newcomers.enter();
    assert!(is_lost(&mut first));
    assert!(!is_lost(&mut second) && !is_lost(&mut third));
    // One that goes by itself leaves its place to the next, and nobody else goes; one that was told to go leaves none.
    drop(second);
    drop(first);
    let mut fourth = newcomers.enter();
    assert!(!is_lost(&mut third) && !is_lost(&mut fourth));
    let _fifth = newcomers.enter();
    assert!(is_lost(&mut third) && !is_lost(&mut fourth));
}

#[test]
fn there_is_always_a_place() {
    let newcomers = Newcomers::new(0);
    let mut first = newcomers.enter();
    assert!(!is_lost(&mut first));
    let mut second = newcomers.enter();
    assert!(is_lost(&mut first) && !is_lost(&mut second));
}

#[test]
fn who_has_lost_a_place_is_waited_for_until_it_is_gone() {
    let newcomers = Newcomers::new(1);
    let are_gone = || {
        let mut context = Context::from_waker(Waker::noop());
        pin!(newcomers.are_gone()).poll(&mut context).is_ready()
    };
    let first = newcomers.enter();
    assert!(are_gone());
    let second = newcomers.enter();
    let third = newcomers.enter();
    assert!(!are_gone());
    drop(first);
    assert!(!are_gone());
    drop(second);
    assert!(are_gone());
    drop(third);
    assert!(are_gone());
}
