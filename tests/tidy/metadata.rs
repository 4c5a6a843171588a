//! What cargo says about the crates of the workspace and the tree below them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;

use escapement_tests::checkout;
use serde_json::Value;

/// One crate of the tree.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// With the version, for people.
    pub(crate) full_name: String,
    /// The SPDX expression, if it has one.
    pub(crate) licence: Option<String>,
    /// True for the crates of this workspace.
    pub(crate) is_ours: bool,
    /// Folder of a crate of ours, relative to the root.
    pub(crate) folder: String,
    /// Names of what it depends on directly, tests aside.
    pub(crate) dependencies: BTreeSet<String>,
    /// Its library, programs and tests.
    pub(crate) targets: Vec<Target>,
}

/// What cargo builds of a crate.
#[derive(Debug)]
pub(crate) struct Target {
    /// `lib`, `bin`, `test` or another.
    pub(crate) kind: String,
    /// Its first file, relative to the root.
    pub(crate) root: String,
    /// Whether cargo builds it once more with its unit tests.
    pub(crate) is_tested: bool,
    /// Whether cargo looks for examples in its documentation.
    pub(crate) has_examples: bool,
}

/// Every crate that is built for this machine, by its cargo id.
pub(crate) fn packages() -> &'static BTreeMap<String, Package> {
    static PACKAGES: LazyLock<BTreeMap<String, Package>> = LazyLock::new(read);
    &PACKAGES
}

/// The crates of this workspace, by name.
pub(crate) fn ours() -> BTreeMap<&'static str, &'static Package> {
    packages()
        .values()
        .filter(|package| package.is_ours)
        .map(|package| (package.name.as_str(), package))
        .collect()
}

/// Everything that a crate of ours depends on, directly or not, tests and build scripts aside.
pub(crate) fn closure(name: &str) -> BTreeSet<String> {
    let ours = ours();
    let mut reached = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(next) = open.pop() {
        let direct = ours
            .get(next.as_str())
            .map(|package| package.dependencies.clone())
            .unwrap_or_default();
        open.extend(
            direct
                .into_iter()
                .filter(|dependency| reached.insert(dependency.clone())),
        );
    }
    reached
}

fn read() -> BTreeMap<String, Package> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--all-features",
            "--filter-platform",
            &host(),
        ])
        .current_dir(checkout::root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    // `packages` lists the lock file; `resolve` has what is really built here.
    let built: BTreeSet<_> = list(&metadata["resolve"]["nodes"])
        .map(|node| node["id"].as_str().unwrap())
        .collect();
    let packages =
        list(&metadata["packages"]).filter(|package| built.contains(package["id"].as_str().unwrap()));
    packages
        .map(|package| (text(&package["id"]), package_from(package)))
        .collect()
}

fn package_from(package: &Value) -> Package {
    let manifest = text(&package["manifest_path"]);
    let folder = std::path::Path::new(&manifest).parent().unwrap();
    let inside = folder.strip_prefix(checkout::root()).ok();
    let normal = list(&package["dependencies"]).filter(|dependency| dependency["kind"].is_null());
    Package {
        name: text(&package["name"]),
        full_name: format!("{} {}", text(&package["name"]), text(&package["version"])),
        licence: package["license"].as_str().map(str::to_owned),
        is_ours: package["source"].is_null(),
        folder: inside
            .map(|folder| folder.display().to_string())
            .unwrap_or_default(),
        dependencies: normal.map(|dependency| text(&dependency["name"])).collect(),
        targets: list(&package["targets"]).map(target_from).collect(),
    }
}

fn target_from(target: &Value) -> Target {
    let root = text(&target["src_path"]);
    let inside = std::path::Path::new(&root).strip_prefix(checkout::root()).ok();
    Target {
        kind: text(&target["kind"][0]),
        root: inside.map(|root| root.display().to_string()).unwrap_or_default(),
        is_tested: target["test"].as_bool().unwrap(),
        has_examples: target["doctest"].as_bool().unwrap(),
    }
}

fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap()
        .to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
