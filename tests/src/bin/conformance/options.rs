//! The command line. Starts nothing.

use std::ffi::OsString;

/// What the kit is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Name the checks.
    List,
    /// Judge a worker.
    Judge(Options),
}

/// How to judge.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only checks whose names hold one of these; all where there is none.
    pub(crate) only: Vec<String>,
    /// The worker and its arguments.
    pub(crate) command: Vec<OsString>,
}

impl Options {
    /// Returns true for a check that is wanted.
    pub(crate) fn selects(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }
}

/// Reads the arguments: options first, then the command, with or without `--` before it.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut arguments = arguments.into_iter().peekable();
    let mut options = Options::default();
    while let Some(option) = arguments.next_if(|argument| argument.to_string_lossy().starts_with("--")) {
        match option.to_str() {
            Some("--list") => return Ok(Request::List),
            Some("--only") => {
                let part = arguments
                    .next()
                    .ok_or("`--only` takes a part of a check's name")?;
                options.only.push(part.to_string_lossy().into_owned());
            }
            // `cargo conformance -- --only NAME COMMAND` says `--` before its options.
            Some("--") => {}
            _ => return Err(format!("unknown option {}\n{USAGE}", option.to_string_lossy())),
        }
    }
    options.command = arguments.collect();
    if options.command.is_empty() {
        return Err(format!("there is no command to judge\n{USAGE}"));
    }
    Ok(Request::Judge(options))
}

const USAGE: &str = "usage: cargo conformance -- [--list] [--only PART_OF_A_NAME]... COMMAND [ARGUMENT]...";

#[cfg(test)]
mod tests {
    use super::{Options, Request, parse};
    use std::ffi::OsString;

    fn parsed(text: &str) -> Result<Request, String> {
        parse(text.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_keeps_its_own_options() {
        for text in [
            "--only a --only b -- worker --only c",
            "-- --only a --only b worker --only c",
        ] {
            let only = vec!["a".to_owned(), "b".to_owned()];
            let command = ["worker", "--only", "c"].map(OsString::from).into();
            assert_eq!(parsed(text), Ok(Request::Judge(Options { only, command })));
        }
    }

    #[test]
    fn without_a_command_there_is_a_usage() {
        assert!(parsed("--").unwrap_err().contains("usage:"));
        assert!(parsed("--every worker").unwrap_err().contains("unknown option"));
        assert_eq!(parsed("-- --list"), Ok(Request::List));
    }
}
