//! `orchestrator render`: reads the files, writes the drawing. Decides nothing about how it looks.

use crate::said::read_at_most;
use crate::{Failure, run_scene};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use escapement_insight::scene::Scene;
use escapement_insight::{Problem, View, exported_file, read, svg, text};
use escapement_run::record::is_record;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

/// Flags of `render`.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// As what it is drawn.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// What is drawn: how steps depend on each other, what they did when, or what of both is known.
    #[arg(long, value_enum, default_value = "both")]
    view: Drawn,
    /// The plan of an execution whose record or simulation is the input.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// The file to write, in place of stdout; one that exists is replaced.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Columns of text, 60 to 400 (default 100), or pixels of SVG, 600 to 8000 (default 1280). A large graph takes more pixels.
    #[arg(long, value_name = "N")]
    width: Option<u16>,
    /// What to draw; `-` is stdin.
    #[arg(value_name = "INPUT")]
    input: PathBuf,
}

/// What of a scene is drawn, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Drawn {
    /// How the steps depend on each other.
    Dag,
    /// What they did when.
    Timeline,
    /// Both.
    Both,
}

impl Drawn {
    fn view(self) -> View {
        match self {
            Drawn::Dag => View::Dag,
            Drawn::Timeline => View::Timeline,
            Drawn::Both => View::Both,
        }
    }
}

/// As what a scene is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for a terminal.
    Text,
    /// A picture for a browser.
    Svg,
}

/// Draws it.
///
/// # Errors
/// [`Failure`]: wrong flags, an input that cannot be drawn, a file that cannot be used.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let width = width(flags)?;
    let view = flags.view.view();
    let plan = flags.plan.as_deref().map(contents).transpose()?;
    let input = contents(&flags.input)?;
    let draw = || -> Result<String, Problem> {
        let scene = match (record_of_run(&input), &plan) {
            (Some(_), Some(_)) => {
                return Err(Problem(
                    "the record of a run holds its plans: leave --plan out".to_owned(),
                ));
            }
            (Some(record), None) => run_scene::scene(&record)?,
            (None, plan) => read(&input, plan.as_deref())?,
        };
        is_known(&scene, view)?;
        Ok(match flags.format {
            Format::Text => text(&scene, view, width),
            Format::Svg => svg(&scene, view, width),
        })
    };
    let drawing = draw().map_err(|Problem(problem)| Failure::Input {
        path: flags.input.clone(),
        problem,
    })?;
    match &flags.to {
        Some(path) => std::fs::write(path, drawing).map_err(|source| unusable(path, source)),
        None => {
            let mut stdout = stdout().lock();
            // The reader has closed stdout and does not want to see more.
            let _closed = stdout.write_all(drawing.as_bytes()).and_then(|()| stdout.flush());
            Ok(())
        }
    }
}

/// Returns the record of a run, as a file or as grpcurl prints what `ExportRun` streams.
fn record_of_run(input: &[u8]) -> Option<Bytes> {
    if is_record(input) {
        return Some(Bytes::copy_from_slice(input));
    }
    let joined = exported_file(input).ok()?;
    is_record(&joined).then(|| Bytes::from(joined))
}

fn width(flags: &Flags) -> Result<usize, Failure> {
    let (range, default) = match flags.format {
        Format::Text => (60..=400, 100),
        Format::Svg => (600..=8_000, 1_280),
    };
    let width = flags.width.unwrap_or(default);
    if range.contains(&width) {
        return Ok(usize::from(width));
    }
    Err(Failure::Configuration {
        setting: "--width",
        problem: format!("must be {} to {} for this format", range.start(), range.end()),
    })
}

/// What was asked for by name must be there.
fn is_known(scene: &Scene, view: View) -> Result<(), Problem> {
    match view {
        View::Dag if !scene.has_graph => Err(Problem(
            "the graph is not known: give the plan with --plan FILE".to_owned(),
        )),
        View::Timeline if scene.story.is_none() => Err(Problem(
            "a plan by itself has no timeline: simulate it, or give the record of an execution".to_owned(),
        )),
        View::Dag | View::Timeline | View::Both => Ok(()),
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, Failure> {
    let contents = read_at_most(path, |_| INPUT_BYTES_MAX).map_err(|source| unusable(path, source))?;
    contents.ok_or_else(|| Failure::Input {
        path: path.to_owned(),
        problem: format!("it is larger than {} MiB", INPUT_BYTES_MAX >> 20),
    })
}

fn unusable(path: &Path, source: std::io::Error) -> Failure {
    Failure::File {
        path: path.to_owned(),
        source,
    }
}

/// The largest answer with its bytes as JSON texts, and some to spare.
const INPUT_BYTES_MAX: u64 = 256 << 20;
