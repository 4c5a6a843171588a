//! What a run may spend, as requests say it and as runs show it. Counts nothing.

use crate::fields::Fields;
use escapement_model::limits::LABEL_CHARS_MAX;
use escapement_run::budget::{Budget, BudgetKind, Exhausted, ModelPrice};
use escapement_run::journal;
use escapement_run::state::RunState;
use escapement_wire::runs::v1;
use std::collections::BTreeSet;

// RUN-13.7
/// Reads the budget of a request.
pub(crate) fn budget(request: &v1::CreateRunRequest, fields: &mut Fields) -> Option<Budget> {
    let wanted = request.budget.as_ref()?;
    let mut limit = |name: &str, wanted: Option<i64>, max: i64| {
        let wanted = wanted?;
        fields.number(&format!("budget.{name}"), wanted, 0..=max);
        u64::try_from(wanted).ok()
    };
    let budget = Budget {
        max_llm_calls: limit("max_llm_calls", wanted.max_llm_calls, CALLS_MAX),
        max_tool_calls: limit("max_tool_calls", wanted.max_tool_calls, CALLS_MAX),
        max_tokens: limit("max_tokens", wanted.max_tokens, TOKENS_MAX),
        max_cost_micros: limit("max_cost_micros", wanted.max_cost_micros, COST_MAX),
        ..Budget::default()
    };
    let answer_tokens = wanted.answer_tokens.unwrap_or(ANSWER_TOKENS);
    fields.number("budget.answer_tokens", answer_tokens, 1..=ANSWER_TOKENS_MAX);
    let warn_ratio = wanted.warn_ratio.unwrap_or(WARN_RATIO);
    if !(warn_ratio > 0.0 && warn_ratio <= 1.0) {
        fields.wrong("budget.warn_ratio", "must be above 0 and at most 1");
    }
    let exhausted = match wanted.exhausted.as_str() {
        "" => Some(Exhausted::Ask),
        word => fields.word("budget.exhausted", word, &EXHAUSTED),
    };
    Some(Budget {
        prices: prices(wanted, fields),
        warn_percent: (warn_ratio.clamp(0.01, 1.0) * 100.0) as u32,
        exhausted: exhausted.unwrap_or(Exhausted::Ask).into(),
        answer_tokens: answer_tokens.unsigned_abs(),
        ..budget
    })
}

fn prices(wanted: &v1::Budget, fields: &mut Fields) -> Vec<ModelPrice> {
    if wanted.prices.len() > PRICES_MAX {
        let n = wanted.prices.len();
        fields.wrong(
            "budget.prices",
            format!("must have at most {PRICES_MAX} entries, has {n}"),
        );
        return Vec::new();
    }
    let mut models = BTreeSet::new();
    for (n, price) in wanted.prices.iter().enumerate() {
        let field = |name: &str| format!("budget.prices[{n}].{name}");
        fields.text(&field("model"), &price.model, 0..=LABEL_CHARS_MAX);
        fields.number(&field("prompt_micros"), price.prompt_micros, 0..=PRICE_MAX);
        fields.number(
            &field("completion_micros"),
            price.completion_micros,
            0..=PRICE_MAX,
        );
        if !models.insert(price.model.as_str()) {
            fields.wrong(field("model"), "has a price already");
        }
    }
    if wanted.max_cost_micros.is_some() && !models.contains("") {
        fields.wrong(
            "budget.prices",
            "must have a price with an empty model, for those that have none of their own",
        );
    }
    let prices = wanted.prices.iter().map(|price| ModelPrice {
        model: price.model.clone(),
        prompt_micros: price.prompt_micros.unsigned_abs(),
        completion_micros: price.completion_micros.unsigned_abs(),
    });
    prices.collect()
}

/// The budget of a run, with what people gave in addition.
pub(crate) fn budget_view(state: &RunState) -> Option<v1::Budget> {
    let budget = state.spec.budget.as_ref()?;
    let limit = |kind| state.budget_limit(kind).map(number);
    let word = EXHAUSTED
        .iter()
        .find(|(_, meaning)| *meaning == budget.exhausted());
    Some(v1::Budget {
        max_llm_calls: limit(BudgetKind::LlmCalls),
        max_tool_calls: limit(BudgetKind::ToolCalls),
        max_tokens: limit(BudgetKind::Tokens),
        max_cost_micros: limit(BudgetKind::Cost),
        prices: budget
            .prices
            .iter()
            .map(|price| v1::ModelPrice {
                model: price.model.clone(),
                prompt_micros: number(price.prompt_micros),
                completion_micros: number(price.completion_micros),
            })
            .collect(),
        warn_ratio: Some(f64::from(budget.warn_percent) / 100.0),
        exhausted: word.map_or_else(String::new, |(word, _)| (*word).to_owned()),
        answer_tokens: Some(number(budget.answer_tokens)),
    })
}

/// What attempts used.
pub(crate) fn usage_view(usage: &journal::Usage) -> v1::Usage {
    v1::Usage {
        llm_calls: number(usage.llm_calls),
        tool_calls: number(usage.tool_calls),
        prompt_tokens: number(usage.prompt_tokens),
        completion_tokens: number(usage.completion_tokens),
        total_tokens: number(usage.total_tokens),
        cost_micros: number(usage.cost_micros),
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

const EXHAUSTED: [(&str, Exhausted); 2] = [("ask", Exhausted::Ask), ("fail", Exhausted::Fail)];
const CALLS_MAX: i64 = 1_000_000_000;
const TOKENS_MAX: i64 = 1_000_000_000_000;
const COST_MAX: i64 = 1_000_000_000_000_000;
const PRICE_MAX: i64 = 1_000_000_000_000;
const PRICES_MAX: usize = 64;
const ANSWER_TOKENS: i64 = 4_096;
const ANSWER_TOKENS_MAX: i64 = 1_000_000;
const WARN_RATIO: f64 = 0.8;
