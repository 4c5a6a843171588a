//! The words of an expression. Knows no grammar.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A word and the byte at which it begins.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

/// What a word is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A name or a word of the language.
    Name(String),
    /// A key in backticks.
    Quoted(String),
    /// A whole number without its sign.
    Int(u64),
    /// A number with a point or an exponent.
    Double(f64),
    /// A text.
    Text(String),
    /// An operator or a bracket.
    Symbol(&'static str),
    /// The end.
    End,
}

/// Returns a sentence about the mistake at a byte.
pub(crate) fn mistake(expression: &str, at: usize, what: &str) -> String {
    let n_before = expression
        .char_indices()
        .take_while(|(index, _)| *index < at)
        .count();
    format!("at character {}: {what}", n_before + 1)
}

/// Splits an expression into words, the last of which is [`Kind::End`].
pub(crate) fn tokens(expression: &str) -> Result<Vec<Token>, String> {
    let mut reader = Reader {
        expression,
        rest: expression,
    };
    let mut tokens = Vec::new();
    loop {
        reader.skip_blanks();
        let at = reader.at();
        let kind = reader.token().map_err(|what| mistake(expression, at, &what))?;
        let ends = kind == Kind::End;
        tokens.push(Token { at, kind });
        if ends {
            return Ok(tokens);
        }
    }
}

struct Reader<'a> {
    expression: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn at(&self) -> usize {
        self.expression.len() - self.rest.len()
    }

    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
            if !self.rest.starts_with("//") {
                return;
            }
            self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
        }
    }

    fn token(&mut self) -> Result<Kind, String> {
        let mut chars = self.rest.chars();
        let Some(first) = chars.next() else {
            return Ok(Kind::End);
        };
        let second = chars.next().unwrap_or(' ');
        match first {
            '\'' | '"' => self.text(first, false),
            'r' | 'R' if matches!(second, '\'' | '"') => {
                self.rest = &self.rest[1..];
                self.text(second, true)
            }
            '`' => self.quoted(),
            '0'..='9' => self.number(),
            '.' if second.is_ascii_digit() => self.number(),
            'a'..='z' | 'A'..='Z' | '_' => {
                let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                Ok(Kind::Name(name.to_string()))
            }
            _ => self.symbol(first),
        }
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn symbol(&mut self, first: char) -> Result<Kind, String> {
        let symbol = SYMBOLS.into_iter().find(|symbol| self.rest.starts_with(symbol));
        let symbol = symbol.ok_or_else(|| match first {
            '=' => "one = is no operator; two compare".to_string(),
            other => format!("{other:?} does not belong into an expression"),
        })?;
        self.rest = &self.rest[symbol.len()..];
        Ok(Kind::Symbol(symbol))
    }

    fn quoted(&mut self) -> Result<Kind, String> {
        let (key, rest) = self.rest[1..].split_once('`').ok_or("the ` has no end")?;
        self.rest = rest;
        Ok(Kind::Quoted(key.to_string()))
    }

    fn number(&mut self) -> Result<Kind, String> {
        let begin = self.rest;
        let kind = if let Some(digits) = begin.strip_prefix("0x").or(begin.strip_prefix("0X")) {
            self.rest = digits;
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            u64::from_str_radix(digits, 16).map(Kind::Int).ok()
        } else {
            self.take_while(|c| c.is_ascii_digit());
            let mut is_double = false;
            if self.rest.starts_with('.') && self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
                is_double = true;
                self.rest = &self.rest[1..];
                self.take_while(|c| c.is_ascii_digit());
            }
            if let Some(exponent) = self.rest.strip_prefix(['e', 'E']) {
                is_double = true;
                self.rest = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                self.take_while(|c| c.is_ascii_digit());
            }
            let text = &begin[..begin.len() - self.rest.len()];
            if is_double {
                text.parse().map(Kind::Double).ok()
            } else {
                text.parse().map(Kind::Int).ok()
            }
        };
        if self
            .rest
            .starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            return Err("a number ends before a letter".to_string());
        }
        kind.ok_or_else(|| "the number cannot be read".to_string())
    }

    fn text(&mut self, quote: char, raw: bool) -> Result<Kind, String> {
        let mut text = String::new();
        self.rest = &self.rest[1..];
        loop {
            let next = self.next_char().ok_or("the text has no end")?;
            match next {
                _ if next == quote => return Ok(Kind::Text(text)),
                '\n' | '\r' => return Err("a text ends in its line; write \\n".to_string()),
                '\\' if !raw => text.push(self.escaped()?),
                other => text.push(other),
            }
        }
    }

    fn next_char(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn escaped(&mut self) -> Result<char, String> {
        let escape = self.next_char().ok_or("the text has no end")?;
        Ok(match escape {
            '\\' | '\'' | '"' | '`' | '?' => escape,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' | 'X' => self.code_point(2, 16)?,
            'u' => self.code_point(4, 16)?,
            'U' => self.code_point(8, 16)?,
            '0'..='3' => {
                self.rest = &self.expression[self.at() - 1..];
                self.code_point(3, 8)?
            }
            other => return Err(format!("\\{other} is not known in a text")),
        })
    }

    fn code_point(&mut self, n_digits: usize, radix: u32) -> Result<char, String> {
        let digits = self.rest.get(..n_digits);
        let digits = digits.filter(|digits| digits.chars().all(|c| c.is_digit(radix)));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok());
        self.rest = self.rest.get(n_digits..).unwrap_or("");
        code.and_then(char::from_u32)
            .ok_or_else(|| format!("after the backslash stand {n_digits} digits of a character"))
    }
}

/// Longer ones before those that begin alike.
const SYMBOLS: [&str; 24] = [
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];
