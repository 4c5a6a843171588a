//! The graph as boxes in layers with curves between them. Places nothing: see `layout`.

use super::{HEAVIER, Page, class, cut_to, n, text_width};
use crate::explained;
use crate::graph::Graph;
use crate::layout::{Item, Kind, Layout, Sizes};
use crate::scene::{Scene, State, Step};
use crate::words::{counted, escaped, escaped_lines, plain};
use escapement_contract::OnFailure;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Draws the graph of a scene; its layers follow each other to the right if there is room for that, else downwards.
pub(super) fn draw(scene: &Scene, available: f64, page: &mut Page) {
    let graph = Graph::of(scene, BUNDLED_MIN);
    let flow = Flow::of(&graph, available);
    let layout = Layout::of(&graph, flow.sizes());
    let (width, height) = flow.turned(layout.main, layout.cross);
    let lines = shown(&layout);
    let mut said = explained::graph(scene, &graph);
    if lines.len() < layout.lines.len() {
        write!(
            said,
            "; {} of {} lines are drawn, and each step names what it depends on",
            lines.len(),
            layout.lines.len()
        )
        .expect("a text takes everything");
    }
    page.text(0.0, page.y, "m", &said);
    page.y += 22.0;
    let drawing = Drawing {
        flow,
        layout: &layout,
        y: page.y,
    };
    drawing.lines(&lines, page);
    for (at, step) in scene.steps.iter().enumerate() {
        drawing.step(scene, at, step, page);
    }
    page.y += height;
    page.width = page.width.max(width);
    page.y += 14.0;
    legend(scene, page);
}

/// Where the layers go.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Right,
    Down,
}

impl Flow {
    fn of(graph: &Graph, available: f64) -> Self {
        let mut widths = vec![0_usize; graph.n_layers()];
        for layer in &graph.layers {
            widths[*layer] += 1;
        }
        let right = graph.n_layers() as f64 * (BOX_WIDTH + LAYER_GAP);
        let down = widths.into_iter().max().unwrap_or(0) as f64 * (BOX_WIDTH + GAP);
        if right <= available.max(down) {
            Flow::Right
        } else {
            Flow::Down
        }
    }

    fn sizes(self) -> Sizes {
        let (step_main, step_cross) = self.turned(BOX_WIDTH, BOX_HEIGHT);
        Sizes {
            step_main,
            step_cross,
            gap_cross: GAP,
        }
    }

    /// From main and cross to x and y, and back.
    fn turned(self, main: f64, cross: f64) -> (f64, f64) {
        match self {
            Flow::Right => (main, cross),
            Flow::Down => (cross, main),
        }
    }
}

struct Drawing<'a> {
    flow: Flow,
    layout: &'a Layout,
    y: f64,
}

impl Drawing<'_> {
    fn at(&self, main: f64, cross: f64) -> String {
        let (x, y) = self.flow.turned(main, cross);
        format!("{} {}", n(x), n(y + self.y))
    }

    /// Curves from item to item, straight pieces where they pass layers, and tips at steps.
    fn lines(&self, lines: &[(usize, usize)], page: &mut Page) {
        let (mut curves, mut tips) = (String::new(), String::new());
        for (from, to) in lines {
            let (from, to) = (&self.layout.items[*from], &self.layout.items[*to]);
            let tip = if to.kind == Kind::Step { TIP } else { 0.0 };
            let (begin, end) = (from.to, to.from - tip);
            let middle = f64::midpoint(begin, end);
            let _ = writeln!(
                curves,
                "M{}C{} {} {}",
                self.at(begin, from.cross),
                self.at(middle, from.cross),
                self.at(middle, to.cross),
                self.at(end, to.cross)
            );
            if to.kind == Kind::Step {
                let _ = writeln!(
                    tips,
                    "M{}L{}L{}z",
                    self.at(to.from, to.cross),
                    self.at(to.from - TIP, to.cross - TIP / 2.0),
                    self.at(to.from - TIP, to.cross + TIP / 2.0)
                );
            }
        }
        let passed: BTreeSet<usize> = lines.iter().flat_map(|(from, to)| [*from, *to]).collect();
        for item in passed
            .iter()
            .map(|at| &self.layout.items[*at])
            .filter(|item| item.kind == Kind::Pass)
        {
            let _ = writeln!(
                curves,
                "M{}L{}",
                self.at(item.from, item.cross),
                self.at(item.to, item.cross)
            );
        }
        if !curves.is_empty() {
            page.put(format_args!(
                "<path class=\"line\" d=\"{}\"/>\n<path class=\"tip\" d=\"{}\"/>\n",
                curves.trim_end(),
                tips.trim_end()
            ));
        }
        for item in passed
            .iter()
            .map(|at| &self.layout.items[*at])
            .filter(|item| item.kind == Kind::Meet)
        {
            let (x, y) = self.flow.turned(item.from, item.cross);
            page.put(format_args!(
                "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"3\"/>\n",
                n(x),
                n(y + self.y)
            ));
        }
    }

    fn step(&self, scene: &Scene, at: usize, step: &Step, page: &mut Page) {
        let item: &Item = &self.layout.items[at];
        let (_, breadth) = self.flow.turned(BOX_WIDTH, BOX_HEIGHT);
        let breadth = if self.flow == Flow::Right {
            breadth
        } else {
            BOX_WIDTH
        };
        let (x, y) = self.flow.turned(item.from, item.cross - breadth / 2.0);
        let y = y + self.y;
        let class = class(step.state);
        let room = BOX_WIDTH - 34.0 - 10.0;
        let id = format!("{} ", step.short_id);
        let note = cut_to(&note(step), room - text_width(&id, SMALL), SMALL);
        page.put(format_args!(
            "<g role=\"img\"><title>{}</title>\
             <rect class=\"box {class}\" x=\"{}\" y=\"{}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>\
             <use href=\"#{class}\" class=\"{class}\" x=\"{}\" y=\"{}\"/><text class=\"t\" x=\"{}\" y=\"{}\">{}</text>\
             <text class=\"s\" x=\"{}\" y=\"{}\">{}</text><text class=\"s e\" x=\"{}\" y=\"{}\">{}</text></g>\n",
            escaped_lines(&about(scene, step)),
            n(x),
            n(y),
            n(x + 18.0),
            n(y + BOX_HEIGHT / 2.0),
            n(x + 34.0),
            n(y + 18.0),
            escaped(&cut_to(step.label(), room, 12.0 * HEAVIER)),
            n(x + 34.0),
            n(y + 34.0),
            escaped(&id),
            n(x + BOX_WIDTH - 10.0),
            n(y + 34.0),
            escaped(&note),
        ));
    }
}

/// The lines that are drawn if there are too many: one to each item first.
fn shown(layout: &Layout) -> Vec<(usize, usize)> {
    if layout.lines.len() <= LINES_DRAWN_MAX {
        return layout.lines.clone();
    }
    let mut reached = BTreeSet::new();
    let (mut first, more): (Vec<_>, Vec<_>) = layout.lines.iter().partition(|(_, to)| reached.insert(*to));
    let n_more = LINES_DRAWN_MAX.saturating_sub(first.len());
    first.extend(more.into_iter().take(n_more));
    first
}

/// The end of the second line of a box: the action if the first line has the title, unless there is more to tell.
fn note(step: &Step) -> String {
    let action = if step.title.is_empty() { "" } else { &step.action };
    match (step.state, step.on_failure) {
        (State::Failed | State::Skipped, _) => explained::step(step),
        (State::Planned, Some(on_failure)) if action.is_empty() => on_failure.as_str().to_owned(),
        (State::Planned, Some(on_failure)) if on_failure != OnFailure::Halt => {
            format!("{} · {}", plain(action), on_failure.as_str())
        }
        (_, _) if step.n_attempts > 1 => counted(step.n_attempts as usize, "attempt"),
        (_, _) => plain(action),
    }
}

/// Everything about a step, as the text of a tooltip or of a screen reader.
fn about(scene: &Scene, step: &Step) -> String {
    let mut about = format!(
        "{}\n{} {}\n{}",
        step.label(),
        step.action,
        step.id,
        explained::rules(step)
    );
    if step.state != State::Planned {
        let _ = write!(about, "\n{}: {}", step.state.as_str(), explained::step(step));
    }
    if !step.depends_on.is_empty() {
        about.push_str("\ndepends on");
        for at in step.depends_on.iter().take(NAMED_MAX) {
            let other = &scene.steps[*at];
            let _ = write!(about, "\n  {} {}", other.short_id, other.label());
        }
        if step.depends_on.len() > NAMED_MAX {
            let _ = write!(about, "\n  and {} more", step.depends_on.len() - NAMED_MAX);
        }
    }
    about
}

fn legend(scene: &Scene, page: &mut Page) {
    let states: BTreeSet<State> = scene.steps.iter().map(|step| step.state).collect();
    if states.len() < 2 && states.contains(&State::Planned) {
        return;
    }
    let mut x = 8.0;
    page.y += 12.0;
    for state in states {
        let class = class(state);
        page.put(format_args!(
            "<use href=\"#{class}\" class=\"{class}\" x=\"{}\" y=\"{}\"/>\n",
            n(x),
            n(page.y - 4.0)
        ));
        page.text(x + 13.0, page.y, "m", state.as_str());
        x += 13.0 + text_width(state.as_str(), 12.0) + 24.0;
    }
    page.y += 18.0;
}

/// Steps with the same dependents share a meeting point from this number on.
const BUNDLED_MIN: usize = 3;
const BOX_WIDTH: f64 = 244.0;
const BOX_HEIGHT: f64 = 44.0;
const GAP: f64 = 14.0;
/// Between two layers where lines are not steep.
const LAYER_GAP: f64 = 52.0;
const TIP: f64 = 7.0;
const SMALL: f64 = 10.5;
const LINES_DRAWN_MAX: usize = 6_000;
/// Dependencies that the title of a step names.
const NAMED_MAX: usize = 20;
