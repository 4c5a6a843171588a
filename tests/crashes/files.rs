//! Files of the store that were cut, flipped, deleted or taken: the start repairs what nobody was told, and for the rest
//! it is refused with a word on what to do, or only the execution that was hit answers `DATA_LOSS`.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use escapement_model::{ExecutionId, PlanId};
use escapement_tests::OrchestratorSettings;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::Code;

use crate::acts::Scene;
use crate::caller::No;
use crate::is_long;
use crate::sweep::{Traced, traced};
use crate::told::Verdicts;
use crate::world::World;

/// A store that was stopped in order: two settled, one in the queue. And one that was killed, with a log: one more runs.
struct Stores {
    stopped: Scene,
    killed: Scene,
}

impl Stores {
    async fn make() -> Self {
        let mut scenes = traced().await.into_iter().map(|Traced { scene, .. }| scene);
        let (_, stopped, killed) = (scenes.next(), scenes.next(), scenes.next());
        let mut stopped = stopped.expect("the second act begins with it");
        // A wait may go without its answer when the orchestrator stops; then the result is told by the store while it is whole.
        let mut whole = stopped.copy();
        let life = whole.world.start_undisturbed().await;
        for id in stopped.told.accepted_ids() {
            let found = life.caller.execution(&id).await.unwrap();
            let ended = found.filter(|execution| execution.result.is_some());
            ended.iter().for_each(|execution| stopped.told.settled(execution));
        }
        assert_eq!(
            stopped.told.n_settled(),
            2,
            "an answer of the result alone is compared"
        );
        Self {
            stopped,
            killed: killed.expect("the third act begins with it"),
        }
    }
}

/// Starts an orchestrator that must not serve; gives its exit code and its stderr.
async fn refused(world: &mut World) -> (Option<i32>, String) {
    let settings = world.settings();
    if world.start_with(&settings).await.is_ok() {
        panic!("it serves:\n{}", world.stderr());
    }
    let status = world.ended().await;
    (status.code(), world.stderr())
}

fn length(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

fn cut(path: &Path, length: u64) {
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(length)
        .unwrap();
}

fn flip(path: &Path, byte: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut one = [0];
    file.read_exact_at(&mut one, byte).unwrap();
    one[0] ^= 1 << (byte % 8);
    file.write_all_at(&one, byte).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_torn_commit_left_at_the_end_of_the_log_is_repaired() {
    let stores = Stores::make().await;
    for rubbish in [&[7_u8; 100][..], &[0; 24 + 4096], &[7; 3 * (24 + 4096) + 5]] {
        let mut scene = stores.killed.copy();
        let mut log = OpenOptions::new()
            .append(true)
            .open(scene.world.file(LOG))
            .unwrap();
        log.write_all(rubbish).unwrap();
        assert_eq!(scene.told.judge(&mut scene.world).await, Verdicts::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lacks_what_was_acknowledged_is_refused_until_the_loss_is_accepted() {
    let stores = Stores::make().await;
    for how in ["cut by one frame", "emptied", "deleted", "cut in the middle"] {
        let mut scene = stores.killed.copy();
        let log = scene.world.file(LOG);
        let bytes = length(&log);
        match how {
            "cut by one frame" => cut(&log, bytes - 4096 - 24),
            "emptied" => cut(&log, 0),
            "deleted" => std::fs::remove_file(&log).unwrap(),
            _ => cut(&log, bytes / 2 + 5),
        }
        for _ in 0..2 {
            let (code, stderr) = refused(&mut scene.world).await;
            assert_eq!(code, Some(74), "{how}: {stderr}");
            assert!(
                stderr.contains("--accept-loss"),
                "{how}: it says what to do: {stderr}"
            );
            assert!(stderr.contains("acknowledged"), "{how}: it says why: {stderr}");
        }
        let settings = scene.world.settings().switch("--accept-loss");
        let life = scene.world.start_with(&settings).await;
        let life = life.unwrap_or_else(|_| panic!("{how}:\n{}", scene.world.stderr()));
        // What was in the database is as it was told; what the log alone had is gone, and its ids are free.
        let ids = scene.told.accepted_ids();
        let mut n_gone = 0;
        for id in &ids {
            match life.caller.execution(id).await.unwrap() {
                Some(execution) => assert!(scene.told.agrees(&execution), "{how}: {execution:?}"),
                None => n_gone += 1,
            }
        }
        assert_eq!(n_gone, 1, "{how}: the last accept was in the log alone");
        scene.world.kill();
        // The loss is accepted once.
        let life = scene.world.start_undisturbed().await;
        assert_eq!(life.caller.list().await.unwrap().len(), ids.len() - 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_log_is_found() {
    let stores = Stores::make().await;
    let bytes = length(&stores.killed.world.file(LOG));
    let step = if is_long() { 97 } else { 1_777 };
    let mut n_refused = 0;
    for byte in (0..bytes).step_by(step) {
        let mut scene = stores.killed.copy();
        flip(&scene.world.file(LOG), byte);
        let settings = scene.world.settings();
        if scene.world.start_with(&settings).await.is_ok() {
            let verdicts = scene.told.judge(&mut scene.world).await;
            assert_eq!(verdicts, Verdicts::new(), "byte {byte} of {bytes}");
        } else {
            let (code, stderr) = (scene.world.ended().await.code(), scene.world.stderr());
            assert_eq!(code, Some(74), "byte {byte}: {stderr}");
            n_refused += 1;
        }
    }
    assert!(n_refused > 2, "{n_refused} of {bytes} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_record_hurts_that_execution_only() {
    let stores = Stores::make().await;
    let mut scene = stores.stopped.copy();
    let file = scene.world.file(DATABASE);
    // The second one has a payload of more than a page of this letter.
    let bytes = std::fs::read(&file).unwrap();
    let inside = bytes
        .windows(2_000)
        .position(|part| part.iter().all(|byte| *byte == b'x'));
    flip(
        &file,
        inside.expect("the payload lies in the file as it is") as u64 + 700,
    );
    let life = scene.world.start_undisturbed().await;
    let hit = &scene.told.accepted_ids()[1];
    for id in scene.told.accepted_ids() {
        match life.caller.execution(&id).await {
            // A damaged request does not hide a result that is whole.
            Ok(execution) => assert!(scene.told.agrees(&execution.expect("it is there"))),
            Err(no) => {
                assert_eq!(no, No::Refused(Code::DataLoss, "RECORD_DAMAGED".to_owned()));
                assert_eq!(&id, hit, "all others are served");
            }
        }
    }
    assert_eq!(
        life.caller.list().await.unwrap().len(),
        3,
        "the list goes on behind it"
    );
}

/// Wherever the bit is: what was told is answered as it was told, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_anywhere_in_the_database_makes_nobody_lie() {
    let stores = Stores::make().await;
    let bytes = length(&stores.stopped.world.file(DATABASE));
    let step = if is_long() { 61 } else { 1_501 };
    let seats = Arc::new(Semaphore::new(3));
    let mut cases = JoinSet::new();
    for byte in (0..bytes).step_by(step) {
        let scene = stores.stopped.copy();
        let seat = Arc::clone(&seats).acquire_owned().await.unwrap();
        cases.spawn(async move {
            let verdicts = flipped(scene, byte).await;
            drop(seat);
            verdicts
        });
    }
    let wrong: Vec<_> = cases.join_all().await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The row of an execution, that is: the indexes of ids have no checksums of their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_row_of_an_id_makes_nobody_lie() {
    let stores = Stores::make().await;
    let bytes = std::fs::read(stores.stopped.world.file(DATABASE)).unwrap();
    let mut wrong = Verdicts::new();
    for (id, plan) in stores.stopped.told.ids_and_plans() {
        let (id, plan): (ExecutionId, PlanId) = (id.parse().unwrap(), plan.parse().unwrap());
        let row = [*id.as_bytes(), *plan.as_bytes()].concat();
        let is_row = |part: &[u8]| part == row;
        let place = bytes.windows(row.len()).position(is_row).expect("it has a row") as u64;
        for byte in [0, 15, 16, 31] {
            wrong.extend(flipped(stores.stopped.copy(), place + byte).await);
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

async fn flipped(mut scene: Scene, byte: u64) -> Verdicts {
    flip(&scene.world.file(DATABASE), byte);
    let settings = scene.world.settings();
    let Ok(life) = scene.world.start_with(&settings).await else {
        let (code, stderr) = (scene.world.ended().await.code(), scene.world.stderr());
        return match code {
            Some(73 | 74) if stderr.contains("orchestrator: ") => Verdicts::new(),
            _ => vec![format!("byte {byte}: exits with {code:?}:\n{stderr}")],
        };
    };
    let mut verdicts = Verdicts::new();
    for id in scene.told.accepted_ids() {
        match life.caller.execution(&id).await {
            Ok(Some(execution)) if scene.told.agrees(&execution) => {}
            // Not at all is no lie.
            Err(No::Refused(Code::DataLoss | Code::Unavailable, _)) => {}
            // It exited meanwhile, because it met the damage.
            Err(No::Gone) => {}
            answer => verdicts.push(format!("byte {byte}: {id} is {answer:?}")),
        }
    }
    verdicts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_is_deleted_or_damaged_costs_nothing() {
    let stores = Stores::make().await;
    for how in ["deleted", "flipped", "emptied"] {
        let mut scene = stores.killed.copy();
        let mark = scene.world.file("store.mark");
        match how {
            "deleted" => std::fs::remove_file(&mark).unwrap(),
            "flipped" => flip(&mark, 9),
            _ => cut(&mark, 0),
        }
        assert_eq!(scene.told.judge(&mut scene.world).await, Verdicts::new(), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_orchestrator_is_refused_and_does_not_disturb_the_first() {
    let stores = Stores::make().await;
    let mut scene = stores.killed.copy();
    let life = scene.world.start_undisturbed().await;
    let before: BTreeSet<_> = life.caller.list().await.unwrap().into_keys().collect();
    for _ in 0..3 {
        let mut second = scene.world.settings().launch().unwrap();
        let status = second.exit(crate::world::LIMIT).await.unwrap();
        assert_eq!(status.code(), Some(73));
        assert!(scene.world.stderr().contains("another orchestrator holds"));
    }
    let late = crate::caller::request(100);
    life.caller.submit(&late).await.unwrap();
    // The first has the log to itself: what it acknowledged after the others came and went is there.
    scene.world.kill();
    let life = scene.world.start_undisturbed().await;
    let after: BTreeSet<_> = life.caller.list().await.unwrap().into_keys().collect();
    assert_eq!(after.len(), before.len() + 1);
    assert!(after.contains(&crate::caller::id_of(&late)) && after.is_superset(&before));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_newer_or_another_program_is_refused_and_not_touched() {
    let stores = Stores::make().await;
    for (pragma, named) in [("user_version = 99", "99"), ("application_id = 7", "")] {
        let mut scene = stores.stopped.copy();
        let file = scene.world.file(DATABASE);
        let database = rusqlite::Connection::open(&file).unwrap();
        database.execute_batch(&format!("PRAGMA {pragma}")).unwrap();
        drop(database);
        let before = std::fs::read(&file).unwrap();
        let (code, stderr) = refused(&mut scene.world).await;
        assert_eq!(code, Some(74), "{pragma}: {stderr}");
        assert!(stderr.contains(named), "{pragma}: {stderr}");
        assert!(stderr.contains("schema version"), "{pragma}: {stderr}");
        assert!(
            before == std::fs::read(&file).unwrap(),
            "{pragma}: the file was touched"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_none_or_cannot_be_written_is_named() {
    let mut rubbish = World::new();
    std::fs::create_dir(rubbish.store()).unwrap();
    std::fs::write(rubbish.file(DATABASE), "this is no database at all\n".repeat(400)).unwrap();
    let (code, stderr) = refused(&mut rubbish).await;
    assert!(matches!(code, Some(73 | 74)), "{code:?}: {stderr}");
    assert!(stderr.contains(DATABASE), "{stderr}");

    let mut taken = World::new();
    std::fs::create_dir_all(taken.file(DATABASE)).unwrap();
    let (code, stderr) = refused(&mut taken).await;
    assert_eq!(code, Some(73), "{stderr}");
    assert!(stderr.contains(DATABASE), "{stderr}");

    // Nobody can make a directory there, whoever runs the tests.
    let mut unwritable = World::new();
    let settings = OrchestratorSettings::new(Path::new("/proc")).stderr(unwritable.directory.join(STDERR));
    assert!(unwritable.start_with(&settings).await.is_err());
    let (code, stderr) = (unwritable.ended().await.code(), unwritable.stderr());
    assert_eq!(code, Some(73), "{stderr}");
    assert!(stderr.contains("/proc/store"), "{stderr}");
}

const DATABASE: &str = "store.db";
const STDERR: &str = "orchestrator.stderr";
const LOG: &str = "store.db-wal";
