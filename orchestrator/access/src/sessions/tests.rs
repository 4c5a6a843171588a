//! Whose instances are.

use super::{GONE_REMEMBERED_MAX, InstanceOwners};
use crate::denial::Denial;
use crate::grant::{Grant, NamespaceScope};
use crate::principal::{Principal, PrincipalKind};
use crate::role::Role;
use alloc::collections::BTreeSet;
use alloc::vec;
use escapement_model::InstanceId;

fn instance(number: u32) -> InstanceId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    InstanceId::from_slice(&bytes).unwrap()
}

fn worker(name: &str, max_sessions: Option<u32>) -> Principal {
    let nowhere = NamespaceScope::Named(BTreeSet::new());
    let grant = Grant {
        max_sessions,
        ..Grant::new([Role::Worker].into_iter().collect(), nowhere)
    };
    Principal {
        name: name.into(),
        kind: PrincipalKind::Token,
        ..Principal::anonymous(vec![grant])
    }
}

#[test]
fn an_instance_stays_with_the_principal_that_began_it() {
    let mut owners = InstanceOwners::default();
    let (one, other) = (worker("one", None), worker("other", None));
    owners.begin(instance(1), &one, 0).unwrap();
    assert_eq!(
        owners.begin(instance(1), &other, 0),
        Err(Denial::InstanceOfAnother)
    );
    owners.end(instance(1), None);
    assert_eq!(
        owners.begin(instance(1), &other, 0),
        Err(Denial::InstanceOfAnother)
    );
    let renewed = worker("one", Some(1));
    assert_eq!(owners.begin(instance(1), &renewed, 0), Ok(()));
}

#[test]
fn a_principal_has_as_many_instances_as_it_may_and_a_worker_that_comes_back_needs_no_room() {
    let mut owners = InstanceOwners::default();
    let two = worker("two", Some(2));
    owners.begin(instance(1), &two, 0).unwrap();
    owners.begin(instance(2), &two, 0).unwrap();
    assert_eq!(
        owners.begin(instance(3), &two, 0),
        Err(Denial::TooManySessions { max: 2 })
    );
    owners.begin(instance(2), &two, 0).unwrap();
    owners.end(instance(2), None);
    assert_eq!(
        owners.begin(instance(3), &two, 0),
        Err(Denial::TooManySessions { max: 2 })
    );
    owners.end(instance(2), None);
    assert_eq!(owners.begin(instance(3), &two, 0), Ok(()));
    assert_eq!(owners.begin(instance(4), &worker("free", None), 0), Ok(()));
}

#[test]
fn a_worker_whose_connection_broke_keeps_its_place_for_a_while_and_one_that_has_left_does_not() {
    let mut owners = InstanceOwners::default();
    let one = worker("one", Some(1));
    owners.begin(instance(1), &one, 0).unwrap();
    owners.end(instance(1), Some(100));
    let too_many = Err(Denial::TooManySessions { max: 1 });
    assert_eq!(owners.begin(instance(2), &one, 99), too_many);
    owners.begin(instance(1), &one, 99).unwrap();
    // It is back, so the time says nothing any more.
    assert_eq!(owners.begin(instance(2), &one, 200), too_many);
    owners.end(instance(1), Some(300));
    assert_eq!(owners.begin(instance(2), &one, 300), Ok(()));
    assert_eq!(owners.begin(instance(1), &one, 301), too_many);
    owners.end(instance(2), None);
    assert_eq!(owners.begin(instance(1), &one, 301), Ok(()));
    owners.end(instance(1), Some(400));
    assert_eq!(owners.begin(instance(1), &one, 500), Ok(()));
    owners.end(instance(1), None);
    assert!(owners.n_places.is_empty() && owners.kept.is_empty());
}

#[test]
fn who_is_forgotten_keeps_no_place() {
    let mut owners = InstanceOwners::default();
    let one = worker("one", None);
    for number in 0..=u32::try_from(GONE_REMEMBERED_MAX).unwrap() {
        owners.begin(instance(number), &one, 0).unwrap();
        owners.end(instance(number), Some(u64::MAX));
    }
    assert_eq!(owners.kept.len(), GONE_REMEMBERED_MAX);
    let n_places: u32 = owners.n_places.values().sum();
    assert_eq!(n_places, u32::try_from(GONE_REMEMBERED_MAX).unwrap());
}

/// Instances of these numbers have a session each and leave.
fn come_and_go(owners: &mut InstanceOwners, whose: &Principal, numbers: core::ops::RangeInclusive<usize>) {
    for number in numbers {
        let id = instance(u32::try_from(number).unwrap());
        owners.begin(id, whose, 0).unwrap();
        owners.end(id, None);
    }
}

#[test]
fn what_is_remembered_of_those_that_left_is_bounded() {
    let mut owners = InstanceOwners::default();
    let (one, other) = (worker("one", None), worker("other", None));
    let few = usize::try_from(u32::MAX).unwrap() - 10..=usize::try_from(u32::MAX).unwrap();
    come_and_go(&mut owners, &other, few);
    owners.begin(instance(0), &one, 0).unwrap();
    come_and_go(&mut owners, &one, 1..=GONE_REMEMBERED_MAX + 10);
    assert_eq!(owners.instances.len(), GONE_REMEMBERED_MAX + 1);
    assert_eq!(
        owners.begin(instance(0), &other, 0),
        Err(Denial::InstanceOfAnother)
    );
    let of_other = owners.begin(instance(u32::MAX), &one, 0);
    assert_eq!(of_other, Err(Denial::InstanceOfAnother));
}
