//! The timeline as bars below an axis, one row for each step. Knows no graph.

use super::{Page, class, cut_to, n, text_width};
use crate::explained;
use crate::scene::{Activity, Outcome, Scene, Span, State, Step, Story};
use crate::words::{duration, escaped, escaped_lines, plain, tick_ms};

/// Draws what each step did when.
pub(super) fn draw(scene: &Scene, story: &Story, available: f64, page: &mut Page) {
    let widest = |said: &dyn Fn(&Step) -> String, size: f64| {
        let widths = scene.steps.iter().map(|step| text_width(&said(step), size));
        widths.fold(0.0, f64::max)
    };
    let label = widest(&|step| plain(step.label()), 12.0).min(available * 0.22);
    let words = widest(&explained::step, SMALL).min(available * 0.2);
    let begin = 22.0 + label + ID_WIDTH + 20.0;
    let chart = Chart {
        begin,
        length: (available - begin - words - 14.0).max(100.0),
        length_ms: story.duration_ms.max(1),
        label,
        words,
    };
    page.y += 18.0;
    let n_rows = scene.steps.len();
    chart.axis(n_rows, page);
    let n_spans_max = (SPANS_DRAWN_MAX / n_rows.max(1)).max(8);
    let mut spans = story.spans.as_slice();
    for (at, step) in scene.steps.iter().enumerate() {
        let n_own = spans.iter().take_while(|span| span.step == at).count();
        let (own, others) = spans.split_at(n_own);
        spans = others;
        chart.row(step, own, n_spans_max, page);
        page.y += ROW;
    }
    page.width = page.width.max(available);
    page.y += 22.0;
    Chart::legend(scene, story, page);
}

/// Where the bars are.
struct Chart {
    begin: f64,
    length: f64,
    length_ms: u64,
    label: f64,
    words: f64,
}

impl Chart {
    fn x(&self, at_ms: u64) -> f64 {
        self.begin + self.length * (at_ms as f64 / self.length_ms as f64).min(1.0)
    }

    fn axis(&self, n_rows: usize, page: &mut Page) {
        let tick_ms = tick_ms(self.length_ms, (self.length / TICK_WIDTH).max(1.0) as u64);
        let bottom = page.y + 10.0 + ROW * n_rows as f64;
        for at_ms in (0..=self.length_ms / tick_ms).map(|n| n * tick_ms) {
            let x = self.x(at_ms);
            let said = if at_ms == 0 {
                "0".to_owned()
            } else {
                duration(at_ms)
            };
            page.put(format_args!(
                "<path class=\"grid\" d=\"M{x} {}V{}\"/><text class=\"s c\" x=\"{x}\" y=\"{}\">{said}</text>\n",
                n(page.y + 6.0),
                n(bottom),
                n(page.y),
                x = n(x),
            ));
        }
        page.y += 10.0 + ROW / 2.0;
    }

    fn row(&self, step: &Step, spans: &[Span], n_spans_max: usize, page: &mut Page) {
        let class = class(step.state);
        let (y, base) = (page.y, page.y + 4.0);
        page.put(format_args!(
            "<g><use href=\"#{class}\" class=\"{class}\" x=\"8\" y=\"{}\"/><text x=\"22\" y=\"{base}\">{}</text>\
             <text class=\"s\" x=\"{}\" y=\"{base}\">{}</text>\n",
            n(y),
            escaped(&cut_to(step.label(), self.label, 12.0)),
            n(22.0 + self.label + 10.0),
            escaped(&cut_to(&step.short_id, ID_WIDTH, SMALL)),
            base = n(base),
        ));
        for span in spans.iter().take(n_spans_max) {
            self.span(step, span, y, page);
        }
        let left_out = spans.get(n_spans_max..).unwrap_or(&[]);
        if let (Some(first), Some(last)) = (left_out.first(), left_out.last()) {
            let (from, to) = (self.x(first.from_ms), self.x(last.to_ms));
            page.put(format_args!(
                "<g class=\"returned\"><title>{} more spans</title><path class=\"wait\" d=\"M{} {y}H{}\"/></g>\n",
                spans.len() - n_spans_max,
                n(from),
                n(to.max(from + 2.0)),
                y = n(y),
            ));
        }
        page.put(format_args!(
            "<text class=\"s\" x=\"{}\" y=\"{}\">{}</text></g>\n",
            n(self.begin + self.length + 12.0),
            n(base),
            escaped(&cut_to(&explained::step(step), self.words, SMALL)),
        ));
    }

    fn span(&self, step: &Step, span: &Span, y: f64, page: &mut Page) {
        let (from, to) = (self.x(span.from_ms), self.x(span.to_ms));
        let width = (to - from).max(2.0);
        let about = escaped_lines(&explained::span(step, span));
        match span.activity {
            Activity::Waiting | Activity::Asking if to - from < 1.0 => {}
            Activity::Waiting | Activity::Asking => page.put(format_args!(
                "<g role=\"img\"><title>{about}</title><path class=\"wait\" d=\"M{} {y}H{}\"/></g>\n",
                n(from + 1.5),
                n((to - 1.0).max(from + 1.6)),
                y = n(y),
            )),
            Activity::BackingOff => page.put(format_args!(
                "<g role=\"img\"><title>{about}</title><rect class=\"sleep\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"8\" rx=\"2\"/></g>\n",
                n(from),
                n(y - 4.0),
                n(width),
            )),
            Activity::Running => {
                let (class, pattern) = look(step.state, &span.outcome);
                let bar = format!("x=\"{}\" y=\"{}\" width=\"{}\" height=\"14\" rx=\"2\"", n(from), n(y - 7.0), n(width));
                page.put(format_args!("<g role=\"img\" class=\"{class}\"><title>{about}</title><rect class=\"bar\" {bar}/>"));
                if let Some(pattern) = pattern {
                    page.put(format_args!("<rect fill=\"url(#{pattern})\" {bar}/>"));
                }
                page.put(format_args!("</g>\n"));
            }
        }
    }

    fn legend(scene: &Scene, story: &Story, page: &mut Page) {
        let mut x = 0.0;
        let y = page.y;
        let mut entry = |shape: &str, said: &str, page: &mut Page| {
            page.put(format_args!(
                "<g transform=\"translate({} {})\">{shape}</g>\n",
                n(x),
                n(y - 4.0)
            ));
            page.text(x + 34.0, y, "m", said);
            x += 34.0 + text_width(said, 12.0) + 22.0;
        };
        let bar = |class: &str, pattern: &str| {
            let shape = "width=\"26\" height=\"14\" y=\"-7\" rx=\"2\"";
            match pattern {
                "" => format!("<g class=\"{class}\"><rect class=\"bar\" {shape}/></g>"),
                _ => format!(
                    "<g class=\"{class}\"><rect class=\"bar\" {shape}/><rect fill=\"url(#{pattern})\" {shape}/></g>"
                ),
            }
        };
        let has = |wanted: &dyn Fn(&Span) -> bool| story.spans.iter().any(wanted);
        if has(&|span| span.activity == Activity::Waiting && span.to_ms > span.from_ms) {
            entry("<path class=\"wait\" d=\"M1 0H25\"/>", "waits for a worker", page);
        }
        if has(&|span| span.activity == Activity::Asking) {
            entry("<path class=\"wait\" d=\"M1 0H25\"/>", "waits for a person", page);
        }
        if has(&|span| span.outcome == Outcome::Completed) {
            entry(&bar("completed", ""), "ran and completed", page);
        }
        let failed = |is_skipped: bool| {
            has(&|span| {
                let skipped = scene.steps[span.step].state == State::Skipped;
                matches!(span.outcome, Outcome::Failed(_)) && skipped == is_skipped
            })
        };
        if failed(false) {
            entry(&bar("failed", "slant"), "ran and failed", page);
        }
        if failed(true) {
            entry(&bar("skipped", "slant"), "failed, and the step is skipped", page);
        }
        if has(&|span| span.outcome == Outcome::Stopped) {
            entry(&bar("stopped", "cross"), "stopped", page);
        }
        if has(&|span| span.outcome == Outcome::Returned) {
            entry(&bar("returned", "cross"), "never ran, handed out again", page);
        }
        if has(&|span| span.activity == Activity::Running && span.outcome == Outcome::Open) {
            entry(&bar("running", ""), "runs", page);
        }
        if has(&|span| span.activity == Activity::BackingOff) {
            entry(
                "<rect class=\"sleep\" width=\"26\" height=\"8\" y=\"-4\" rx=\"2\"/>",
                "backs off",
                page,
            );
        }
        page.y += 8.0;
    }
}

/// The class and the pattern of a bar.
fn look(state: State, outcome: &Outcome) -> (&'static str, Option<&'static str>) {
    match outcome {
        Outcome::Open => ("running", None),
        Outcome::Completed => ("completed", None),
        Outcome::Failed(_) if state == State::Skipped => ("skipped", Some("slant")),
        Outcome::Failed(_) => ("failed", Some("slant")),
        Outcome::Returned => ("returned", Some("cross")),
        Outcome::Stopped => ("stopped", Some("cross")),
    }
}

const ROW: f64 = 24.0;
const ID_WIDTH: f64 = 62.0;
const SMALL: f64 = 10.5;
const TICK_WIDTH: f64 = 80.0;
/// Spans beyond that are drawn as one, step by step.
const SPANS_DRAWN_MAX: usize = 20_000;
