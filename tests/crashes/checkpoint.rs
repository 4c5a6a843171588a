//! The checkpoint while commits go on: the log has grown large, is copied by a thread of its own, and begins anew.

use std::future::ready;
use std::time::Duration;

use escapement_tests::fault_layer::{Action, Call};
use escapement_tests::plans::{self, RequestWords, StepWords};
use escapement_tests::wait_for;
use escapement_wire::v1::SubmitPlanRequest;
use serde_json::json;

use crate::caller::{No, request};
use crate::hand::WORK;
use crate::is_long;
use crate::order;
use crate::told::Told;
use crate::world::World;

/// Accepts what makes a log so large that it is copied, waits for the copy, and accepts one more.
async fn fill(world: &mut World, told: &mut Told) -> Result<(), No> {
    world.layer.phase("fill").unwrap();
    let life = world.start().await.map_err(|_| No::Gone)?;
    for n in 0..LARGE_REQUESTS {
        if n == LARGE_REQUESTS - 1 {
            world.layer.phase(PHASE).unwrap();
        }
        let one = large();
        told.ask(&one);
        told.accepted(life.caller.submit(&one).await?);
    }
    // SQLite syncs what it copied. Each of the two passes while commits go on ends with a sync, too, and here the second finds
    // nothing to write.
    let is_end = |call: &Call| is_of_the_copy(call) && call.kind == "fdatasync";
    let copied = || {
        let calls = world.layer.last_calls(3).unwrap();
        let is_copied = calls.len() == 3 && calls.iter().all(is_end);
        ready((is_copied || world.has_ended()).then_some(is_copied))
    };
    if !wait_for("the copy of the log", COPY_LIMIT, copied).await.unwrap() {
        return Err(No::Gone);
    }
    world.layer.phase("anew").unwrap();
    let late = request(100);
    told.ask(&late);
    told.accepted(life.caller.submit(&late).await?);
    Ok(())
}

fn is_of_the_copy(call: &Call) -> bool {
    call.phase == PHASE && call.thread.starts_with("store-check") && call.file.ends_with(".db")
}

/// Returns a request for a plan of almost four MiB.
fn large() -> SubmitPlanRequest {
    let fill = "x".repeat(950_000);
    let step = |number| plans::step(number, WORK).payload(json!({ "fill": fill }));
    plans::request(plans::plan((1..=4).map(step))).as_submission()
}

fn scene() -> (World, Told) {
    // Without a worker all of them are held back, and nothing is written but what is asked for.
    let world = World::new()
        .flag("--max-running-executions", 1)
        .flag("--registration-grace-ms", 3_600_000);
    (world, Told::default())
}

//
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_while_the_log_is_copied_loses_nothing_that_was_told() {
    let (mut world, mut told) = scene();
    fill(&mut world, &mut told).await.unwrap();
    world.kill();
    let trace = world.layer.trace().unwrap();
    let wrong = order::judge(&trace);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let begins_anew = |call: &&Call| call.phase == "anew" && call.file.ends_with("-wal") && call.bytes == 32;
    assert!(
        trace.iter().any(|call| begins_anew(&call)),
        "the log begins anew behind its copy"
    );

    let copy: Vec<&Call> = trace.iter().filter(|call| is_of_the_copy(call)).collect();
    assert!(copy.len() > 5_000, "{} calls copy the log", copy.len());
    let syncs: Vec<&Call> = copy.iter().copied().filter(|call| call.kind != "write").collect();
    let some: Vec<&Call> = if is_long() {
        let writes = copy.iter().copied().step_by(copy.len() / WRITES_LONG);
        writes.skip(1).chain(syncs).collect()
    } else {
        syncs
    };
    for call in &some {
        let (mut world, mut told) = scene();
        world.layer.arm_at(call, Action::KillBefore).unwrap();
        assert!(
            fill(&mut world, &mut told).await.is_err(),
            "{call}: the process lives on"
        );
        let status = world.ended().await;
        assert!(!status.success(), "{call}: {status}");
        let life = world.start_undisturbed().await;
        let ids = told.accepted_ids();
        assert!(
            ids.len() + 1 >= LARGE_REQUESTS,
            "{call}: {} were accepted",
            ids.len()
        );
        for id in &ids {
            let execution = life.caller.execution(id).await.unwrap();
            let execution = execution.unwrap_or_else(|| panic!("{call}: {id} is gone"));
            assert!(told.agrees(&execution), "{call}: {execution:?}");
        }
    }
    println!("{} kills in a copy of {} calls", some.len(), copy.len());
}

const COPY_LIMIT: Duration = Duration::from_secs(60);
const PHASE: &str = "copy";
/// So many of the writes where there is time; a store of this size takes seconds.
const WRITES_LONG: usize = 30;
/// Together more than the 32 MiB at which the log is copied, and without the last one less.
const LARGE_REQUESTS: usize = 9;
