//! Flags, and the exit code of a program that cannot start with them.

use clap::Parser;
use escapement_sdk::Worker;
use escapement_worker::actions;
use escapement_worker::config::{Config, ConfigError};
use escapement_worker::options::Options;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

fn configured(flags: &[&str]) -> Result<Config, ConfigError> {
    let options = Options::try_parse_from([&["worker"], flags].concat()).unwrap();
    Config::from_options(&options, PathBuf::from("evaluator"))
}

fn problem(flags: &[&str]) -> String {
    configured(flags).unwrap_err().to_string()
}

#[test]
fn by_default_everything_that_reaches_out_is_closed() {
    let config = configured(&[]).unwrap();
    assert!(config.root.is_none() && config.llm.is_none() && config.programs.is_empty());
    let offered: Vec<_> = config.actions.into_iter().collect();
    let open = [
        "delay",
        "echo",
        "execute_plan",
        "fail",
        "json.filter",
        "json.query",
        "template.fill",
        "template.render",
    ];
    assert_eq!(offered, open);
}

#[test]
fn flags_open_what_they_name() {
    let directory = tempfile::TempDir::new().unwrap();
    let root = directory.path().to_str().unwrap();
    let flags = [
        "--root",
        root,
        "--allow-program",
        "sh,/bin/cat",
        "--allow-variable",
        "LC_ALL,TZ",
        "--allow-host",
        "example.com",
        "--llm-endpoint",
        "https://127.0.0.1:1/v1/",
    ];
    let config = configured(&flags).unwrap();
    assert_eq!(config.actions.len(), 14);
    assert_eq!(config.programs.keys().collect::<Vec<_>>(), ["/bin/cat", "sh"]);
    assert!(config.programs["sh"].is_absolute());
    assert_eq!(config.variables.iter().collect::<Vec<_>>(), ["LC_ALL", "TZ"]);
    assert_eq!(config.llm.unwrap().url, "https://127.0.0.1:1/v1/chat/completions");
}

#[test]
fn a_mistake_names_its_flag_and_says_what_to_do() {
    let directory = tempfile::TempDir::new().unwrap();
    let empty = directory.path().join("key");
    fs::write(&empty, "\n").unwrap();
    let with_key = [
        "--llm-endpoint",
        "http://a/v1",
        "--llm-api-key-file",
        empty.to_str().unwrap(),
    ];
    assert!(problem(&["--root", "/does/not/exist"]).contains("name a directory that exists"));
    assert!(problem(&["--allow-program", "no-such-program"]).contains("not found in PATH"));
    assert!(problem(&["--allow-program", "bin/sh"]).contains("absolute path"));
    for name in ["PATH", "LD_PRELOAD", "DYLD_X", "ESCAPEMENT_TOKEN", "A=B", ""] {
        assert!(problem(&["--allow-variable", name]).contains("must be the name of a variable"));
    }
    assert!(problem(&["--allow-host", "http://a/"]).contains("--allow-host"));
    assert!(problem(&["--allow-host", "a:99999"]).contains("--allow-host"));
    assert!(problem(&["--orchestrator", "localhost"]).contains("--orchestrator"));
    assert!(problem(&["--llm-api-key-file", "/etc/hostname"]).contains("needs --llm-endpoint"));
    assert!(problem(&["--llm-model", "m"]).contains("needs --llm-endpoint"));
    let key = [
        "--llm-api-key-file",
        "/etc/hostname",
        "--llm-endpoint",
        "http://10.0.0.1/v1",
    ];
    assert!(problem(&key).contains("not sent unencrypted to http://10.0.0.1/v1"));
    let allowed = [&key[..], &["--allow-plaintext"]].concat();
    assert!(configured(&allowed).is_ok());
    assert!(problem(&with_key).contains("must hold one key"));
    assert!(problem(&["--actions", "ecko"]).contains("none of"));
    assert!(problem(&["--actions", "file.read"]).contains("--root"));
    assert!(problem(&["--actions", "process.run"]).contains("needs --allow-program"));
    assert!(problem(&["--actions", "http.request"]).contains("needs --allow-host"));
    let unused = ["--allow-program", "sh", "--actions", "echo"];
    assert!(problem(&unused).contains("which --actions leaves out"));
    let missing = ["--orchestrator", "https://a:1", "--tls-ca", "/nowhere"];
    assert!(problem(&missing).contains("/nowhere"));
    let unused = ["--orchestrator", "http://127.0.0.1:1", "--tls-server-name", "a"];
    assert!(problem(&unused).contains("is for https://"));
}

#[test]
fn only_the_listed_actions_are_offered() {
    let config = configured(&["--actions", "echo,delay"]).unwrap();
    assert_eq!(config.actions.into_iter().collect::<Vec<_>>(), ["delay", "echo"]);
}

#[test]
fn a_bad_configuration_exits_with_64() {
    for flags in [
        &["--root", "/does/not/exist"][..],
        &["--max-in-flight", "0"],
        &["--no-such-flag"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(flags)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64), "{flags:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
}

#[test]
fn every_action_makes_a_worker_and_has_its_place_in_the_documentation() {
    let directory = tempfile::TempDir::new().unwrap();
    let root = directory.path().to_str().unwrap();
    let flags = [
        &["--root", root, "--llm-endpoint", "http://127.0.0.1:1/v1"][..],
        &["--allow-program", "sh", "--allow-host", "example.com"],
    ];
    let config = Arc::new(configured(&flags.concat()).unwrap());
    let offered: Vec<_> = actions::offers(&config).iter().map(|(name, _)| *name).collect();
    assert_eq!(config.actions.iter().len(), offered.len());
    actions::add_to(Worker::builder("http://127.0.0.1:1"), &config)
        .build()
        .unwrap();
    let documentation = include_str!("../../HANDLERS.md");
    let headings: Vec<_> = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'))
        .collect();
    assert_eq!(headings, offered);
}

#[test]
fn a_worker_without_an_orchestrator_stops_cleanly_on_sigterm() {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_worker"))
        // The discard port: nothing listens there.
        .args(["--orchestrator", "http://127.0.0.1:9", "--log", "warn"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(worker.stderr.take().unwrap()).lines();
    // The signal is caught from before the first connection on.
    assert!(log.any(|line| line.unwrap().contains("no session")));
    let id = rustix::process::Pid::from_raw(worker.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0));
}
