//! `process.run`.

use super::{context, eventually, input, with_root};
use escapement_sdk::testing::cancel;
use escapement_sdk::{StepContext, StepError};
use escapement_wire::json::to_opaque;
use escapement_worker::config::Config;
use escapement_worker::handlers::process_run::{Output, run};
use escapement_worker::secrets::Secrets;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::process::Command;

/// Returns a configuration that allows the shell under the name `sh`.
fn with_shell() -> (Arc<Config>, TempDir) {
    let (mut config, directory) = with_root();
    config.programs.insert("sh".to_owned(), "/bin/sh".into());
    (Arc::new(config), directory)
}

async fn shell(
    config: &Arc<Config>,
    script: &str,
    more: Value,
    context: StepContext,
) -> Result<Output, StepError> {
    let mut payload = json!({ "program": "sh", "args": ["-c", script] });
    payload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    run(input(payload), context, config.clone()).await
}

/// Returns true while the process runs. One that has ended and was not waited for does not count.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

/// Returns the process id that a script has written into this file.
async fn pid_in(path: &Path) -> String {
    eventually("a process id", || {
        fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))
    })
    .await;
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_program_that_is_not_listed_is_refused_with_the_list_and_may_be_tried_elsewhere() {
    let (config, _directory) = with_shell();
    for program in ["cat", "/bin/sh", "", "../sh"] {
        let error = run(input(json!({ "program": program })), context(), config.clone())
            .await
            .unwrap_err();
        assert_eq!(error.code(), "PROCESS_NOT_ALLOWED", "{program}");
        assert_eq!(error.stated_severity(), None);
        assert!(error.message().ends_with("--allow-program sh"), "{error}");
    }
}

#[tokio::test]
async fn input_output_and_exit_code_come_through() {
    let (config, _directory) = with_shell();
    let more = json!({ "stdin": "abc", "expected_exit_codes": [3] });
    let output = shell(&config, "cat; echo oops >&2; exit 3", more, context())
        .await
        .unwrap();
    assert_eq!(
        (output.exit_code, output.stdout.as_str(), output.stderr.as_str()),
        (3, "abc", "oops\n")
    );
}

#[tokio::test]
async fn an_unexpected_exit_code_is_an_error_with_the_end_of_stderr() {
    let (config, _directory) = with_shell();
    let error = shell(&config, "echo why >&2; exit 7", json!({}), context())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "PROCESS_EXIT");
    assert_eq!(
        (&error.diagnostics()["exit_code"], &error.diagnostics()["stderr"]),
        (&json!(7), &json!("why\n"))
    );
    let error = shell(&config, "kill -9 $$", json!({}), context())
        .await
        .unwrap_err();
    assert_eq!(error.diagnostics()["signal"], 9);
}

#[tokio::test]
async fn the_environment_holds_three_names_and_those_of_the_operator() {
    let (mut config, _directory) = with_shell();
    let named = ["GIVEN", "CARGO_MANIFEST_DIR"].map(str::to_owned);
    Arc::get_mut(&mut config).unwrap().variables = named.into();
    let output = shell(&config, "env", json!({ "env": { "GIVEN": "1" } }), context())
        .await
        .unwrap();
    let allowed = [
        "PATH",
        "HOME",
        "LANG",
        "GIVEN",
        "CARGO_MANIFEST_DIR",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
    ];
    let names: Vec<_> = output
        .stdout
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    assert!(names.contains(&"GIVEN"));
    assert!(names.contains(&"CARGO_MANIFEST_DIR"), "of the worker itself");
    let refused = [
        "LD_PRELOAD",
        "PATH",
        "HOME",
        "BASH_ENV",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "A=B",
        "",
    ];
    for name in refused {
        let error = shell(&config, "true", json!({ "env": { name: "x" } }), context())
            .await
            .unwrap_err();
        assert_eq!(error.code(), "PROCESS_NOT_ALLOWED", "{name}");
        assert!(
            error
                .message()
                .ends_with("--allow-variable CARGO_MANIFEST_DIR,GIVEN"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_working_directory_stays_below_the_root() {
    let (config, directory) = with_shell();
    fs::create_dir(directory.path().join("sub")).unwrap();
    std::os::unix::fs::symlink("/", directory.path().join("link")).unwrap();
    let output = shell(&config, "pwd", json!({ "cwd": "sub" }), context())
        .await
        .unwrap();
    assert!(output.stdout.trim().ends_with("/sub"));
    for cwd in ["..", "/", "link"] {
        let error = shell(&config, "pwd", json!({ "cwd": cwd }), context())
            .await
            .unwrap_err();
        assert_eq!(error.code(), "FILE_NOT_ALLOWED", "{cwd}");
    }
}

#[tokio::test]
async fn output_beyond_the_limit_is_cut_and_said_so() {
    let (config, _directory) = with_shell();
    let script = "head -c 300000 /dev/zero | tr '\\0' x; head -c 11 /dev/zero | tr '\\0' y >&2";
    let output = shell(&config, script, json!({ "output_bytes_max": 10 }), context())
        .await
        .unwrap();
    assert_eq!(
        (output.stdout.as_str(), output.stdout_truncated),
        ("xxxxxxxxxx", true)
    );
    assert_eq!(
        (output.stderr.as_str(), output.stderr_truncated),
        ("yyyyyyyyyy", true)
    );
    let exact = shell(
        &config,
        "printf 0123456789",
        json!({ "output_bytes_max": 10 }),
        context(),
    )
    .await
    .unwrap();
    assert!(!exact.stdout_truncated);
}

#[tokio::test]
async fn json_on_stdout_is_parsed_where_asked() {
    let (config, _directory) = with_shell();
    let output = shell(
        &config,
        "echo '{\"a\": [1]}'",
        json!({ "parse_json": true }),
        context(),
    )
    .await
    .unwrap();
    assert_eq!(output.json.unwrap()["a"][0], 1);
    let error = shell(&config, "echo nonsense", json!({ "parse_json": true }), context())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "PROCESS_OUTPUT");
}

#[tokio::test]
async fn stdout_goes_into_a_file_where_asked() {
    let (config, directory) = with_shell();
    fs::write(directory.path().join("in"), "from a file").unwrap();
    let more = json!({ "stdin_file": "in", "stdout_file": "made/out" });
    let output = shell(&config, "cat", more, context()).await.unwrap();
    assert_eq!(output.stdout, "");
    assert_eq!(output.stdout_file.unwrap().bytes, 11);
    assert_eq!(
        fs::read_to_string(directory.path().join("made/out")).unwrap(),
        "from a file"
    );
}

#[tokio::test]
async fn a_cancellation_kills_grandchildren_too() {
    let (config, directory) = with_shell();
    let attempt = context();
    let script = "sleep 300 & echo $! > grandchild; sh -c 'sleep 301 & echo $! > deeper; wait' & wait";
    let running = tokio::spawn({
        let (config, attempt) = (config.clone(), attempt.clone());
        async move { shell(&config, script, json!({}), attempt).await }
    });
    let grandchild = pid_in(&directory.path().join("grandchild")).await;
    let deeper = pid_in(&directory.path().join("deeper")).await;
    assert!(is_running(&grandchild) && is_running(&deeper));
    cancel(&attempt);
    assert_eq!(running.await.unwrap().unwrap_err().code(), "CANCELLED");
    eventually("the end of both grandchildren", || {
        !is_running(&grandchild) && !is_running(&deeper)
    })
    .await;
}

#[tokio::test]
async fn an_aborted_handler_kills_grandchildren_too() {
    let (config, directory) = with_shell();
    let running = tokio::spawn({
        let config = config.clone();
        async move {
            shell(
                &config,
                "sleep 300 & echo $! > grandchild; wait",
                json!({}),
                context(),
            )
            .await
        }
    });
    let grandchild = pid_in(&directory.path().join("grandchild")).await;
    running.abort();
    eventually("the end of the grandchild", || !is_running(&grandchild)).await;
}

#[tokio::test]
async fn a_child_left_in_the_background_ends_with_its_parent_and_does_not_hold_it_up() {
    let (config, directory) = with_shell();
    // The background process keeps stdout open, so waiting for its end would take 300 s.
    let script = "sleep 300 & echo $! > background; echo done";
    let output = shell(&config, script, json!({}), context()).await.unwrap();
    assert_eq!(output.stdout, "done\n");
    let background = pid_in(&directory.path().join("background")).await;
    eventually("the end of the background process", || !is_running(&background)).await;
}

#[tokio::test]
async fn a_program_is_killed_at_its_own_limit() {
    let (config, _directory) = with_shell();
    let error = shell(&config, "sleep 300", json!({ "timeout_ms": 20 }), context())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "PROCESS_TIMEOUT");
}

#[tokio::test]
async fn output_that_grows_beyond_a_step_s_output_when_encoded_is_an_error_that_a_plan_may_skip() {
    let (config, _directory) = with_shell();
    let numbers = "printf '[1'; yes ,1 | head -n 100000; printf ']'";
    let json = json!({ "parse_json": true, "output_bytes_max": 500_000 });
    // Each byte becomes a replacement character of three.
    let binary = "head -c 500000 /dev/zero | tr '\\0' '\\377'";
    for (script, more) in [(numbers, json), (binary, json!({ "output_bytes_max": 500_000 }))] {
        let error = shell(&config, script, more, context()).await.unwrap_err();
        assert_eq!(
            (error.code(), error.stated_severity()),
            ("PROCESS_OUTPUT", None),
            "{script}"
        );
    }
}

#[tokio::test]
async fn the_exit_code_survives_binary_output_on_both_streams() {
    let (config, _directory) = with_shell();
    let script = "head -c 9000 /dev/zero | tr '\\0' '\\377' | tee /dev/stderr; exit 7";
    let error = shell(&config, script, json!({}), context()).await.unwrap_err();
    assert_eq!(error.diagnostics()["exit_code"], 7);
    assert!(to_opaque(error.diagnostics()).len() < 16 << 10);
}

#[tokio::test]
async fn a_link_put_in_the_place_of_a_checked_directory_is_not_entered() {
    let (config, directory) = with_shell();
    let place = directory.path().join("sub");
    fs::create_dir(&place).unwrap();
    let checked = config.root.as_ref().unwrap().directory("sub").unwrap();
    fs::rename(&place, directory.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("/", &place).unwrap();
    let mut command = Command::new("/bin/pwd");
    command.current_dir(&checked);
    let finished = escapement_worker::process::run(command, Vec::new(), 4096, 4096)
        .await
        .unwrap();
    let entered = finished.stdout.text();
    assert!(entered.trim().ends_with("/moved"), "{entered}");
}

#[tokio::test]
async fn what_a_program_prints_as_json_keeps_its_digits() {
    let (config, _directory) = with_shell();
    let printed = |text: &'static str| {
        let config = config.clone();
        async move {
            shell(
                &config,
                &format!("printf '{text}'"),
                json!({ "parse_json": true }),
                context(),
            )
            .await
        }
    };
    let output = printed(r#"{"id": 2512292042121000001}"#).await.unwrap();
    assert_eq!(output.json, Some(json!({ "id": "2512292042121000001" })));
    let error = printed(r#"{"id": 1, "id": 2}"#).await.unwrap_err();
    assert_eq!(error.code(), "PROCESS_OUTPUT");
    assert!(error.message().contains("comes twice"), "{error}");
}

#[tokio::test]
async fn a_program_that_prints_the_worker_s_token_tells_nobody() {
    let (config, directory) = with_shell();
    let mut config = Arc::into_inner(config).unwrap();
    config.secrets = Secrets::new(["of-the-worker".to_owned()], []);
    let config = Arc::new(config);
    for (script, more) in [
        ("echo of-the-worker; echo of-the-worker >&2", json!({})),
        ("echo of-the-worker; exit 3", json!({})),
        ("echo of-the-worker", json!({ "stdout_file": "out" })),
    ] {
        let told = match shell(&config, script, more, context()).await {
            Ok(output) => serde_json::to_string(&output).unwrap(),
            Err(error) => format!("{:?}", error.diagnostics()),
        };
        let written = fs::read_to_string(directory.path().join("out")).unwrap_or_default();
        let told = told + &written;
        assert!(
            told.contains("[secret]") && !told.contains("of-the-worker"),
            "{script}: {told}"
        );
    }
}
