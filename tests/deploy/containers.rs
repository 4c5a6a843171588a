//! What the players of compose files and of charts share: YAML, and what the images bring along.

use escapement_tests::{checkout, piped, tool};
use serde_json::Value;

/// The documents of a YAML text, read by Python. `None` if that is missing, which is noted.
pub(crate) fn documents(text: &str) -> Option<Vec<Value>> {
    let python = tool("python/bin/python", "`cargo verify` installs it")?;
    let program =
        "import json, sys, yaml; print(json.dumps([one for one in yaml.safe_load_all(sys.stdin) if one]))";
    let output = piped(&python, &["-c", program], text).unwrap();
    assert!(output.status.success(), "{text}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The texts of a list that may be missing.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The lines of the stage of the Dockerfile that makes the image of a program, continued ones joined.
fn stage(program: &str) -> Vec<String> {
    let file = std::fs::read_to_string(checkout::root().join("deploy/Dockerfile")).unwrap();
    let stages = file.replace("\\\n", " ");
    let is_its = |stage: &&str| stage.lines().next().is_some_and(|from| from.ends_with(program));
    let lines: Vec<String> = stages
        .split("\nFROM ")
        .find(is_its)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    assert!(lines.contains(&format!("ENTRYPOINT [\"/usr/local/bin/{program}\"]")));
    lines
}

/// The variables that the image of a program sets.
pub(crate) fn image_variables(program: &str) -> Vec<(String, String)> {
    let lines = stage(program);
    let variables = lines.iter().filter_map(|line| line.strip_prefix("ENV "));
    let variables = variables
        .flat_map(str::split_whitespace)
        .map(|variable| variable.split_once('=').unwrap());
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The line of the health check of the orchestrator's image.
pub(crate) fn health_check() -> String {
    let lines = stage("orchestrator");
    lines
        .into_iter()
        .find(|line| line.starts_with("HEALTHCHECK "))
        .unwrap()
}

/// A text with what stands for something in a container in the words of this machine. What was put in stays as it is.
pub(crate) fn translated(text: &str, here: &[(String, String)]) -> String {
    let mut rest = text;
    let mut said = String::new();
    while let Some(letter) = rest.chars().next() {
        let begins = here.iter().filter(|(there, _)| rest.starts_with(there.as_str()));
        match begins.max_by_key(|(there, _)| there.len()) {
            Some((there, here)) => {
                said.push_str(here);
                rest = &rest[there.len()..];
            }
            None => {
                said.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    said
}
