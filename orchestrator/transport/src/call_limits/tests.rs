#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::limits::OPEN_READS_MAX;

#[test]
fn a_flood_of_one_kind_takes_no_place_of_another() {
    let gate = Gate::new();
    let connection = gate.of_connection();
    let mut places = Vec::new();
    while let Ok((place, incomplete)) = connection.enter(CallClass::Reads, None) {
        drop(incomplete);
        places.push(place);
    }
    assert_eq!(places.len(), OPEN_READS_MAX);
    assert_eq!(
        gate.enter(CallClass::Reads, None).unwrap_err(),
        Refusal::Overloaded(CallClass::Reads)
    );
    let others = CallClass::ALL
        .into_iter()
        .filter(|class| *class != CallClass::Reads);
    for kind in others {
        assert!(gate.enter(kind, None).is_ok(), "{kind:?}");
    }
    assert!(places.pop().is_some());
    assert!(
        gate.enter(CallClass::Reads, None).is_ok(),
        "a place that was given back"
    );
}

#[test]
fn no_tenant_takes_the_places_of_another_one() {
    let gate = Gate::new();
    let enter = |class, tenant: &str| gate.enter(class, Some(tenant.into()));
    for class in CallClass::ALL {
        let Some(n_max) = class.row().open_max else {
            assert!(enter(class, "a").is_ok(), "sessions are counted elsewhere");
            continue;
        };
        let mut places = Vec::new();
        let refused = loop {
            match enter(class, "a") {
                Ok((place, _complete)) => places.push(place),
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused, places.len()), (Refusal::PartTaken(class), n_max / 2));
        assert!(enter(class, "b").is_ok(), "{class:?}");
    }
}
