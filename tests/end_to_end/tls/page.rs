//! The commands of the operator's page lead from nothing to mutual TLS.

use crate::grpcurl::INSTALL;
use crate::world::LIMIT;
use escapement_tests::{Binaries, ChildProcess, Orchestrator, PrivateDirectory, checkout, skip, tool};
use std::path::Path;
use std::process::Command;

/// Returns the commands of the first block for a shell, one a line, continued lines joined.
fn commands() -> Vec<String> {
    let page = std::fs::read_to_string(checkout::root().join("deploy/TLS.md")).unwrap();
    let block = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    block.replace("\\\n", "").lines().map(str::to_owned).collect()
}

fn run(directory: &Path, program: &Path, line: &str) -> String {
    let output = Command::new("sh")
        .args([
            "-ec",
            &line.replacen("grpcurl", &program.display().to_string(), 1),
        ])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// One of the lines that go on in the background.
fn launch(directory: &Path, program: &Path, line: &str) -> ChildProcess {
    let (name, flags) = line.trim_end_matches(" &").split_once(' ').unwrap();
    let mut command = Command::new(program);
    command.args(flags.split(' ')).current_dir(directory);
    ChildProcess::start(name, &mut command, &directory.join(format!("{name}.stderr"))).unwrap()
}

#[tokio::test]
async fn ten_commands_lead_from_nothing_to_mutual_tls() {
    let Some(grpcurl) = tool("grpcurl", INSTALL) else {
        return;
    };
    if Command::new("openssl").arg("version").output().is_err() {
        return skip("openssl is not installed");
    }
    let binaries = Binaries::build().unwrap();
    let commands = commands();
    assert!(commands.len() <= 10);
    let directory = PrivateDirectory::new("tls-page").unwrap();
    let (mut address, mut processes) = ("127.0.0.1:0".to_owned(), Vec::new());
    for line in &commands {
        let line = line.replace("127.0.0.1:7443", &address);
        match line.split(' ').next().unwrap() {
            "orchestrator" if line.ends_with('&') => {
                let mut process = launch(directory.path(), &binaries.orchestrator, &line);
                let served = Orchestrator::announced(&mut process).await.unwrap();
                address = served.to_string();
                processes.push(process);
            }
            "orchestrator" => {
                let program = binaries.orchestrator.display().to_string();
                run(
                    directory.path(),
                    &grpcurl,
                    &line.replacen("orchestrator", &program, 1),
                );
            }
            "worker" => {
                let mut process = launch(directory.path(), &binaries.worker, &line);
                process.announcement("connected", LIMIT).await.unwrap();
                processes.push(process);
            }
            "grpcurl" => {
                let listed = run(directory.path(), &grpcurl, &line);
                assert!(listed.contains("\"state\": \"active\""), "{listed}");
            }
            _ => drop(run(directory.path(), &grpcurl, &line)),
        }
    }
    assert_eq!(processes.len(), 2);
}
