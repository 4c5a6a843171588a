//! What a run spends: attempts, calls, tokens and their cost, by what workers say.

use super::Desk;
use super::book::Book;
use crate::journal::{Budget, Called, KINDS, Output, Usage};
use crate::wire::Value;

/// What was spent of a budget, and what people gave in addition.
#[derive(Debug, Default)]
pub(super) struct Purse {
    /// Used; of attempts and children that live, reserved.
    pub(super) used: Usage,
    pub(super) extensions: [u64; KINDS],
}

impl Book {
    // RI15
    /// An attempt is intended: there is room for what it may use.
    pub(super) fn spends(&mut self, called: &Called, desk: &mut Desk<'_>) {
        let Some(budget) = self.spec.budget.clone() else {
            return;
        };
        desk.count("attempts within a budget");
        let reserved = called.reserved.unwrap_or([0, 1, 0, 0]);
        if called.unit.is_generation() {
            desk.count("generations within a budget");
        }
        if called.action == self.spec.llm_action || called.unit.is_generation() {
            let bounds_tokens = budget.limits[2].is_some() || budget.limits[3].is_some();
            if reserved[0] != 1 || (bounds_tokens && reserved[2] < budget.answer_tokens) {
                desk.finds("RI15", &format!("a model is asked, and {reserved:?} is reserved"));
            }
        }
        for (kind, needed) in reserved.into_iter().enumerate() {
            let used = &mut self.purse.used[kind];
            let limit = budget.limits[kind].map(|limit| limit * (1 + self.purse.extensions[kind]));
            if needed > 0 && limit.is_some_and(|limit| *used + needed > limit) {
                desk.finds(
                    "RI15",
                    &format!("part {kind}: {used} of {limit:?} are used, and {needed} more"),
                );
            }
            *used += needed;
        }
        if let Some(it) = self.in_epoch(called.unit, desk) {
            it.reserved = Some((reserved, called.model.clone()));
        }
    }

    /// An attempt ended: what it used takes the place of what was reserved.
    pub(super) fn settles(&mut self, output: &Output, value: Option<&Value>, desk: &mut Desk<'_>) {
        let Some(it) = self.in_epoch(output.unit, desk) else {
            return;
        };
        let Some((reserved, model)) = it.reserved.take() else {
            return;
        };
        let Some(budget) = &self.spec.budget else {
            return;
        };
        let call = [reserved[0], reserved[1], 0, 0];
        let used = match output.class {
            0 if reserved[0] > 0 => value.and_then(tokens).map_or(reserved, |tokens| {
                [1, 0, tokens.iter().sum(), cost(budget, &model, tokens)]
            }),
            // It never ran.
            1 => Usage::default(),
            // It took too long, or nobody knows.
            4 | 5 => reserved,
            _ => call,
        };
        for kind in 0..KINDS {
            self.purse.used[kind] = self.purse.used[kind] - reserved[kind] + used[kind];
        }
    }
}

/// The tokens that an output says: of the prompt, of the answer, and those beyond both.
pub(super) fn tokens(output: &Value) -> Option<[u64; 3]> {
    let usage = output.field("usage")?;
    let count = |name| match usage.field(name) {
        Some(Value::Number(bits)) => Some(f64::from_bits(*bits).min(TOKENS_MAX) as u64),
        _ => None,
    };
    let said = ["prompt_tokens", "completion_tokens", "total_tokens"].map(count);
    if said.iter().all(Option::is_none) {
        return None;
    }
    let [prompt, completion, total] = said.map(Option::unwrap_or_default);
    Some([prompt, completion, total.saturating_sub(prompt + completion)])
}

/// Millionths for so many tokens of a model; tokens of which nobody knows what they are cost as much as the dearer ones.
pub(super) fn cost(budget: &Budget, model: &str, [prompt, completion, other]: [u64; 3]) -> u64 {
    let of = |name: &str| budget.prices.iter().find(|(model, ..)| model == name);
    let Some((_, of_prompts, of_answers)) = of(model).or_else(|| of("")) else {
        return 0;
    };
    let price = |tokens: u64, micros: u64| u128::from(tokens) * u128::from(micros);
    let whole = price(prompt, *of_prompts)
        + price(completion, *of_answers)
        + price(other, *of_prompts.max(of_answers));
    u64::try_from(whole.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// No call is believed to have used more.
const TOKENS_MAX: f64 = 1e12;
