//! JSON pointers (RFC 6901) into encoded values. Copies nothing of a value, and follows none without a budget.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use escapement_model::opaque::{BudgetSpent, PaidView, WalkBudget};

/// A pointer, parsed. The empty one is the whole value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    tokens: Vec<String>,
}

impl Pointer {
    /// Reads a pointer: empty, or `/` and a token, repeatedly; in a token `~1` is `/` and `~0` is `~`.
    ///
    /// Returns `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let tokens = text.strip_prefix('/')?.split('/').map(token);
        Some(Self {
            tokens: tokens.collect::<Option<_>>()?,
        })
    }

    /// True for the whole value.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Splits off the first token, unescaped, and the pointer behind it. `None` if it is empty.
    pub fn split_first(&self) -> Option<(&str, Pointer)> {
        let (first, rest) = self.tokens.split_first()?;
        let tokens = rest.to_vec();
        Some((first, Self { tokens }))
    }

    // RUN-1.9
    /// Follows the pointer into a value that was checked. `None` if it leads nowhere.
    ///
    /// Of a repeated key the last value counts.
    ///
    /// # Errors
    /// [`BudgetSpent`]: what is passed on the way is more than the budget pays for.
    pub fn find<'v>(
        &self,
        value: PaidView<'v>,
        budget: &mut WalkBudget,
    ) -> Result<Option<PaidView<'v>>, BudgetSpent> {
        let mut found = value;
        for token in &self.tokens {
            let inside = match found {
                PaidView::Object(object) => object.value_of(token, budget)?,
                PaidView::List(list) => match list_index(token) {
                    Some(index) => list.nth(index, budget)?,
                    None => None,
                },
                PaidView::Null | PaidView::Number(_) | PaidView::Text(_) | PaidView::Bool(_) => None,
            };
            let Some(inside) = inside else {
                return Ok(None);
            };
            found = inside;
        }
        Ok(Some(found))
    }
}

/// Returns the index of a list that a token names: digits without leading zeros.
pub fn list_index(token: &str) -> Option<usize> {
    let all_digits = token.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = token.len() > 1 && token.starts_with('0');
    if all_digits && !leading_zero {
        token.parse().ok()
    } else {
        None
    }
}

fn token(text: &str) -> Option<String> {
    let mut token = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        token.push(match character {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(token)
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens.iter().try_for_each(|token| {
            let escaped = token.to_string().replace('~', "~0").replace('/', "~1");
            write!(f, "/{escaped}")
        })
    }
}
