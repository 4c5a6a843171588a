//! The drawing itself, on a white card so that it reads the same on light and dark pages. No scripts, no fonts of its own.

use std::fmt::Write as _;

use super::scale::{Span, tick_label};
use super::{Line, Plot, Stroke};

pub(super) fn draw(plot: &Plot) -> String {
    let rows = legend_rows(&plot.lines);
    let card = Card {
        top: TOP + rows.len() as f64 * LEGEND_ROW,
        x: Span::tight(
            plot.x.scale,
            plot.lines
                .iter()
                .flat_map(|line| line.points.iter().map(|point| point.x)),
        ),
        y: Span::round(
            plot.y.scale,
            plot.lines
                .iter()
                .flat_map(|line| line.points.iter().flat_map(|point| [point.low, point.high])),
        ),
    };
    let mut svg = String::new();
    svg.push_str(&head(plot));
    svg.push_str(&legend(&rows));
    svg.push_str(&card.axes(plot));
    // Bands first, so that no line is hidden.
    for line in &plot.lines {
        svg.push_str(&card.band(line));
    }
    for line in &plot.lines {
        svg.push_str(&card.line(line));
    }
    svg + "</svg>\n"
}

/// The frame of the curves within the whole.
struct Card {
    top: f64,
    x: Span,
    y: Span,
}

impl Card {
    fn horizontal(&self, value: f64) -> Option<f64> {
        let width = WIDTH - LEFT - RIGHT - 2.0 * INSET;
        Some(LEFT + INSET + self.x.place(value)? * width)
    }

    fn vertical(&self, value: f64) -> Option<f64> {
        let bottom = HEIGHT - BOTTOM;
        Some(bottom - self.y.place(value)? * (bottom - self.top))
    }

    fn axes(&self, plot: &Plot) -> String {
        let mut svg = String::new();
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in self.y.ticks() {
            let Some(y) = self.vertical(tick) else { continue };
            line_of(&mut svg, [LEFT, y, right, y], GRID);
            text(&mut svg, [LEFT - 8.0, y + 4.0], "end", &tick_label(tick));
        }
        let mut last_end = f64::NEG_INFINITY;
        for value in self.values(plot) {
            let Some(x) = self.horizontal(value) else { continue };
            let label = tick_label(value);
            let half = label.len() as f64 * CHARACTER / 2.0;
            line_of(&mut svg, [x, bottom, x, bottom + 5.0], AXIS);
            // A label that would touch the one before it is left out; its tick stays.
            if x - half > last_end + 4.0 {
                text(&mut svg, [x, bottom + 20.0], "middle", &label);
                last_end = x + half;
            }
        }
        line_of(&mut svg, [LEFT, bottom, right, bottom], AXIS);
        text(
            &mut svg,
            [f64::midpoint(LEFT, right), HEIGHT - 14.0],
            "middle",
            &plot.x.label,
        );
        let middle = f64::midpoint(self.top, bottom);
        let label = escaped(&plot.y.label);
        writeln!(
            svg,
            r#"<text x="18" y="{middle:.1}" text-anchor="middle" transform="rotate(-90 18 {middle:.1})">{label}</text>"#
        )
        .expect("a text takes it");
        svg
    }

    /// The values that were measured at: each has its tick.
    fn values(&self, plot: &Plot) -> Vec<f64> {
        let mut values: Vec<f64> = plot
            .lines
            .iter()
            .flat_map(|line| line.points.iter().map(|point| point.x))
            .collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    fn band(&self, line: &Line) -> String {
        let above = line.points.iter().map(|point| (point.x, point.high));
        let below = line.points.iter().rev().map(|point| (point.x, point.low));
        let outline = self.outline(above.chain(below));
        let colour = colour(line);
        format!("<polygon points=\"{outline}\" fill=\"{colour}\" fill-opacity=\"0.16\"/>\n")
    }

    fn line(&self, line: &Line) -> String {
        let outline = self.outline(line.points.iter().map(|point| (point.x, point.middle)));
        let (colour, dashes) = (colour(line), dashes(line.stroke));
        let mut svg = format!(
            "<polyline points=\"{outline}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n"
        );
        for point in &line.points {
            let (Some(x), Some(y)) = (self.horizontal(point.x), self.vertical(point.middle)) else {
                continue;
            };
            svg.push_str(&marker(line, x, y));
        }
        svg
    }

    fn outline(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let places = points.filter_map(|(x, y)| Some((self.horizontal(x)?, self.vertical(y)?)));
        places
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn head(plot: &Plot) -> String {
    let title = escaped(&plot.title);
    let names: Vec<&str> = plot.lines.iter().map(|line| line.name.as_str()).collect();
    let shown = escaped(&format!(
        "{} by {}: {}",
        plot.y.label,
        plot.x.label,
        names.join("; ")
    ));
    let frame = format!(r#"width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}""#);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img" font-family="{FONT}" font-size="13" fill="{INK}">
<title>{title}</title>
<desc>{shown}</desc>
<rect x="0.5" y="0.5" width="{}" height="{}" rx="8" fill="#ffffff" stroke="#d0d7de"/>
<text x="{LEFT}" y="30" font-size="16" font-weight="600">{title}</text>
"##,
        WIDTH - 1.0,
        HEIGHT - 1.0
    )
}

/// As many lines in a row as fit, by the width that their names will about have.
fn legend_rows(lines: &[Line]) -> Vec<Vec<(f64, &Line)>> {
    let mut rows: Vec<Vec<(f64, &Line)>> = Vec::new();
    let mut x = f64::INFINITY;
    for line in lines {
        let width = SAMPLE + 8.0 + line.name.chars().count() as f64 * CHARACTER + 24.0;
        if x + width > WIDTH - RIGHT {
            rows.push(Vec::new());
            x = LEFT;
        }
        rows.last_mut()
            .expect("the first line opens a row")
            .push((x, line));
        x += width;
    }
    rows
}

fn legend(rows: &[Vec<(f64, &Line)>]) -> String {
    let mut svg = String::new();
    let mut y = LEGEND_FIRST;
    for row in rows {
        for (x, line) in row {
            let (colour, dashes) = (colour(line), dashes(line.stroke));
            let end = x + SAMPLE;
            writeln!(
                svg,
                r#"<line x1="{x:.1}" y1="{y:.1}" x2="{end:.1}" y2="{y:.1}" stroke="{colour}" stroke-width="2"{dashes}/>"#
            )
            .expect("a text takes it");
            svg.push_str(&marker(line, x + SAMPLE / 2.0, y));
            text(&mut svg, [end + 8.0, y + 4.5], "start", &line.name);
        }
        y += LEGEND_ROW;
    }
    svg
}

fn marker(line: &Line, x: f64, y: f64) -> String {
    let colour = colour(line);
    match line.stroke {
        Stroke::Solid => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>\n"),
        Stroke::Dashed => {
            format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n"
            )
        }
        Stroke::Dotted => String::new(),
    }
}

fn colour(line: &Line) -> &'static str {
    match line.stroke {
        Stroke::Dotted => REFERENCE,
        Stroke::Solid | Stroke::Dashed => COLOURS[line.colour % COLOURS.len()],
    }
}

fn dashes(stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::Solid => "",
        Stroke::Dashed => r#" stroke-dasharray="7 4""#,
        Stroke::Dotted => r#" stroke-dasharray="2 4""#,
    }
}

fn line_of(svg: &mut String, [x1, y1, x2, y2]: [f64; 4], colour: &str) {
    writeln!(
        svg,
        r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"/>"#
    )
    .expect("a text takes it");
}

fn text(svg: &mut String, [x, y]: [f64; 2], anchor: &str, words: &str) {
    let words = escaped(words);
    writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#
    )
    .expect("a text takes it");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 62.0;
/// Room between the frame and the outermost points.
const INSET: f64 = 14.0;
const LEGEND_FIRST: f64 = 54.0;
const LEGEND_ROW: f64 = 22.0;
/// The piece of a line in the legend.
const SAMPLE: f64 = 30.0;
/// About what a character takes.
const CHARACTER: f64 = 7.0;
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif";
const INK: &str = "#24292f";
const AXIS: &str = "#57606a";
const GRID: &str = "#e4e8ec";
const REFERENCE: &str = "#57606a";
/// By Okabe and Ito, told apart by people who see few colours.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#a0468c"];

#[cfg(test)]
mod tests {
    use crate::plot::{Axis, Line, Plot, Point, Scale, Stroke};

    fn line(name: &str, stroke: Stroke, values: [f64; 3]) -> Line {
        let points = [1.0, 8.0, 64.0].into_iter().zip(values).map(|(x, middle)| Point {
            x,
            low: middle * 0.9,
            middle,
            high: middle * 1.1,
        });
        Line {
            name: name.to_owned(),
            colour: 0,
            stroke,
            points: points.collect(),
        }
    }

    fn plot(lines: Vec<Line>) -> Plot {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
        };
        Plot {
            title: "Cost & \"spread\" <here>".to_owned(),
            x: axis("steps"),
            y: axis("us"),
            lines,
        }
    }

    /// Every element is closed, in the right order, and no bare `&` or `<` stands in a text or an attribute.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some(at) = rest.find('<') {
            assert_escaped(&rest[..at]);
            let end = rest[at..].find('>').expect("a tag ends") + at;
            let tag = &rest[at + 1..end];
            assert!(!tag.contains('<'), "{tag}");
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            assert_escaped(tag);
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(name);
            }
            rest = &rest[end + 1..];
        }
        assert_eq!((open, rest.trim()), (vec![], ""));
    }

    fn assert_escaped(text: &str) {
        for (at, _) in text.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;"];
            assert!(known.iter().any(|known| text[at..].starts_with(known)), "{text}");
        }
    }

    #[test]
    fn the_drawing_is_well_formed_whatever_it_is_called() {
        let svg = plot(vec![
            line("product", Stroke::Solid, [900.0, 300.0, 200.0]),
            line("floor & more", Stroke::Dashed, [300.0, 150.0, 130.0]),
            line("limit", Stroke::Dotted, [1.0, 8.0, 64.0]),
        ])
        .svg();
        assert_well_formed(&svg);
        assert!(svg.contains("<title>Cost &amp; &quot;spread&quot; &lt;here&gt;</title>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn every_point_has_its_marker_between_the_axes() {
        let svg = plot(vec![line("product", Stroke::Solid, [900.0, 300.0, 200.0])]).svg();
        let markers: Vec<&str> = svg.lines().filter(|line| line.contains("r=\"3.5\"")).collect();
        // One for each point, and one in the legend.
        assert_eq!(markers.len(), 4);
        for marker in markers {
            let number = |name: &str| -> f64 {
                let at = marker.find(name).unwrap() + name.len();
                marker[at..].split('"').next().unwrap().parse().unwrap()
            };
            let (x, y) = (number("cx=\""), number("cy=\""));
            assert!(
                (84.0..=736.0).contains(&x) && (52.0..=368.0).contains(&y),
                "{marker}"
            );
        }
    }

    #[test]
    fn many_names_take_more_than_one_row_and_none_runs_off_the_card() {
        let name = "a line with a name that is rather long";
        let lines: Vec<Line> = (0..5)
            .map(|_| line(name, Stroke::Dashed, [1.0, 2.0, 3.0]))
            .collect();
        let rows = super::legend_rows(&lines);
        assert!(rows.len() > 1);
        assert_eq!(rows.iter().map(Vec::len).sum::<usize>(), 5);
        for (x, line) in rows.iter().flatten() {
            assert!(x + super::SAMPLE + line.name.len() as f64 * super::CHARACTER <= super::WIDTH);
        }
    }

    #[test]
    fn a_value_without_a_place_is_left_out() {
        let svg = plot(vec![line("product", Stroke::Solid, [0.0, 300.0, 200.0])]).svg();
        assert_eq!(svg.matches("r=\"3.5\"").count(), 3);
        assert_well_formed(&svg);
    }
}
