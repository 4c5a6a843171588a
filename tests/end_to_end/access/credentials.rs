//! Tokens made by the orchestrator's own command, and policies that know them.

use crate::world::World;
use escapement_tests::{Binaries, PrivateDirectory};
use escapement_wire::runs::v1::action_service_client::ActionServiceClient;
use escapement_wire::runs::v1::{ActionProfile, PutActionProfileRequest};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tonic::metadata::{Ascii, MetadataValue};

/// A token, as its holder has it.
pub(crate) struct Token {
    pub(crate) secret: String,
    sha256: String,
}

impl Token {
    /// Makes one with `orchestrator token new`.
    pub(crate) fn new(name: &str) -> Self {
        let orchestrator = Binaries::build().unwrap().orchestrator;
        let made = Command::new(orchestrator)
            .args(["token", "new", "--name", name])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let text = |key: &str| made[key].as_str().unwrap().to_owned();
        let token = Self {
            secret: text("token"),
            sha256: text("sha256"),
        };
        assert!(text("policy_entry").contains(&token.sha256));
        token
    }

    /// One that was made before, with the digest of `orchestrator token hash`.
    pub(crate) fn hashed(secret: &str) -> Result<Self, String> {
        let mut hash = Command::new(Binaries::build().unwrap().orchestrator)
            .args(["token", "hash"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = hash.stdin.take().unwrap();
        stdin.write_all(secret.as_bytes()).unwrap();
        drop(stdin);
        let hashed = hash.wait_with_output().unwrap();
        if !hashed.status.success() {
            return Err(format!(
                "{:?} {}",
                hashed.status.code(),
                String::from_utf8_lossy(&hashed.stderr)
            ));
        }
        let said: Value = serde_json::from_slice(&hashed.stdout).unwrap();
        Ok(Self {
            secret: secret.trim().to_owned(),
            sha256: said["sha256"].as_str().unwrap().to_owned(),
        })
    }

    /// As callers show it.
    pub(crate) fn header(&self) -> MetadataValue<Ascii> {
        format!("Bearer {}", self.secret).parse().unwrap()
    }

    /// Returns the digest that a policy names.
    pub(crate) fn digest(&self) -> &str {
        &self.sha256
    }

    /// Its entry in a policy.
    pub(crate) fn entry(&self, name: &str, more: &str) -> String {
        let sha256 = &self.sha256;
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\n{more}\n")
    }

    /// Returns a request that shows it.
    pub(crate) fn shows<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("authorization", self.header());
        request
    }
}

/// Returns the text of a policy with these entries, and a namespace beside the one that is always there.
pub(crate) fn policy(entries: &[String]) -> String {
    let mut text = "version = 1\n[[namespace]]\nname = \"other\"\n".to_owned();
    for entry in entries {
        write!(text, "{entry}").unwrap();
    }
    text
}

/// Returns an orchestrator with a policy at which it looks every second, and the policy's file.
pub(crate) async fn world_with(entries: &[String]) -> (World, PathBuf) {
    world_that_looks(entries, 1_000).await
}

/// Starts one with profiles of these actions, so that no run waits for the traits of a worker.
pub(crate) async fn world_with_profiles(entries: &[String], actions: &[&str]) -> (World, PathBuf) {
    let operator = Token::new("profiles");
    let own = operator.entry("profiles", "roles = [\"operator\"]");
    let (world, file) = world_with(&[entries, &[own]].concat()).await;
    let mut profiles = ActionServiceClient::new(world.orchestrator.channel());
    for action in actions {
        let profile = Some(ActionProfile {
            action: (*action).to_owned(),
            ..ActionProfile::default()
        });
        let put = operator.shows(PutActionProfileRequest { profile });
        profiles.put_action_profile(put).await.unwrap();
    }
    (world, file)
}

/// The same with another interval; 0: it looks at SIGHUP alone.
pub(crate) async fn world_that_looks(entries: &[String], interval_ms: u64) -> (World, PathBuf) {
    let directory = PrivateDirectory::new("access").unwrap();
    let file = directory.join("policy.toml");
    std::fs::write(&file, policy(entries)).unwrap();
    let flag = file.display().to_string();
    let world = World::start_in(directory, |settings| {
        settings
            .flag("--access-policy", flag)
            .flag("--tls-reload-interval-ms", interval_ms)
    });
    let world = world.await;
    (world, file)
}
