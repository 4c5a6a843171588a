//! No import circles: in each folder, modules with everything below them can be put in an order in which each uses earlier ones only.
//! A module and those below it may use each other. Unit tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use escapement_tests::checkout;

use crate::assert_none;
use crate::source::{TextFile, is_word, rust_files};

/// Circles that are still there, one a line. The list only gets shorter.
const KNOWN: &str = "tests/tidy/circles.txt";

/// `["grpc", "session"]` for `src/grpc/session.rs`; empty for the root of a crate.
type Module = Vec<String>;

#[test]
fn no_modules_of_a_folder_import_each_other_in_a_circle() {
    let files = rust_files();
    let mut found = BTreeSet::new();
    for folder in sources(&files) {
        let circles = circles(&modules(&folder, &files));
        found.extend(circles.into_iter().map(|circle| format!("{folder}: {circle}")));
    }
    let path = checkout::root().join(KNOWN);
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        let left = found.intersection(&known).map(|line| format!("{line}\n"));
        std::fs::write(&path, left.collect::<String>()).unwrap();
        return;
    }
    let new: Vec<String> = found.difference(&known).cloned().collect();
    assert_none(&new, "move what both need into a module below both");
    let gone: Vec<String> = known.difference(&found).cloned().collect();
    assert_none(&gone, "they are no longer there: delete them from circles.txt");
}

/// The folder `src` of every crate.
fn sources(files: &[TextFile]) -> BTreeSet<String> {
    let folders = files.iter().filter_map(|file| {
        let path = file.path.to_str()?;
        let end = path.find("/src/")? + "/src".len();
        Some(path[..end].to_owned())
    });
    folders.collect()
}

/// The code of each module, without its tests.
fn modules(folder: &str, files: &[TextFile]) -> BTreeMap<Module, String> {
    let of_folder = files
        .iter()
        .filter(|file| file.is_under(&[folder]) && !file.is_test());
    of_folder
        .map(|file| (module(file.path.strip_prefix(folder).unwrap()), file.code(false)))
        .collect()
}

fn module(path: &Path) -> Module {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_str().unwrap().to_owned());
    parts.filter(|part| part != "lib").collect()
}

/// One line for each pair of siblings that reach each other.
fn circles(modules: &BTreeMap<Module, String>) -> Vec<String> {
    let mut uses: BTreeMap<&[String], BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for (from, code) in modules {
        for path in paths(code) {
            let Some(to) = target(from, &path, modules) else {
                continue;
            };
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if common < from.len() && common < to.len() {
                let siblings = uses.entry(&from[..common]).or_default();
                siblings.entry(&from[common]).or_default().insert(&to[common]);
            }
        }
    }
    let mut found = Vec::new();
    for (folder, uses) in &uses {
        for (one, direct) in uses {
            for other in direct {
                if reaches(uses, other, one) {
                    found.push(format!("{} uses {other}, which leads back", within(folder, one)));
                }
            }
        }
    }
    found
}

fn within(folder: &[String], module: &str) -> String {
    let parts = folder.iter().map(String::as_str).chain([module]);
    parts.collect::<Vec<_>>().join("::")
}

fn reaches(uses: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(one) = open.pop() {
        for next in uses.get(one).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen.contains(to)
}

/// The deepest module that a path leads to; `None` for a path out of the crate.
fn target<'a>(from: &Module, path: &[String], modules: &'a BTreeMap<Module, String>) -> Option<&'a Module> {
    let n_supers = path.iter().take_while(|part| *part == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (&from[..], &path[1..]),
        "super" => (&from[..from.len().checked_sub(n_supers)?], &path[n_supers..]),
        first => {
            let child = [&from[..], &[first.to_owned()]].concat();
            modules.get(&child)?;
            (&from[..], path)
        }
    };
    let whole = [base, rest].concat();
    (0..=whole.len())
        .rev()
        .find_map(|n| modules.get_key_value(&whole[..n]))
        .map(|(module, _)| module)
}

/// Every path of the code with at least two parts; the groups of `use` are taken apart.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    // What stands before each open brace of a group.
    let mut groups: Vec<Vec<String>> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if word > 0 {
            if path.is_empty() {
                path = groups.last().cloned().unwrap_or_default();
            }
            path.push(rest[..word].to_owned());
            rest = &rest[word..];
        } else if let Some(after) = rest.strip_prefix("::") {
            rest = after.trim_start();
            if let Some(inside) = rest.strip_prefix('{') {
                groups.push(std::mem::take(&mut path));
                rest = inside;
            }
            continue;
        } else {
            if first == '}' {
                groups.pop();
            }
            rest = &rest[first.len_utf8()..];
        }
        if !rest.starts_with("::") {
            let whole = std::mem::take(&mut path);
            if whole.len() > 1 && whole.last().is_none_or(|word| word != "as") {
                found.push(whole);
            }
        }
    }
    found
}

#[test]
fn groups_are_taken_apart() {
    let code = "use super::{a::{B, c}, e}; fn f() { crate::g::h(); } i!{}";
    let found: Vec<String> = paths(code).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["super::a::B", "super::a::c", "super::e", "crate::g::h"]);
}

#[test]
fn a_circle_is_found_between_siblings_and_not_between_a_module_and_those_below_it() {
    let crate_of = |files: &[(&str, &str)]| -> BTreeMap<Module, String> {
        let named = files
            .iter()
            .map(|(path, code)| (module(Path::new(path)), (*code).to_owned()));
        named.collect()
    };
    let circle = crate_of(&[
        ("lib.rs", ""),
        ("a.rs", "use crate::b::c::C;"),
        ("b.rs", "mod c; use c::C;"),
        ("b/c.rs", "use super::B; fn f() { crate::a::g() }"),
    ]);
    assert_eq!(
        circles(&circle),
        ["a uses b, which leads back", "b uses a, which leads back"]
    );
    let none = crate_of(&[
        ("lib.rs", "mod a; mod b; use b::c::C;"),
        ("a.rs", "use crate::b::c::C;"),
        ("b.rs", "mod c; use c::C;"),
        ("b/c.rs", "use super::B; use std::a::A; use crate::Root;"),
    ]);
    assert_eq!(circles(&none), Vec::<String>::new());
}
