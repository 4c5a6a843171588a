//! What cargo builds: every source, and for tests what has some. A library without unit tests would be built twice for none.

use crate::assert_none;
use crate::metadata::{Package, Target, ours};
use crate::source::{TextFile, rust_files};
use std::collections::BTreeSet;

#[test]
fn a_library_is_built_for_unit_tests_if_it_has_some() {
    let files = rust_files();
    let found: Vec<String> = libraries()
        .filter(|(package, library)| library.is_tested != has_in_source(&files, package, is_of_unit_tests))
        .map(|(package, _)| package.name.clone())
        .collect();
    assert_none(
        &found,
        "set `test` of [lib] to false if it has no unit tests, else leave it out",
    );
}

#[test]
fn a_library_is_searched_for_examples_if_it_has_some() {
    let files = rust_files();
    let found: Vec<String> = libraries()
        .filter(|(package, library)| library.has_examples != has_in_source(&files, package, is_of_example))
        .map(|(package, _)| package.name.clone())
        .collect();
    assert_none(
        &found,
        "set `doctest` of [lib] to false if its documentation has no examples, else leave it out",
    );
}

#[test]
fn a_program_that_is_not_built_for_unit_tests_has_none() {
    let files = rust_files();
    let programs = ours().into_values().flat_map(|package| &package.targets);
    let found: Vec<String> = programs
        .filter(|target| target.kind == "bin" && !target.is_tested)
        .filter(|target| {
            let root = files
                .iter()
                .find(|file| file.path.ends_with(&target.root))
                .unwrap();
            // What stands in modules of its own is out of sight here.
            let mut lines = root.text.lines();
            lines.any(|line| is_of_unit_tests(line) || module_of(line).is_some())
        })
        .map(|target| target.root.clone())
        .collect();
    assert_none(&found, "leave out `test = false`");
}

#[test]
fn every_source_is_a_part_of_something_that_is_built() {
    let files = rust_files();
    let roots: BTreeSet<&str> = ours()
        .into_values()
        .flat_map(|package| &package.targets)
        .map(|target| target.root.as_str())
        .collect();
    // Each module of a file, beside the folder in which its source lies: the file's own, or one of the file's name.
    let mut parts = BTreeSet::new();
    let mut paths = BTreeSet::new();
    for file in &files {
        let beside = file.path.parent().unwrap().to_path_buf();
        let below = beside.join(file.path.file_stem().unwrap());
        for line in file.text.lines() {
            if let Some(module) = module_of(line) {
                parts.extend([beside.join(module), below.join(module)]);
            }
            let path = line.trim().strip_prefix("#[path = \"");
            paths.extend(path.and_then(|path| path.strip_suffix("\"]")?.rsplit('/').next()));
        }
    }
    let found: Vec<String> = files
        .iter()
        .filter(|file| !roots.contains(file.path.to_str().unwrap()))
        .filter(|file| {
            let name = file.path.file_name().unwrap().to_str().unwrap();
            let place = match name {
                "mod.rs" => file.path.parent().unwrap().to_path_buf(),
                _ => file.path.with_extension(""),
            };
            !parts.contains(&place) && !paths.contains(name)
        })
        .map(|file| file.path.display().to_string())
        .collect();
    assert_none(&found, "name it by `mod`, or it is not compiled");
}

fn libraries() -> impl Iterator<Item = (&'static Package, &'static Target)> {
    let all = ours().into_values();
    all.filter_map(|package| {
        let library = package.targets.iter().find(|target| target.kind == "lib")?;
        Some((package, library))
    })
}

fn has_in_source(files: &[TextFile], package: &Package, is_it: impl Fn(&str) -> bool) -> bool {
    let source = format!("{}/src", package.folder);
    let own = files.iter().filter(|file| file.is_under(&[source.as_str()]));
    own.flat_map(|file| file.text.lines()).any(is_it)
}

fn is_of_unit_tests(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("#[cfg(test)]") || line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

/// The module that a line takes from a file of its own.
fn module_of(line: &str) -> Option<&str> {
    let name = line.trim().strip_suffix(';')?;
    let (before, name) = name.rsplit_once("mod ")?;
    (before.is_empty() || before.ends_with(' ')).then_some(name)
}

/// A fence in a comment that documents, or a page that does.
fn is_of_example(line: &str) -> bool {
    let comment = line.trim_start();
    if comment.contains("doc = include_str!") {
        return true;
    }
    let said = comment
        .strip_prefix("///")
        .or_else(|| comment.strip_prefix("//!"));
    said.is_some_and(|said| said.trim_start().starts_with("```"))
}
