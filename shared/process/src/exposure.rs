//! Files that other users of the machine could read or change. Looks at modes alone, and refuses nothing.

use rustix::process::{getegid, geteuid, getgroups};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that a program trusts, or that holds one of its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// Flag that names it, directly or through another file.
    pub flag: &'static str,
    /// Path of the file.
    pub path: PathBuf,
    /// True if it holds a secret: a key, a token, credentials.
    pub is_secret: bool,
}

/// Exposure of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// The flag.
    pub flag: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Possible access of others.
    pub how: &'static str,
}

impl Guarded {
    /// Creates an entry for a file with a secret.
    pub fn secret(flag: &'static str, path: impl Into<PathBuf>) -> Self {
        Self {
            flag,
            path: path.into(),
            is_secret: true,
        }
    }

    /// Creates an entry for a file that others may read but not change.
    pub fn rules(flag: &'static str, path: impl Into<PathBuf>) -> Self {
        Self {
            is_secret: false,
            ..Self::secret(flag, path)
        }
    }

    /// Returns the exposure of the file; `None` without one, or if the file cannot be checked, which its reader reports.
    pub fn exposed(&self) -> Option<Exposed> {
        let (reads, writes) = others(&self.path)?;
        let how = match (reads && self.is_secret, writes) {
            (_, true) => "can be changed by other users of this machine",
            (true, false) => "can be read by other users of this machine",
            (false, false) => return None,
        };
        Some(Exposed {
            flag: self.flag,
            path: self.path.clone(),
            how,
        })
    }
}

impl From<(&'static str, PathBuf, bool)> for Guarded {
    fn from((flag, path, is_secret): (&'static str, PathBuf, bool)) -> Self {
        Self {
            flag,
            path,
            is_secret,
        }
    }
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.flag, self.path.display(), self.how)
    }
}

/// Returns whether others can read and write a file. The group counts as others, unless the file is another user's and the process
/// has access by its group. Managers pass files to a service like this.
fn others(path: &Path) -> Option<(bool, bool)> {
    let found = std::fs::metadata(path).ok()?;
    let is_own_group = || {
        let mut own = getgroups().unwrap_or_default();
        own.push(getegid());
        own.iter().any(|group| group.as_raw() == found.gid())
    };
    let is_handed_out = found.uid() != geteuid().as_raw() && is_own_group();
    let of_group = if is_handed_out { 0 } else { found.mode() >> 3 };
    let bits = found.mode() | of_group;
    Some((bits & 0o4 != 0, bits & 0o2 != 0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::Guarded;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_must_not_be_read_and_nothing_must_be_changed_by_others() {
        let path = std::env::temp_dir().join(format!("escapement-exposure-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        let how = |is_secret: bool, mode: u32| {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let file = Guarded {
                is_secret,
                ..Guarded::rules("--flag", &path)
            };
            file.exposed()
                .map(|exposed| exposed.how.split(' ').nth(2).unwrap_or_default())
        };
        for (mode, secret, rules) in [
            (0o600, None, None),
            (0o640, Some("read"), None),
            (0o660, Some("changed"), Some("changed")),
            (0o604, Some("read"), None),
            (0o644, Some("read"), None),
            (0o602, Some("changed"), Some("changed")),
            (0o666, Some("changed"), Some("changed")),
        ] {
            assert_eq!((how(true, mode), how(false, mode)), (secret, rules), "{mode:o}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Guarded::secret("--flag", &path).exposed(), None);
    }
}
