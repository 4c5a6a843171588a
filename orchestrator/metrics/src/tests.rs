#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::catalogue::{CATALOGUE, Kind};
use crate::figures::Metrics;
use crate::label::Names;
use escapement_runs_shell::Happened;
use std::fmt::Write as _;
use std::path::Path;

#[test]
fn the_page_shows_the_catalogue() {
    let page_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/METRICS.md");
    let page = std::fs::read_to_string(&page_path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the marks");
    let (shown, after) = rest.split_once(END).expect("the page has the marks");
    let mut table = String::from("| name | type | labels | what |\n|---|---|---|---|\n");
    for entry in CATALOGUE {
        let labels = entry
            .labels
            .iter()
            .map(|label| format!("`{}` ({})", label.name, label.values_max));
        let labels: Vec<String> = labels.collect();
        let (name, kind, help) = (entry.name, format!("{:?}", entry.kind).to_lowercase(), entry.help);
        writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).unwrap();
    }
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        let page = [before, BEGIN, &table, END, after].concat();
        return std::fs::write(&page_path, page).unwrap();
    }
    assert_eq!(shown, table, "ESCAPEMENT_WRITE=1 writes it anew");
}

#[test]
fn names_are_spelled_as_prometheus_wants_them() {
    for entry in CATALOGUE {
        let is_counter = entry.kind == Kind::Counter;
        assert_eq!(entry.name.ends_with("_total"), is_counter, "{}", entry.name);
        let is_time = entry.kind == Kind::Histogram;
        assert!(!is_time || entry.name.ends_with("_seconds"), "{}", entry.name);
        assert!(!entry.name.contains("_ms"), "{}: base units only", entry.name);
        assert!(entry.help.ends_with('.'), "{}", entry.name);
    }
    let mut names: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CATALOGUE.len());
}

#[test]
fn the_first_names_have_labels_of_their_own_and_all_others_share_one() {
    let names = Names::new(2);
    for round in 0..2 {
        for number in 0..10_000 {
            let name = format!("action{number}");
            let expected = if number < 2 { name.as_str() } else { "_other" };
            assert_eq!(&*names.label(&name), expected, "round {round}");
        }
    }
}

#[test]
fn the_store_is_full_while_it_refuses_executions_or_runs() {
    let metrics = Metrics::new(1, "0", None);
    let is_full = || metrics.0.families.store_full.get() == 1;
    let runs_take = |takes_writes| metrics.happened_to_runs(Happened::TakesWrites(takes_writes));
    metrics.set_ready(true);
    assert!(!is_full());
    runs_take(false);
    // Small writes of executions still fit.
    metrics.store_takes_writes(true);
    assert!(is_full());
    assert_eq!(metrics.unready(), Some("the store takes no writes\n"));
    metrics.store_takes_writes(false);
    runs_take(true);
    assert!(is_full());
    metrics.store_takes_writes(true);
    assert!(!is_full());
    assert_eq!(metrics.unready(), None);
}

const BEGIN: &str = "<!-- catalogue -->\n";
const END: &str = "<!-- end of catalogue -->\n";
