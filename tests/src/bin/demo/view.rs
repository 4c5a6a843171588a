//! Progress on the screen: redrawn in place on a terminal, one line for each change elsewhere. Knows no API.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use escapement_tests::Fault;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::progress::{Progress, State, Step};

/// Where progress of one execution is shown.
pub(crate) struct View {
    /// Columns of the terminal; none where stdout is no terminal.
    columns: Option<usize>,
    lines_drawn: usize,
    ticks: Interval,
}

impl View {
    /// Looks once whether stdout is a terminal.
    pub(crate) fn new() -> Self {
        let columns = stdout().is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(stdout()).ok();
            size.map(|size| usize::from(size.ws_col))
                .filter(|columns| *columns > 0)
                .unwrap_or(COLUMNS_DEFAULT)
        });
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            columns,
            lines_drawn: 0,
            ticks,
        }
    }

    /// Comes back when a redraw would show something new; never where lines are printed once.
    pub(crate) async fn tick(&mut self) {
        match self.columns {
            Some(_) => drop(self.ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Shows how it stands. `changed` is the step that has news.
    pub(crate) fn show(&mut self, progress: &Progress, changed: Option<usize>) -> Result<(), Fault> {
        match (self.columns, changed) {
            (Some(columns), _) => self.redraw(progress, columns),
            (None, Some(index)) if is_news(&progress.steps[index]) => print_line(&progress.steps[index]),
            (None, _) => Ok(()),
        }
    }

    /// Shows the end.
    pub(crate) fn finish(&mut self, progress: &Progress) -> Result<(), Fault> {
        if let Some(columns) = self.columns {
            return self.redraw(progress, columns);
        }
        progress
            .steps
            .iter()
            .filter(|step| step.state == State::NeverRan)
            .try_for_each(print_line)
    }

    fn redraw(&mut self, progress: &Progress, columns: usize) -> Result<(), Fault> {
        let mut out = stdout().lock();
        if self.lines_drawn > 0 {
            write!(out, "\x1b[{}A", self.lines_drawn)?;
        }
        for step in &progress.steps {
            let line: String = line_of(step, now_ms())
                .chars()
                .take(columns.saturating_sub(1))
                .collect();
            writeln!(out, "\r\x1b[2K{}{line}\x1b[0m", colour_of(&step.state))?;
        }
        self.lines_drawn = progress.steps.len();
        Ok(out.flush()?)
    }
}

/// Waiting for a free worker is over too soon to be worth a line.
fn is_news(step: &Step) -> bool {
    !matches!(step.state, State::Pending | State::Waiting)
}

fn print_line(step: &Step) -> Result<(), Fault> {
    let mut out = stdout().lock();
    writeln!(out, "{}", line_of(step, now_ms()))?;
    Ok(out.flush()?)
}

fn line_of(step: &Step, now: i64) -> String {
    let (sign, word) = match &step.state {
        State::Pending => ("·", "pending"),
        State::Waiting => ("·", "waiting"),
        State::Running => ("▸", "running"),
        State::BackingOff => ("↻", "backing off"),
        State::Completed => ("✓", "completed"),
        State::NotCompleted(why) => ("✗", why.as_str()),
        State::Stopped => ("✗", "stopped"),
        State::NeverRan => ("–", "never ran"),
    };
    let time = step
        .time_ms(now)
        .map(|time| format!("{time} ms"))
        .unwrap_or_default();
    let worker = if step.worker.is_empty() {
        String::new()
    } else {
        format!(" on {}", step.worker)
    };
    format!(
        "  {sign} {word:<23} {time:>8}  {} ({}{worker})",
        step.title, step.action
    )
}

fn colour_of(state: &State) -> &'static str {
    match state {
        State::Pending | State::Waiting | State::NeverRan => "\x1b[2m",
        State::Running | State::BackingOff => "\x1b[33m",
        State::Completed => "\x1b[32m",
        State::NotCompleted(_) | State::Stopped => "\x1b[31m",
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

const TICK: Duration = Duration::from_millis(100);
const COLUMNS_DEFAULT: usize = 80;

#[cfg(test)]
mod tests {
    use super::line_of;
    use crate::progress::Progress;
    use serde_json::json;

    #[test]
    fn a_line_tells_state_title_and_action() {
        let document = json!({
            "steps": [{ "id": "a", "action": "echo" }],
            "metadata": { "titles": { "a": "Say it" } },
        });
        let progress = Progress::of(&document).unwrap();
        assert_eq!(
            line_of(&progress.steps[0], 7),
            format!("  · {:<23} {:>8}  Say it (echo)", "pending", "")
        );
    }
}
