//! Runs a command in a root as if it were the machine: with mounts and processes of its own, and nothing of this machine but its kernel,
//! its network and its toolchain.

use super::machine::Machine;
use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;

/// Folder of the clone in the root.
pub(crate) const CLONE: &str = "/root/clone";

/// Returns true if the command succeeds.
pub(crate) fn run(root: &Path, machine: &Machine, command: &[OsString]) -> Result<bool> {
    for folder in [TOOLCHAIN, CLONE] {
        std::fs::create_dir_all(root.join(folder.trim_start_matches('/')))?;
    }
    let mut unshare = Command::new("unshare");
    unshare
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
        ])
        .args(["/bin/sh", "-ec", ENTER, "enter"])
        .arg(root)
        .arg(&machine.toolchain)
        .args(command)
        .env_clear()
        .envs(machine.variables.iter().map(|(name, value)| (name, value)))
        .env(
            "PATH",
            format!("{TOOLCHAIN}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        )
        .env("HOME", "/root")
        .env("ESCAPEMENT_SKIP_NOTHING", "1");
    let status = unshare
        .status()
        .map_err(|fault| Error::other(format!("cannot run unshare: {fault}")))?;
    Ok(status.success())
}

/// Folder of the machine's toolchain in the root.
const TOOLCHAIN: &str = "/opt/rust";
/// Mounts, changes the root, and becomes the command. Chroot alone is not enough: a process in it cannot make a name space of users.
const ENTER: &str = r#"
root=$1 toolchain=$2; shift 2
mount --bind "$root" "$root"
mount --bind "$toolchain" "$root/opt/rust"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
cd "$root"
pivot_root . mnt
exec chroot . sh -ec 'umount -l /mnt; cd /root/clone; exec "$@"' inside "$@"
"#;
