//! The checkout that these tests belong to. Changes nothing in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests lie one folder below the root")
}

/// Returns every file of the checkout, relative to its root, sorted: what git knows or would add.
/// Where git cannot say, every file but those in `.git` and in `target`.
pub fn files() -> Vec<PathBuf> {
    let mut files = listed_by_git().unwrap_or_else(|| {
        let mut found = Vec::new();
        walk(root(), &mut found);
        found
    });
    // git still lists a file that was deleted and not committed.
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    files
}

fn listed_by_git() -> Option<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let files: Vec<_> = names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect();
    (output.status.success() && !files.is_empty()).then_some(files)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder {
            found.extend(path.strip_prefix(root()).map(Path::to_owned));
        } else if !FOLDERS_LEFT_OUT.iter().any(|left_out| name == *left_out) {
            walk(&path, found);
        }
    }
}

const FOLDERS_LEFT_OUT: [&str; 2] = [".git", "target"];

#[cfg(test)]
mod tests {
    use super::{files, root, walk};
    use std::path::Path;

    #[test]
    fn the_checkout_holds_this_file() {
        assert!(
            files()
                .iter()
                .any(|file| file == Path::new("tests/src/checkout.rs"))
        );
    }

    #[test]
    fn walking_finds_what_git_lists() {
        let mut walked = Vec::new();
        walk(root(), &mut walked);
        let missed: Vec<_> = files()
            .into_iter()
            .filter(|file| !walked.contains(file))
            .collect();
        assert!(missed.is_empty(), "not found by walking: {missed:?}");
    }
}
