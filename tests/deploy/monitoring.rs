//! Dashboards and alerts: made of one short file, held against the catalogue of figures, tried out by promtool and by a real
//! Prometheus that scrapes a real orchestrator.

mod alive;
mod generated;
mod watched;

use crate::monitoring::watched::Watched;
use escapement_tests::{Prometheus, checkout, tool};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A Prometheus with the shipped files, but for where the orchestrator and its worker are, if there is one, and how often it looks.
pub(crate) async fn shipped(
    program: &Path,
    directory: &Path,
    scraped: &str,
    worker: Option<&str>,
) -> Prometheus {
    let shipped = checkout::root().join("deploy/monitoring");
    let configuration = std::fs::read_to_string(shipped.join("prometheus.yaml")).unwrap();
    let workers = "dns_sd_configs:\n      - { names: [worker], type: A, port: 7402 }\n";
    assert!(
        ["orchestrator:7401", workers, "15s"]
            .iter()
            .all(|text| configuration.contains(text))
    );
    let here = format!("static_configs:\n      - targets: {:?}\n", worker.as_slice());
    let configuration = configuration
        .replace("orchestrator:7401", scraped)
        .replace(workers, &here)
        .replace("15s", "200ms");
    std::fs::copy(shipped.join("rules.yaml"), directory.join("rules.yaml")).unwrap();
    Prometheus::start(program, directory, &configuration)
        .await
        .unwrap()
}

/// The figures, of the orchestrator and of workers, and all their labels, as the page says, which tests of theirs hold against the
/// code.
fn catalogue() -> (BTreeSet<String>, BTreeSet<String>) {
    let page = std::fs::read_to_string(checkout::root().join("deploy/METRICS.md")).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| `escapement_") || line.starts_with("| `process_"));
    let cells: Vec<Vec<&str>> = rows.map(|row| row.split('|').collect()).collect();
    let quoted =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let names = cells.iter().flat_map(|row| quoted(row[1])).collect();
    let labels = cells.iter().flat_map(|row| quoted(row[3])).collect();
    (names, labels)
}

/// The words of an expression.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

#[test]
fn every_figure_and_label_is_in_the_catalogue() {
    let (names, labels) = catalogue();
    assert!(names.len() > 20 && labels.len() > 5, "{names:?} {labels:?}");
    for expression in Watched::read().expressions() {
        for word in
            words(&expression).filter(|word| word.starts_with("escapement_") || word.starts_with("process_"))
        {
            let stem = word.strip_suffix("_bucket").unwrap_or(word);
            assert!(names.contains(stem), "{word} in {expression}");
        }
        let grouped = [" by (", " on ("]
            .iter()
            .flat_map(|before| expression.split(before).skip(1));
        for label in grouped.flat_map(|rest| rest.split(')').next().unwrap().split(", ")) {
            let is_known = labels.contains(label) || ["instance", "le"].contains(&label);
            assert!(is_known, "{label} in {expression}");
        }
    }
}

#[test]
fn every_figure_is_watched() {
    let watched = Watched::read().expressions().join(" ");
    let watched: BTreeSet<&str> = words(&watched)
        .map(|word| word.strip_suffix("_bucket").unwrap_or(word))
        .collect();
    let (names, _) = catalogue();
    let forgotten: Vec<&String> = names
        .iter()
        .filter(|name| !watched.contains(name.as_str()))
        .collect();
    assert_eq!(
        forgotten,
        ["process_virtual_memory_bytes"],
        "on no dashboard, and in no alert"
    );
}

#[test]
fn the_rules_do_what_their_tests_say() {
    let Some(promtool) = tool("promtool", "`cargo verify` installs it") else {
        return;
    };
    let rules = checkout::root().join("deploy/monitoring/rules.yaml");
    let tests = checkout::root().join("tests/deploy/monitoring/rules_test.yaml");
    for (command, file) in [("check", &rules), ("test", &tests)] {
        let output = Command::new(&promtool)
            .args([command, "rules"])
            .arg(file)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(output.status.success(), "{said:?}");
    }
    // Each alert is seen to fire, and seen not to.
    let tests = std::fs::read_to_string(tests).unwrap();
    let cases: Vec<&str> = tests.split("alertname: ").skip(1).collect();
    for alert in Watched::read().alerts {
        let of_alert = |case: &&&str| case.lines().next() == Some(&alert.name);
        let fires = |case: &&str| {
            case.lines()
                .nth(1)
                .is_some_and(|line| line.trim() == "exp_alerts:")
        };
        let (firing, silent): (Vec<&str>, Vec<&str>) = cases
            .iter()
            .filter(of_alert)
            .copied()
            .partition(|case| fires(case));
        assert!(
            !firing.is_empty() && !silent.is_empty(),
            "{}: {firing:?} {silent:?}",
            alert.name
        );
    }
}

#[test]
fn every_alert_has_a_paragraph_that_says_what_to_do() {
    let page = std::fs::read_to_string(checkout::root().join("deploy/OPERATIONS.md")).unwrap();
    let headings: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let alerts = Watched::read().alerts;
    let names: Vec<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    assert_eq!(headings, names);
}
