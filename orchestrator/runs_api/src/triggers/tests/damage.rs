//! What cannot be read keeps nothing else from firing.

use escapement_runs_host::RunsHost;
use escapement_store::runs::DefinitionKind;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::trigger::Config as Kind;

use super::world::{World, nothing, on_event};
use crate::triggers::firing::{FAILED, STARTED, keep};
use crate::triggers::record::{Kept, kept};

#[tokio::test]
async fn a_firing_of_a_damaged_plan_has_failed_and_all_others_fire() {
    let world = World::new();
    let plan_id = world.plan().await;
    let damaged = world.trigger(on_event("goal_completed"), What::PlanId(plan_id.clone()), "");
    let damaged = damaged.await;
    let mut whole = Vec::new();
    for _ in 0..4 {
        whole.push(world.trigger(on_event("goal_completed"), nothing(), "").await);
    }
    world
        .damage(DefinitionKind::SavedPlan, &plan_id, Some("default"))
        .await;
    world.reaches_a_goal().await;
    let serving = tokio::spawn(world.triggers.clone().serve());
    let firing = world.fires(&damaged).await;
    assert_eq!(
        (firing.status.as_str(), firing.reason.as_str()),
        (FAILED, "DAMAGED")
    );
    assert!(firing.message.contains("cannot be read"), "{firing:?}");
    for trigger_id in whole {
        assert_eq!(world.fires(&trigger_id).await.status, STARTED);
    }
    serving.abort();
}

#[tokio::test]
async fn a_damaged_firing_is_one_and_is_not_waited_for() {
    let world = World::new();
    let trigger = world.trigger(on_event("e"), nothing(), "queue").await;
    assert_eq!(world.publish("e", "1").await, Ok(1));
    let [firing] = &world.firings(&trigger).await[..] else {
        panic!("one firing")
    };
    let name = firing.firing_id.clone();
    world.damage(DefinitionKind::Firing, &name, Some(&trigger)).await;
    assert_eq!(world.publish("e", "1").await, Ok(1));
    assert_eq!(world.kept(&trigger).await.fire_count, 1);

    let id = trigger.clone();
    let wait = move |host: &mut RunsHost| {
        let found = host.definition(DefinitionKind::Trigger, &id).unwrap().unwrap();
        let mut kept: Kept = kept(&found).unwrap();
        kept.waiting.push(name);
        keep(host, &found, &kept, 1);
    };
    world.changes(wait).await;
    world.triggers.handle_due(&trigger).await.unwrap();
    assert!(world.kept(&trigger).await.waiting.is_empty());
}

#[tokio::test]
async fn what_meets_damage_when_it_is_due_is_looked_at_again_later() {
    let world = World::new();
    let condition = v1::Condition {
        expression: "input.probe.n > 1".to_owned(),
        probe: Some(v1::Probe {
            action: "a".to_owned(),
            ..v1::Probe::default()
        }),
        ..v1::Condition::default()
    };
    let trigger = world.trigger(Kind::Condition(condition), nothing(), "").await;
    world.damage(DefinitionKind::ActionProfile, "a", None).await;
    world.triggers.handle_due(&trigger).await.unwrap();
    assert!(world.triggers.index().next().is_some());

    world.damage(DefinitionKind::Trigger, &trigger, None).await;
    let before = world.triggers.clock().now();
    let is_due = Kept::default();
    world.triggers.index().set(&trigger, Some(&is_due), Some(before));
    world.triggers.work(&mut None).await.unwrap();
    let next = world.triggers.index().next().unwrap();
    assert!(next >= before + 60_000, "{}", next - before);
}
