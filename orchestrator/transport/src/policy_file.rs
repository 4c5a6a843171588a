//! The policy as a file that is reloaded, with the keys of its issuers, from files or fetched.

use crate::call_access::AccessRules;
use crate::reload::{Contents, Reload, Reloadable, Report, Witness};
use escapement_access::{Access, KeySet, KeySource, Policy};
use escapement_keys::Keys;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
        let text = Arc::new(PolicyText::new(path));
        let follow = {
            let text = Arc::clone(&text);
            move |contents: &Contents| text.key_files(contents)
        };
        let parse = move |contents: &Contents| text.with_keys(contents);
        let file = Reloadable::load_following("policy", vec![path.to_owned()], follow, parse)?;
        let keys = Keys::new(Arc::clone(&file.current().borrow()));
        Ok(Self { file, keys })
    }

    /// Returns the rules in force, and their replacements.
    pub fn rules(&self) -> AccessRules {
        AccessRules::with_keys(self.keys.clone())
    }

    /// Returns the client that fetches keys from the issuers, for as long as [`Keys::serve`] runs.
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
    fn files(&self) -> Vec<(&'static str, PathBuf, bool)> {
        let current = self.file.current();
        let access = current.borrow();
        let tokens = access.key_sources().filter_map(|source| match source {
            KeySource::Url { token_file, .. } => token_file.as_ref().map(PathBuf::from),
            KeySource::File(_) => None,
        });
        let tokens = tokens.map(|file| ("policy", file, true));
        // The keys of issuers are public.
        let files = self
            .file
            .files()
            .into_iter()
            .map(|(what, file, _)| (what, file, false));
        files.chain(tokens).collect()
    }

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

/// The text of the policy, which is parsed once for all its readers.
#[derive(Debug)]
struct PolicyText {
    path: PathBuf,
    last: Mutex<Option<Parsed>>,
}

/// Result of parsing a text. The error is for the operator.
#[derive(Clone, Debug)]
struct Parsed {
    sha256: [u8; 32],
    access: Result<Arc<Access>, String>,
}

impl PolicyText {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            last: Mutex::default(),
        }
    }

    /// Returns the rules of the text, without the keys.
    fn access(&self, contents: &Contents) -> Result<Arc<Access>, String> {
        let bytes = contents.of(&self.path);
        let sha256: [u8; 32] = Sha256::digest(bytes).into();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.take().filter(|last| last.sha256 == sha256);
        let known = known.unwrap_or_else(|| Parsed {
            sha256,
            access: access(&self.path, bytes).map(Arc::new),
        });
        last.insert(known).access.clone()
    }

    /// Returns the sets of keys in files that the policy names; none if it cannot be read, which is said elsewhere.
    fn key_files(&self, contents: &Contents) -> Vec<PathBuf> {
        let Ok(access) = self.access(contents) else {
            return Vec::new();
        };
        let files = access.key_sources().filter_map(|source| match source {
            KeySource::File(file) => Some(PathBuf::from(file)),
            KeySource::Url { .. } => None,
        });
        files.collect()
    }

    /// Returns the rules of the text, with the keys in files.
    fn with_keys(&self, contents: &Contents) -> Result<Access, String> {
        let access = self.access(contents)?;
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
}

fn access(path: &Path, bytes: &[u8]) -> Result<Access, String> {
    let shown = path.display();
    let text = std::str::from_utf8(bytes).map_err(|error| format!("{shown} is no text: {error}"))?;
    Policy::parse(text).map(Access::new).map_err(|violations| {
        let lines = violations.iter().map(|violation| format!("\n  {violation}"));
        format!("{shown} is refused:{}", lines.collect::<String>())
    })
}
