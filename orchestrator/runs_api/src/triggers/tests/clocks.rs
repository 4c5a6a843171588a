//! Clocks that are set back.

use escapement_runs_host::RunsHost;
use escapement_store::runs::DefinitionKind;
use escapement_triggers::Missed;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config as Kind;

use super::world::{World, nothing};
use crate::triggers::firing::{STARTED, keep, now_ms};
use crate::triggers::record::{Kept, kept};
use crate::triggers::turns::miss;

const MINUTE_MS: i64 = 60_000;

/// What comes after that moment is due.
async fn handled_up_to(world: &World, trigger_id: &str, at: i64) {
    let id = trigger_id.to_owned();
    let change = move |host: &mut RunsHost| {
        let found = host.definition(DefinitionKind::Trigger, &id).unwrap().unwrap();
        let mut kept: Kept = kept(&found).unwrap();
        kept.handled_ms = at;
        keep(host, &found, &kept, at);
    };
    world.changes(change).await;
}

/// Makes a trigger that fires each minute; returns its id, and the newest instant.
async fn each_minute(world: &World) -> (String, i64) {
    let schedule = v1::Schedule {
        cron: "* * * * *".to_owned(),
        ..v1::Schedule::default()
    };
    let trigger = world.trigger(Kind::Schedule(schedule), nothing(), "allow").await;
    (trigger, now_ms() / MINUTE_MS * MINUTE_MS)
}

#[tokio::test]
async fn an_instant_that_comes_again_is_handled() {
    let world = World::new();
    let (trigger, instant) = each_minute(&world).await;
    // The second time it is as if its schedule had been changed with the clock before the instant.
    for _ in 0..2 {
        handled_up_to(&world, &trigger, instant - 1).await;
        world.triggers.handle_due(&trigger).await.unwrap();
        assert!(world.kept(&trigger).await.handled_ms >= instant);
    }
    let firings = world.firings(&trigger).await;
    let of_instant = firings.iter().filter(|firing| firing.due_at == instant);
    assert_eq!(of_instant.count(), 1);
    let next = world.kept(&trigger).await.next(now_ms());
    assert!(next > Some(instant));
}

// TRIG-2.3
#[tokio::test]
async fn a_schedule_that_was_handled_by_a_clock_that_was_ahead_is_set_back() {
    let world = World::new();
    let (trigger, _) = each_minute(&world).await;
    for ahead_ms in [10 * 365 * 24 * 60 * MINUTE_MS, 60 * MINUTE_MS, 2 * MINUTE_MS] {
        handled_up_to(&world, &trigger, now_ms() + ahead_ms).await;
        let shown = world.kept(&trigger).await.next(now_ms()).unwrap();
        assert!(shown - now_ms() <= MINUTE_MS, "{ahead_ms} ms ahead");
        world.triggers.reload(&trigger).await.unwrap();
        world.triggers.work(&mut None).await.unwrap();
        assert!(world.kept(&trigger).await.handled_ms <= now_ms());
        let due = world.triggers.index().due_of(&trigger).unwrap();
        assert!(
            due - world.triggers.clock().now() <= MINUTE_MS,
            "{ahead_ms} ms ahead"
        );
    }
}

#[tokio::test]
async fn an_instant_that_has_fired_was_not_missed() {
    let world = World::new();
    let (trigger, instant) = each_minute(&world).await;
    handled_up_to(&world, &trigger, instant - 1).await;
    world.triggers.handle_due(&trigger).await.unwrap();
    handled_up_to(&world, &trigger, instant - 1).await;
    let id = trigger.clone();
    let missed = Missed {
        first_ms: instant,
        n: 1,
    };
    let misses = move |host: &mut RunsHost| assert!(miss(host, &id, missed, instant, instant).unwrap());
    world.changes(misses).await;
    let firings = world.firings(&trigger).await;
    let of_instant: Vec<_> = firings
        .iter()
        .filter(|firing| firing.due_at == instant)
        .map(|firing| (firing.status.as_str(), firing.run_id.is_empty()))
        .collect();
    assert_eq!(of_instant, [(STARTED, false)]);
    assert!(world.kept(&trigger).await.handled_ms >= instant);
}

// TRIG-2.3
#[tokio::test]
async fn an_instant_that_has_fired_hides_none_that_was_missed_with_it() {
    let world = World::new();
    let (trigger, instant) = each_minute(&world).await;
    handled_up_to(&world, &trigger, instant - 1).await;
    world.triggers.handle_due(&trigger).await.unwrap();
    // As after a clock was set back by some minutes, and passed the instant again before anything looked.
    for n in [1, 3, 3, 4] {
        let id = trigger.clone();
        let first_ms = instant;
        let missed = Missed { first_ms, n };
        let misses = move |host: &mut RunsHost| assert!(miss(host, &id, missed, instant, instant).unwrap());
        world.changes(misses).await;
    }
    let firings = world.firings(&trigger).await;
    let noted = firings.iter().filter(|firing| firing.reason == "MISSED");
    let mut noted: Vec<_> = noted
        .map(|firing| (firing.due_at - instant, firing.count))
        .collect();
    noted.sort_unstable();
    assert_eq!(noted, [(MINUTE_MS, 2), (3 * MINUTE_MS, 1)], "{firings:?}");
}
