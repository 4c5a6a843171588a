//! The tables of transitions in CONTRACT.md: written from what the exploration saw, and compared with the page.
//! Explores nothing itself.

use crate::moves::Kind;
use crate::transitions::{Event, N_EVENTS, N_KINDS, REFUSED, Transitions};
use escapement_tests::checkout;

const PAGE: &str = "orchestrator/contract/CONTRACT.md";
const BEGIN: &str = "<!-- transitions: begin -->";
const END: &str = "<!-- transitions: end -->";
const RENEW: &str = "ESCAPEMENT_WRITE=1 cargo test -p escapement-tests --test rules table";

/// Fails where the page shows anything else; writes it where `ESCAPEMENT_WRITE` is set.
pub(crate) fn check(transitions: &Transitions) {
    let path = checkout::root().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the first mark");
    let (shown, after) = rest.split_once(END).expect("the page has the second mark");
    let expected = format!("\n\n{}\n", render(transitions));
    if shown == expected {
        return;
    }
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    let lacks = |text: &str, line: &&str| !text.lines().any(|other| other == *line);
    let stale = shown
        .lines()
        .filter(|line| lacks(&expected, line))
        .map(|line| format!("- {line}"));
    let fresh = expected
        .lines()
        .filter(|line| lacks(shown, line))
        .map(|line| format!("+ {line}"));
    let difference: Vec<String> = stale.chain(fresh).collect();
    panic!(
        "{PAGE} is stale; renew it with: {RENEW}\n{}",
        difference.join("\n")
    );
}

fn render(transitions: &Transitions) -> String {
    let mut text = String::new();
    let mut rows = |head: &[&str], rows: Vec<Vec<String>>| {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text += &line(head.iter().map(|cell| (*cell).to_owned()).collect());
        text += &line(head.iter().map(|_| "---".to_owned()).collect());
        for row in rows {
            text += &line(row);
        }
        text += "\n";
    };
    let phases = PHASE_ROWS.iter().map(|(kind, name, rules)| {
        let cells = transitions
            .phases
            .iter()
            .map(|of_phase| cell(of_phase[*kind as usize], &PHASES));
        row(name, cells, rules)
    });
    rows(
        &[
            "input", "queued", "starting", "running", "settling", "settled", "rules",
        ],
        phases.collect(),
    );
    let steps = STEP_ROWS.iter().map(|(event, name, rules)| {
        let cells = transitions
            .steps
            .iter()
            .map(|of_state| cell(of_state[*event as usize], &STATES));
        row(name, cells, rules)
    });
    let head = ["event"].into_iter().chain(STATES).chain(["rules"]);
    rows(&head.collect::<Vec<_>>(), steps.collect());
    text
}

fn row(name: &str, cells: impl Iterator<Item = String>, rules: &str) -> Vec<String> {
    std::iter::once(name.to_owned())
        .chain(cells)
        .chain([rules.to_owned()])
        .collect()
}

/// What a set of what came after is called.
fn cell(set: u16, names: &[&str]) -> String {
    let reached = names
        .iter()
        .enumerate()
        .filter(|(number, _)| set >> number & 1 == 1);
    let mut reached: Vec<&str> = reached.map(|(_, name)| *name).collect();
    if set & REFUSED != 0 {
        reached.push("refused");
    }
    match reached.is_empty() {
        true => "-".to_owned(),
        false => reached.join(", "),
    }
}

const PHASES: [&str; 5] = ["queued", "starting", "running", "settling", "settled"];
const STATES: [&str; 8] = [
    "pending",
    "waiting",
    "assigned",
    "started",
    "backing off",
    "completed",
    "not completed",
    "stopped",
];

const PHASE_ROWS: [(Kind, &str, &str); N_KINDS] = [
    (Kind::Start, "start", "R-1.15, R-1.16, R-3.2, R-8.14"),
    (Kind::StartPersisted, "start_persisted", "R-9.3"),
    (Kind::Assigned, "assigned", "R-2.12, R-9.3"),
    (Kind::Started, "attempt_started", "R-2.12"),
    (Kind::Returned, "attempt_returned", "R-2.12, R-2.13"),
    (Kind::NotFound, "action_not_found", "R-2.12, R-2.14"),
    (Kind::Completed, "attempt_ended: output", "R-2.12, R-4.3, R-5.6"),
    (Kind::Warned, "attempt_ended: warn", "R-2.12, R-4.3, R-5.6"),
    (
        Kind::Failed,
        "attempt_ended: error",
        "R-2.12, R-4.4, R-4.5, R-4.6",
    ),
    (Kind::Fatal, "attempt_ended: fatal", "R-2.12, R-4.7"),
    (Kind::Lost, "attempt_ended: lost", "R-2.12, R-2.18, R-4.15"),
    (Kind::SettlePersisted, "settle_persisted", "R-9.1, R-9.2"),
    (Kind::Time, "a timer is due", "R-3.2, R-3.3, R-3.6, R-3.7"),
];

const STEP_ROWS: [(Event, &str, &str); N_EVENTS] = [
    (Event::Assigned, "assigned", "R-2.12, R-3.4"),
    (Event::Started, "attempt_started", "R-2.12"),
    (Event::Returned, "attempt_returned", "R-2.13, R-2.18"),
    (Event::NotFound, "action_not_found", "R-2.14"),
    (Event::Completed, "attempt_ended: output", "R-2.12, R-4.3"),
    (Event::Warned, "attempt_ended: warn", "R-2.12, R-4.3"),
    (Event::FailedHalt, "attempt_ended: error, `halt`", "R-2.12, R-4.6"),
    (Event::FailedSkip, "attempt_ended: error, `skip`", "R-2.12, R-4.5"),
    (
        Event::FailedRetry,
        "attempt_ended: error, `retry`",
        "R-2.12, R-2.10, R-4.4",
    ),
    (Event::Fatal, "attempt_ended: fatal", "R-2.12, R-4.7"),
    (Event::Lost, "attempt_ended: lost", "R-2.18, R-4.15"),
    (
        Event::Timer,
        "its own timer is due",
        "R-2.11, R-3.4, R-3.8, R-4.2",
    ),
    (Event::Turn, "start or another step's end", "R-2.3, R-2.5"),
    (Event::End, "end of the execution", "R-3.9, R-6.8"),
];
