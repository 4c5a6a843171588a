//! Plain lines, one for each event: names from callers and workers must not resemble lines of the log, nor control
//! the terminal of its reader. JSON has escapes of its own.

use std::borrow::Cow;
use std::fmt::Write;

/// Control characters that the formatter itself writes within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controls {
    /// None: each one came with a field.
    None,
    /// Colours. A field may have some too, which does no harm.
    Colours,
    /// The line is JSON, which has none, and is not checked.
    Json,
}

/// Returns the line with escapes instead of control characters, except the line feed at its end.
pub(crate) fn one_line(line: &[u8], controls: Controls) -> Cow<'_, [u8]> {
    let (text, end) = match line.split_last() {
        Some((b'\n', text)) => (text, &b"\n"[..]),
        _ => (line, &b""[..]),
    };
    // Control characters beyond ASCII have two bytes, of which this is the first.
    let may_have_some = text.iter().any(|byte| byte.is_ascii_control() || *byte == 0xc2);
    if controls == Controls::Json || !may_have_some {
        return Cow::Borrowed(line);
    }
    let text = String::from_utf8_lossy(text);
    let mut escaped = String::with_capacity(text.len() + end.len());
    let mut rest = &*text;
    while let Some(character) = rest.chars().next() {
        let colour = colour_bytes(rest).filter(|_| controls == Controls::Colours);
        let n = colour.unwrap_or(character.len_utf8());
        match character.is_control() && colour.is_none() {
            // Writing to a text never fails.
            true => drop(write!(escaped, "{}", character.escape_default())),
            false => escaped.push_str(&rest[..n]),
        }
        rest = &rest[n..];
    }
    let mut bytes = escaped.into_bytes();
    bytes.extend_from_slice(end);
    Cow::Owned(bytes)
}

/// Returns the length of the sequence that sets a colour, if the text begins with one.
fn colour_bytes(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let n = parameters
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b';')
        .count();
    (parameters.as_bytes().get(n) == Some(&b'm')).then_some(n + 3)
}

#[cfg(test)]
mod tests {
    use super::{Controls, one_line};

    fn shown(line: &str, controls: Controls) -> String {
        String::from_utf8_lossy(&one_line(line.as_bytes(), controls)).into_owned()
    }

    #[test]
    fn a_field_is_no_line_and_steers_no_terminal() {
        let forged = " WARN no worker action=a\n2026 WARN credentials refused\r\x1b[2J\x1b]0;x\x07\u{9b}1m\u{85}é\u{a0}\n";
        assert_eq!(
            shown(forged, Controls::None),
            " WARN no worker action=a\\n2026 WARN credentials refused\\r\\u{1b}[2J\\u{1b}]0;x\\u{7}\\u{9b}1m\\u{85}é\u{a0}\n"
        );
    }

    #[test]
    fn colours_of_the_formatter_stay_and_nothing_else() {
        let coloured = "\x1b[2mtime\x1b[0m \x1b[1;33mWARN\x1b[0m a=\x1b[2Jx\x1b[\n";
        assert_eq!(
            shown(coloured, Controls::Colours),
            "\x1b[2mtime\x1b[0m \x1b[1;33mWARN\x1b[0m a=\\u{1b}[2Jx\\u{1b}[\n"
        );
    }

    #[test]
    fn what_needs_nothing_is_not_copied() {
        for (line, controls) in [
            ("plain é \u{a0}\n", Controls::Json),
            ("{\"a\":\"\\n\u{85}\"}\n", Controls::Json),
            ("plain\n", Controls::None),
            ("", Controls::None),
        ] {
            let seen = one_line(line.as_bytes(), controls);
            assert!(matches!(seen, std::borrow::Cow::Borrowed(_)), "{line:?}");
            assert_eq!(&*seen, line.as_bytes());
        }
        assert_eq!(&*one_line(b"\xff\n", Controls::None), b"\xff\n");
    }
}
