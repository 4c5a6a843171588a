//! A scene for a terminal: the graph with rails, one line for each step, and the timeline as bars. Writes no escape sequences.

use super::graph::Graph;
use super::rails::{self, Row};
use super::scene::{Activity, Outcome, Scene, Span, State, Step, Story};
use super::words::{columns, cut, duration, fit, plain, tick_ms};
use super::{View, explained};
use std::collections::BTreeSet;

/// Draws a scene in lines of at most this many columns.
pub fn text(scene: &Scene, view: View, n_columns: usize) -> String {
    let mut lines = Vec::new();
    lines.extend(heading(scene).iter().map(|line| cut(line, n_columns)));
    let shows_graph = view.shows_graph() && scene.has_graph;
    if shows_graph {
        lines.push(String::new());
        graph(scene, n_columns, &mut lines);
    }
    if let (true, Some(story)) = (view.shows_timeline(), &scene.story) {
        lines.push(String::new());
        timeline(scene, story, !shows_graph, n_columns, &mut lines);
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn heading(scene: &Scene) -> Vec<String> {
    let mut lines = Vec::new();
    if !scene.name.is_empty() {
        lines.push(plain(&scene.name));
    }
    if let Some(story) = &scene.story {
        lines.push(explained::story(scene, story));
    }
    lines
}

fn graph(scene: &Scene, n_columns: usize, lines: &mut Vec<String>) {
    let graph = Graph::of(scene, BUNDLED_MIN);
    let rows = rails::rows(&graph, n_columns / RAILS_SHARE);
    lines.push(cut(&explained::graph(scene, &graph), n_columns));
    lines.push(String::new());
    let n_rails = rows.iter().map(Row::columns).max().unwrap_or(0);
    let table = Table::of(
        scene,
        rows.iter().any(|row| !row.in_words.is_empty()),
        n_columns.saturating_sub(n_rails + 2),
    );
    for (row, step) in rows.iter().zip(&scene.steps) {
        let rails = format!("{}{}{}", row.before, sign(step.state), row.after);
        lines.push(format!(
            "{}  {}",
            fit(&rails, n_rails),
            table.line(scene, step, &row.in_words)
        ));
    }
    let legend = wrapped(&legend(scene, &rows), n_columns);
    if !legend.is_empty() {
        lines.push(String::new());
        lines.extend(legend);
    }
}

/// The columns right of the rails.
struct Table {
    id: usize,
    action: usize,
    title: usize,
    outcome: usize,
}

impl Table {
    fn of(scene: &Scene, in_words: bool, n_columns: usize) -> Self {
        let widest = |width: &dyn Fn(&Step) -> usize| scene.steps.iter().map(width).max().unwrap_or(0);
        let id = widest(&|step| step.short_id.len());
        let outcome = widest(&|step| columns(&explained::step(step))).min(OUTCOME_COLUMNS_MAX);
        let rest = n_columns.saturating_sub(id + 2 + outcome + 2);
        let action = widest(&|step| columns(&plain(&step.action)))
            .min(rest / 2)
            .min(ACTION_COLUMNS_MAX);
        let wanted = if in_words {
            TITLE_COLUMNS_MAX
        } else {
            widest(&|step| columns(&plain(&step.title)))
        };
        let title = rest.saturating_sub(action + 2).min(wanted);
        Self {
            id,
            action,
            title,
            outcome,
        }
    }

    fn line(&self, scene: &Scene, step: &Step, in_words: &[usize]) -> String {
        let mut title = step.title.clone();
        if !in_words.is_empty() {
            title = needs(scene, in_words, self.title);
        }
        let mut line = format!(
            "{}  {}  ",
            fit(&step.short_id, self.id),
            fit(&step.action, self.action)
        );
        if self.title > 0 {
            line.push_str(&fit(&title, self.title));
            line.push_str("  ");
        }
        line.push_str(&cut(&explained::step(step), self.outcome));
        line
    }
}

/// Dependencies for which there was no rail: as many as fit, and how many more there are.
fn needs(scene: &Scene, steps: &[usize], n_columns: usize) -> String {
    let mut text = String::from("←");
    for (at, step) in steps.iter().enumerate() {
        let more = format!(" +{}", steps.len() - at);
        let id = &scene.steps[*step].short_id;
        let is_last = at + 1 == steps.len();
        let room = n_columns.saturating_sub(columns(&text) + 1 + id.len());
        if id.len() + 1 + columns(&text) > n_columns || (!is_last && room < more.len()) {
            text.push_str(&more);
            break;
        }
        text.push(' ');
        text.push_str(id);
    }
    text
}

fn legend(scene: &Scene, rows: &[Row]) -> Vec<String> {
    let mut signs = states_legend(scene);
    if rows
        .iter()
        .any(|row| row.before.contains('←') || row.after.contains('→'))
    {
        signs.push("→ feeds a rail that steps share".to_owned());
    }
    if rows.iter().any(|row| !row.in_words.is_empty()) {
        signs.push("← depends on, where no rail is left".to_owned());
    }
    signs
}

/// The signs of the states that steps are in, unless all are still planned.
fn states_legend(scene: &Scene) -> Vec<String> {
    let states: BTreeSet<State> = scene.steps.iter().map(|step| step.state).collect();
    if states.iter().all(|state| *state == State::Planned) {
        return Vec::new();
    }
    let words = |state: &State| format!("{} {}", sign(*state), state.as_str());
    states.iter().map(words).collect()
}

fn timeline(scene: &Scene, story: &Story, is_alone: bool, n_columns: usize, lines: &mut Vec<String>) {
    let id = scene
        .steps
        .iter()
        .map(|step| step.short_id.len())
        .max()
        .unwrap_or(0);
    let label = scene
        .steps
        .iter()
        .map(|step| columns(&plain(step.label())))
        .max()
        .unwrap_or(0);
    let label = label.min(n_columns / 5).min(TITLE_COLUMNS_MAX);
    let outcome = scene
        .steps
        .iter()
        .map(|step| columns(&explained::step(step)))
        .max()
        .unwrap_or(0);
    let outcome = outcome.min(n_columns / 4 + 2).min(OUTCOME_COLUMNS_MAX);
    let left = 2 + id + 2 + label + 2;
    let n_cells = n_columns.saturating_sub(left + 2 + outcome).max(CELLS_MIN);
    let axis = Axis {
        length_ms: story.duration_ms.max(1),
        n_cells,
    };
    let (marks, rule) = axis.lines();
    lines.push(format!("{}{marks}", " ".repeat(left)));
    lines.push(format!("{}{rule}", " ".repeat(left)));
    let mut spans = story.spans.as_slice();
    for (at, step) in scene.steps.iter().enumerate() {
        let n_own = spans.iter().take_while(|span| span.step == at).count();
        let (own, others) = spans.split_at(n_own);
        spans = others;
        lines.push(format!(
            "{} {}  {}  {}  {}",
            sign(step.state),
            fit(&step.short_id, id),
            fit(step.label(), label),
            axis.bar(own, step.state),
            cut(&explained::step(step), outcome),
        ));
    }
    lines.push(String::new());
    let states = if is_alone {
        states_legend(scene)
    } else {
        Vec::new()
    };
    lines.extend(wrapped(&[states, bars_legend(story)].concat(), n_columns));
}

fn bars_legend(story: &Story) -> Vec<String> {
    let has = |activity: Activity| story.spans.iter().any(|span| span.activity == activity);
    let mut signs = Vec::new();
    if has(Activity::Waiting) {
        signs.push("· waits for a worker");
    }
    if has(Activity::Running) {
        signs.push("█ runs");
    }
    if has(Activity::BackingOff) {
        signs.push("░ backs off");
    }
    if has(Activity::Asking) {
        signs.push("? waits for a person");
    }
    let ended = |outcome: fn(&Outcome) -> bool| story.spans.iter().any(|span| outcome(&span.outcome));
    if ended(|outcome| matches!(outcome, Outcome::Failed(_))) {
        signs.push("✗ an attempt failed");
    }
    if ended(|outcome| matches!(outcome, Outcome::Returned)) {
        signs.push("↩ never ran, handed out again");
    }
    signs.into_iter().map(str::to_owned).collect()
}

/// As many words in a line as fit.
fn wrapped(words: &[String], n_columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if columns(line) + 3 + columns(word) <= n_columns => {
                line.push_str("   ");
                line.push_str(word);
            }
            _ => lines.push(cut(word, n_columns)),
        }
    }
    lines
}

/// Time in cells of a line.
struct Axis {
    length_ms: u64,
    n_cells: usize,
}

impl Axis {
    /// The cell in which a moment lies; the end lies in the last one.
    fn cell(&self, at_ms: u64) -> usize {
        let at = u128::from(at_ms) * self.n_cells as u128 / u128::from(self.length_ms);
        usize::try_from(at).map_or(self.n_cells - 1, |at| at.min(self.n_cells - 1))
    }

    /// The times, and the rule with its marks.
    fn lines(&self) -> (String, String) {
        let tick_ms = tick_ms(self.length_ms, (self.n_cells / TICK_COLUMNS).max(1) as u64);
        let mut marks = String::new();
        let mut rule = vec!['─'; self.n_cells];
        for at_ms in (0..=self.length_ms / tick_ms).map(|n| n * tick_ms) {
            let cell = self.cell(at_ms);
            rule[cell] = if cell == 0 { '├' } else { '┬' };
            let mark = if at_ms == 0 {
                "0".to_owned()
            } else {
                duration(at_ms)
            };
            // A time stands over its mark, and left of it at the end of the line.
            let begin = cell.min(self.n_cells.saturating_sub(columns(&mark)));
            let n_before = columns(&marks);
            if begin >= n_before + usize::from(n_before > 0) {
                marks.push_str(&" ".repeat(begin - n_before));
                marks.push_str(&mark);
            }
        }
        (marks, rule.into_iter().collect())
    }

    /// What a step did, later and more telling things over others.
    fn bar(&self, spans: &[Span], state: State) -> String {
        let mut cells = vec![' '; self.n_cells];
        for activity in DRAWN_LATER_OVER_EARLIER {
            for span in spans
                .iter()
                .filter(|span| span.activity == activity && span.to_ms > span.from_ms)
            {
                cells[self.cell(span.from_ms)..=self.cell(span.to_ms - 1)].fill(match activity {
                    Activity::Waiting => '·',
                    Activity::BackingOff => '░',
                    Activity::Running => '█',
                    Activity::Asking => '?',
                });
            }
        }
        for span in spans {
            let sign = match span.outcome {
                Outcome::Open => continue,
                Outcome::Completed => '✓',
                Outcome::Failed(_) => '✗',
                Outcome::Returned => '↩',
                Outcome::Stopped => '■',
            };
            cells[self.cell(span.to_ms.saturating_sub(1).max(span.from_ms))] = sign;
        }
        if let (State::Skipped | State::Failed | State::Stopped, Some(last)) = (state, spans.last()) {
            cells[self.cell(last.to_ms.saturating_sub(1).max(last.from_ms))] = sign(state);
        }
        cells.into_iter().collect()
    }
}

/// The mark of a step.
fn sign(state: State) -> char {
    match state {
        State::Planned => '○',
        State::NeverRan => '◌',
        State::Waiting => '◔',
        State::BackingOff => '◑',
        State::Running => '●',
        State::Completed => '✓',
        State::Failed => '✗',
        State::Skipped => '↷',
        State::Stopped => '■',
    }
}

const DRAWN_LATER_OVER_EARLIER: [Activity; 4] = [
    Activity::Waiting,
    Activity::BackingOff,
    Activity::Asking,
    Activity::Running,
];
/// Steps with the same dependents share a rail from this number on.
const BUNDLED_MIN: usize = 5;
/// Columns of the line for each rail at most: two columns each, so two fifths of the line.
const RAILS_SHARE: usize = 5;
const ACTION_COLUMNS_MAX: usize = 32;
const TITLE_COLUMNS_MAX: usize = 60;
const OUTCOME_COLUMNS_MAX: usize = 40;
const CELLS_MIN: usize = 10;
/// Columns between two times on the axis at least.
const TICK_COLUMNS: usize = 9;
