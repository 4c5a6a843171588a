//! Surroundings, each as the shell sets them up before it becomes the program. Knows no program.

use std::path::Path;
use std::process::Command;

/// Surroundings of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// Ends with `exec` of the program; `$HERE` is a directory of the test's own.
    shell: &'static str,
}

impl Place {
    pub(crate) const fn new(name: &'static str, shell: &'static str) -> Self {
        Self { name, shell }
    }

    /// The program in these surroundings, still without arguments.
    pub(crate) fn command(&self, program: &Path, here: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", self.shell, "sh"])
            .arg(program)
            .env("HERE", here);
        command
    }
}

/// As a test runner has them.
pub(crate) const ORDINARY: Place = Place::new("ordinary", r#"exec "$@""#);

/// As a user who owns nothing; without root as the user who runs the tests.
/// The program is run by its descriptor, because that user may have no access to its directory.
pub(crate) const STRANGER: Place = Place::new(
    "another user",
    concat!(
        r#"exec 8<"$1"; shift; [ "$(id -u)" = 0 ] || exec /proc/self/fd/8 "$@"; "#,
        r#"exec setpriv --reuid=54321 --regid=54321 --clear-groups /proc/self/fd/8 "$@""#
    ),
);

/// Nothing can be said on stderr.
pub(crate) const SILENT: [Place; 5] = [
    Place::new("stderr closed", r#"exec "$@" 2>&-"#),
    Place::new("stderr on a full disk", r#"exec "$@" 2>/dev/full"#),
    Place::new(
        "stderr without a reader",
        concat!(
            r#"mkfifo "$HERE/p$$"; : <"$HERE/p$$" & exec 2>"$HERE/p$$"; wait; "#,
            r#"exec "$@""#
        ),
    ),
    // The pipe is full before the program starts, and the program itself holds its other end.
    Place::new(
        "stderr with a reader that does not read",
        concat!(
            r#"mkfifo "$HERE/p$$"; exec 9<>"$HERE/p$$"; "#,
            r#"dd if=/dev/zero of="$HERE/p$$" bs=4096 count=1024 oflag=nonblock 2>/dev/null; "#,
            r#"exec "$@" 2>"$HERE/p$$""#
        ),
    ),
    Place::new("all three closed", r#"exec "$@" <&- >&- 2>&-"#),
];

/// Everything else that is odd and must change nothing.
pub(crate) const ODD: [Place; 14] = [
    Place::new("stdin closed", r#"exec "$@" <&-"#),
    Place::new("stdout closed", r#"exec "$@" >&-"#),
    Place::new("stdout on a full disk", r#"exec "$@" >/dev/full"#),
    Place::new(
        "stdout without a reader",
        concat!(
            r#"mkfifo "$HERE/p$$"; : <"$HERE/p$$" & exec >"$HERE/p$$"; wait; "#,
            r#"exec "$@""#
        ),
    ),
    Place::new("no variables", r#"exec env -i "$@""#),
    Place::new(
        "no home, no place for temporary files",
        concat!(
            r#"unset HOME; TMPDIR=/nowhere SQLITE_TMPDIR=/nowhere "#,
            r#"exec "$@""#
        ),
    ),
    // Of `/tmp` only the directory of the test is left. Ordinary on a machine that allows no mounts or has the programs there.
    Place::new(
        "read-only temporary directory",
        concat!(
            r#"case "$1" in /tmp/*) exec "$@";; esac; case "$HERE" in /tmp/*) ;; *) exec "$@";; esac; "#,
            r#"unshare --map-root-user --mount true 2>/dev/null || exec "$@"; "#,
            r#"exec unshare --map-root-user --mount sh -e -c 'own=$(echo "$HERE" | cut -d/ -f1-3); "#,
            r#"exec 7<"$own"; mount -t tmpfs none /tmp; mkdir "$own"; mount -c --bind /proc/self/fd/7 "$own"; "#,
            r#"mount -o remount,ro /tmp; exec 7<&-; exec "$@"' sh "$@""#
        ),
    ),
    Place::new("unknown locale", r#"LC_ALL=xx_YY.KOI8-R LANG=nonsense exec "$@""#),
    Place::new("Turkish locale", r#"LC_ALL=tr_TR.UTF-8 exec "$@""#),
    Place::new("unknown time zone", r#"TZ=Nowhere/At:all exec "$@""#),
    Place::new("umask that takes everything", r#"umask 0777; exec "$@""#),
    Place::new(
        "working directory removed",
        concat!(
            r#"mkdir "$HERE/d$$"; cd "$HERE/d$$"; rmdir "$HERE/d$$"; "#,
            r#"exec "$@""#
        ),
    ),
    Place::new("few files", r#"ulimit -n 96; exec "$@""#),
    Place::new("hangups ignored, as nohup does", r#"trap '' HUP PIPE; exec "$@""#),
];
