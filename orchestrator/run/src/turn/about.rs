//! What an expression is about.

use super::Turn;
use super::values::view;
use crate::plan::StepKind;
use alloc::format;
use alloc::string::String;
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;

impl Turn<'_> {
    // RUN-4.10
    /// What the expression of an evaluation is about; a sentence if that is too much.
    pub(crate) fn bindings(&self, evaluation: u32) -> Option<Result<Opaque, String>> {
        let pending = self
            .state
            .evaluations
            .iter()
            .find(|one| one.evaluation == evaluation)?;
        let too_much = || {
            Some(Err(format!(
                "what the expression is about has more than {BINDINGS_BYTES_MAX} bytes"
            )))
        };
        let expression = &pending.expression;
        let names_all = names_every_result(expression);
        let is_wanted = |key: &str| !names_all || (expression.contains(RESULTS) && expression.contains(key));
        let mut results = StructBuilder::new();
        let mut n_bytes = 0;
        for (step, output) in self.completed_outputs(|step| is_wanted(&self.plan.steps[step].key)) {
            n_bytes += output.len();
            if n_bytes > BINDINGS_BYTES_MAX {
                return too_much();
            }
            results = results.value(&self.plan.steps[step].key, view(&output)?);
        }
        let mut bindings = StructBuilder::new()
            .object("input", self.given_input().as_encoded())
            .object("run", self.run_facts().as_encoded())
            .object("session", self.session_state().as_encoded())
            .object("results", results.build().as_encoded());
        if let StepKind::Loop(_) = &self.plan.steps[pending.step as usize].kind {
            let unit = self.unit_ref(pending.step, pending.index);
            bindings = bindings.number("iteration", f64::from(pending.index));
            if let Some(output) = self.unit_output(self.unit(unit)) {
                bindings = bindings.value("last", view(&output)?);
            }
        }
        let bindings = bindings.build();
        if bindings.len() > BINDINGS_BYTES_MAX {
            return too_much();
        }
        Some(Ok(bindings))
    }
}

/// True if the key of every result that the expression can refer to stands in its text, as in `results.key`, `` results.`key` ``
/// and `results["key"]`. May be false although that is so, never true although it is not.
fn names_every_result(expression: &str) -> bool {
    // An escape may stand for any character, and a comment between any two words.
    let is_plain = !expression.contains('\\') && !expression.contains("//");
    let mut uses = expression.split(RESULTS).skip(1);
    uses.clone().next().is_none() || (is_plain && uses.all(names_a_result))
}

/// True if what stands behind `results` is a key, written out.
fn names_a_result(behind: &str) -> bool {
    let behind = behind.trim_start();
    if let Some(name) = behind.strip_prefix('.') {
        let name = name.trim_start();
        let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        // `results.size()` is about all of them.
        return !rest.trim_start().starts_with('(');
    }
    let Some(index) = behind.strip_prefix('[') else {
        return false;
    };
    let text = index.trim_start();
    let key = ['"', '\''].into_iter().find_map(|quote| {
        let text = text.strip_prefix(quote)?;
        text.split_once(quote)
    });
    key.is_some_and(|(_, rest)| rest.trim_start().starts_with(']'))
}

/// The name by which expressions refer to results.
const RESULTS: &str = "results";

/// Bytes of what an expression is about.
const BINDINGS_BYTES_MAX: usize = 8 << 20;
