//! Bad configuration is refused with exit code 64 before anything is opened.

use escapement_orchestrator::Config;
use escapement_orchestrator::config::NoConfig;
use escapement_orchestrator::process::arguments::Task;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

fn parse(arguments: &[&str]) -> Result<Config, NoConfig> {
    let arguments = std::iter::once(&"orchestrator").chain(arguments);
    match Task::from_iterator(arguments.map(OsString::from))? {
        Task::Serve(config) => Ok(*config),
        other => panic!("{other:?} does not serve"),
    }
}

fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestrator"));
    command
        .args(arguments)
        .env_clear()
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
    assert_eq!(config.max_queued_in_memory, 10_000);
}

#[test]
fn values_out_of_range_are_refused() {
    let table: &[&[&str]] = &[
        &["--listen", "localhost"],
        &["--max-running-executions", "0"],
        &["--max-queued-executions", "0"],
        &["--max-queued-in-memory", "0"],
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
        &["--event-source", ""],
        &["--event-source", "/our orchestrator"],
        &["--feed-patience-ms", "-1"],
        &["--lease-ms", "999"],
        &["--keep-settled-ms", "999"],
        &["--keep-settled-count", "0"],
        &["--max-live-runs", "0"],
        &["--max-runs", "10000001"],
        &["--planner-limit-ms", "999"],
        &["--planner-limit-ms", "600001"],
        &["--default-resume", "ask"],
        &["--default-autonomy-level", "5"],
        &["--default-attempt-ms", "0"],
        &["--default-attempt-ms", "86400001"],
        &["--default-max-retries", "101"],
        &["--default-max-turns", "0"],
        &["--default-max-turns", "101"],
        &["--default-max-concurrency", "0"],
        &["--default-max-concurrency", "1025"],
        &["--default-batch-size", "0"],
        &["--default-batch-size", "257"],
        &["--tls-cert", "cert"],
        &["--tls-key", "key"],
        &["--tls-client-ca", "ca"],
        &["--tls-client-crl", "crl"],
        &[
            "--tls-cert",
            "cert",
            "--tls-key",
            "key",
            "--tls-client-auth",
            "required",
        ],
        &[
            "--tls-cert",
            "cert",
            "--tls-key",
            "key",
            "--tls-client-crl",
            "crl",
        ],
        &[
            "--tls-cert",
            "c",
            "--tls-key",
            "k",
            "--tls-client-ca",
            "ca",
            "--tls-client-auth",
            "none",
        ],
        &[
            "--tls-cert",
            "c",
            "--tls-key",
            "k",
            "--tls-client-ca",
            "Prod.example=ca",
        ],
        &["--tls-min-version", "1.1"],
        &["--tls-reload-interval-ms", "999"],
        &["--keep-ids-ms", "-1"],
        &["--scrub-interval-ms", "31536000001"],
        &["--heartbeat-interval-ms", "50"],
        &["--peer", "10.0.0.2:7400"],
        &["--peer", "ftp://10.0.0.2:7400"],
        &["--peer", "http://10.0.0.2"],
        &["--peer", "http://:7400"],
        &["--peer", "http://10.0.0.2:0"],
        &["--peer", "http://10.0.0.2:70000"],
        &["--peer", "http://user:word@10.0.0.2:7400"],
        &["--peer", "http://10.0.0.2:7400/path"],
        &["--peer", "http://10.0.0.2:7400?query"],
        &["--peer", "http://10.0.0.2:7400,"],
        &["--peer", ""],
        &["--log-format", "xml"],
        &["--no-such-flag"],
    ];
    for arguments in table {
        assert!(parse(arguments).is_err(), "{arguments:?}");
    }
}

#[test]
fn everything_is_kept_unless_the_operator_says_otherwise() {
    let config = parse(&[]).unwrap();
    assert_eq!(
        (
            config.keep_settled_ms,
            config.keep_settled_count,
            config.keep_ids_ms
        ),
        (None, None, None)
    );
    let config = parse(&["--keep-settled-count", "5", "--keep-ids-ms", "60000"]).unwrap();
    assert_eq!(
        (
            config.keep_settled_ms,
            config.keep_settled_count,
            config.keep_ids_ms
        ),
        (None, Some(5), Some(60_000))
    );
}

#[test]
fn a_command_takes_its_own_flags_and_no_others() {
    for (arguments, mentions) in [
        (&["backup"][..], "--to"),
        (&["restore"], "--from"),
        (&["check", "--listen", "127.0.0.1:0"], "--listen"),
        (&["--max-sessions", "5", "check"], "--max-sessions"),
        (&["no-such-command"], "no-such-command"),
    ] {
        let output = start(arguments, &[]);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(mentions), "{stderr}");
    }
    // What the environment says about serving does not concern a command.
    let output = start(
        &["check", "--store-path", "/nonexistent"],
        &[
            ("ESCAPEMENT_LISTEN", "0.0.0.0:0"),
            ("ESCAPEMENT_MAX_SESSIONS", "5"),
        ],
    );
    assert_eq!(output.status.code(), Some(73));
}

#[test]
fn a_configuration_is_checked_without_serving() {
    let checked = |arguments: &[&str]| {
        let output = start(&[&["check-config"], arguments].concat(), &[]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        let says_valid = output.stdout == b"the settings are valid\n";
        assert_eq!(says_valid, output.status.success(), "{stderr}");
        (output.status.code(), stderr)
    };
    assert_eq!(checked(&[]), (Some(0), String::new()));
    assert_eq!(
        checked(&["--listen", "127.0.0.1:1"]).0,
        Some(0),
        "nothing is opened"
    );
    for (arguments, said) in [
        (
            &["--listen", "0.0.0.0:1"][..],
            "--listen 0.0.0.0:1 can be reached",
        ),
        (&["--tls-cert", "cert"], "--tls-cert needs --tls-key"),
        (
            &["--tls-cert", "/nowhere/cert", "--tls-key", "/dev/null"],
            "/nowhere/cert: No such file",
        ),
        (
            &["--tls-cert", "/dev/null", "--tls-key", "/dev/null"],
            "--tls-cert /dev/null holds no certificate",
        ),
        (&["--max-sessions", "0"], "--max-sessions"),
    ] {
        let (code, stderr) = checked(arguments);
        assert_eq!(code, Some(64), "{stderr}");
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
}

#[test]
fn a_policy_is_checked_without_serving() {
    let file = std::env::temp_dir().join(format!("escapement-policy-{}.toml", std::process::id()));
    let checked = |text: &[u8]| {
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let output = start(&["check-config", "--access-policy", path], &[]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let right = checked(b"version = 1\n");
    let wrong = [
        (checked(b"version = 1\nsurprise = 1\n"), "line 2: surprise"),
        (checked(b"version = 1\n# \xff\n"), "is no text"),
    ];
    std::fs::remove_file(&file).unwrap();
    assert_eq!(right, (Some(0), String::new()));
    for ((code, stderr), said) in wrong {
        assert_eq!(code, Some(64), "{stderr}");
        assert!(
            stderr.contains("--access-policy") && stderr.contains(said),
            "{stderr}"
        );
    }
    let output = start(&["check-config", "--access-policy", "/nowhere/policy"], &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(
        stderr.contains("--access-policy /nowhere/policy: No such file"),
        "{stderr}"
    );
}

#[test]
fn a_file_of_sinks_is_checked_without_serving() {
    let file = std::env::temp_dir().join(format!("escapement-sinks-{}.toml", std::process::id()));
    let secret = file.with_extension("secret");
    let path = file.to_str().unwrap();
    let checked = |more: &str| {
        let sink = "[[sink]]\nname = \"crm\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\n";
        let text = format!(
            "version = 1\n{sink}secret_file = \"{}\"\n{more}\n",
            secret.display()
        );
        std::fs::write(&file, text).unwrap();
        let output = start(&["check-config", "--events", path], &[]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let no_secret = checked("");
    std::fs::write(&secret, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    std::fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    let exposed = checked("");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let (right, wrong) = (checked(""), checked("nane = \"x\""));
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&secret).unwrap();
    assert_eq!(right, (Some(0), String::new()));
    assert_eq!(exposed.0, Some(0));
    assert!(
        exposed.1.contains(".secret can be read by other users"),
        "{}",
        exposed.1
    );
    for ((code, stderr), said) in [
        (no_secret, ".secret: No such file"),
        (wrong, "line 7: unknown field `nane`"),
    ] {
        assert_eq!(code, Some(64), "{stderr}");
        assert!(stderr.contains("--events") && stderr.contains(said), "{stderr}");
    }
}

#[test]
fn an_address_that_others_can_reach_must_be_allowed() {
    assert!(parse(&["--listen", "0.0.0.0:7400"]).is_err());
    assert!(
        parse(&[
            "--listen",
            "0.0.0.0:7400",
            "--allow-plaintext",
            "--allow-anonymous"
        ])
        .is_ok()
    );
    assert!(parse(&["--listen", "[::1]:7400"]).is_ok());
}

#[test]
fn peers_are_given_one_by_one_or_as_a_list() {
    let [a, b, c] = ["http://a:1", "http://b.example:2", "http://[::1]:3"];
    let config = parse(&["--peer", a, "--peer", &format!("{b},{c}")]).unwrap();
    assert_eq!(config.peers, [a, b, c]);
    assert!(parse(&[]).unwrap().peers.is_empty());

    let peers: Vec<String> = (1..=65).map(|port| format!("http://a:{port}")).collect();
    assert_eq!(
        parse(&["--peer", &peers[..64].join(",")]).unwrap().peers.len(),
        64
    );
    let refused = parse(&["--peer", &peers.join(",")]).unwrap_err();
    let NoConfig::Refused(failure) = refused else {
        panic!("{refused:?}")
    };
    assert!(failure.to_string().contains("--peer"), "{failure}");
    let long = format!("http://{}:1", "a".repeat(600));
    assert!(parse(&["--peer", &long]).is_err());
}

/// Arguments, variables, and what the message must name.
type Refused<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

#[test]
fn a_refused_start_exits_64_and_says_why_on_stderr_only() {
    let table: &[Refused<'_>] = &[
        (&["--listen", "0.0.0.0:0"], &[], "--allow-plaintext"),
        (
            &["--listen", "0.0.0.0:0", "--allow-plaintext"],
            &[],
            "--allow-anonymous",
        ),
        (
            &["--access-policy", "p.toml", "--allow-anonymous"],
            &[],
            "--access-policy",
        ),
        (&["--max-sessions", "0"], &[], "--max-sessions"),
        (
            &[],
            &[("ESCAPEMENT_DRAIN_GRACE_MS", "soon")],
            "'soon' for 'ESCAPEMENT_DRAIN_GRACE_MS', the variable of '--drain-grace-ms <MS>'",
        ),
        (
            &["--drain-grace-ms", "soon"],
            &[("ESCAPEMENT_DRAIN_GRACE_MS", "5")],
            "'soon' for '--drain-grace-ms <MS>'",
        ),
        (
            &[],
            &[("ESCAPEMENT_LISTEN", "0.0.0.0:0")],
            "ESCAPEMENT_LISTEN (--listen) 0.0.0.0:0 can be reached",
        ),
        (&["--listen", "localhost:7402"], &[], "such as 127.0.0.1:7402"),
        (&["--log", "info,a=b=c"], &[], "--log is refused: \"a=b=c\""),
        (&["--keep-ids-ms", "2000"], &[], "--keep-settled-ms"),
        (
            &["--keep-settled-ms", "3599999"],
            &[],
            "--keep-settled-ms removes results before runs",
        ),
        (
            &["--max-running-executions", "5", "--max-queued-executions", "4"],
            &[],
            "--max-queued-executions allows",
        ),
        (&["--peer", "http://10.0.0.2"], &[], "--peer"),
        (
            &["--lease-ms", "5000", "--heartbeat-interval-ms", "3000"],
            &[],
            "--heartbeat-interval-ms",
        ),
        (&[], &[("ESCAPEMENT_PEERS", "http://a:1,b:2")], "--peer"),
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
fn an_empty_variable_is_not_set_and_an_unknown_one_is_told_of() {
    let directory = TestDirectory::new("variables");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let variables = [
        ("ESCAPEMENT_MAX_SESSIONS", ""),
        ("ESCAPEMENT_ALLOW_PLAINTEXT", ""),
        ("ESCAPEMENT_ALLOW_ANONYMOUS", ""),
        ("ESCAPEMENT_LISTN", "127.0.0.1:7402"),
        ("ESCAPEMENT_ROOT", "/of/a/worker"),
    ];
    let output = start(
        &["--listen", &address, "--store-path", directory.path()],
        &variables,
    );
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains("is ESCAPEMENT_LISTEN meant?"), "{stderr}");
    assert!(!stderr.contains("ESCAPEMENT_ROOT"), "{stderr}");
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
fn a_journal_that_cannot_be_written_exits_73_and_names_its_flag() {
    let directory = TestDirectory::new("journal");
    let store = format!("{}/store", directory.path());
    let journal = format!("{}/absent/journal", directory.path());
    let arguments = ["--store-path", &store, "--session-journal", &journal];
    let output = start(
        &[&["--listen", "127.0.0.1:0"], arguments.as_slice()].concat(),
        &[],
    );
    assert_eq!(output.status.code(), Some(73));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains(&journal) && stderr.contains("--session-journal"),
        "{stderr}"
    );
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
