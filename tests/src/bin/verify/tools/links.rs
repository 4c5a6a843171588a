//! Folder that is the whole PATH of the tests, with a link to each program that the table declares. Installs nothing.

use super::debian;
use super::programs::{PROGRAMS, Source};
use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read, Result};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the folder anew, and returns a line for each program that is not on this machine.
pub(super) fn make(folder: &Path, tools: &Path) -> Result<Vec<String>> {
    match std::fs::remove_dir_all(folder) {
        Err(fault) if fault.kind() != ErrorKind::NotFound => return Err(fault),
        Ok(()) | Err(_) => std::fs::create_dir_all(folder)?,
    }
    let rust = toolchain();
    let mut missing = Vec::new();
    for (source, programs) in PROGRAMS {
        for program in *programs {
            match place(*source, program, tools, rust.as_deref()) {
                Some(found) => link(&found, &folder.join(program))?,
                None => missing.push(format!("{program}, which tests start")),
            }
        }
    }
    Ok(missing)
}

/// Makes a link to a program. A script may look for its other half by its own path, so that it is started by that.
fn link(program: &Path, link: &Path) -> Result<()> {
    let mut begin = [0; 2];
    let is_script = File::open(program)?.read_exact(&mut begin).is_ok() && begin == *b"#!";
    if !is_script {
        return symlink(program, link);
    }
    std::fs::write(link, format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display()))?;
    std::fs::set_permissions(link, Permissions::from_mode(0o755))
}

fn place(source: Source, program: &str, tools: &Path, rust: Option<&Path>) -> Option<PathBuf> {
    let in_folder = |folder: &Path| Some(folder.join(program)).filter(|program| program.is_file());
    match source {
        // The one on the PATH may be a script of a manager of versions, which needs a PATH of its own.
        Source::Debian(_) if program == "python3" => {
            let real = tools.join("python/bin/python3").canonicalize().ok();
            real.or_else(|| debian::find(program))
        }
        Source::Debian(_) => debian::find(program),
        Source::Rust => rust.and_then(in_folder).or_else(|| debian::find(program)),
        Source::Ours => in_folder(tools).or_else(|| debian::find(program)),
    }
}

/// Returns the toolchain's own programs. Those of rustup would put folders of the user in front of the PATH.
fn toolchain() -> Option<PathBuf> {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(asked.stdout).ok()?;
    Some(Path::new(sysroot.trim()).join("bin"))
}

#[cfg(test)]
mod tests {
    use super::link;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn a_script_knows_its_own_path_and_a_program_its_arguments() {
        let folder = std::env::temp_dir().join(format!("escapement-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("path")).unwrap();
        let script = folder.join("script");
        std::fs::write(&script, "#!/bin/sh\necho \"$0 $1\"\n").unwrap();
        std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let said = |name: &str, program: &std::path::Path| {
            let at = folder.join("path").join(name);
            link(program, &at).unwrap();
            let output = Command::new(at).arg("one").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let of_script = said("script", &script);
        let of_program = said("echo", std::path::Path::new("/bin/echo"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(of_script, format!("{} one\n", script.display()));
        assert_eq!(of_program, "one\n");
    }
}
