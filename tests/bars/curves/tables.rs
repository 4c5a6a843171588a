//! Figures as Markdown tables: curves by their places, bars by their names. Measures nothing.

use std::fmt::Write as _;

use serde_json::Value;

use super::data::{BarLines, Curve, Role, Series};
use super::shapes::Shape;
use crate::report::number;
use crate::statistics::Figure;

/// A row for each place, a column for each line; beside a line of the product its floor and the ratio of both.
pub(super) fn of_curve(shape: &Shape, curve: &Curve) -> String {
    let columns = columns(curve);
    let heads: Vec<String> = columns.iter().map(|column| column.head.clone()).collect();
    let mut table = row(std::iter::once(shape.x.0.to_owned()).chain(heads));
    table += &row(std::iter::repeat_n("---:".to_owned(), columns.len() + 1));
    for x in places(curve) {
        let cells = columns.iter().map(|column| column.cell(x));
        table += &row(std::iter::once(plain(x)).chain(cells));
    }
    table
}

/// A row for each bar.
pub(super) fn of_bars(bars: &BarLines) -> String {
    let heads = ["what", "measured", "beside it", "ratio", "aim", "met"];
    let mut table = row(heads.map(str::to_owned));
    table += &row(["---", "---:", "---:", "---:", "---", "---"].map(str::to_owned));
    for bar in &bars.bars {
        let line = &bar.line;
        let figure = |value: &str, low: &str, high: &str| -> Option<String> {
            let [value, low, high] = [value, low, high].map(|name| line[name].as_f64());
            Some(spread(value?, low?, high?))
        };
        let unit = line["unit"].as_str().unwrap_or_default();
        let measured = figure("value", "low", "high").map(|figure| format!("{figure} {unit}"));
        let beside = line["baseline_value"].as_f64().map(|value| {
            let name = line["baseline"].as_str().unwrap_or_default();
            format!("{name}: {}", number(value))
        });
        let met = if line["met"] == Value::Bool(true) {
            "yes"
        } else {
            "**no**"
        };
        let cells = [
            line["what"].as_str().unwrap_or_default().to_owned(),
            measured.unwrap_or_default(),
            beside.unwrap_or_default(),
            figure("ratio", "ratio_low", "ratio_high").unwrap_or_default(),
            aim(&line["aim"], unit),
            met.to_owned(),
        ];
        table += &row(cells);
    }
    table
}

/// A column with what stands in each row.
struct Column<'a> {
    head: String,
    value: &'a Series,
    by: Option<&'a Series>,
}

impl Column<'_> {
    fn cell(&self, x: f64) -> String {
        let at = |series: &Series| series.points.iter().find(|point| point.x == x).cloned();
        let Some(point) = at(self.value) else {
            return String::new();
        };
        let Some(by) = self.by else {
            return text(point.figure());
        };
        // Round by round: both were measured in the same minute.
        let by = at(by).map(|by| by.rounds).unwrap_or_default();
        let ratios: Vec<f64> = point
            .rounds
            .iter()
            .zip(by)
            .map(|(value, by)| value / by)
            .collect();
        if ratios.is_empty() {
            String::new()
        } else {
            format!("{:.2}", Figure::of(ratios).median)
        }
    }
}

fn columns(curve: &Curve) -> Vec<Column<'_>> {
    let mut columns = Vec::new();
    for series in curve.series.iter().filter(|series| series.role != Role::Floor) {
        let (name, unit) = (&series.name, &series.unit);
        columns.push(Column {
            head: format!("{name}, {unit}"),
            value: series,
            by: None,
        });
        if let Some(floor) = curve.floor_of(series).filter(|_| series.role == Role::Product) {
            let head = format!("{}, {unit}", floor_name(curve, series));
            columns.push(Column {
                head,
                value: floor,
                by: None,
            });
            columns.push(Column {
                head: "ratio".to_owned(),
                value: series,
                by: Some(floor),
            });
        }
    }
    columns
}

/// Says whose floor it is where there are several.
pub(super) fn floor_name(curve: &Curve, series: &Series) -> String {
    let floors = curve.series.iter().filter(|series| series.role == Role::Floor);
    let has_others = floors.map(|floor| &floor.name).any(|name| *name != series.name);
    if has_others {
        format!("{}: floor", series.name)
    } else {
        "floor".to_owned()
    }
}

fn places(curve: &Curve) -> Vec<f64> {
    let points = curve.series.iter().flat_map(|series| &series.points);
    let mut places: Vec<f64> = points.map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

fn aim(aim: &Value, unit: &str) -> String {
    let limit = aim["limit"].as_f64().unwrap_or_default();
    let is = aim["is"].as_str().unwrap_or_default();
    if aim["of"] == "ratio" {
        format!("ratio {is} {limit}")
    } else {
        format!("{is} {} {unit}", number(limit))
    }
}

fn text(figure: Figure) -> String {
    spread(figure.median, figure.low, figure.high)
}

fn spread(median: f64, low: f64, high: f64) -> String {
    let [median, low, high] = [median, low, high].map(number);
    if low == high {
        median
    } else {
        format!("{median} ({low} to {high})")
    }
}

/// A size or a percentile, with nothing added.
fn plain(value: f64) -> String {
    if value >= 1_000.0 {
        number(value)
    } else {
        value.to_string()
    }
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    let mut text = String::from("|");
    for cell in cells {
        write!(text, " {cell} |").expect("a text takes it");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::{of_bars, of_curve};
    use crate::curves::data::{BarLines, Curve, Measured, Role};
    use crate::curves::shapes::SHAPES;
    use serde_json::json;

    #[test]
    fn the_floor_stands_beside_its_line_and_the_ratio_is_by_rounds() {
        let mut curve = Curve::default();
        for (product, floor) in [(300.0, 100.0), (200.0, 200.0), (400.0, 100.0)] {
            curve.note(("chain", Role::Product, "us"), 8.0, product);
            curve.note(("chain", Role::Floor, "us"), 8.0, floor);
        }
        curve.note(("chain", Role::Product, "KiB"), 8.0, 12.0);
        curve.note(("chain", Role::Floor, "KiB"), 8.0, 4.0);
        curve.note(("limit", Role::Reference, "us"), 1_024.0, 1.0);
        let lines = [
            "| steps of the plan | chain, us | floor, us | ratio | chain, KiB | floor, KiB | ratio | limit, us |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            "| 8 | 300 (200 to 400) | 100 (100 to 200) | 3.00 | 12.0 | 4.00 | 3.00 |  |",
            "| 1,024 |  |  |  |  |  |  | 1.00 |",
        ];
        assert_eq!(of_curve(&SHAPES[0], &curve).trim_end(), lines.join("\n"));
    }

    #[test]
    fn a_bar_that_is_not_met_is_seen() {
        let line = json!({
            "bar": "rate", "what": "calls", "unit": "calls/s", "value": 6_000.0, "low": 5_000.0, "high": 7_000.0,
            "baseline": "floor", "baseline_value": 12_000.0, "ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6,
            "aim": { "of": "value", "is": "at least", "limit": 6_500.0 }, "met": false,
        });
        let plain = json!({
            "bar": "size", "what": "program", "unit": "MiB", "value": 20.0, "low": 20.0, "high": 20.0,
            "aim": { "of": "value", "is": "under", "limit": 30.0 }, "met": true,
        });
        let bars = BarLines::default()
            .with(&[line.to_string(), plain.to_string()], &Measured::default())
            .unwrap();
        let lines = [
            "| what | measured | beside it | ratio | aim | met |",
            "| --- | ---: | ---: | ---: | --- | --- |",
            "| calls | 6,000 (5,000 to 7,000) calls/s | floor: 12,000 | 0.50 (0.40 to 0.60) | at least 6,500 calls/s | **no** |",
            "| program | 20.0 MiB |  |  | under 30.0 MiB | yes |",
        ];
        assert_eq!(of_bars(&bars).trim_end(), lines.join("\n"));
    }
}
