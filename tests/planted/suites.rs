//! Runs a test binary of the workspace as a child process, with a fault in it. Knows no fault.

use escapement_model::planted::VARIABLE;
use escapement_tests::checkout;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Some tests of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Suite {
    /// The package.
    pub(crate) package: &'static str,
    /// The test target.
    pub(crate) target: &'static str,
    /// Which of its tests: a part of their names.
    pub(crate) filter: &'static str,
    /// A variable and its value, where the suite needs one to be quick.
    pub(crate) variable: Option<(&'static str, &'static str)>,
}

/// How a run of a suite ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All green.
    Passed,
    /// A test failed.
    Failed {
        /// The name of the first.
        first: String,
    },
    /// The filter meets no test.
    RanNothing,
    /// Stopped, because it took too long.
    Endless,
}

impl Suite {
    /// Runs it with a fault.
    pub(crate) fn run(&self, fault: &str, patience: Duration) -> Verdict {
        let binary = &binaries()[&(self.package.to_owned(), self.target.to_owned())];
        let mut command = Command::new(&binary.path);
        command
            .current_dir(&binary.folder)
            .arg(self.filter)
            .env(VARIABLE, fault)
            .envs(self.variable)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("a test binary starts");
        let mut stdout = child.stdout.take().expect("its stdout is piped");
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            // What came before the end is all there is.
            let _cut = stdout.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if began.elapsed() > patience {
                let _ended_just_now = child.kill();
                child.wait().expect("a child that was killed ends");
                return Verdict::Endless;
            }
            thread::park_timeout(PAUSE);
        };
        let text = reader.join().expect("the reader does not panic");
        if status.success() {
            let ran_nothing = text.contains("0 passed; 0 failed");
            return if ran_nothing {
                Verdict::RanNothing
            } else {
                Verdict::Passed
            };
        }
        let failed = text.lines().find_map(|line| {
            let name = line.strip_prefix("test ")?.split(" ... ").next()?;
            line.ends_with("FAILED").then(|| name.to_owned())
        });
        Verdict::Failed {
            // A process that was ended by its own fault has no line for its test.
            first: failed.unwrap_or_else(|| format!("{} ({status})", self.filter)),
        }
    }
}

/// Time between two looks at a child.
const PAUSE: Duration = Duration::from_millis(20);

/// Builds the test binaries, or sees that they are built.
pub(crate) fn build() {
    let _built = binaries();
}

struct TestBinary {
    path: PathBuf,
    /// Where cargo runs it: its package's folder.
    folder: PathBuf,
}

/// The test binaries of the workspace, as cargo builds them for a run of all tests: that is how they are built already.
fn binaries() -> &'static BTreeMap<(String, String), TestBinary> {
    static BINARIES: OnceLock<BTreeMap<(String, String), TestBinary>> = OnceLock::new();
    BINARIES.get_or_init(|| {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(checkout::root())
            .args(["test", "--workspace", "--no-run", "--quiet"])
            .args(["--message-format", "json"])
            .stderr(Stdio::inherit())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "the tests build");
        let text = String::from_utf8(output.stdout).expect("cargo writes JSON");
        let messages = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        messages.filter_map(|message| test_binary(&message)).collect()
    })
}

fn test_binary(message: &serde_json::Value) -> Option<((String, String), TestBinary)> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let is_target = message["target"]["kind"]
        .as_array()?
        .iter()
        .any(|kind| kind == "test");
    let path = PathBuf::from(message["executable"].as_str()?);
    if !is_test || !is_target {
        return None;
    }
    let folder = PathBuf::from(message["manifest_path"].as_str()?)
        .parent()?
        .to_owned();
    let target = message["target"]["name"].as_str()?.to_owned();
    let package = package_of(message["package_id"].as_str()?);
    Some(((package, target), TestBinary { path, folder }))
}

/// `path+file:///…/tests#escapement-tests@0.1.0`, or `…/tests#0.1.0` if the folder has the package's name.
fn package_of(id: &str) -> String {
    let (path, version) = id.split_once('#').unwrap_or((id, ""));
    version
        .split_once('@')
        .map_or_else(|| path.rsplit('/').next().unwrap_or_default(), |(name, _)| name)
        .to_owned()
}
