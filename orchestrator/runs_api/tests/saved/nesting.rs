//! Plans that run many others: the cost of saving them for the thread of runs, and the limit.

use serde_json::{Value, json};
use tonic::Code;

use crate::calls::{create, document, get, named, put};
use crate::world::{World, told};

/// Creates a plan of one step for each of these plans.
fn runs(plan_ids: &[String]) -> Value {
    let steps = plan_ids.iter().enumerate().map(
        |(n, plan_id)| json!({"key": format!("s{n}"), "type": "sub_plan", "config": {"plan_id": plan_id}}),
    );
    document(&steps.collect())
}

async fn plans(world: &World, n: usize) -> Vec<String> {
    let mut made = Vec::new();
    for n in 0..n {
        let plan = create(world, named(&format!("plan {n}"))).await.unwrap();
        made.push(plan.plan_id);
    }
    made
}

// RUN-9.15
#[tokio::test]
async fn each_plan_below_is_looked_at_once_and_none_on_the_thread_of_runs() {
    let world = World::new();
    let small = plans(&world, N_PLANS).await;
    let [middle, top] = <[String; 2]>::try_from(plans(&world, 2).await).unwrap();
    put(&world, &middle, &runs(&small)).await.unwrap();
    let (before, all_before) = (world.disk.n_reads_by("runs"), n_reads_elsewhere(&world));
    // Every step leads to the same plan, which leads to all others.
    put(&world, &top, &runs(&vec![middle.clone(); N_PLANS]))
        .await
        .unwrap();
    let n_reads = world.disk.n_reads_by("runs") - before;
    assert_eq!(n_reads, 0, "reads on the thread of runs");
    let n_elsewhere = n_reads_elsewhere(&world) - all_before;
    assert!(n_elsewhere < 4 * N_PLANS as u64, "{n_elsewhere} reads");
    // The step that leads back is found after all of these.
    let refused = put(&world, &small[N_PLANS - 1], &runs(&[top])).await.unwrap_err();
    assert_eq!(told(&refused).1, "PLAN_INVALID");
    assert!(refused.message().contains("itself"), "{refused:?}");
}

/// Reads that any thread has made but that of runs.
fn n_reads_elsewhere(world: &World) -> u64 {
    let current = std::thread::current();
    let names = ["", "tokio-rt-worker", current.name().unwrap_or_default()];
    names.into_iter().map(|name| world.disk.n_reads_by(name)).sum()
}

// RUN-9.15
#[tokio::test]
async fn a_plan_that_leads_to_more_than_can_be_looked_at_is_refused() {
    let world = World::new();
    let small = plans(&world, 1_030).await;
    let [one, other, top] = <[String; 3]>::try_from(plans(&world, 3).await).unwrap();
    put(&world, &one, &runs(&small[..600])).await.unwrap();
    put(&world, &other, &runs(&small[600..])).await.unwrap();
    let before = get(&world, &top, "").await.unwrap();
    let refused = put(&world, &top, &runs(&[one.clone(), other])).await.unwrap_err();
    let (code, reason, fields) = told(&refused);
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "PLAN_INVALID"));
    assert_eq!(fields, ["document.steps[1].config"]);
    assert!(
        refused.message().contains("more than can be looked at"),
        "{refused:?}"
    );
    assert_eq!(get(&world, &top, "").await.unwrap(), before, "nothing was stored");
    put(&world, &top, &runs(&[one])).await.unwrap();
}

// RUN-9.15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_plans_that_run_each_other_one_is_refused_although_both_are_saved_at_once() {
    let world = World::new();
    for _ in 0..20 {
        let [one, other] = <[String; 2]>::try_from(plans(&world, 2).await).unwrap();
        let (of_one, of_other) = (
            runs(std::slice::from_ref(&other)),
            runs(std::slice::from_ref(&one)),
        );
        let saved = tokio::join!(put(&world, &one, &of_one), put(&world, &other, &of_other));
        let n_saved = [saved.0.is_ok(), saved.1.is_ok()]
            .into_iter()
            .filter(|is| *is)
            .count();
        assert_eq!(n_saved, 1, "{saved:?}");
    }
}

const N_PLANS: usize = 200;
