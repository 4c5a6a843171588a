//! Libraries in C that stand between a program and the system, loaded with `LD_PRELOAD`.

use std::path::Path;
use std::process::Command;

use crate::Fault;

/// Compiles a file of this folder. The library appears at once and whole, since another process may load it.
pub(crate) fn compile(source: &str, library: &Path) -> Result<(), Fault> {
    let fresh = library.with_extension(format!("{}.so", std::process::id()));
    let path = crate::checkout::root().join("tests/src").join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o"])
        .args([&fresh, &path])
        .output()
        .map_err(|fault| format!("cannot run {} to build {source}: {fault}", compiler.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{source} does not compile:\n{said}").into());
    }
    Ok(std::fs::rename(fresh, library)?)
}
