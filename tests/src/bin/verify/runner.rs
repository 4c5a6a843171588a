//! Runner of test programs for cargo: prints the name of the suite, sets its PATH, and becomes the program.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The first argument of this program where cargo starts it.
pub(crate) const RUN: &str = "--run";

/// Prefix of the line with the name of a suite.
const MARK: &str = "==> suite ";

/// Returns cargo's setting by which it starts test programs through this one.
pub(crate) fn setting(this: &Path, path: &Path) -> String {
    // Quoted as TOML quotes.
    let [this, path] = [this, path].map(|path| format!("{:?}", path.display().to_string()));
    format!("target.'cfg(all())'.runner=[{this},{RUN:?},{path}]")
}

/// Becomes the program, by `PATH PROGRAM ARGUMENTS…`. Returns only if it cannot.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> String {
    let (Some(path), Some(program)) = (arguments.next(), arguments.next()) else {
        return "a PATH and a program are missing".to_owned();
    };
    if let Some(suite) = name(Path::new(&program)) {
        println!("{MARK}{suite}");
    }
    let fault = Command::new(&program).args(arguments).env("PATH", path).exec();
    format!("cannot run {}: {fault}", program.display())
}

/// Returns the name of the suite that a line announces.
pub(crate) fn announced(line: &str) -> Option<&str> {
    line.strip_prefix(MARK)
}

/// Returns `package target`, or `None` for an example of the documentation, which lies elsewhere.
fn name(program: &Path) -> Option<String> {
    if !program.parent()?.ends_with("deps") {
        return None;
    }
    let target = program.file_name()?.to_str()?.rsplit_once('-')?.0;
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let package = package.strip_prefix("escapement-").unwrap_or(&package);
    Some(format!("{package} {target}"))
}

#[cfg(test)]
mod tests {
    use super::{announced, name, setting};
    use std::path::Path;

    #[test]
    fn a_test_program_has_the_name_of_its_target_and_an_example_has_none() {
        let named = |program: &str| name(Path::new(program));
        let suite = named("/build/debug/deps/end_to_end-0123456789abcdef").unwrap();
        assert!(suite.ends_with(" end_to_end"), "{suite}");
        assert_eq!(named("/tmp/rustdoctest0123/rust_out"), None);
        assert_eq!(announced("==> suite tests end_to_end"), Some("tests end_to_end"));
        assert_eq!(announced("running 3 tests"), None);
    }

    #[test]
    fn a_path_with_spaces_and_quotes_is_one_path() {
        let setting = setting(Path::new("/a b/verify"), Path::new(r#"/a "b"/path"#));
        let runner = r#"["/a b/verify","--run","/a \"b\"/path"]"#;
        assert_eq!(setting, format!("target.'cfg(all())'.runner={runner}"));
    }
}
