//! What the pages say that grpcurl and the orchestrator's commands answer is what they answer.
//! Ids, times and hashes differ from run to run, nothing else may.

use crate::plans::request;
use crate::status_details::reason;
use crate::world::{LIMIT, World};
use escapement_tests::{Binaries, checkout, documents, tool, tools_path};
use serde_json::{Deserializer, Value};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;
use tonic::Code;

/// Values of these keys are other ones in each run.
const VARYING: [&str; 33] = [
    "accepted_at",
    "action_expires_in_ms",
    "at",
    "bytes",
    "completed_at",
    "created_at",
    "data",
    "deadline_ms",
    "due_at",
    "duration_ms",
    "ends_in_ms",
    "execution_id",
    "expires_at",
    "file",
    "fired_at",
    "firing_id",
    "from_ms",
    "hash",
    "heartbeat_age_ms",
    "input_request_id",
    "instance_id",
    "next_attempt_in_ms",
    "root",
    "run_id",
    "seal",
    "session_age_ms",
    "session_id",
    "settled_at",
    "started_at",
    "subject_digest",
    "timestamp",
    "to_ms",
    "trigger_id",
];

/// An orchestrator with a stock worker, and a folder in which the commands of a page are run.
struct Reader {
    world: World,
    /// In front of `PATH`.
    programs: std::ffi::OsString,
}

/// A block of shell commands, and what the page says that it prints.
struct Shown {
    command: String,
    /// The language of the block, and the block.
    printed: Option<(String, String)>,
}

impl Reader {
    /// `None` if there is no grpcurl.
    async fn new() -> Option<Self> {
        tool("grpcurl", crate::grpcurl::INSTALL)?;
        let world = World::start().await;
        std::os::unix::fs::symlink(checkout::root().join("tests"), world.directory.join("tests")).unwrap();
        let orchestrator = Binaries::build().unwrap().orchestrator;
        let own = orchestrator.parent().unwrap().to_owned();
        let programs = std::env::join_paths([own].into_iter().chain(tools_path())).unwrap();
        Some(Self { world, programs })
    }

    fn run(&self, command: &str) -> Output {
        let address = self.world.orchestrator.address().to_string();
        let command = command.replace("127.0.0.1:7400", &address);
        Command::new("sh")
            .args(["-e", "-c", &command])
            .env("PATH", &self.programs)
            .current_dir(self.world.directory.path())
            .output()
            .unwrap()
    }

    /// Runs every block of a page in order and compares what it prints with what the page shows.
    fn try_out(&self, page: &[Shown]) {
        for shown in page {
            let begun = Instant::now();
            let (mut said, mut wanted) = self.compare(shown);
            // What is asked may be on its way there; every block can be repeated.
            while said != wanted && begun.elapsed() < LIMIT {
                (said, wanted) = self.compare(shown);
            }
            assert_eq!(said, wanted, "{}", shown.command);
        }
    }

    /// What a block prints, and what the page shows.
    fn compare(&self, shown: &Shown) -> (Vec<Value>, Vec<Value>) {
        let Shown { command, printed } = shown;
        let output = self.run(command);
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}{complained}");
        match printed {
            Some((language, text)) if language == "json" => (values(&said), values(text)),
            Some((_, text)) => {
                let [said, wanted] =
                    [&*said, text.as_str()].map(|text| without_numbers(text.trim_end()).into());
                (vec![said], vec![wanted])
            }
            None => (Vec::new(), Vec::new()),
        }
    }
}

#[tokio::test]
async fn the_readme_shows_real_answers() {
    let Some(reader) = Reader::new().await else { return };
    let world = &reader.world;
    let _worker = world.stock_worker("worker-1", |settings| settings).await;
    let shown = shown(Path::new("README.md"));
    assert!(shown.len() >= 3, "the README shows at least three calls");
    assert!(
        shown[0].command.contains("ExecutePlan"),
        "the first call executes the plan"
    );
    reader.try_out(&shown);
    // The plan's id is used up, as the README says.
    let output = reader.run(&shown[0].command);
    let refusal = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && refusal.contains("FailedPrecondition"),
        "{refusal}"
    );
    // grpcurl shows the reason only encoded.
    let plan = documents::plan_file(&checkout::root().join("tests/plans/hello.json")).unwrap();
    let refusal = world.try_execute(request(plan)).await.unwrap_err();
    assert_eq!(reason(&refusal, Code::FailedPrecondition), "PLAN_ID_USED");
}

#[tokio::test]
async fn the_page_for_callers_shows_real_answers() {
    let calls = [
        "ValidatePlan",
        "ListWorkers",
        "CreateRun",
        "RespondToInput",
        "ReplayRun",
    ];
    page_shows_real_answers("proto/CALLING.md", &calls).await;
}

#[tokio::test]
async fn the_page_on_insight_shows_real_answers() {
    let calls = [
        "ValidatePlan",
        "SimulatePlan",
        "ExplainExecution",
        "ReplayExecution",
        "ExportExecution",
        "orchestrator verify",
        "orchestrator render",
    ];
    page_shows_real_answers("proto/INSIGHT.md", &calls).await;
}

#[tokio::test]
async fn the_page_on_what_starts_runs_shows_real_answers() {
    let calls = ["GetSession", "FireTrigger", "LoadSamples"];
    page_shows_real_answers("proto/AUTOMATION.md", &calls).await;
}

async fn page_shows_real_answers(page: &str, calls: &[&str]) {
    let Some(reader) = Reader::new().await else { return };
    let _worker = reader.world.stock_worker("worker-1", |settings| settings).await;
    let shown = shown(Path::new(page));
    for call in calls {
        assert!(
            shown.iter().any(|shown| shown.command.contains(call)),
            "{page} shows no {call}"
        );
    }
    reader.try_out(&shown);
}

#[test]
fn the_readme_shows_the_plan_as_it_is() {
    let readme = std::fs::read_to_string(checkout::root().join("README.md")).unwrap();
    let plan = std::fs::read_to_string(checkout::root().join("tests/plans/hello.json")).unwrap();
    assert!(
        readme.contains(plan.trim_end()),
        "tests/plans/hello.json is not in the README"
    );
}

/// Returns the shell blocks of a page that call grpcurl or the orchestrator, each with the block that follows it before the next.
fn shown(page: &Path) -> Vec<Shown> {
    let page = std::fs::read_to_string(checkout::root().join(page)).unwrap();
    let mut shown: Vec<Shown> = Vec::new();
    // True if the block before this one is the last of `shown`.
    let mut is_answer = false;
    for block in page.split("```").skip(1).step_by(2) {
        let Some((language, text)) = block.split_once('\n') else {
            continue;
        };
        let calls_us = |line: &str| line.contains("grpcurl") || line.starts_with("orchestrator ");
        let is_ours = language == "sh" && text.lines().any(calls_us);
        if is_ours {
            shown.push(Shown {
                command: text.to_owned(),
                printed: None,
            });
        } else if is_answer && let Some(last) = shown.last_mut() {
            last.printed = Some((language.to_owned(), text.to_owned()));
        }
        is_answer = is_ours;
    }
    shown
}

/// Returns all JSON values of a text, one after the other.
fn values(text: &str) -> Vec<Value> {
    Deserializer::from_str(text)
        .into_iter::<Value>()
        .map(|value| without_varying(value.unwrap_or_else(|error| panic!("{error}: {text}"))))
        .collect()
}

fn without_varying(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| match (VARYING.contains(&key.as_str()), value) {
                (true, _) => (key, Value::Null),
                // Sentences name times.
                (false, Value::String(text)) if key == "text" => (key, without_numbers(&text).into()),
                (false, value) => (key, without_varying(value)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(without_varying).collect(),
        other => other,
    }
}

/// Returns each number as one mark, whatever its digits.
fn without_numbers(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii_digit() {
            true if masked.ends_with('#') => {}
            true => masked.push('#'),
            false => masked.push(letter),
        }
    }
    masked
}
