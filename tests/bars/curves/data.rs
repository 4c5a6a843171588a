//! Measured figures as they are kept: raw, round by round, so that tables and drawings can be made again. Judges nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use escapement_tests::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::Machine;

/// All curves by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) curves: BTreeMap<String, Curve>,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Curve {
    pub(super) measured: Measured,
    /// What else was found, one sentence each.
    pub(super) notes: Vec<String>,
    pub(super) series: Vec<Series>,
}

/// When and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(super) on: String,
    /// True for small sizes and few rounds: a look, not a figure.
    pub(super) is_quick: bool,
    pub(super) machine: Machine,
}

/// A line of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) unit: String,
    pub(super) points: Vec<Point>,
}

/// What a line is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    /// The product.
    Product,
    /// The floor, under the name of the line of the product that it stands beside.
    Floor,
    /// What it is good to see beside both.
    Reference,
}

/// All rounds at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) rounds: Vec<f64>,
}

impl Curve {
    /// Notes a figure of one more round.
    pub(super) fn note(&mut self, (name, role, unit): (&str, Role, &str), x: f64, value: f64) {
        let is_it = |series: &Series| series.name == name && series.role == role && series.unit == unit;
        let at = self.series.iter().position(is_it).unwrap_or_else(|| {
            self.series.push(Series {
                name: name.to_owned(),
                role,
                unit: unit.to_owned(),
                points: Vec::new(),
            });
            self.series.len() - 1
        });
        let points = &mut self.series[at].points;
        let at = points.iter().position(|point| point.x == x).unwrap_or_else(|| {
            points.push(Point {
                x,
                rounds: Vec::new(),
            });
            points.len() - 1
        });
        points[at].rounds.push(shortened(value));
    }
}

impl Results {
    /// What is kept in a folder; nothing where nothing is kept.
    pub(super) fn read(folder: &Path) -> Result<Self, Fault> {
        read(&folder.join(FOLDER).join(CURVES))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), Fault> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        Ok(fs::write(folder.join(FOLDER).join(CURVES), text)?)
    }
}

/// The bars that were measured, each as its line of JSON, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BarLines {
    pub(super) bars: Vec<BarLine>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BarLine {
    pub(super) measured: Measured,
    pub(super) line: Value,
}

impl BarLines {
    pub(super) fn read(folder: &Path) -> Result<Self, Fault> {
        read(&folder.join(FOLDER).join(BARS))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), Fault> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        Ok(fs::write(folder.join(FOLDER).join(BARS), text)?)
    }

    /// With these lines in the places of those of the same bars, and new ones at the end.
    pub(super) fn with(mut self, lines: &[String], measured: &Measured) -> Result<Self, Fault> {
        for line in lines {
            let line: Value = serde_json::from_str(line)?;
            let measured = measured.clone();
            match self.bars.iter_mut().find(|bar| bar.line["bar"] == line["bar"]) {
                Some(bar) => *bar = BarLine { measured, line },
                None => self.bars.push(BarLine { measured, line }),
            }
        }
        Ok(self)
    }
}

fn read<T: Default + for<'a> Deserialize<'a>>(file: &Path) -> Result<T, Fault> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(serde_json::from_str(&text)?),
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(fault) => Err(fault.into()),
    }
}

/// To five digits: no measurement here is more exact.
fn shortened(value: f64) -> f64 {
    format!("{value:.4e}")
        .parse()
        .expect("a number that was just written")
}

/// Beside the page.
pub(super) const FOLDER: &str = "results";
const CURVES: &str = "curves.json";
const BARS: &str = "bars.json";

#[cfg(test)]
mod tests {
    use super::{BarLines, Curve, Measured, Results, Role};
    use escapement_tests::PrivateDirectory;
    use serde_json::json;

    #[test]
    fn rounds_gather_at_their_place_and_line() {
        let mut curve = Curve::default();
        let (product, floor) = (("chain", Role::Product, "us"), ("chain", Role::Floor, "us"));
        for value in [3.0, 1.234_567, 2.0] {
            curve.note(product, 8.0, value);
            curve.note(floor, 8.0, value / 2.0);
        }
        curve.note(product, 64.0, 5.0);
        assert_eq!(curve.series.len(), 2);
        assert_eq!(curve.series[0].points[0].rounds, [3.0, 1.2346, 2.0]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let directory = PrivateDirectory::new("curves").unwrap();
        std::fs::create_dir(directory.join("results")).unwrap();
        assert_eq!(Results::read(directory.path()).unwrap(), Results::default());
        let mut results = Results::default();
        let mut curve = Curve::default();
        curve.note(("chain", Role::Reference, "us"), 1.0, 0.1);
        results.curves.insert("steps".to_owned(), curve);
        results.write(directory.path()).unwrap();
        assert_eq!(Results::read(directory.path()).unwrap(), results);
    }

    #[test]
    fn a_bar_that_is_measured_again_replaces_its_line() {
        let line = |name: &str, value: f64| json!({ "bar": name, "value": value }).to_string();
        let measured = Measured::default();
        let bars = BarLines::default()
            .with(&[line("a", 1.0), line("b", 2.0)], &measured)
            .unwrap();
        let bars = bars.with(&[line("c", 4.0), line("a", 3.0)], &measured).unwrap();
        let values: Vec<f64> = bars
            .bars
            .iter()
            .map(|bar| bar.line["value"].as_f64().unwrap())
            .collect();
        assert_eq!(values, [3.0, 2.0, 4.0]);
    }
}
