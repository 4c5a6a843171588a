//! The policy as a file that is read again, with the keys of its issuers: in files beside it, or fetched.
//! Judges nobody.

use crate::call_access::AccessRules;
use crate::reload::{Contents, Reload, Reloadable, Report, Witness};
use escapement_access::{Access, KeySet, KeySource, Policy};
use escapement_keys::Keys;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The policy of a file.
#[derive(Debug)]
pub struct PolicyFile {
    file: Reloadable<Access>,
    keys: Keys,
}

impl PolicyFile {
    /// Reads the file, and those that it names.
    ///
    /// # Errors
    /// The text names the file and every violation.
    pub fn load(path: &Path) -> Result<Self, String> {
        let policy = path.to_owned();
        let follow = {
            let policy = policy.clone();
            move |contents: &Contents| key_files(&policy, contents)
        };
        let parse = move |contents: &Contents| parse(&policy, contents);
        let file = Reloadable::load_following("policy", vec![path.to_owned()], follow, parse)?;
        let keys = Keys::new(Arc::clone(&file.current().borrow()));
        Ok(Self { file, keys })
    }

    /// The rules in force, now and whenever they are replaced.
    pub fn rules(&self) -> AccessRules {
        AccessRules::with_keys(self.keys.clone())
    }

    /// What asks the issuers for their keys, for as long as [`Keys::serve`] runs.
    pub fn keys(&self) -> Keys {
        self.keys.clone()
    }
}

impl fmt::Display for PolicyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.file.current().borrow(), f)
    }
}

impl Reload for PolicyFile {
    fn look(&mut self, witness: Witness<'_>) -> Report {
        let (current, keys) = (self.file.current(), &self.keys);
        self.file.look(&mut |report, replace| {
            witness(report, &mut || {
                replace();
                keys.replace_policy(Arc::clone(&current.borrow()));
            });
        })
    }
}

/// The sets of keys in files that the policy names; none if it cannot be read, which is said elsewhere.
fn key_files(path: &Path, contents: &Contents) -> Vec<PathBuf> {
    let Ok(access) = access(path, contents) else {
        return Vec::new();
    };
    let files = access.key_sources().filter_map(|source| match source {
        KeySource::File(file) => Some(PathBuf::from(file)),
        KeySource::Url { .. } => None,
    });
    files.collect()
}

fn access(path: &Path, contents: &Contents) -> Result<Access, String> {
    let shown = path.display();
    let text =
        std::str::from_utf8(contents.of(path)).map_err(|error| format!("{shown} is no text: {error}"))?;
    Policy::parse(text).map(Access::new).map_err(|violations| {
        let lines = violations.iter().map(|violation| format!("\n  {violation}"));
        format!("{shown} is refused:{}", lines.collect::<String>())
    })
}

fn parse(path: &Path, contents: &Contents) -> Result<Access, String> {
    let access = access(path, contents)?;
    let mut keys = Vec::new();
    for source in access.key_sources() {
        match source {
            KeySource::File(file) => {
                let set = KeySet::parse(contents.of(Path::new(file)));
                let set = set.map_err(|error| format!("the set of keys {file} {error}"))?;
                keys.push((source.clone(), Arc::new(set)));
            }
            KeySource::Url { .. } => escapement_keys::check(source)?,
        }
    }
    Ok(access.with_keys(keys))
}
