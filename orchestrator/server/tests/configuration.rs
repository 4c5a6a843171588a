//! Bad configuration is refused with exit code 64 before anything is opened.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

use escapement_orchestrator::Config;
use std::process::{Command, Output};

fn parse(arguments: &[&str]) -> Result<Config, escapement_orchestrator::config::NoConfig> {
    Config::from_iterator(std::iter::once("orchestrator").chain(arguments.iter().copied()))
}

fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn the_defaults_are_valid() {
    let config = parse(&[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7400");
    assert_eq!(
        (config.max_concurrent_steps, config.drain_grace_ms),
        (1_024, 30_000)
    );
}

#[test]
fn values_out_of_range_are_refused() {
    let table: &[&[&str]] = &[
        &["--listen", "localhost"],
        &["--max-running-executions", "0"],
        &["--max-queued-executions", "0"],
        &["--max-concurrent-steps", "0"],
        &["--max-concurrent-steps", "1025"],
        &["--drain-grace-ms", "86400001"],
        &["--registration-grace-ms", "-1"],
        &["--queue-allowance-ms", "31536000001"],
        &["--max-connections", "0"],
        &["--max-sessions", "0"],
        &["--event-webhook", "https://example.com/"],
        &["--event-webhook", "http://"],
        &["--event-webhook", "example.com"],
        &["--log-format", "xml"],
        &["--no-such-flag"],
    ];
    for arguments in table {
        assert!(parse(arguments).is_err(), "{arguments:?}");
    }
}

#[test]
fn an_address_that_others_can_reach_must_be_allowed() {
    assert!(parse(&["--listen", "0.0.0.0:7400"]).is_err());
    assert!(parse(&["--listen", "0.0.0.0:7400", "--allow-plaintext"]).is_ok());
    assert!(parse(&["--listen", "[::1]:7400"]).is_ok());
}

/// Arguments, variables, and what the message must name.
type Refused<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

#[test]
fn a_refused_start_exits_64_and_says_why_on_stderr_only() {
    let table: &[Refused<'_>] = &[
        (&["--listen", "0.0.0.0:0"], &[], "--allow-plaintext"),
        (&["--max-sessions", "0"], &[], "--max-sessions"),
        (&[], &[("ESCAPEMENT_DRAIN_GRACE_MS", "soon")], "--drain-grace-ms"),
        (&["--log", "info,="], &[], "--log"),
    ];
    for (arguments, variables, mentions) in table {
        let output = start(arguments, variables);
        assert_eq!(output.status.code(), Some(64), "{arguments:?} {variables:?}");
        assert!(output.stdout.is_empty());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(mentions), "{stderr}");
    }
}

#[test]
fn a_taken_port_exits_69_and_names_it() {
    let directory = TestDirectory::new("taken-port");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = start(&["--listen", &address, "--store-path", directory.path()], &[]);
    assert_eq!(output.status.code(), Some(69));
    assert!(String::from_utf8(output.stderr).unwrap().contains(&address));
}

#[test]
fn a_store_path_that_is_a_file_exits_73() {
    let directory = TestDirectory::new("store-is-file");
    let file = format!("{}/file", directory.path());
    std::fs::write(&file, "").unwrap();
    let output = start(&["--listen", "127.0.0.1:0", "--store-path", &file], &[]);
    assert_eq!(
        output.status.code(),
        Some(73),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A directory of its own that goes with the test.
struct TestDirectory(String);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("escapement-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path.to_str().unwrap().to_owned())
    }

    fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A leftover directory hurts nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
