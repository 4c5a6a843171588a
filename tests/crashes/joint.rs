//! Runs that share their commits with their attempts, killed or failed at each call of such a commit.
//! The judge reads rows of the database: no execution without its intent, no outcome without its end.

use std::os::unix::process::ExitStatusExt;

use escapement_model::ExecutionId;
use escapement_tests::fault_layer::{Action, Call};
use escapement_wire::runs::v1::GetRunRequest;
use rusqlite::Connection;

use crate::is_long;
use crate::stage::{Stage, service};
use crate::world::World;

/// Calls between the request for a run and its end.
const PHASE: &str = "run";

impl Stage {
    /// Lists what is wrong with the store that the process left, and with the next start on it.
    async fn judge(mut self) -> Vec<String> {
        let mut wrong = broken_pairs(&World::copy_of(&self.world));
        let life = self.world.start_undisturbed().await;
        let mut runs = service(&life.url);
        for run_id in self.acknowledged {
            let request = GetRunRequest {
                run_id: run_id.clone(),
            };
            if let Err(status) = runs.get_run(request).await {
                wrong.push(format!("run {run_id} is lost: {status}"));
            }
        }
        wrong.extend(broken_pairs(&World::copy_of(&self.world)));
        wrong
    }
}

/// Execution of an attempt.
struct Pair {
    id: String,
    /// Number of journal entries that name it: the intent, and the outcome after it.
    n_entries: usize,
    is_settled: bool,
}

fn pairs(world: &World) -> Vec<Pair> {
    let database = Connection::open(world.file("store.db")).unwrap();
    let mut select = database.prepare("SELECT entry FROM journal").unwrap();
    let entries = select.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let entries: Vec<Vec<u8>> = entries.map(Result::unwrap).collect();
    let sql = "SELECT execution_id, EXISTS (SELECT 1 FROM settled_record WHERE settled_record.number = execution.number)
               FROM execution";
    let mut select = database.prepare(sql).unwrap();
    let rows = select.query_map([], |row| Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, bool>(1)?)));
    let pair = |(bytes, is_settled): ([u8; 16], bool)| {
        let id = ExecutionId::from_bytes(bytes).unwrap().to_string();
        let names = |entry: &&Vec<u8>| {
            entry.windows(16).any(|part| part == bytes) || entry.windows(36).any(|part| part == id.as_bytes())
        };
        Pair {
            n_entries: entries.iter().filter(names).count(),
            id,
            is_settled,
        }
    };
    rows.unwrap().map(|row| pair(row.unwrap())).collect()
}

/// Returns the executions without an intent, and those with an outcome and without an end.
fn broken_pairs(world: &World) -> Vec<String> {
    let broken = pairs(world).into_iter().filter_map(|pair| {
        let Pair {
            id,
            n_entries,
            is_settled,
        } = pair;
        match n_entries {
            0 => Some(format!("execution {id} has no intent")),
            1 => None,
            _ if is_settled => None,
            _ => Some(format!("execution {id} has an outcome and no end")),
        }
    });
    broken.collect()
}

/// Plays a run whose commit meets this at that call.
async fn disturbed(call: Call, action: Action) -> Vec<String> {
    let mut stage = Stage::open().await;
    stage.world.layer.arm(PHASE, call.ordinal, action).unwrap();
    stage.world.layer.phase(PHASE).unwrap();
    let played = stage.run(2).await;
    let mut wrong = Vec::new();
    if played.is_ok() {
        // What there was no space for was written later.
        if action != Action::Full {
            wrong.push("the process lives on".to_owned());
        }
        stage.world.kill();
    } else {
        let status = stage.world.ended().await;
        let is_kill = matches!(action, Action::KillBefore | Action::KillAfter);
        if is_kill != (status.signal() == Some(9)) {
            wrong.push(format!("ended with {status}:\n{}", stage.world.stderr()));
        }
    }
    wrong.extend(stage.judge().await);
    let name = format!("{action} at {call}");
    wrong
        .into_iter()
        .map(|wrong| format!("{name}: {wrong}"))
        .collect()
}

// RUN-4.2, RUN-9.3
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_a_run_shares_with_its_attempts_is_there_or_not() {
    let mut stage = Stage::open().await;
    stage.world.layer.phase(PHASE).unwrap();
    stage.run(2).await.unwrap();
    stage.world.layer.phase("over").unwrap();
    let pairs = pairs(&World::copy_of(&stage.world));
    let is_whole = |pair: &&Pair| pair.n_entries >= 2 && pair.is_settled;
    assert_eq!(pairs.iter().filter(is_whole).count(), 3, "of {}", pairs.len());
    let calls: Vec<Call> = stage.world.layer.trace().unwrap();
    let calls: Vec<Call> = calls.into_iter().filter(|call| call.phase == PHASE).collect();
    let is_sync = |call: &&Call| call.kind == "fdatasync" && call.file.ends_with("-wal");
    assert_eq!(calls.iter().filter(is_sync).count(), 3, "{calls:?}");
    stage.world.kill();
    let actions = [Action::KillBefore, Action::KillAfter, Action::Full, Action::Io];
    let mut wrong = Vec::new();
    for call in &calls {
        let picked = actions.into_iter().filter(|action| match action {
            Action::KillAfter => is_long() || is_sync(&call),
            Action::KillBefore => is_long() || is_sync(&call) || call.ordinal.is_multiple_of(4),
            Action::Full => is_long() && call.kind == "write",
            _ => is_long(),
        });
        for action in picked {
            wrong.extend(disturbed(call.clone(), action).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
