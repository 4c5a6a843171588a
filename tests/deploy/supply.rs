//! Where the parts come from, and what is handed out: cargo-deny on all crates, and the files of a release.

use escapement_tests::{PrivateDirectory, checkout, tool};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn deny(program: &Path, configuration: &Path) -> Output {
    Command::new(program)
        .args(["--locked", "--all-features", "--log-level", "error", "--config"])
        .arg(configuration)
        .args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
        .current_dir(checkout::root())
        .output()
        .unwrap()
}

#[test]
fn cargo_deny_finds_no_crate_that_must_not_be_there() {
    let Some(program) = tool("python/bin/cargo-deny", "`cargo verify` installs it") else {
        return;
    };
    let configuration = checkout::root().join(".deny.toml");
    let output = deny(&program, &configuration);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // It would notice.
    let directory = PrivateDirectory::new("deny").unwrap();
    let stricter = directory.join("deny.toml");
    let text = std::fs::read_to_string(configuration).unwrap();
    std::fs::write(&stricter, text.replace("\"serde_yaml\"", "\"serde_json\"")).unwrap();
    let output = deny(&program, &stricter);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("serde_json"), "{said}");
}

/// Packs programs that are at hand. That built ones are the same in every folder is shown by `deploy/release/compare`.
fn packed(programs: &Path, folder: &Path, key: &Path) {
    let output = Command::new(checkout::root().join("deploy/release/build"))
        .args([folder, programs])
        .env("SIGN_KEY", key)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn succeeds(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Fails if the provenance names another commit, or other bytes of any file than the checksums do.
fn says_where_it_comes_from(folder: &Path, sums: &str) {
    let said: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("provenance.json")).unwrap()).unwrap();
    let subjects = said["subject"].as_array().unwrap();
    assert_eq!(subjects.len(), sums.lines().count() - 1, "all but itself");
    for subject in subjects {
        let (digest, name) = (subject["digest"]["sha256"].as_str(), subject["name"].as_str());
        let line = format!("{}  {}", digest.unwrap(), name.unwrap());
        assert!(sums.lines().any(|said| said == line), "{line}");
    }
    let made = &said["predicate"]["buildDefinition"];
    let commit = succeeds(checkout::root(), "git", &["rev-parse", "HEAD"]);
    let source = &made["resolvedDependencies"][0]["digest"]["gitCommit"];
    assert_eq!(source, commit.trim_end());
    assert_eq!(made["externalParameters"]["programs"], "given");
}

#[test]
fn a_release_holds_what_is_needed_and_is_the_same_again() {
    let version = env!("CARGO_PKG_VERSION");
    let directory = PrivateDirectory::new("release").unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.join(name));
    let programs = directory.join("programs");
    std::fs::create_dir(&programs).unwrap();
    // Stand-ins, since packing the real ones takes a minute of a busy machine.
    for name in ["orchestrator", "worker"] {
        let program = programs.join(name);
        std::fs::write(&program, format!("#!/bin/sh\necho {name} {version}\n")).unwrap();
        std::fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    }
    let key = directory.join("release.pem").display().to_string();
    succeeds(
        directory.path(),
        "openssl",
        &["genpkey", "-algorithm", "ed25519", "-out", &key],
    );
    let public = ["pkey", "-in", &key, "-pubout", "-out", "release.pub"];
    succeeds(directory.path(), "openssl", &public);
    packed(&programs, &one, key.as_ref());
    packed(&programs, &other, key.as_ref());
    let sums = std::fs::read_to_string(one.join("SHA256SUMS")).unwrap();
    assert_eq!(sums, std::fs::read_to_string(other.join("SHA256SUMS")).unwrap());
    succeeds(
        &one,
        "sha256sum",
        &["--check", "--strict", "--quiet", "SHA256SUMS"],
    );
    let verify = ["-in", "SHA256SUMS", "-sigfile", "SHA256SUMS.sig"];
    let signer = [
        "pkeyutl",
        "-verify",
        "-rawin",
        "-pubin",
        "-inkey",
        "../release.pub",
    ];
    succeeds(&one, "openssl", &[&signer[..], &verify].concat());
    says_where_it_comes_from(&one, &sums);
    let files: Vec<&str> = sums
        .lines()
        .map(|line| line.split("  ").nth(1).unwrap())
        .collect();
    let file = |ending: &str| files.iter().find(|file| file.ends_with(ending)).unwrap();
    assert_eq!(*file(".tgz"), format!("escapement-chart-{version}.tgz"));

    if tool("dpkg-deb", "it is there on Debian").is_some() {
        let packages: Vec<&&str> = files.iter().filter(|file| file.ends_with(".deb")).collect();
        assert_eq!(packages.len(), 2, "{files:?}");
    }
    let archive = file(".tar.gz");
    succeeds(&one, "tar", &["--extract", "--file", archive]);
    let unpacked = one.join(archive.trim_end_matches(".tar.gz"));
    for program in ["orchestrator", "worker"] {
        let said = succeeds(&unpacked, &format!("./{program}"), &["--version"]);
        assert_eq!(said.trim_end(), format!("{program} {version}"));
    }
    for shipped in [
        "deploy/README.md",
        "deploy/systemd/sysusers.conf",
        "deploy/chart/monitoring/rules.yaml",
    ] {
        assert!(unpacked.join(shipped).is_file(), "{shipped}");
    }

    let bill: Value =
        serde_json::from_str(&std::fs::read_to_string(one.join(file(".cdx.json"))).unwrap()).unwrap();
    let parts = bill["components"].as_array().unwrap();
    let part = |name: &str| parts.iter().find(|part| part["name"] == name);
    assert_eq!(part("escapement-orchestrator").unwrap()["type"], "application");
    assert_eq!(part("rustls").unwrap()["hashes"][0]["alg"], "SHA-256");
    assert!(part("libsqlite3-sys").is_some());
    assert!(part("proptest").is_none(), "only tests need it");
    assert!(
        parts.iter().all(|part| part["licenses"].is_array()),
        "a part has no licence"
    );
}

/// A folder with a `cargo` that compiles nothing: its programs are scripts that say where they were built, unless that is mapped to
/// another name as the script of a release asks for. Everything else is done by the real one.
fn cargo_that_compiles_nothing(folder: &Path, maps: bool) {
    let real = tool("cargo", "it builds the tests")
        .unwrap()
        .display()
        .to_string();
    let built_at = if maps {
        "${RUSTFLAGS##*--remap-path-prefix=$PWD=}"
    } else {
        "$PWD"
    };
    let script = format!(
        r#"#!/bin/sh
set -eu
case "$1" in auditable) exit 1 ;; build) ;; *) exec '{real}' "$@" ;; esac
test "$CARGO_INCREMENTAL" = 0 && test -n "$SOURCE_DATE_EPOCH"
case "$RUSTFLAGS" in *"--remap-path-prefix=$PWD=/source "*) ;; *) exit 1 ;; esac
case "$CFLAGS" in *"-ffile-prefix-map=$PWD=/source "*) ;; *) exit 1 ;; esac
while test "$1" != --target-dir; do shift; done
mkdir -p "$2/release"
built_at="{built_at}"
for name in orchestrator worker; do
  printf '#!/bin/sh\necho "%s of %s"\n' "$name" "${{built_at%% *}}" >"$2/release/$name"
  chmod 755 "$2/release/$name"
done
"#
    );
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("cargo"), script).unwrap();
    std::fs::set_permissions(folder.join("cargo"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn two_builds_are_compared_to_the_end_and_a_difference_is_found() {
    let directory = PrivateDirectory::new("compared").unwrap();
    let compare = |maps: bool| {
        let folder = directory.join(if maps { "mapped" } else { "not-mapped" });
        cargo_that_compiles_nothing(&folder.join("bin"), maps);
        let path = std::env::var("PATH").unwrap();
        Command::new(checkout::root().join("deploy/release/compare"))
            .arg(&folder)
            .env("WITHOUT_AUDITABLE", "1")
            .env("PATH", format!("{}:{path}", folder.join("bin").display()))
            .output()
            .unwrap()
    };
    let equal = compare(true);
    let said = String::from_utf8_lossy(&equal.stdout);
    assert!(
        equal.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&equal.stderr)
    );
    assert!(said.contains(".tar.gz") && said.contains(".cdx.json"), "{said}");
    let different = compare(false);
    let said = String::from_utf8_lossy(&different.stdout);
    assert_eq!(different.status.code(), Some(1), "{said}");
    assert!(
        said.contains("release/orchestrator"),
        "the program is named: {said}"
    );
}
