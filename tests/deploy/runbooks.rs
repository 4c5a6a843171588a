//! What the page says is done when an alert fires, done: a process in that state, the commands of the paragraph as they are
//! written, and the state is over, or what they say is true. systemd itself is played.

mod day;
mod edge;
mod fleet;
mod machine;
mod page;
mod process;
mod queue;
mod runs;
mod store;

use escapement_tests::checkout;

#[test]
fn every_alert_has_commands_that_a_test_follows() {
    let folder = checkout::root().join("tests/deploy/runbooks");
    let tests = ["edge", "fleet", "process", "queue", "runs", "store"]
        .map(|file| std::fs::read_to_string(folder.join(file).with_extension("rs")).unwrap());
    for alert in page::headings("OPERATIONS.md", "### ") {
        assert!(!page::blocks(&alert).is_empty(), "{alert} has no commands");
        let named = format!("(\"{alert}\")");
        assert!(tests.iter().any(|test| test.contains(&named)), "{alert}");
    }
    let test = std::fs::read_to_string(folder.join("day.rs")).unwrap();
    for part in page::headings("A_DAY.md", "## ") {
        assert!(test.contains(&format!("(\"{part}\")")), "{part}");
    }
}
