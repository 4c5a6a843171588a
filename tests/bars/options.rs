//! The command line. Measures nothing.

use crate::rounds::Extent;

/// What the program is asked to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    /// Measure the bars.
    Bars(Options),
    /// Measure the curves.
    Curves(Options),
    /// Be the server of the floor; asked by this program only.
    FloorServer,
    /// Be the worker of the floor; asked by this program only.
    FloorWorker {
        /// Where the floor's server is.
        url: String,
    },
}

/// How to measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// How long and how often.
    pub(crate) extent: Extent,
    /// Only groups whose names hold one of these; all where there is none.
    pub(crate) only: Vec<String>,
    /// Keep what is measured.
    pub(crate) writes: bool,
    /// Place the stores in memory instead of on the disk.
    pub(crate) in_memory: bool,
}

impl Options {
    /// Returns true for a group of bars that is wanted. Pages of a store in memory are never dropped from a cache.
    pub(crate) fn selects(&self, name: &str) -> bool {
        if self.in_memory && name == "restart" {
            return false;
        }
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Reads the arguments.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Task, String> {
    let mut arguments = arguments.into_iter();
    let mut options = Options::default();
    let mut task: fn(Options) -> Task = Task::Bars;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.extent = Extent::QUICK,
            "--write" => options.writes = true,
            "--memory" => options.in_memory = true,
            "--curves" => task = Task::Curves,
            "--only" => {
                let part = arguments.next().ok_or("`--only` takes a part of a name")?;
                options.only.push(part);
            }
            // `cargo bars -- --quick` says `--` before its options.
            "--" => {}
            "floor-server" => return Ok(Task::FloorServer),
            "floor-worker" => {
                let url = arguments.next().ok_or("`floor-worker` takes a URL")?;
                return Ok(Task::FloorWorker { url });
            }
            other => return Err(format!("unknown argument `{other}`\n{USAGE}")),
        }
    }
    let task = task(options);
    match &task {
        Task::Bars(options) if options.in_memory && options.writes => {}
        Task::Curves(options) if options.in_memory => {}
        _ => return Ok(task),
    }
    Err(format!("`--memory` measures bars, and keeps nothing\n{USAGE}"))
}

const USAGE: &str =
    "usage: cargo bars -- [--curves | --write | --memory] [--quick] [--only PART_OF_A_NAME]...";

#[cfg(test)]
mod tests {
    use super::{Options, Task, parse};
    use crate::rounds::Extent;

    fn parsed(text: &str) -> Result<Task, String> {
        parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_may_follow_two_dashes() {
        let options = Options {
            extent: Extent::QUICK,
            only: vec!["chain".to_owned()],
            ..Options::default()
        };
        assert_eq!(parsed("-- --quick --only chain"), Ok(Task::Bars(options)));
    }

    #[test]
    fn curves_are_measured_by_the_same_options() {
        let options = Options {
            only: vec!["latency".to_owned()],
            ..Options::default()
        };
        assert_eq!(parsed("--curves --only latency"), Ok(Task::Curves(options)));
    }

    #[test]
    fn results_of_stores_in_memory_are_not_written() {
        let options = Options {
            in_memory: true,
            ..Options::default()
        };
        assert!(options.selects("single") && !options.selects("restart"));
        assert_eq!(parsed("--memory"), Ok(Task::Bars(options)));
        for kept in ["--memory --write", "--memory --curves"] {
            assert!(parsed(kept).unwrap_err().contains("`--memory`"), "{kept}");
        }
    }

    #[test]
    fn an_unknown_argument_is_answered_with_the_usage() {
        assert!(parsed("--slow").unwrap_err().contains("usage:"));
    }
}
