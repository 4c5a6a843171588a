//! Links of Markdown files within the checkout: each leads to a file or folder that is there, and to a heading that the page has.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use escapement_tests::checkout;

use crate::assert_none;
use crate::source::{TextFile, text_files};

#[test]
fn every_link_leads_to_what_is_there() {
    let files = text_files();
    let pages: Vec<&TextFile> = files.iter().filter(|file| is_page(&file.path)).collect();
    let mut found = Vec::new();
    for page in &pages {
        for target in links(&page.text) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = beside(&page.path, path);
            if !checkout::root().join(&path).exists() {
                found.push(format!("{}: {target}", page.path.display()));
            }
            let linked = pages.iter().find(|other| other.path == path);
            if let (Some(linked), false) = (linked, heading.is_empty())
                && !headings(&linked.text).contains(heading)
            {
                found.push(format!(
                    "{}: {target}, which has no such heading",
                    page.path.display()
                ));
            }
        }
    }
    assert_none(&found, "lead the link to where it is now");
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// A path that a page names, relative to the root; the page itself if it names none.
fn beside(page: &Path, path: &str) -> PathBuf {
    if path.is_empty() {
        return page.to_owned();
    }
    let mut whole = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole
}

/// The targets of the links of a page that stay in the checkout. Code has none.
fn links(text: &str) -> Vec<&str> {
    let outside = ["http://", "https://", "mailto:"];
    let mut found = Vec::new();
    for line in prose(text) {
        for after in line.split("](").skip(1) {
            let target = after.split(')').next().unwrap_or_default();
            if !outside.iter().any(|scheme| target.starts_with(scheme)) {
                found.push(target);
            }
        }
    }
    found
}

/// What the headings of a page are called in links to them.
fn headings(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let dashed = |c: char| if c == ' ' { '-' } else { c };
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| heading.chars().filter(kept).map(dashed).collect())
        .collect()
}

/// The lines of a page outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

#[test]
fn links_are_found_outside_of_code_and_with_all_that_they_name() {
    let text = "See [a](b/c.md#d), [e](https://f) and [g](#h).\n```\n[i](j)\n```\n## The `k` of l, m\n";
    assert_eq!(links(text), ["b/c.md#d", "#h"]);
    assert_eq!(headings(text), BTreeSet::from(["the-k-of-l-m".to_owned()]));
    let page = Path::new("b/c.md");
    assert_eq!(beside(page, "../d"), Path::new("d"));
    assert_eq!(beside(page, ""), page);
}
