//! The page: tables and drawings between its markers, made from the kept figures. Measures nothing and changes no other line.

use std::fs;
use std::path::Path;

use escapement_tests::Fault;

use super::data::{self, BarLines, Curve, Measured, Results, Role};
use super::machine::Machine;
use super::shapes::{SHAPES, Shape};
use super::tables;
use crate::plot::{Axis, Line, Plot, Point, Stroke};
use crate::statistics::Figure;

/// Writes the drawings and the parts of the page that are made from figures.
pub(super) fn write(folder: &Path) -> Result<(), Fault> {
    let (results, bars) = (Results::read(folder)?, BarLines::read(folder)?);
    for (shape, curve) in drawn(&results) {
        let file = folder.join(data::FOLDER).join(format!("{}.svg", shape.name));
        fs::write(file, plot(shape, curve).svg())?;
    }
    let file = folder.join("README.md");
    let page = fs::read_to_string(&file)?;
    let machines = machines(&results, &bars);
    let page = replaced(&page, "machine", &machine_part(&machines, &results, &bars))?;
    let page = replaced(&page, "bars", &bars_part(&bars, &machines))?;
    let page = replaced(&page, "curves", &curves_part(&results, &machines))?;
    Ok(fs::write(file, page)?)
}

fn drawn(results: &Results) -> impl Iterator<Item = (&'static Shape, &Curve)> {
    SHAPES
        .iter()
        .filter_map(|shape| Some((shape, results.curves.get(shape.name)?)))
}

fn plot(shape: &Shape, curve: &Curve) -> Plot {
    let mut lines = Vec::new();
    let shown = curve
        .series
        .iter()
        .filter(|series| series.role != Role::Floor && series.unit == shape.unit);
    for (colour, series) in shown.enumerate() {
        let floor = curve
            .floor_of(series)
            .map(|floor| (tables::floor_name(curve, series), Stroke::Dashed, floor));
        let stroke = if series.role == Role::Reference {
            Stroke::Dotted
        } else {
            Stroke::Solid
        };
        for (name, stroke, series) in [Some((series.name.clone(), stroke, series)), floor]
            .into_iter()
            .flatten()
        {
            let mut points: Vec<Point> = series
                .points
                .iter()
                .map(|point| spot(point.x, point.figure()))
                .collect();
            points.sort_by(|one, other| one.x.total_cmp(&other.x));
            lines.push(Line {
                name,
                colour,
                stroke,
                points,
            });
        }
    }
    let axis = |(label, scale): (&str, _)| Axis {
        label: label.to_owned(),
        scale,
    };
    Plot {
        title: shape.title.to_owned(),
        x: axis(shape.x),
        y: axis(shape.y),
        lines,
    }
}

fn spot(
    x: f64,
    Figure {
        low, median, high, ..
    }: Figure,
) -> Point {
    Point {
        x,
        low,
        middle: median,
        high,
    }
}

/// All machines that something was measured on, in the order of the page.
fn machines<'a>(results: &'a Results, bars: &'a BarLines) -> Vec<&'a Machine> {
    let mut machines: Vec<&Machine> = Vec::new();
    for measured in all_measured(results, bars) {
        if !machines.iter().any(|machine| machine.is_like(&measured.machine)) {
            machines.push(&measured.machine);
        }
    }
    machines
}

fn all_measured<'a>(results: &'a Results, bars: &'a BarLines) -> impl Iterator<Item = &'a Measured> {
    let of_bars = bars.bars.iter().map(|bar| &bar.measured);
    of_bars.chain(drawn(results).map(|(_, curve)| &curve.measured))
}

fn machine_part(machines: &[&Machine], results: &Results, bars: &BarLines) -> String {
    let mut part = String::new();
    for (index, machine) in machines.iter().enumerate() {
        let on_it = all_measured(results, bars).filter(|measured| measured.machine.is_like(machine));
        let durable = Figure::of(on_it.map(|measured| measured.machine.durable_write_ms));
        let number = if machines.len() > 1 {
            format!("Machine {}: ", index + 1)
        } else {
            String::new()
        };
        part += &format!("{number}{}.\n", machine.text());
        part += &format!(
            "One durable write of 4 KiB took {} ms (median of each run: {} to {}).\n\n",
            durable.median, durable.low, durable.high
        );
    }
    part
}

fn bars_part(bars: &BarLines, machines: &[&Machine]) -> String {
    let Some(first) = bars.bars.first() else {
        return String::new();
    };
    // Nearly always all from one run; where not, the oldest says how old the table may be.
    let oldest = bars
        .bars
        .iter()
        .map(|bar| &bar.measured)
        .min_by_key(|measured| &measured.on);
    let measured = oldest.unwrap_or(&first.measured);
    format!(
        "{}\n{}\n",
        tables::of_bars(bars),
        provenance(measured, machines, "")
    )
}

fn curves_part(results: &Results, machines: &[&Machine]) -> String {
    let mut part = String::new();
    for (shape, curve) in drawn(results) {
        let Shape { name, title, how, .. } = shape;
        part += &format!("### {title}\n\n");
        for sentence in *how {
            part += &format!("{sentence}\n");
        }
        let alt = title.to_lowercase();
        part += &format!(
            "\n![{alt}]({}/{name}.svg)\n\n{}\n",
            data::FOLDER,
            tables::of_curve(shape, curve)
        );
        for note in &curve.notes {
            part += &format!("{note}\n");
        }
        let rounds = curve
            .series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.rounds.len())
            .max();
        let rounds = match rounds.unwrap_or_default() {
            1 => ", one round".to_owned(),
            rounds => format!(", {rounds} rounds"),
        };
        let told = format!("{rounds} (`--only {name}`)");
        part += &format!("{}\n\n", provenance(&curve.measured, machines, &told));
    }
    part
}

/// When, on which machine where there are several, and whether it was only a look.
fn provenance(measured: &Measured, machines: &[&Machine], rounds: &str) -> String {
    let number = machines
        .iter()
        .position(|machine| machine.is_like(&measured.machine));
    let machine = match number {
        Some(index) if machines.len() > 1 => format!(" on machine {}", index + 1),
        _ => String::new(),
    };
    let look = if measured.is_quick {
        ", a quick look that is no figure"
    } else {
        ""
    };
    format!("Measured on {}{machine}{rounds}{look}.", measured.on)
}

/// The page with another text between the two markers of this name.
fn replaced(page: &str, name: &str, part: &str) -> Result<String, Fault> {
    let (begin, end) = (
        format!("<!-- begin {name} -->\n"),
        format!("<!-- end {name} -->\n"),
    );
    let missing = || {
        Fault::from(format!(
            "the page has no part between `{}` and `{}`",
            begin.trim(),
            end.trim()
        ))
    };
    let (before, rest) = page.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    let part = part.trim_end();
    let part = if part.is_empty() {
        String::new()
    } else {
        format!("\n{part}\n\n")
    };
    Ok(format!("{before}{begin}{part}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{BarLines, Curve, Results, Role, plot, replaced, write};
    use crate::curves::data::Measured;
    use crate::curves::shapes::SHAPES;
    use crate::plot::Stroke;
    use escapement_tests::PrivateDirectory;
    use serde_json::json;

    fn curve() -> Curve {
        let mut curve = Curve::default();
        for (x, value) in [(64.0, 2.0), (8.0, 3.0), (64.0, 4.0)] {
            curve.note(("chain", Role::Product, "us"), x, value);
            curve.note(("chain", Role::Floor, "us"), x, value / 2.0);
            curve.note(("chain", Role::Product, "KiB each"), x, value);
        }
        curve
    }

    #[test]
    fn only_what_stands_between_the_markers_changes() {
        let page = "# Page\n<!-- begin bars -->\nold\n<!-- end bars -->\nrest\n";
        let new = replaced(page, "bars", "new\n\n").unwrap();
        assert_eq!(
            new,
            "# Page\n<!-- begin bars -->\n\nnew\n\n<!-- end bars -->\nrest\n"
        );
        assert_eq!(replaced(&new, "bars", "new").unwrap(), new);
        let empty = "# Page\n<!-- begin bars -->\n<!-- end bars -->\nrest\n";
        assert_eq!(replaced(&new, "bars", "").unwrap(), empty);
        assert!(
            replaced(page, "curves", "new")
                .unwrap_err()
                .to_string()
                .contains("<!-- begin curves -->")
        );
    }

    #[test]
    fn a_line_and_its_floor_share_a_colour_and_other_units_are_not_drawn() {
        let plot = plot(&SHAPES[0], &curve());
        let lines: Vec<_> = plot
            .lines
            .iter()
            .map(|line| (line.name.as_str(), line.colour, line.stroke))
            .collect();
        assert_eq!(lines, [("chain", 0, Stroke::Solid), ("floor", 0, Stroke::Dashed)]);
        let points: Vec<_> = plot.lines[0]
            .points
            .iter()
            .map(|point| (point.x, point.low, point.middle))
            .collect();
        assert_eq!(points, [(8.0, 3.0, 3.0), (64.0, 2.0, 3.0)]);
    }

    #[test]
    fn the_same_figures_make_the_same_page() {
        let directory = PrivateDirectory::new("page").unwrap();
        std::fs::create_dir(directory.join("results")).unwrap();
        let part = |name: &str| format!("<!-- begin {name} -->\n<!-- end {name} -->\n");
        let page = ["machine", "bars", "curves"].map(part).concat();
        std::fs::write(directory.join("README.md"), page).unwrap();
        let mut results = Results::default();
        results.curves.insert("steps".to_owned(), curve());
        results.write(directory.path()).unwrap();
        let line = json!({ "bar": "rate", "what": "calls", "met": true }).to_string();
        let bars = BarLines::default().with(&[line], &Measured::default()).unwrap();
        bars.write(directory.path()).unwrap();

        write(directory.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
        let (page, drawing) = (read("README.md"), read("results/steps.svg"));
        assert!(
            page.contains("![cost of a step by the size of the plan](results/steps.svg)"),
            "{page}"
        );
        assert!(page.contains("| calls |"), "{page}");
        write(directory.path()).unwrap();
        assert_eq!((read("README.md"), read("results/steps.svg")), (page, drawing));
    }
}
