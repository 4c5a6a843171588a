//! The rules by which callers are judged, made of the policy's file, and made anew when it changes.

use crate::config::Config;
use crate::exit::Failure;
use escapement_access::{Access, Policy};
use escapement_transport::AccessRules;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{error, info};

/// The policy's file, if there is one, and the rules that it made last.
pub(crate) struct PolicyFile {
    file: Option<(PathBuf, String)>,
    rules: watch::Sender<Arc<Access>>,
}

impl PolicyFile {
    /// Reads it for the first time.
    ///
    /// # Errors
    /// [`Failure::Configuration`] names every violation.
    pub(crate) fn load(config: &Config) -> Result<Self, Failure> {
        let Some(path) = &config.access.access_policy else {
            let rules = watch::Sender::new(Arc::new(Access::without_policy()));
            return Ok(Self { file: None, rules });
        };
        let read = read(path).and_then(|text| Ok((parse(path, &text)?, text)));
        let (access, text) = read.map_err(|problem| Failure::Configuration {
            setting: config.given.naming_variable("--access-policy"),
            problem,
        })?;
        info!(path = %path.display(), "callers are judged by a policy");
        Ok(Self {
            file: Some((path.clone(), text)),
            rules: watch::Sender::new(Arc::new(access)),
        })
    }

    /// The rules, now and whenever they are replaced.
    pub(crate) fn rules(&self) -> AccessRules {
        AccessRules::new(self.rules.subscribe())
    }

    /// Looks at the file from time to time, for ever. What is wrong never replaces what works, and is looked at again.
    pub(crate) async fn follow(self) {
        let Some((path, mut last)) = self.file else {
            return;
        };
        let mut last_problem = String::new();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let file = path.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || read(&file)).await else {
                // The runtime ends.
                return;
            };
            if read.as_ref() == Ok(&last) {
                last_problem.clear();
                continue;
            }
            match read.and_then(|text| Ok((parse(&path, &text)?, text))) {
                Ok((access, text)) => {
                    info!(path = %path.display(), "policy read again; it is in force");
                    last = text;
                    last_problem.clear();
                    self.rules.send_replace(Arc::new(access));
                }
                Err(problem) if problem == last_problem => {}
                Err(problem) => {
                    error!(
                        problem,
                        "changed policy is refused; the one before stays in force"
                    );
                    last_problem = problem;
                }
            }
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn parse(path: &Path, text: &str) -> Result<Access, String> {
    match Policy::parse(text) {
        Ok(policy) => Ok(Access::new(policy)),
        Err(violations) => {
            let lines = violations.iter().map(|violation| format!("\n  {violation}"));
            Err(format!(
                "{} is refused:{}",
                path.display(),
                lines.collect::<String>()
            ))
        }
    }
}

/// Between two looks at the policy's file.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
