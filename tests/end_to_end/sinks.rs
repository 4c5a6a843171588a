//! Sinks that get every ending at least once: across kills, whatever they answer, and what they are told of a loss.

mod answers;
pub(crate) mod kills;
mod losses;
pub(crate) mod nats;
mod reloads;
mod restarts;
mod signatures;

use crate::plans::{RequestWords, echo, fail, plan, request};
use crate::world::{LIMIT, World};
use escapement_tests::{OrchestratorSettings, PrivateDirectory, ReceivedRequest, Receiver, wait_for};
use serde_json::{Value, json};
use std::path::PathBuf;

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A file of sinks in a directory, and what it holds.
pub(crate) struct Sinks {
    file: PathBuf,
    secret: PathBuf,
    pub(crate) text: String,
}

impl Sinks {
    fn new(directory: &PrivateDirectory) -> Self {
        let secret = directory.join("sink.secret");
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        Self {
            file: directory.join("sinks.toml"),
            secret,
            text: "version = 1\n".to_owned(),
        }
    }

    /// One more; `more` is further lines. It is tried again soon.
    pub(crate) fn sink(mut self, name: &str, url: &str, more: &str) -> Self {
        let secret = self.secret.display();
        self.text += &format!(
            "[[sink]]\nname = \"{name}\"\nkind = \"webhook\"\nurl = \"{url}\"\nsecret_file = \"{secret}\"\n\
             pause_max_ms = 100\n{more}\n"
        );
        self.write();
        self
    }

    /// One more, in a stream; `more` is further lines.
    pub(crate) fn nats_sink(mut self, name: &str, url: &str, more: &str) -> Self {
        self.text += &format!(
            "[[sink]]\nname = \"{name}\"\nkind = \"nats\"\nurl = \"{url}\"\n\
             subject = \"escapement.{{namespace}}.{{type}}\"\npause_max_ms = 100\n{more}\n"
        );
        self.write();
        self
    }

    pub(crate) fn write(&self) {
        std::fs::write(&self.file, &self.text).unwrap();
    }
}

/// Returns an orchestrator with these sinks; `change` adds flags.
pub(crate) async fn world(
    sinks: impl FnOnce(Sinks) -> Sinks,
    change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
) -> (World, Sinks) {
    let directory = PrivateDirectory::new("end-to-end").unwrap();
    let sinks = sinks(Sinks::new(&directory));
    let flag = sinks.file.display().to_string();
    let world = World::start_in(directory, |settings| change(settings.flag("--events", flag))).await;
    (world, sinks)
}

/// Executes so many plans, of which every third fails; their ids, in the order of settling.
async fn execute(world: &World, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        let steps = match n % 3 {
            0 => fail(0, "BROKEN"),
            _ => echo(0, json!({ "n": n })),
        };
        let request = request(plan([steps]));
        ids.push(request.id());
        world.execute(request).await;
    }
    ids
}

/// The ids of what was taken, in the order of arrival, each where it came first.
pub(crate) fn taken(received: &[ReceivedRequest]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for request in received.iter().filter(|request| request.status == Some(204)) {
        let id = &request.headers["webhook-id"];
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    ids
}

/// Waits until everything of this was taken.
pub(crate) async fn wait_for_taken(receiver: &Receiver, count: usize) -> Vec<ReceivedRequest> {
    let what = format!("{count} events that are taken");
    let all = wait_for(&what, LIMIT, async || {
        Some(receiver.received()).filter(|received| taken(received).len() >= count)
    });
    all.await.unwrap()
}

pub(crate) fn event(request: &ReceivedRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}
