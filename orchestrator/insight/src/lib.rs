//! Drawings of plans and executions: the graph and the timeline, for a terminal or as SVG.
//! Beside them what looks like a mistake in a plan, with the names that a misspelt name may have meant.
//! Everything is a function of its arguments; nothing here executes or changes a plan.

#![warn(clippy::too_many_lines)]

pub mod advice;
mod answers;
mod explained;
mod exported;
mod graph;
mod input;
mod json;
mod layout;
mod plan;
mod rails;
#[cfg(test)]
mod samples;
pub mod scene;
mod story;

mod svg;
mod text;
mod words;

pub use input::{exported_file, read};
pub use json::Problem;
pub use svg::svg;
pub use text::text;

/// What of a scene is drawn, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// How the steps depend on each other.
    Dag,
    /// What they did when.
    Timeline,
    /// Both.
    Both,
}

impl View {
    /// True if the graph is wanted.
    pub fn shows_graph(self) -> bool {
        self != View::Timeline
    }

    /// True if the timeline is wanted.
    pub fn shows_timeline(self) -> bool {
        self != View::Dag
    }
}
