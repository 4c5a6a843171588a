//! Directories and files that cannot be used: refused with 73 and the path, by every program that is given one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use escapement_tests::{Binaries, skip};

use crate::place::{ORDINARY, Place, STRANGER};
use crate::stage::{Stage, folder};

/// Everything below is read-only, without a change that anybody else sees.
const READ_ONLY: Place = Place::new(
    "read-only file system",
    concat!(
        r#"exec unshare --map-root-user --mount sh -c 'mount --bind "$HERE" "$HERE" && "#,
        r#"mount -o remount,bind,ro "$HERE" && exec "$@"' sh "$@""#
    ),
);

fn run(place: &Place, here: &Path, arguments: &[&str]) -> Output {
    let mut command = place.command(&Binaries::build().unwrap().orchestrator, here);
    command.args(arguments).current_dir(here).stdin(Stdio::null());
    command.output().unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Exit code 73, and a sentence that names the path and does not blame the disk.
fn expect_refused(place: &Place, here: &Path, arguments: &[&str], named: &str) {
    let output = run(place, here, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(73),
        "{}: {arguments:?}: {said}",
        place.name
    );
    assert!(said.contains(named), "{}: {arguments:?}: {said}", place.name);
    assert!(
        !said.contains("panicked"),
        "{}: {arguments:?}: {said}",
        place.name
    );
}

/// A store with one execution, a record and a backup of it, in a directory that everybody may look into.
async fn stage_with_store() -> Stage {
    let mut stage = Stage::new();
    let orchestrator = stage.serve(&ORDINARY, &[]).await;
    stage.execute(&orchestrator).await;
    orchestrator.stop().await.unwrap();
    let here = stage.directory.path();
    let made = run(
        &ORDINARY,
        here,
        &["backup", "--store-path", "store", "--to", "backup"],
    );
    assert!(made.status.success());
    set_mode(&here.join("backup"), 0o644);
    set_mode(here, 0o755);
    stage
}

fn serve(store: &str) -> [&str; 4] {
    ["--listen", "127.0.0.1:0", "--store-path", store]
}

#[tokio::test]
async fn what_another_user_owns_is_refused_and_left_as_it_is() {
    let stage = stage_with_store().await;
    let here = stage.directory.path();
    let closed = folder(here, "closed");
    set_mode(&closed, 0o555);
    let none = folder(here, "none");
    set_mode(&none, 0o000);
    let id = stage.told[0].0.as_str();
    let refused: [(&[&str], &str); 9] = [
        (&serve("store"), "store"),
        (&serve("new"), "new"),
        (&serve("closed/new"), "closed/new"),
        (&serve("none"), "none"),
        (&serve("none/new"), "none/new"),
        (&["check", "--store-path", "none"], "none"),
        (&["backup", "--store-path", "none", "--to", "copy"], "none"),
        (
            &[
                "export",
                "--store-path",
                "none",
                "--execution-id",
                id,
                "--to",
                "record",
            ],
            "none",
        ),
        (
            &["restore", "--store-path", "closed/new", "--from", "backup"],
            "closed/new",
        ),
    ];
    for (arguments, named) in refused {
        expect_refused(&STRANGER, here, arguments, named);
    }
    // Written to in no way: its owner serves on.
    let orchestrator = stage.serve(&ORDINARY, &[]).await;
    stage.expect_kept(&orchestrator).await;
    set_mode(&none, 0o755);
}

#[tokio::test]
async fn a_read_only_file_system_can_be_looked_at_and_not_be_served_from() {
    let stage = stage_with_store().await;
    let here = stage.directory.path();
    let probe = READ_ONLY.command(Path::new("/bin/true"), here).output().unwrap();
    if !probe.status.success() {
        skip("a mount name space of its own");
        return;
    }
    expect_refused(&READ_ONLY, here, &serve("store"), "store");
    expect_refused(&READ_ONLY, here, &serve("new"), "new");
    expect_refused(
        &READ_ONLY,
        here,
        &["backup", "--store-path", "store", "--to", "copy"],
        "copy",
    );
    expect_refused(
        &READ_ONLY,
        here,
        &["restore", "--store-path", "new", "--from", "backup"],
        "new",
    );
    for _ in 0..2 {
        let checked = run(&READ_ONLY, here, &["check", "--store-path", "store"]);
        let said = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.code(), Some(0), "{said}");
    }
}
