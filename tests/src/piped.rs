//! A program that reads a text and says something of it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::Fault;

/// Runs a program with a text on its stdin, and waits for its end. It has to read all of the text before it says much.
///
/// # Errors
/// It cannot be started, or does not read the text.
pub fn piped(program: &Path, arguments: &[&str], text: &str) -> Result<Output, Fault> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("a piped stdin is there")?;
    stdin.write_all(text.as_bytes())?;
    drop(stdin);
    Ok(child.wait_with_output()?)
}
