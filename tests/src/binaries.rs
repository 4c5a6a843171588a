//! Where the programs under test are. Builds them once for each test process, with the profile that the test itself has.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::Fault;

/// The built programs.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The orchestrator.
    pub orchestrator: PathBuf,
    /// The stock worker.
    pub worker: PathBuf,
    /// The conformance kit for workers. Only `cargo test` and `launch` build it beside the others.
    pub conformance: PathBuf,
}

impl Binaries {
    /// Builds the programs, or finds them where `ESCAPEMENT_BINARIES` says that they are built already.
    ///
    /// The second call in a process answers at once.
    ///
    /// # Errors
    /// What cargo said, if it could not build.
    pub fn build() -> Result<Self, Fault> {
        static BUILT: OnceLock<Result<Binaries, String>> = OnceLock::new();
        BUILT
            .get_or_init(|| build().map_err(|fault| fault.to_string()))
            .clone()
            .map_err(Fault::from)
    }
}

fn build() -> Result<Binaries, Fault> {
    if let Some(folder) = std::env::var_os(BINARIES) {
        return find(Path::new(&folder));
    }
    let folder = folder_of(&std::env::current_exe()?)?;
    let target = folder.parent().ok_or("the target directory has a parent")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => return Err("the folder of this program has no name".into()),
    };
    // The same selection as `launch` and `cargo test --workspace`, so that no dependency is built twice.
    // Variables of this package would make build scripts of other crates run again.
    let of_package = std::env::vars_os().map(|(name, _)| name);
    let of_package = of_package.filter(|name| name.to_string_lossy().starts_with("CARGO_PKG_"));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    of_package.for_each(|name| {
        cargo.env_remove(name);
    });
    let output = cargo
        .args([
            "build",
            "--quiet",
            "--workspace",
            "--bins",
            "--profile",
            profile,
            "--target-dir",
        ])
        .arg(target)
        .current_dir(crate::checkout::root())
        .output()
        .map_err(|fault| format!("cannot run cargo: {fault}"))?;
    if !output.status.success() {
        return Err(format!("cargo cannot build:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    find(&folder)
}

/// Returns the folder with the programs, seen from a test program (`target/debug/deps/…`) or a program (`target/debug/…`).
fn folder_of(program: &Path) -> Result<PathBuf, Fault> {
    let folder = program.parent().ok_or("a program lies in a folder")?;
    let folder = if folder.ends_with("deps") {
        folder.parent().ok_or("deps lies in a folder")?
    } else {
        folder
    };
    Ok(folder.to_owned())
}

fn find(folder: &Path) -> Result<Binaries, Fault> {
    let program = |name: &str| {
        let path = folder.join(name);
        if path.is_file() {
            Ok(path)
        } else {
            Err(format!("there is no program {}", path.display()))
        }
    };
    Ok(Binaries {
        orchestrator: program("orchestrator")?,
        worker: program("worker")?,
        conformance: folder.join("conformance"),
    })
}

/// Names a folder with programs that are built already.
const BINARIES: &str = "ESCAPEMENT_BINARIES";

#[cfg(test)]
mod tests {
    use super::{find, folder_of};
    use std::path::Path;

    #[test]
    fn test_programs_and_programs_know_the_same_folder() {
        let folder = Path::new("/somewhere/target/debug");
        assert_eq!(folder_of(&folder.join("deps/tidy-0123")).unwrap(), folder);
        assert_eq!(folder_of(&folder.join("demo")).unwrap(), folder);
    }

    #[test]
    fn a_missing_program_is_named() {
        let fault = find(Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(fault, "there is no program /nowhere/orchestrator");
    }
}
