//! The images, built from the real Dockerfile by buildah, without a daemon and without the network, and then run with nothing
//! writable but the store. The bases are stand-ins: glibc from Debian for the one, a script in the place of cargo, which hands
//! out the programs of the workspace, for the other.

use crate::sealed::Sealed;
use crate::stage::{LIMIT, get, metrics_address, serves_a_plan_and_a_run};
use escapement_tests::{Binaries, ChildProcess, Orchestrator, PrivateDirectory, checkout, skip, tool};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// buildah with a storage of its own.
struct Buildah {
    program: PathBuf,
    directory: PrivateDirectory,
}

impl Buildah {
    /// Has images of both stand-ins. `None` if a tool is missing, which is noted.
    fn new() -> Option<Self> {
        let program = tool("buildah-package/usr/bin/buildah", "`cargo verify` unpacks it")?;
        let busybox = tool("base-package/bin/busybox", "`cargo verify` unpacks it")?;
        if !rustix::process::geteuid().is_root() {
            skip("root, to mount what an image holds");
            return None;
        }
        let directory = PrivateDirectory::new("images").unwrap();
        let buildah = Self { program, directory };
        buildah.remember_libraries();
        let base = busybox.ancestors().nth(2).unwrap();
        buildah.image("base", base, PATH_OF_BASE);
        let builder = buildah.builder(&busybox);
        buildah.image("builder", &builder, "/bin");
        Some(buildah)
    }

    /// buildah starts itself again with an empty environment, so its libraries have to be where the loader looks by itself.
    fn remember_libraries(&self) {
        let libraries = self.package().join("usr/lib");
        let folders = std::fs::read_dir(libraries)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut ldconfig = Command::new("/sbin/ldconfig");
        ldconfig
            .arg("-C")
            .arg(self.directory.join("ld.so.cache"))
            .args(folders);
        assert!(ldconfig.status().unwrap().success());
    }

    /// What its package holds.
    fn package(&self) -> &Path {
        self.program.ancestors().nth(3).unwrap()
    }

    /// A folder with a shell, and with a cargo that remembers its arguments and hands out programs that are there.
    fn builder(&self, busybox: &Path) -> PathBuf {
        let folder = self.directory.join("builder");
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        std::fs::create_dir_all(folder.join("tmp")).unwrap();
        std::fs::copy(busybox, folder.join("bin/busybox")).unwrap();
        for name in ["sh", "mkdir", "cp"] {
            std::os::unix::fs::symlink("busybox", folder.join("bin").join(name)).unwrap();
        }
        let cargo = folder.join("bin/cargo");
        std::fs::write(&cargo, CARGO).unwrap();
        assert!(
            Command::new("chmod")
                .arg("+x")
                .arg(&cargo)
                .status()
                .unwrap()
                .success()
        );
        let binaries = Binaries::build().unwrap();
        for (program, name) in [
            (binaries.orchestrator, "orchestrator"),
            (binaries.worker, "worker"),
        ] {
            let to = folder.join(name);
            // Copies of them are made several times.
            let stripped = Command::new("strip")
                .arg("-g")
                .arg("-o")
                .arg(&to)
                .arg(&program)
                .status();
            if !stripped.is_ok_and(|status| status.success()) {
                std::fs::copy(program, to).unwrap();
            }
        }
        folder
    }

    /// An image of the files in a folder.
    fn image(&self, name: &str, folder: &Path, path: &str) {
        let file = self.directory.join(format!("{name}.file"));
        std::fs::write(&file, format!("FROM scratch\nCOPY . /\nENV PATH={path}\n")).unwrap();
        self.build(&file, folder, name, &[]);
    }

    fn build(&self, file: &Path, folder: &Path, name: &str, flags: &[&str]) {
        let policy = self.package().join("etc/containers/policy.json");
        let [file, folder, policy] = [file, folder, &policy].map(|path| path.display().to_string());
        let tag = format!("localhost/{name}");
        let mut arguments = vec![
            "bud",
            "--isolation",
            "chroot",
            "--format",
            "docker",
            "--pull-never",
        ];
        arguments.extend([
            "--signature-policy",
            &policy,
            "--quiet",
            "--file",
            &file,
            "--tag",
            &tag,
        ]);
        arguments.extend(flags);
        arguments.push(&folder);
        self.run(&arguments);
    }

    /// What it prints.
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-ec", OWN_LIBRARIES])
            .arg(self.directory.join("ld.so.cache"))
            .arg(&self.program)
            .arg("--root")
            .arg(self.directory.join("storage"))
            .arg("--runroot")
            .arg(self.directory.join("running"))
            .args(["--storage-driver", "vfs", "--registries-conf", "/dev/null"])
            .args(arguments)
            .env(
                "CONTAINERS_CONF",
                self.package().join("usr/share/containers/containers.conf"),
            )
            .env("TMPDIR", self.directory.path())
            .output()
            .unwrap();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {complained}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Builds a target of the real Dockerfile.
    fn target(&self, name: &str) -> Image {
        let file = checkout::root().join("deploy/Dockerfile");
        let mut flags = vec!["--target", name, "--build-arg", "REVISION=of-the-test"];
        flags.extend([
            "--build-arg",
            "BASE=localhost/base",
            "--build-arg",
            "BUILDER=localhost/builder",
        ]);
        self.build(&file, checkout::root(), name, &flags);
        let tag = format!("localhost/{name}");
        let told = self.run(&["inspect", "--type", "image", &tag]);
        let told: Value = serde_json::from_str(&told).unwrap();
        self.run(&["from", "--pull-never", "--name", name, &tag]);
        Image {
            config: told["Docker"]["config"].clone(),
            tree: PathBuf::from(self.run(&["mount", name]).trim_end()),
        }
    }
}

/// A built image.
struct Image {
    /// What it says of itself.
    config: Value,
    /// Its files.
    tree: PathBuf,
}

impl Image {
    /// What is in force of it, sealed off.
    fn sealed(&self) -> Sealed {
        let variables = self.config["Env"].as_array().unwrap().iter();
        let variables = variables.map(|variable| variable.as_str().unwrap().split_once('=').unwrap());
        Sealed {
            tree: self.tree.clone(),
            user: self.config["User"].as_str().unwrap().to_owned(),
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            writable: Vec::new(),
        }
    }

    /// Its entry point with these arguments.
    fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let entry = self.config["Entrypoint"].as_array().unwrap().iter();
        let entry = entry.map(|argument| argument.as_str().unwrap());
        entry
            .chain(arguments.iter().copied())
            .map(str::to_owned)
            .collect()
    }
}

#[test]
fn hadolint_finds_nothing_in_the_dockerfile() {
    let Some(hadolint) = tool("python/bin/hadolint", "`cargo verify` installs it") else {
        return;
    };
    let file = checkout::root().join("deploy/Dockerfile");
    let output = Command::new(hadolint)
        .args(["--no-color"])
        .arg(file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[tokio::test]
async fn images_of_the_real_dockerfile_serve_with_nothing_writable_but_the_store() {
    let Some(buildah) = Buildah::new() else { return };
    let [orchestrator, worker] = ["orchestrator", "worker"].map(|name| buildah.target(name));
    for (image, name) in [(&orchestrator, "orchestrator"), (&worker, "worker")] {
        assert_eq!(image.config["User"], "65532:65532");
        assert_eq!(
            image.config["Entrypoint"],
            json!([format!("/usr/local/bin/{name}")])
        );
        let labels = &image.config["Labels"];
        assert_eq!(
            labels["org.opencontainers.image.title"],
            format!("escapement-{name}")
        );
        assert_eq!(
            labels["org.opencontainers.image.version"],
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(labels["org.opencontainers.image.revision"], "of-the-test");
        let other = if name == "worker" {
            "orchestrator"
        } else {
            "worker"
        };
        assert!(image.tree.join("usr/local/bin").join(name).is_file());
        assert!(!image.tree.join("usr/local/bin").join(other).exists());
        assert!(!image.tree.join("source").exists(), "the sources are in it");
    }
    let config = &orchestrator.config;
    assert_eq!(config["ExposedPorts"], json!({ "7400/tcp": {}, "7401/tcp": {} }));
    assert_eq!(config["Volumes"], json!({ "/var/lib/escapement": {} }));
    assert_eq!(worker.config["ExposedPorts"], Value::Null);
    let store = std::fs::metadata(orchestrator.tree.join("var/lib/escapement")).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::uid(&store),
        65532,
        "an empty volume takes this owner"
    );

    refuses_to_serve_a_network_without_consent(&orchestrator, &buildah.directory);
    serve_a_plan(&orchestrator, &worker, &buildah.directory).await;
}

/// As the image stands it listens on all addresses, so it asks for TLS and a policy first.
fn refuses_to_serve_a_network_without_consent(image: &Image, directory: &PrivateDirectory) {
    let sealed = image
        .sealed()
        .with_writable(&directory.join("unused"), "/var/lib/escapement");
    let output = sealed.command(&image.arguments(&[])).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(
        said.contains("ESCAPEMENT_LISTEN") && said.contains("--tls-cert"),
        "{said}"
    );
}

async fn serve_a_plan(orchestrator: &Image, worker: &Image, directory: &PrivateDirectory) {
    let sealed = orchestrator
        .sealed()
        .with_writable(&directory.join("store"), "/var/lib/escapement");
    let free_ports = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
    let mut serving = sealed.command(&orchestrator.arguments(&free_ports));
    let log = directory.join("orchestrator.stderr");
    let process = ChildProcess::start("orchestrator", &mut serving, &log).unwrap();
    let served = Orchestrator::of(process).await.unwrap();
    let url = served.url();

    let mut working = worker
        .sealed()
        .command(&worker.arguments(&["--orchestrator", &url]));
    let log = directory.join("worker.stderr");
    let mut working = ChildProcess::start("worker", &mut working, &log).unwrap();
    working.announcement("connected", LIMIT).await.unwrap();
    serves_a_plan_and_a_run(served.channel()).await;
    assert!(directory.join("store/store.db").is_file());

    // The check of the image, as a container runtime makes it: the same tree, variables and user.
    let metrics = metrics_address(&served.process).await;
    assert_eq!(get(&metrics, "/readyz").await.unwrap().0, 200);
    let check = orchestrator.config["Healthcheck"]["Test"].as_array().unwrap();
    assert_eq!(check[0], "CMD");
    let check: Vec<String> = check[1..]
        .iter()
        .map(|argument| argument.as_str().unwrap().to_owned())
        .collect();
    let mut asking = sealed.clone();
    asking
        .environment
        .push(("ESCAPEMENT_METRICS_LISTEN".to_owned(), metrics));
    assert!(asking.command(&check).status().unwrap().success());

    assert_eq!(working.terminate(LIMIT).await.unwrap().code(), Some(0));
    served.stop().await.unwrap();
    let unhealthy = asking.command(&check).output().unwrap();
    assert_eq!(unhealthy.status.code(), Some(1), "nobody answers");
}

/// The one of the base that the Dockerfile names.
const PATH_OF_BASE: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Has the loader find the libraries of buildah, in this process and its children alone.
const OWN_LIBRARIES: &str = r#"mount --bind "$0" /etc/ld.so.cache; exec "$@""#;
/// A cargo for which everything is built. What it does not get must not be in the context of the build.
const CARGO: &str = r#"#!/bin/sh
set -e
[ "$*" = "build --locked --release --package escapement-orchestrator --package escapement-worker --bins" ]
[ -f Cargo.lock ] && [ -f tests/Cargo.toml ] && [ ! -e target ] && [ ! -e .git ]
mkdir -p target/release
cp /orchestrator /worker target/release/
"#;

#[test]
fn a_builder_gets_what_is_listed_and_nothing_else() {
    let read = |file: &str| std::fs::read_to_string(checkout::root().join(file)).unwrap();
    let file = read("deploy/Dockerfile");
    let build = file.split("\nFROM ").nth(1).unwrap();
    let copied: Vec<&str> = build
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .flat_map(|line| line.split_whitespace().rev().skip(1))
        .collect();
    let ignored = read(".dockerignore");
    let mut rules = ignored.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rules.next(), Some("*"), "all is left out but what follows");
    let let_in: Vec<&str> = rules.filter_map(|rule| rule.strip_prefix("!/")).collect();
    assert!(!copied.is_empty() && !copied.contains(&"."), "{copied:?}");
    for path in copied.iter().chain(&let_in) {
        assert!(checkout::root().join(path).exists(), "{path}");
        assert!(!path.starts_with("deploy"), "recipes put keys there: {path}");
    }
    let (mut copied, mut let_in) = (copied, let_in);
    copied.sort_unstable();
    let_in.sort_unstable();
    assert_eq!(copied, let_in, "nothing is sent in vain");
    assert!(ignored.lines().any(|line| line == "**/*.key"));
}
