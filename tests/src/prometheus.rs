//! A real Prometheus on a free port. Knows no figure and no rule.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::{Fault, http, wait_for};

/// A Prometheus, killed on drop.
#[derive(Debug)]
pub struct Prometheus {
    process: Child,
    address: String,
}

impl Prometheus {
    /// Starts the program with this configuration, which is written to `prometheus.yaml` in the directory, beside its data and its
    /// log, and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started, or does not listen within 30 s.
    pub async fn start(program: &Path, directory: &Path, configuration: &str) -> Result<Self, Fault> {
        let file = directory.join("prometheus.yaml");
        std::fs::write(&file, configuration)?;
        let log = directory.join("prometheus.stderr");
        let process = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("prometheus").display()
            ))
            .arg("--web.listen-address=127.0.0.1:0")
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut started = Self {
            process,
            address: String::new(),
        };
        let listens = async || {
            let log = std::fs::read_to_string(&log).ok()?;
            let line = log.lines().find(|line| line.contains("Listening on"))?;
            let (_, listening) = line.rsplit_once("address=")?;
            Some(listening.split_whitespace().next()?.to_owned())
        };
        started.address = wait_for("Prometheus to listen", START_LIMIT, listens).await?;
        Ok(started)
    }

    /// Where it listens, `IP:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the `data` that the API answers at a path; `None` while it has no good answer.
    pub async fn asked(&self, path: &str) -> Option<Value> {
        let (status, answer) = http::get(&self.address, path, "application/json").await?;
        let answer: Value = serde_json::from_str(&answer).ok()?;
        (status == 200).then(|| answer["data"].clone())
    }

    /// Returns the values that an expression has now, as they are written; one for each series.
    pub async fn values(&self, expression: &str) -> Option<Vec<String>> {
        let answer = self
            .asked(&format!("/api/v1/query?query={}", encoded(expression)))
            .await?;
        let series = answer["result"].as_array()?.iter();
        series
            .map(|one| one["value"][1].as_str().map(str::to_owned))
            .collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a text as it stands in a query of an address.
pub fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

const START_LIMIT: Duration = Duration::from_secs(30);
