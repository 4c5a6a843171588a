//! Expressions of users over the results of a run: a subset of the Common Expression Language (CEL) without macros.
//! Reads no clock, does no I/O, has no variables, no loops and no functions of users: an error is a value, nothing panics, and
//! time and memory are bounded by the expression and what it is about. It is `no_std`, and the compiler checks it.
//!
//! | what | how |
//! |---|---|
//! | names | `input`, `run`, `results`, in a loop `iteration` and `last` |
//! | operators | `? :`, `\|\|`, `&&`, `== != < <= > >= in`, `+ -`, `* / %`, `!`, unary `-`, `a.b`, `a[b]` |
//! | a key that is no name | `` results.`read-a`.text `` or `results["read-a"].text` |
//! | literals | `null`, `true`, `12`, `0x1f`, `1.5`, `1e3`, `'text'`, `"text"`, `r'raw'`, `[1, 2]`, `{'a': 1}` |
//! | comments | `//` to the end of the line |
//! | functions | `has(a.b)`, `size(x)`, `x.size()`, `int(x)`, `double(x)`, `string(x)` |
//! | of texts | `t.startsWith(u)`, `t.endsWith(u)`, `t.contains(u)` |
//!
//! Of the rest of CEL there are no unsigned numbers, bytes, times, types, macros, messages, texts in triple quotes and no
//! regular expressions.
//!
//! A number of a JSON document is a double, a literal without a point is an int of 64 bits.
//! The two are compared by their exact values, so `input.n == 1` and `input.n > 2` are as expected, and a double that is whole
//! is an index.
//! Arithmetic of an int and a double is that of doubles, which CEL refuses: `input.n + 1` is as expected. Ints do not overflow but
//! fail, and `%` takes whole numbers.
//! Values of different kinds are not equal; `<` and the like take two numbers, two texts or two booleans.
//! `&&` and `||` know their value if one side decides, even if the other side is an error.

#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

mod evaluate;
mod functions;
mod parse;
mod token;
mod value;

use alloc::string::String;
use escapement_model::Opaque;
use escapement_model::opaque::WalkBudget;

/// Bytes of an expression.
pub const EXPRESSION_BYTES_MAX: usize = 4096;
/// Literals, names, operators and calls in an expression.
pub const NODES_MAX: usize = 256;
/// Parentheses, brackets, choices and signs inside one another.
pub const NESTING_MAX: usize = 64;

/// Budget of one evaluation, in entries and items that it reads.
pub const EVALUATION_WORK_MAX: usize = 8 << 20;

/// Checks an expression as far as that is possible without values: its syntax, its size, its functions and its names.
///
/// # Errors
/// A sentence with the place of the first mistake.
pub fn check(expression: &str) -> Result<(), String> {
    let node = parse::parse(expression)?;
    evaluate::check_names(&node)
}

/// Returns what an expression comes to over an object of names and their values, for at most [`EVALUATION_WORK_MAX`].
///
/// # Errors
/// A sentence: the expression has a mistake, has no value, or one that is neither true nor false.
pub fn evaluate(expression: &str, bindings: &Opaque) -> Result<bool, String> {
    evaluate_within(expression, bindings, &mut WalkBudget::new(EVALUATION_WORK_MAX))
}

/// Evaluates as [`evaluate`] does, charged to a budget.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_within(expression: &str, bindings: &Opaque, budget: &mut WalkBudget) -> Result<bool, String> {
    let node = parse::parse(expression)?;
    evaluate::truth(&node, bindings, budget)
}
