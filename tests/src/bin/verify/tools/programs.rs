//! Table of every program that tests and the commands of pages start by its name, each with its source.
//!
//! A program that is missing here is missing to the tests on every machine, whatever else is installed there.

/// Source of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Package of Debian and of its children, also for programs that every such machine has.
    Debian(&'static str),
    /// Toolchain that builds the tests.
    Rust,
    /// Installed into the folder of tools by `cargo verify`, or on the PATH of the machine.
    Ours,
}

use Source::{Debian, Ours, Rust};

/// Programs by their source.
pub(crate) const PROGRAMS: &[(Source, &[&str])] = &[
    (Debian("bash"), &["bash"]),
    (Debian("binutils"), &["ar", "as", "ld", "objdump", "strip"]),
    (Debian("coreutils"), COREUTILS),
    (Debian("curl"), &["curl"]),
    (Debian("dash"), &["sh"]),
    (Debian("diffutils"), &["cmp", "diff"]),
    (Debian("dpkg"), &["dpkg", "dpkg-deb"]),
    (Debian("findutils"), &["find", "xargs"]),
    (Debian("gcc"), &["cc", "gcc"]),
    (Debian("git"), &["git"]),
    // grpcurl is written in it, and a client of the tests.
    (Debian("golang-go"), &["go"]),
    (Debian("grep"), &["grep"]),
    (Debian("gzip"), &["gzip"]),
    (Debian("iproute2"), &["ss"]),
    (Debian("jq"), &["jq"]),
    (Debian("mawk"), &["awk"]),
    (Debian("mount"), &["mount", "umount"]),
    (Debian("openssl"), &["openssl"]),
    (Debian("python3-venv"), &["python3"]),
    (Debian("sed"), &["sed"]),
    (Debian("systemd"), &["systemd-analyze", "systemd-sysusers"]),
    (Debian("tar"), &["tar"]),
    (
        Debian("util-linux"),
        &["findmnt", "nsenter", "prlimit", "setpriv", "unshare"],
    ),
    (Rust, &["cargo", "rustc", "rustdoc"]),
    (
        Ours,
        &[
            "grpcurl",
            "helm",
            "nats-server",
            "prometheus",
            "promtool",
            "valgrind",
        ],
    ),
];

const COREUTILS: &[&str] = &[
    "base64",
    "basename",
    "cat",
    "chmod",
    "chown",
    "chroot",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "dirname",
    "du",
    "echo",
    "env",
    "false",
    "fold",
    "head",
    "id",
    "install",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "printf",
    "pwd",
    "rm",
    "rmdir",
    "seq",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "uniq",
    "wc",
    "yes",
];
