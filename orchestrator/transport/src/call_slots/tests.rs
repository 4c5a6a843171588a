//! Who gets a slot, and who loses one. Where tenants come and go at random, the sums are held against a count of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

type Taking = Result<(CallPermit, PendingUpload), NotFree>;

fn take(slots: &CallSlots, tenant: &str) -> Taking {
    slots.take(Some(tenant.into()))
}

/// Takes until there is no more; all requests are complete.
fn take_all(slots: &CallSlots, tenant: &str) -> (Vec<CallPermit>, NotFree) {
    let mut permits = Vec::new();
    loop {
        match take(slots, tenant) {
            Ok((permit, _complete)) => permits.push(permit),
            Err(why) => return (permits, why),
        }
    }
}

fn gave_way(half: &PendingUpload) -> bool {
    half.poll_gave_way(&Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn the_oldest_call_that_is_half_sent_gives_way_to_the_next_one() {
    let slots = CallSlots::new(2);
    let (first, first_half) = slots.take(None).unwrap();
    let (_second, second_half) = slots.take(None).unwrap();
    assert!(!gave_way(&first_half));
    let (third, third_half) = slots.take(None).unwrap();
    assert!(gave_way(&first_half) && !gave_way(&second_half));
    // It has nothing to give back any more.
    drop((first, first_half));
    // Complete calls keep their slots.
    drop((second_half, third_half));
    assert_eq!(slots.take(None).unwrap_err(), NotFree::AllTaken);
    drop(third);
    assert!(slots.take(None).is_ok());
}

#[test]
fn a_tenant_has_as_many_slots_as_it_leaves_free() {
    let slots = CallSlots::new(120);
    let (of_first, why) = take_all(&slots, "first");
    assert_eq!((of_first.len(), why), (60, NotFree::PartTaken));
    let (of_second, why) = take_all(&slots, "second");
    assert_eq!((of_second.len(), why), (30, NotFree::PartTaken));
    // As slots become free, they come to equal parts.
    drop(of_first);
    let (of_first, _) = take_all(&slots, "first");
    assert_eq!(of_first.len(), 45);
    let (more_of_second, _) = take_all(&slots, "second");
    assert_eq!(of_second.len() + more_of_second.len(), 38);
    // However many tenants there are, one that comes gets in.
    let mut others = Vec::new();
    for number in 0..30 {
        let (of_other, _) = take_all(&slots, &format!("tenant {number}"));
        assert!(
            !of_other.is_empty() || slots.taken().open.n_taken() == 120,
            "tenant {number}"
        );
        others.push(of_other);
    }
}

#[test]
fn a_tenant_with_its_part_loses_its_own_half_sent_calls_and_no_others() {
    let slots = CallSlots::new(3);
    let (_other, other_half) = take(&slots, "other").unwrap();
    let (_oldest, oldest_half) = take(&slots, "slow").unwrap();
    let (next, next_half) = take(&slots, "slow").unwrap();
    assert!(gave_way(&oldest_half) && !gave_way(&other_half));
    // A call that ends before its request is complete leaves nothing behind.
    drop(next);
    drop(next_half);
    let (_last, _last_half) = take(&slots, "slow").unwrap();
    assert!(!gave_way(&other_half));
    assert_eq!(slots.taken().open.n_taken(), 2);
}

#[test]
fn what_is_given_back_is_there_again() {
    let slots = CallSlots::new(16);
    let mut dice = 1_u64;
    let mut held: Vec<(usize, CallPermit, Option<PendingUpload>)> = Vec::new();
    for _ in 0..20_000 {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let choice = usize::try_from(dice >> 40).unwrap();
        match choice % 3 {
            0 => {
                let tenant = choice / 3 % 4;
                if let Ok((permit, half)) = take(&slots, &tenant.to_string()) {
                    held.push((tenant, permit, Some(half)));
                }
            }
            1 if !held.is_empty() => drop(held.swap_remove(choice / 3 % held.len())),
            2 if !held.is_empty() => {
                let n_held = held.len();
                held[choice / 3 % n_held].2 = None;
            }
            _ => {}
        }
        let has_slot = |half: &Option<PendingUpload>| half.as_ref().is_none_or(|half| !gave_way(half));
        // A call that has given way is over; its request hears of it and is dropped.
        held.retain(|(_, _, half)| has_slot(half));
        let taken = slots.taken();
        assert_eq!(taken.open.n_taken(), held.len());
        for tenant in 0..4 {
            let own = held.iter().filter(|(of, ..)| *of == tenant);
            let name = tenant.to_string();
            assert_eq!(taken.open.part_of(&name), own.clone().count());
            let half_sent = taken.half_sent_of.get(&*name).map_or(0, BTreeSet::len);
            assert_eq!(half_sent, own.filter(|(_, _, half)| half.is_some()).count());
        }
    }
    drop(held);
    let taken = slots.taken();
    assert_eq!(
        (
            taken.open.n_taken(),
            taken.open.has_no_parts(),
            taken.half_sent.len()
        ),
        (0, true, 0)
    );
}
