//! Programs that a test needs and that may be missing. Installs nothing: `cargo verify` does.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Finds a program in `target/tools` or on the PATH.
///
/// Without it the answer is `None`, the reason stands on stderr and in the list that `cargo verify` counts,
/// and the test should return. Where `ESCAPEMENT_SKIP_NOTHING` is set, a missing program fails the test instead.
///
/// # Panics
/// If nothing may be skipped and the program is missing.
pub fn tool(name: &str, install: &str) -> Option<PathBuf> {
    if let Some(found) = find(name, tools_path()) {
        return Some(found);
    }
    skip(&format!("{name}; {install}"));
    None
}

/// Returns the folders in which [`tool`] looks, as the PATH of a shell that runs the commands of a page.
pub fn tools_path() -> Vec<PathBuf> {
    let own = crate::checkout::root().join("target/tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os(TOOLS).map(PathBuf::from);
    let folders = named.into_iter().chain([own]);
    folders.chain(std::env::split_paths(&path)).collect()
}

/// Notes that the test that runs needs what this machine does not have, and should return.
///
/// # Panics
/// If nothing may be skipped.
pub fn skip(what: &str) {
    let current = std::thread::current();
    let test = current.name().unwrap_or("a test");
    let why = format!("SKIPPED: {test} needs {what}");
    assert!(std::env::var_os(SKIP_NOTHING).is_none(), "{why}");
    eprintln!("{why}");
    if let Some(list) = std::env::var_os(SKIPPED_LIST) {
        note(Path::new(&list), &why);
    }
}

fn find(name: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    folders
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn note(list: &Path, why: &str) {
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(list)
        .expect("the list can be written");
    // One write: tests of one process run side by side.
    file.write_all(format!("{why}\n").as_bytes())
        .expect("the list can be written");
}

/// Names the folder into which `cargo verify` installed tools.
const TOOLS: &str = "ESCAPEMENT_TOOLS";
/// Set where a missing tool is a failure.
const SKIP_NOTHING: &str = "ESCAPEMENT_SKIP_NOTHING";
/// Names the file that lists the skipped tests of one `cargo verify`.
const SKIPPED_LIST: &str = "ESCAPEMENT_SKIPPED_LIST";

#[cfg(test)]
mod tests {
    use super::{find, note};
    use crate::PrivateDirectory;

    #[test]
    fn the_first_folder_that_has_the_tool_wins() {
        let directory = PrivateDirectory::new("unit").unwrap();
        for folder in ["two", "three"] {
            std::fs::create_dir(directory.join(folder)).unwrap();
            std::fs::write(directory.join(folder).join("saw"), "").unwrap();
        }
        let folders = ["one", "two", "three"].map(|folder| directory.join(folder));
        assert_eq!(find("saw", folders.clone()), Some(directory.join("two/saw")));
        assert_eq!(find("hammer", folders), None);
    }

    #[test]
    fn each_skipped_test_is_one_line_of_the_list() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let list = directory.join("skipped");
        note(&list, "SKIPPED: one");
        note(&list, "SKIPPED: two");
        assert_eq!(
            std::fs::read_to_string(&list).unwrap(),
            "SKIPPED: one\nSKIPPED: two\n"
        );
    }
}
