//! Workers of one name that register new actions again and again, over several streams.
//! The bytes of all actions stay bounded, and workers of another name can register theirs.

use crate::den::{Den, LIMIT, scale};
use crate::messages::names;
use escapement_tests::{Binaries, PrivateDirectory, ScriptedWorker};
use escapement_wire::v1::ListActionsRequest;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::{Hello, RegisterActions, Welcome};
use serde_json::Value;
use std::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Bytes of all actions, and of one without its texts.
const ACTIONS_BYTES_MAX: usize = 64 << 20;
const ACTION_BYTES: usize = 1 << 10;
/// Registrations that the allowance of one stream permits at once.
const N_REGISTRATIONS: u64 = 20;

/// Makes a token by the orchestrator's own command; returns it with its digest.
pub(crate) fn token() -> (String, String) {
    let program = Binaries::build().unwrap().orchestrator;
    let made = Command::new(program)
        .args(["token", "new", "--name", "modest"])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("token"), text("sha256"))
}

fn hello(number: u64) -> Hello {
    ScriptedWorker::hello_for(names(number), 1)
}

/// Actions that are known, and the bytes that they take.
async fn held(den: &Den) -> (usize, usize) {
    let mut fleet = FleetServiceClient::new(den.channel().await).max_decoding_message_size(64 << 20);
    let listed = fleet.list_actions(ListActionsRequest::default()).await.unwrap();
    let actions = listed.into_inner().actions;
    let bytes = actions.iter().map(|action| {
        let traits = action.traits.as_ref().map_or(0, prost::Message::encoded_len);
        ACTION_BYTES + action.name.len() + action.description.len() + action.input_schema.len() + traits
    });
    (actions.len(), bytes.sum())
}

fn refusals(welcome: &Welcome) -> Vec<&str> {
    welcome
        .refused_actions
        .iter()
        .map(|refusal| refusal.reason.as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_registrations_is_bounded_in_bytes_and_leaves_others_theirs() {
    let (secret, sha256) = token();
    let directory = PrivateDirectory::new("registrations").unwrap();
    let policy = directory.join("policy.toml");
    let text = format!(
        "version = 1\n[anonymous]\nroles = [\"admin\", \"worker\"]\n\
         [[token]]\nname = \"modest\"\nsha256 = \"{sha256}\"\nroles = [\"worker\"]\n"
    );
    std::fs::write(&policy, text).unwrap();
    let den = Den::start_with(|settings| settings.flag("--access-policy", policy.display())).await;
    let before = den.measure();
    let url = den.orchestrator.url();
    let n_streams = scale(8, 40);
    let mut flood = JoinSet::new();
    for stream in 0..n_streams {
        let url = url.clone();
        flood.spawn(async move {
            let (mut worker, _) = ScriptedWorker::open(&url, hello(stream << 32)).await;
            worker.keep_alive(std::time::Duration::from_secs(2));
            for revision in 1..=N_REGISTRATIONS {
                let actions = names((stream << 32) + revision);
                worker
                    .send(Message::RegisterActions(RegisterActions { revision, actions }))
                    .await;
            }
            // Answered once all of that is handled; what is dropped is known for some time.
            worker.drain(60_000).await;
            worker
        });
    }
    let workers = timeout(LIMIT, flood.join_all()).await.expect("all was read");
    let (n_actions, n_bytes) = held(&den).await;
    eprintln!("{n_actions} actions of {} KiB are held", n_bytes >> 10);
    assert!(
        n_bytes <= ACTIONS_BYTES_MAX / 2 + ACTION_BYTES * 16,
        "{n_bytes} bytes of {n_actions} actions"
    );
    assert!(n_actions > 10_000, "the flood came: {n_actions}");

    let (more, welcome) = ScriptedWorker::open(&url, hello(1 << 48)).await;
    let refused = refusals(&welcome);
    assert_eq!(refused.len(), 1_024);
    assert!(
        refused.iter().all(|reason| reason.starts_with("name: ")),
        "{:?}",
        refused[0]
    );
    let (modest, welcome) = ScriptedWorker::open_showing(&url, hello(1 << 56), &secret).await;
    assert_eq!(refusals(&welcome), Vec::<&str>::new());
    let log = den.orchestrator.process.stderr();
    let n_told = log.matches("worker actions refused").count() as u64;
    assert!(
        (1..=n_streams).contains(&n_told),
        "once of each session: {n_told}"
    );
    let grown = den.size().peak_mib.saturating_sub(before.resident_mib);
    eprintln!("{grown} MiB more");
    drop((workers, more, modest));
    den.finish("floods of registrations", 96).await;
}
