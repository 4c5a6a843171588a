//! Commands of the orchestrator's binary, beside processes that serve. Judges nothing but that one succeeds.

/// Runs a command; the workers of the story live on meanwhile. True if it succeeded, and all that it said.
pub(crate) async fn ran(arguments: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new(escapement_tests::Binaries::build().unwrap().orchestrator);
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let [said, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    (output.status.success(), format!("{said}{complained}"))
}

/// Runs a command that must succeed.
pub(crate) async fn succeeds(arguments: &[&str]) {
    let (has_succeeded, said) = ran(arguments).await;
    assert!(has_succeeded, "{arguments:?}: {said}");
}
