//! Settings that a bare root takes over from this machine: sources of packages, certificates, and the toolchain. Changes nothing.

use super::said;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// This machine.
pub(crate) struct Machine {
    /// The release of Debian, say `bookworm`.
    pub(crate) release: String,
    /// Lines of a `sources.list`; the first is that of the release itself.
    pub(crate) sources: Vec<Package>,
    /// Lines of apt-get's configuration about fetching.
    pub(crate) apt: String,
    /// The folder of the toolchain.
    pub(crate) toolchain: PathBuf,
    /// Variables of registries, proxies and certificates.
    pub(crate) variables: Vec<(String, String)>,
}

/// A source of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) address: String,
    pub(crate) suite: String,
    component: String,
}

impl Machine {
    /// Looks at this machine.
    pub(crate) fn look() -> Result<Self> {
        let system = std::fs::read_to_string("/etc/os-release")?;
        let release = system
            .lines()
            .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let release = release
            .ok_or_else(|| Error::other("this is no Debian: /etc/os-release has no VERSION_CODENAME"))?;
        let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
        let mut targets = Command::new("apt-get");
        targets.args(["indextargets", "--format", format, "Created-By: Packages"]);
        let sources = sources(&said(&mut targets)?, release);
        if sources.first().is_none_or(|source| source.suite != release) {
            return Err(Error::other(format!("apt-get has no source of {release}")));
        }
        let configured = said(Command::new("apt-config").arg("dump"))?;
        let sysroot = said(Command::new("rustc").args(["--print", "sysroot"]))?;
        Ok(Self {
            release: release.to_owned(),
            sources,
            apt: of_fetching(&configured),
            toolchain: Path::new(sysroot.trim()).to_owned(),
            variables: std::env::vars().filter(|(name, _)| is_taken_over(name)).collect(),
        })
    }

    /// Returns the files that a root gets, each with its place there.
    pub(crate) fn files(&self) -> Vec<(PathBuf, PathBuf)> {
        let folder = |variable: &str, default: &str| {
            std::env::var_os(variable).map_or_else(|| PathBuf::from(default), PathBuf::from)
        };
        let home = folder("HOME", "/root");
        let cargo = folder("CARGO_HOME", &format!("{}/.cargo", home.display()));
        let mut files = vec![
            (
                cargo.join("config.toml"),
                PathBuf::from("root/.cargo/config.toml"),
            ),
            (
                home.join(".config/pip/pip.conf"),
                PathBuf::from("root/.config/pip/pip.conf"),
            ),
            (home.join(".config/go/env"), PathBuf::from("root/.config/go/env")),
        ];
        let here = |file: &str| (Path::new("/").join(file), PathBuf::from(file));
        files.extend(["etc/hosts", "etc/pip.conf", "etc/resolv.conf"].map(here));
        // Authorities that were added to those of Debian.
        if let Ok(added) = std::fs::read_dir(Path::new("/").join(AUTHORITIES)) {
            let names = added.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            files.extend(names.map(|name| here(&format!("{AUTHORITIES}/{name}"))));
        }
        files.retain(|(file, _)| file.is_file());
        files
    }
}

impl Package {
    /// Formats it as a line of a `sources.list`.
    pub(crate) fn line(&self) -> String {
        format!("deb {} {} {}\n", self.address, self.suite, self.component)
    }
}

/// Returns those of the release and of its updates, the release first.
fn sources(targets: &str, release: &str) -> Vec<Package> {
    let source = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [address, suite, component] if suite.starts_with(release) => Some(Package {
            address: address.to_owned(),
            suite: suite.to_owned(),
            component: component.to_owned(),
        }),
        _ => None,
    };
    let mut sources: Vec<Package> = targets.lines().filter_map(source).collect();
    sources.dedup();
    sources.sort_by_key(|source| source.suite != release);
    sources
}

/// Returns the lines about fetching, such as those of a proxy, of what `apt-config dump` says.
fn of_fetching(configured: &str) -> String {
    let lines = configured.lines();
    let lines = lines.filter(|line| line.starts_with("Acquire::") && !line.ends_with(" \"\";"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns true for variables of proxies, certificates and registries.
fn is_taken_over(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TERM",
    ];
    const BEGINS: [&str; 8] = [
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
        "GONO",
        "GOPR",
        "GOSUMDB",
        "PIP_",
    ];
    let is_proxy = name.to_ascii_lowercase().ends_with("_proxy");
    is_proxy || NAMES.contains(&name) || BEGINS.iter().any(|begin| name.starts_with(begin))
}

const AUTHORITIES: &str = "usr/local/share/ca-certificates";

#[cfg(test)]
mod tests {
    use super::{is_taken_over, of_fetching, sources};

    #[test]
    fn sources_of_others_are_left_and_the_release_comes_first() {
        let targets =
            "http://a/ one-updates main\nhttp://a/ one main\nhttp://b/ stable main\nhttp://b/ sdk-one main\n";
        let lines: Vec<String> = sources(targets, "one").iter().map(super::Package::line).collect();
        assert_eq!(
            lines,
            ["deb http://a/ one main\n", "deb http://a/ one-updates main\n"]
        );
    }

    #[test]
    fn what_is_about_fetching_is_taken_over_and_what_is_about_installing_is_not() {
        let configured = "APT::Architecture \"amd64\";\nAcquire::http \"\";\nAcquire::http::Proxy \"http://p\";\nDPkg::Post-Invoke \"\";\n";
        assert_eq!(of_fetching(configured), "Acquire::http::Proxy \"http://p\";\n");
        assert!(is_taken_over("https_proxy") && is_taken_over("PIP_INDEX_URL"));
        assert!(!is_taken_over("PATH") && !is_taken_over("RUSTFLAGS"));
    }
}
