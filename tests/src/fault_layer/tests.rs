//! The layer under a shell that writes files.

use super::{Action, FaultLayer, library};
use crate::PrivateDirectory;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Runs a shell under the layer, in the directory whose files count.
fn shell(directory: &PrivateDirectory, script: &str) -> Output {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .current_dir(directory.join("files"))
        .env("ESCAPEMENT_FAULT_LAYER", directory.join("control"))
        .env("LD_PRELOAD", library().unwrap());
    command.output().unwrap()
}

fn layer(directory: &PrivateDirectory) -> FaultLayer {
    std::fs::create_dir(directory.join("files")).unwrap();
    let layer = FaultLayer::new(&directory.join("control"), &directory.join("files")).unwrap();
    layer.phase("shell").unwrap();
    layer
}

#[test]
fn calls_are_numbered_in_each_phase_and_files_elsewhere_do_not_count() {
    let directory = PrivateDirectory::new("unit").unwrap();
    let layer = layer(&directory);
    let control = directory.join("control");
    let (outside, phase) = (control.join("outside"), control.join("phase"));
    let script = format!(
        "mkdir one; : > first; : > {}; printf next > {}; : > two",
        outside.display(),
        phase.display()
    );
    let output = shell(&directory, &script);
    assert!(output.status.success(), "{output:?}");
    let calls = layer.trace().unwrap();
    let told: Vec<_> = calls
        .iter()
        .map(|call| {
            (
                call.phase.as_str(),
                call.ordinal,
                call.kind.as_str(),
                call.file.as_str(),
            )
        })
        .collect();
    // `mkdir` is a process of its own, so the shell counts from 1 again.
    assert_eq!(
        told,
        [
            ("shell", 1, "mkdir", "one"),
            ("shell", 1, "create", "first"),
            ("next", 1, "create", "two")
        ]
    );
}

#[test]
fn a_process_is_killed_before_or_after_the_call_that_is_named() {
    for (action, is_made) in [(Action::KillBefore, false), (Action::KillAfter, true)] {
        let directory = PrivateDirectory::new("unit").unwrap();
        let layer = layer(&directory);
        layer.arm("shell", 2, action).unwrap();
        let output = shell(&directory, ": > one; : > two; : > three");
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        assert!(directory.join("files/one").exists());
        assert_eq!(directory.join("files/two").exists(), is_made, "{action}");
        assert!(!directory.join("files/three").exists());
    }
}

#[test]
fn calls_to_other_files_do_not_change_which_call_is_armed() {
    let directory = PrivateDirectory::new("unit").unwrap();
    let layer = layer(&directory);
    shell(&directory, ": > one; : > two; : > one; : > one");
    let trace = layer.trace().unwrap();
    let second = trace.iter().find(|call| call.kind == "truncate" && call.nth == 2);
    let second = second.unwrap_or_else(|| panic!("{trace:?}"));
    assert_eq!((second.file.as_str(), second.ordinal), ("one", 4));
    std::fs::remove_file(directory.join("files/one")).unwrap();
    layer.arm_at(second, Action::KillAfter).unwrap();
    let output = shell(&directory, ": > one; : > one; : > one; : > three");
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    let last = layer.trace().unwrap().pop().unwrap();
    assert!(last.is_same(second) && last.ordinal == 3, "{last}");
}

#[test]
fn a_call_fails_once_or_from_then_on() {
    for on in [false, true] {
        let directory = PrivateDirectory::new("unit").unwrap();
        let layer = layer(&directory);
        let arm = if on { FaultLayer::arm_from } else { FaultLayer::arm };
        arm(&layer, "shell", 3, Action::Io).unwrap();
        shell(&directory, "for name in one two four five; do true > $name; done");
        let exists = |name: &str| directory.join(format!("files/{name}")).exists();
        assert!(exists("one") && exists("two") && !exists("four"));
        assert_eq!(exists("five"), !on);
    }
}

#[test]
fn a_full_disk_lets_nothing_grow_and_what_is_there_be_written() {
    let directory = PrivateDirectory::new("unit").unwrap();
    let layer = layer(&directory);
    std::fs::write(directory.join("files/there"), "12345678").unwrap();
    layer.set_full(true).unwrap();
    let same = "printf abcd 1<> there";
    assert!(shell(&directory, same).status.success());
    assert!(!shell(&directory, ": > fresh").status.success());
    assert_eq!(std::fs::read(directory.join("files/there")).unwrap(), b"abcd5678");
    layer.set_full(false).unwrap();
    assert!(shell(&directory, ": > fresh").status.success());
}
