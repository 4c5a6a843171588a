//! SIGKILL before and after every call that changes a file, on the ways that accept, start, settle, stop and recover.
//! A case plays an act of the workload up to its call; what is left behind is judged by what clients were told.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Instant;

use escapement_tests::fault_layer::{Action, Call};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::acts::{ACTS, Scene};
use crate::is_long;
use crate::told::Verdicts;
use crate::world::World;

/// What an act begins with, and the calls that it makes.
pub(crate) struct Traced {
    pub(crate) scene: Scene,
    pub(crate) calls: Vec<Call>,
}

/// Plays all acts once without a fault.
pub(crate) async fn traced() -> Vec<Traced> {
    let mut traced = Vec::new();
    let mut scene = Scene::first();
    for act in ACTS {
        scene.act = act;
        let begin = scene.copy();
        if scene.play().await.is_err() {
            panic!("{act:?} does not get through:\n{}", scene.world.stderr());
        }
        scene.world.kill();
        traced.push(Traced {
            scene: begin,
            calls: scene.world.layer.trace().unwrap(),
        });
        scene.world = World::copy_of(&scene.world);
    }
    traced
}

/// Runs a case for each of the calls that the function picks, a few at a time, and gives what is wrong with them.
pub(crate) async fn sweep<Case>(
    traced: &[Traced],
    actions: &[Action],
    picks: impl Fn(&Call, Action) -> bool,
    case: impl Fn(Scene, Call, Action) -> Case,
) -> (usize, Vec<String>)
where
    Case: Future<Output = Verdicts> + Send + 'static,
{
    let seats = Arc::new(Semaphore::new(CASES_AT_A_TIME));
    let mut cases = JoinSet::new();
    let mut n_cases = 0;
    let mut wrong = Vec::new();
    for Traced { scene, calls } in traced {
        for call in calls {
            for action in actions.iter().filter(|action| picks(call, **action)) {
                let seat = Arc::clone(&seats).acquire_owned().await.expect("never closed");
                let name = format!("{action} at {call}");
                let judging = case(scene.copy(), call.clone(), *action);
                cases.spawn(async move {
                    let verdicts = judging.await;
                    drop(seat);
                    verdicts
                        .into_iter()
                        .map(move |verdict| format!("{name}: {verdict}"))
                });
                n_cases += 1;
                while let Some(done) = cases.try_join_next() {
                    wrong.extend(done.expect("a case does not panic"));
                }
            }
        }
    }
    while let Some(done) = cases.join_next().await {
        wrong.extend(done.expect("a case does not panic"));
    }
    (n_cases, wrong)
}

/// Plays a scene in which this call has this end.
pub(crate) async fn play_with(scene: &mut Scene, call: &Call, action: Action) -> bool {
    scene.world.layer.arm_at(call, action).unwrap();
    scene.play().await.is_ok()
}

async fn killed(mut scene: Scene, call: Call, action: Action) -> Verdicts {
    if play_with(&mut scene, &call, action).await {
        return vec!["the process lives on".to_owned()];
    }
    let status = scene.world.ended().await;
    let trace = scene.world.layer.trace().unwrap();
    let mut verdicts = Vec::new();
    // The call must be made in every run, or it would be left out unseen. Other threads may go on until the process is dead.
    if status.signal() != Some(9) || !trace.iter().any(|made| made.is_same(&call)) {
        verdicts.push(format!(
            "ended with {status} at {:?}:\n{}",
            trace.last(),
            scene.world.stderr()
        ));
    }
    verdicts.extend(scene.told.judge(&mut scene.world).await);
    verdicts
}

/// Whether a quick run sweeps this call: one that the store on a disk in memory does not make, which `tests/storage` fails at
/// every call, and one in eight of the others. `cargo campaign` sweeps all of them before it begins.
pub(crate) fn is_swept(call: &Call) -> bool {
    let is_of_a_file =
        ["write", "fsync", "fdatasync"].contains(&call.kind.as_str()) && !call.file.ends_with("store.mark");
    is_long() || !is_of_a_file || call.ordinal.is_multiple_of(8)
}

/// Returns true if the process goes on from one call to the next without a word to anybody: a kill after the first leaves
/// the same files and the same promises as a kill before the second.
fn leads_to(call: &Call, next: &Call) -> bool {
    let is_next = next.phase == call.phase && next.ordinal == call.ordinal + 1;
    // Behind the mark a commit is acknowledged.
    is_next && next.thread == call.thread && !call.file.ends_with("store.mark")
}

//
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_call_loses_nothing_that_was_told() {
    let began = Instant::now();
    let traced = traced().await;
    let calls: Vec<&Call> = traced.iter().flat_map(|traced| &traced.calls).collect();
    let is_covered = |call: &Call| calls.iter().any(|next| leads_to(call, next));
    let picks = |call: &Call, action| {
        is_swept(call) && (is_long() || action == Action::KillBefore || !is_covered(call))
    };
    let actions = [Action::KillBefore, Action::KillAfter];
    let (n_cases, wrong) = sweep(&traced, &actions, picks, killed).await;
    let (n_calls, seconds) = (calls.len(), began.elapsed().as_secs());
    println!("{n_calls} calls, {n_cases} kills, {seconds} s");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        !is_long() || n_cases == 2 * n_calls,
        "every call is swept in both ways"
    );
    assert!(
        n_calls >= CALLS_MIN,
        "the workload makes {n_calls} calls; it makes more"
    );
}

/// The judge must be able to say no.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_and_is_not_so_is_found() {
    let mut scene = Scene::first();
    let asked = scene.play().await;
    assert!(asked.is_ok(), "{}", scene.world.stderr());
    let mut truth = World::copy_of(&scene.world);
    assert_eq!(scene.told.judge(&mut truth).await, Verdicts::new());
    for (what, told) in scene.told.lies() {
        let verdicts = told.judge(&mut World::copy_of(&scene.world)).await;
        assert!(!verdicts.is_empty(), "nobody found that {what}");
    }
}

/// Cases that run together.
const CASES_AT_A_TIME: usize = 3;
/// Fewer would mean that the layer does not see all of them.
const CALLS_MIN: usize = 150;
