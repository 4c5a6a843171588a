//! The Debian packages of a release: what they hold stands where their units look for it, and installing starts nothing.

use crate::units::values;
use escapement_tests::{PrivateDirectory, checkout, tool};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 2] = ["orchestrator", "worker"];

/// Builds the packages of stand-ins of the programs, since packing real ones takes long. `None` if a tool is missing, which is noted.
pub(crate) fn build(folder: &Path) -> Option<Vec<PathBuf>> {
    tool("dpkg-deb", "it is there on Debian")?;
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    for name in PROGRAMS {
        let program = programs.join(name);
        let help = format!("#!/bin/sh\necho 'The {name}.'\necho '  --flag  It'\"'\"'s \\ of use.'\n");
        std::fs::write(&program, help).unwrap();
        std::fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    }
    let script = checkout::root().join("deploy/release/debian");
    let output = Command::new(script)
        .args([folder, &programs])
        .arg(env!("CARGO_PKG_VERSION"))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut packages: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|end| end == "deb"))
        .collect();
    packages.sort();
    assert_eq!(packages.len(), 2);
    Some(packages)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Unpacks a package, its scripts too.
fn unpacked(package: &Path, folder: &Path) {
    run(Command::new("dpkg-deb")
        .arg("--raw-extract")
        .arg(package)
        .arg(folder));
}

#[test]
fn packages_hold_what_their_units_look_for() {
    let directory = PrivateDirectory::new("packages").unwrap();
    let Some(packages) = build(directory.path()) else {
        return;
    };
    for (name, package) in PROGRAMS.into_iter().zip(packages) {
        let root = directory.join(name);
        unpacked(&package, &root);
        let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
        let unit = read(&format!("usr/lib/systemd/system/escapement-{name}.service"));
        let program = format!("/usr/bin/escapement-{name}");
        assert_eq!(values(&unit, "ExecStart"), [program.as_str()]);
        let mode = std::fs::metadata(root.join(&program[1..]))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
        // Nothing else of the shipped unit is changed.
        let shipped = crate::units::unit(name).replace(&format!("/usr/local/bin/{name}"), &program);
        assert_eq!(unit, shipped.split_once('\n').unwrap().1);
        let user = values(&unit, "User")[0];
        let users = read(&format!("usr/lib/sysusers.d/escapement-{name}.conf"));
        assert!(
            users.starts_with(&format!("u {user} - ")) && users.lines().count() == 1,
            "{users}"
        );
        // Its settings are a file of the operator's, which an upgrade keeps.
        let settings = values(&unit, "EnvironmentFile")[0]
            .trim_start_matches('-')
            .to_owned();
        assert_eq!(read("DEBIAN/conffiles").trim_end(), settings);
        assert!(read(&settings[1..]).lines().all(|line| line.starts_with('#')));
        // Tokens may stand in it.
        let mode = std::fs::metadata(root.join(&settings[1..]))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{settings}");
        verified(&unit, &program, &root);
    }
}

/// Lets systemd look at a unit of a package, for whose program a stand-in lies in this root.
fn verified(unit: &str, program: &str, root: &Path) {
    let Some(analyze) = tool("systemd-analyze", "install Debian's package systemd") else {
        return;
    };
    let file = root.join("escapement-verified.service");
    let here = unit.replace(program, &format!("{}{program}", root.display()));
    std::fs::write(&file, here).unwrap();
    let output = Command::new(analyze).arg("verify").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("escapement"), "{said}");
}

#[test]
fn packages_start_and_remove_nothing_unasked_and_say_what_they_need() {
    let directory = PrivateDirectory::new("packages").unwrap();
    let Some(packages) = build(directory.path()) else {
        return;
    };
    for (name, package) in PROGRAMS.into_iter().zip(packages) {
        let root = directory.join(name);
        unpacked(&package, &root);
        for script in ["postinst", "prerm", "postrm"] {
            let text = std::fs::read_to_string(root.join("DEBIAN").join(script)).unwrap();
            run(Command::new("sh").arg("-n").arg(root.join("DEBIAN").join(script)));
            for word in ["start", "enable", "rm ", "userdel", "/var/lib"] {
                assert!(!text.contains(word), "{script} of {name}: {word}");
            }
            assert_eq!(text.contains("systemd-sysusers"), script == "postinst");
        }
        let field = |field: &str| run(Command::new("dpkg-deb").arg("--field").arg(&package).arg(field));
        assert_eq!(field("Package").trim_end(), format!("escapement-{name}"));
        assert_eq!(field("Version").trim_end(), env!("CARGO_PKG_VERSION"));
        let needed = field("Depends");
        for other in ["libc6", "libgcc-s1", "systemd"] {
            assert!(needed.contains(other), "{needed}");
        }
        let sums = root.join("DEBIAN/md5sums");
        run(Command::new("md5sum")
            .args(["--check", "--strict", "--quiet"])
            .arg(sums)
            .current_dir(&root));
        let page = root.join(format!("usr/share/man/man1/escapement-{name}.1.gz"));
        let page = run(Command::new("gzip").args(["--decompress", "--stdout"]).arg(page));
        assert!(page.contains("\\-\\-flag  It's \\\\ of use."), "{page}");
    }
}

#[test]
fn equal_programs_give_equal_packages() {
    let directory = PrivateDirectory::new("packages").unwrap();
    let [one, other] = ["one", "other"].map(|name| build(&directory.join(name)));
    let (Some(one), Some(other)) = (one, other) else {
        return;
    };
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one.file_name(), other.file_name());
        assert_eq!(std::fs::read(one).unwrap(), std::fs::read(other).unwrap());
    }
}
