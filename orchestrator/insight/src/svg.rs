//! A scene as one SVG document: no scripts, no fonts or pictures from elsewhere, light and dark as the reader prefers.
//! What colour says, shape or pattern says too.

mod graph;
mod style;
mod timeline;

use super::scene::{Scene, State};
use super::words::{cut, escaped, is_wide, plain};
use super::{View, explained};
use std::fmt::Write;

/// Draws a scene at this width, or wider if its graph needs it.
pub fn svg(scene: &Scene, view: View, width: usize) -> String {
    let mut page = Page::default();
    let available = width as f64 - 2.0 * MARGIN;
    page.heading(scene);
    if view.shows_graph() && scene.has_graph {
        graph::draw(scene, available, &mut page);
    }
    if let (true, Some(story)) = (view.shows_timeline(), &scene.story) {
        timeline::draw(scene, story, available, &mut page);
    }
    page.close(scene)
}

/// A document that grows downwards.
#[derive(Debug, Default)]
struct Page {
    body: String,
    /// Where the next part begins.
    y: f64,
    /// How wide the widest part is.
    width: f64,
}

impl Page {
    fn heading(&mut self, scene: &Scene) {
        self.y = 14.0;
        if !scene.name.is_empty() {
            self.text(0.0, self.y, "h", &cut(&scene.name, HEADING_COLUMNS_MAX));
            self.y += 22.0;
        }
        if let Some(story) = &scene.story {
            self.text(0.0, self.y, "m", &explained::story(scene, story));
            self.y += 18.0;
        }
    }

    /// One line of text; it is escaped here.
    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>\n",
            n(x),
            n(y),
            escaped(text)
        ));
        let width = match class {
            "h" => text_width(text, 18.0 * HEAVIER),
            _ => text_width(text, 12.0),
        };
        self.width = self.width.max(x + width);
    }

    fn put(&mut self, markup: std::fmt::Arguments<'_>) {
        self.body.write_fmt(markup).expect("a text takes everything");
    }

    fn close(self, scene: &Scene) -> String {
        let (width, height) = (self.width + 2.0 * MARGIN, self.y + 2.0 * MARGIN);
        let name = if scene.name.is_empty() {
            "Execution"
        } else {
            &scene.name
        };
        let description = match &scene.story {
            Some(story) => explained::story(scene, story),
            None => format!("A plan of {} steps.", scene.steps.len()),
        };
        let mut document =
            String::with_capacity(self.body.len() + style::STYLE.len() + style::SHAPES.len() + 1_000);
        write!(
            document,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" \
             role=\"graphics-document document\" \
             aria-labelledby=\"name about\">\n<title id=\"name\">{}</title>\n<desc id=\"about\">{}</desc>\n\
             <style>{}</style>\n<defs>{}</defs>\n<rect class=\"bg\" width=\"{w}\" height=\"{h}\"/>\n\
             <g transform=\"translate({MARGIN} {MARGIN})\">\n{}</g>\n</svg>\n",
            escaped(name),
            escaped(&description),
            style::STYLE,
            style::SHAPES,
            self.body,
            w = n(width.ceil()),
            h = n(height.ceil()),
        )
        .expect("a text takes everything");
        document
    }
}

/// A number as SVG takes it, with one decimal at most.
fn n(number: f64) -> String {
    let tenths = (number * 10.0).round();
    if tenths % 10.0 == 0.0 {
        format!("{}", tenths / 10.0 + 0.0)
    } else {
        format!("{:.1}", tenths / 10.0)
    }
}

/// How wide a text is, as far as that can be known without its font: wider than in most.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(character_width).sum::<f64>() * size
}

/// The text cut to a width.
fn cut_to(text: &str, width: f64, size: f64) -> String {
    let text = plain(text);
    if text_width(&text, size) <= width {
        return text;
    }
    let mut room = width / size - character_width('…');
    let fits = |c: &char| {
        room -= character_width(*c);
        room >= 0.0
    };
    let mut cut = text
        .chars()
        .take_while(fits)
        .collect::<String>()
        .trim_end()
        .to_owned();
    cut.push('…');
    cut
}

/// Of the size of the font.
fn character_width(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'f' | 't' | 'I' | '.' | ',' | ':' | ';' | '!' | '|' | '\'' | ' ' | '(' | ')'
        | '·' => 0.4,
        'm' | 'w' | 'M' | 'W' | '…' => 1.0,
        'A'..='Z' => 0.7,
        c if c.is_ascii() => 0.61,
        c if is_wide(c) => 1.1,
        _ => 0.75,
    }
}

/// The class of a state and the name of its shape.
fn class(state: State) -> &'static str {
    match state {
        State::Planned => "planned",
        State::NeverRan => "never",
        State::Waiting => "waiting",
        State::BackingOff => "backing",
        State::Running => "running",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Skipped => "skipped",
        State::Stopped => "stopped",
    }
}

const MARGIN: f64 = 28.0;
const HEADING_COLUMNS_MAX: usize = 90;
/// How much wider heavy characters are.
const HEAVIER: f64 = 1.06;
