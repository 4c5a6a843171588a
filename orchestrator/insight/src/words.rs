//! Texts of a drawing: durations for people, what is cut, and what must not reach a terminal or an XML document as it is.
//! Draws nothing.

/// A duration in the unit that people would use: `312 ms`, `1.24 s`, `2 min 5 s`, `3 h 20 min`, `4 d 1 h`.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{} s", decimal(ms / 10, 100)),
        10_000..60_000 => format!("{} s", decimal(ms / 100, 10)),
        60_000..3_600_000 => pair(ms / 60_000, "min", ms / 1_000 % 60, "s"),
        3_600_000..86_400_000 => pair(ms / 3_600_000, "h", ms / 60_000 % 60, "min"),
        _ => pair(ms / 86_400_000, "d", ms / 3_600_000 % 24, "h"),
    }
}

/// `1.5` for 15 tenths; no zeros at the end.
fn decimal(parts: u64, per_unit: u64) -> String {
    let n_digits = if per_unit == 100 { 2 } else { 1 };
    let text = format!("{}.{:0n_digits$}", parts / per_unit, parts % per_unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn pair(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// Milliseconds between the marks of an axis, so that there are at most this many of them.
pub(super) fn tick_ms(length_ms: u64, n_marks_max: u64) -> u64 {
    let enough = |tick_ms: &u64| length_ms / *tick_ms <= n_marks_max.max(1);
    if let Some(tick_ms) = TICKS_MS.into_iter().find(|tick_ms| enough(tick_ms)) {
        return tick_ms;
    }
    let days =
        |power: u32| [1, 2, 5].map(|digit| 10_u64.saturating_pow(power).saturating_mul(digit * DAY_MS));
    (0..12)
        .flat_map(days)
        .find(|tick_ms| enough(tick_ms))
        .unwrap_or(u64::MAX)
}

/// `1 step`, `2 steps`.
pub(super) fn counted(n: usize, what: &str) -> String {
    match (n, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        (_, None) => format!("{n} {what}s"),
    }
}

/// The text in one line without anything that a terminal would obey or an XML document may not hold.
pub(super) fn plain(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() || is_hidden(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Characters that are not seen and change how others are: directions, tags, joiners, and what is no character.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text cut to at most this many columns, with an ellipsis for what is cut.
pub(super) fn cut(text: &str, n_columns_max: usize) -> String {
    let text = plain(text);
    if columns(&text) <= n_columns_max {
        return text;
    }
    let mut cut = String::new();
    let mut n_columns = 1;
    for c in text.chars() {
        n_columns += columns_of(c);
        if n_columns > n_columns_max {
            break;
        }
        cut.push(c);
    }
    let kept = cut.trim_end().len();
    cut.truncate(kept);
    if n_columns_max > 0 {
        cut.push('…');
    }
    cut
}

/// Cut, and filled with spaces.
pub(super) fn fit(text: &str, n_columns: usize) -> String {
    let mut text = cut(text, n_columns);
    let missing = n_columns.saturating_sub(columns(&text));
    text.extend(std::iter::repeat_n(' ', missing));
    text
}

/// Columns that a text takes in a terminal.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// 2 for East Asian wide characters and emoji, 0 for marks that combine, else 1.
fn columns_of(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f
        | 0x0483..=0x0489
        | 0x0591..=0x05bd
        | 0x064b..=0x065f
        | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97c
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff01..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The same for a text of several lines.
pub(super) fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// True for characters that take two columns.
pub(super) fn is_wide(c: char) -> bool {
    columns_of(c) == 2
}

/// For the text of an XML element, and for attributes in double quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

const DAY_MS: u64 = 86_400_000;
/// Below a day.
const TICKS_MS: [u64; 26] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000,
    300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000,
];

#[cfg(test)]
mod tests {
    use super::{columns, cut, duration, escaped, fit, plain, tick_ms};

    #[test]
    fn durations_are_said_in_the_unit_that_people_use() {
        let said = [
            0, 999, 1_000, 1_249, 12_340, 60_000, 125_000, 3_600_000, 12_000_000, 90_000_000,
        ]
        .map(duration);
        let expected = [
            "0 ms",
            "999 ms",
            "1 s",
            "1.24 s",
            "12.3 s",
            "1 min",
            "2 min 5 s",
            "1 h",
            "3 h 20 min",
            "1 d 1 h",
        ];
        assert_eq!(said, expected);
        assert!(duration(u64::MAX).ends_with(" h"));
    }

    #[test]
    fn an_axis_has_no_more_marks_than_it_may() {
        for length_ms in [
            0,
            1,
            7,
            999,
            61_000,
            86_400_000,
            u64::from(u32::MAX),
            i64::MAX as u64,
        ] {
            assert!(length_ms / tick_ms(length_ms, 6) <= 6, "{length_ms}");
        }
        assert_eq!((tick_ms(1_200, 6), tick_ms(3_000_000, 6)), (200, 600_000));
    }

    #[test]
    fn what_is_cut_has_an_ellipsis_and_fits() {
        assert_eq!(
            (cut("abcdef", 6).as_str(), cut("abcdef", 5).as_str()),
            ("abcdef", "abcd…")
        );
        assert_eq!((cut("ab cdef", 4).as_str(), cut("abc", 0).as_str()), ("ab…", ""));
        assert_eq!((fit("漢字漢字", 5).as_str(), columns("漢字")), ("漢字…", 4));
        assert_eq!(fit("漢字漢字", 6), "漢字… ");
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(plain("a\u{1b}[31mb\nc\u{202e}d"), "a\u{fffd}[31mb c\u{fffd}d");
    }

    #[test]
    fn nothing_reaches_a_document_that_it_would_read_as_markup() {
        assert_eq!(
            escaped("<a b=\"c\">&'\u{0}\u{ffff}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\u{fffd}\u{fffd}"
        );
    }
}
