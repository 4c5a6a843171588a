//! Draws curves as SVG: axes, ticks, lines with their spread, a legend. Measures nothing and knows no curve.

mod scale;
mod svg;

pub(crate) use scale::Scale;

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// Above the drawing.
    pub(crate) title: String,
    /// From left to right.
    pub(crate) x: Axis,
    /// From bottom to top.
    pub(crate) y: Axis,
    /// From the first drawn to the last.
    pub(crate) lines: Vec<Line>,
}

/// One direction of the drawing.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// What it counts.
    pub(crate) label: String,
    /// How values become places.
    pub(crate) scale: Scale,
}

/// Points with a line through their middles and a band from their lows to their highs.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What the legend says.
    pub(crate) name: String,
    /// Lines of one colour belong together.
    pub(crate) colour: usize,
    /// How the line runs.
    pub(crate) stroke: Stroke,
    /// Sorted by `x`.
    pub(crate) points: Vec<Point>,
}

/// How a line runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stroke {
    /// What the drawing is about.
    Solid,
    /// What it is compared with.
    Dashed,
    /// What is there to see how far the others are from it.
    Dotted,
}

/// One measured place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// On the horizontal axis.
    pub(crate) x: f64,
    /// The least.
    pub(crate) low: f64,
    /// The median.
    pub(crate) middle: f64,
    /// The most.
    pub(crate) high: f64,
}

impl Plot {
    /// The whole file.
    ///
    /// # Panics
    /// There is no point.
    pub(crate) fn svg(&self) -> String {
        svg::draw(self)
    }
}
