//! A program in a tree of files of its own, of which nothing is writable but what is said to be: what a container is, without
//! what isolates its network and its processes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How a program is sealed off.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    /// What it sees as the root.
    pub(crate) tree: PathBuf,
    /// `UID:GID`, in numbers.
    pub(crate) user: String,
    /// The whole of its environment, and it holds a `PATH`.
    pub(crate) environment: Vec<(String, String)>,
    /// Folders of the machine and where in the tree they are writable, in its absolute paths.
    pub(crate) writable: Vec<(PathBuf, String)>,
}

impl Sealed {
    /// Adds a folder that is writable. It belongs to the program's user afterwards.
    pub(crate) fn with_writable(mut self, folder: &Path, inside: &str) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let owner = Command::new("chown").arg(&self.user).arg(folder).status();
        assert!(owner.unwrap().success());
        self.writable.push((folder.to_owned(), inside.to_owned()));
        self
    }

    /// The program with its arguments, by its path in the tree. Its process is the one that is spawned.
    pub(crate) fn command(&self, arguments: &[String]) -> Command {
        for folder in ["proc", "dev", "tmp"] {
            std::fs::create_dir_all(self.tree.join(folder)).unwrap();
        }
        let mut command = Command::new("/usr/bin/unshare");
        command
            .env_clear()
            .envs(self.environment.iter().cloned())
            .args(["--mount", "--propagation", "private", "/bin/sh", "-ec", SEAL])
            .arg("seal")
            .arg(&self.tree)
            .arg(&self.user)
            .arg(self.writable.len().to_string());
        for (folder, inside) in &self.writable {
            command.arg(folder).arg(inside);
        }
        command.args(arguments);
        command
    }
}

/// Mounts, then becomes the program. The order of the tree's mounts: all read-only first, then what is not.
const SEAL: &str = r#"
tree=$1 user=$2 n=$3; shift 3
mount --bind "$tree" "$tree"
mount -o remount,bind,ro "$tree"
while [ "$n" -gt 0 ]; do mount --bind "$1" "$tree$2"; shift 2; n=$((n - 1)); done
mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
mount --rbind /proc "$tree/proc"
mount -t tmpfs tmpfs "$tree/dev"
for device in null urandom; do : >"$tree/dev/$device"; mount --bind "/dev/$device" "$tree/dev/$device"; done
mount -o remount,ro "$tree/dev"
exec chroot --userspec="$user" --groups= "$tree" "$@"
"#;
