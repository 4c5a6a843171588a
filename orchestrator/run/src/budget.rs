//! What a run may spend on models and tools, and what calls cost. Decides nothing.

use crate::fields::field;
use crate::journal::Usage;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::opaque::ValueView;
use prost::{Enumeration, Message};

/// What a run may spend; no limit where none is given.
#[derive(Clone, PartialEq, Message)]
pub struct Budget {
    /// Attempts that ask a language model.
    #[prost(uint64, optional, tag = "1")]
    pub max_llm_calls: Option<u64>,
    /// All other attempts.
    #[prost(uint64, optional, tag = "2")]
    pub max_tool_calls: Option<u64>,
    /// Tokens of prompts and answers.
    #[prost(uint64, optional, tag = "3")]
    pub max_tokens: Option<u64>,
    /// Millionths of the currency of the prices.
    #[prost(uint64, optional, tag = "4")]
    pub max_cost_micros: Option<u64>,
    /// Of models; that of the empty name is for all others.
    #[prost(message, repeated, tag = "5")]
    pub prices: Vec<ModelPrice>,
    /// From 1 to 100: the part of a limit from which on there is a warning.
    #[prost(uint32, tag = "6")]
    pub warn_percent: u32,
    /// What follows once a limit is reached.
    #[prost(enumeration = "Exhausted", tag = "7")]
    pub exhausted: i32,
    /// Tokens that an answer may have, if tokens or cost have a limit; at least 1.
    #[prost(uint64, tag = "8")]
    pub answer_tokens: u64,
}

/// What a model costs.
#[derive(Clone, PartialEq, Message)]
pub struct ModelPrice {
    /// The model, as the payload names it.
    #[prost(string, tag = "1")]
    pub model: String,
    /// Millionths of the currency for a million tokens of prompts.
    #[prost(uint64, tag = "2")]
    pub prompt_micros: u64,
    /// Millionths of the currency for a million tokens of answers.
    #[prost(uint64, tag = "3")]
    pub completion_micros: u64,
}

/// What follows once a limit of a budget is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Exhausted {
    /// A person is asked whether the limit is given once more.
    Ask = 0,
    /// The unit fails.
    Fail = 1,
}

/// What a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum BudgetKind {
    /// Attempts that ask a language model.
    LlmCalls = 0,
    /// All other attempts.
    ToolCalls = 1,
    /// Tokens.
    Tokens = 2,
    /// Cost.
    Cost = 3,
}

impl BudgetKind {
    /// All of them.
    pub const ALL: [BudgetKind; 4] = [
        BudgetKind::LlmCalls,
        BudgetKind::ToolCalls,
        BudgetKind::Tokens,
        BudgetKind::Cost,
    ];

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            BudgetKind::LlmCalls => "llm_calls",
            BudgetKind::ToolCalls => "tool_calls",
            BudgetKind::Tokens => "tokens",
            BudgetKind::Cost => "cost",
        }
    }

    /// Its place in lists by kind.
    pub(crate) fn place(self) -> usize {
        match self {
            BudgetKind::LlmCalls => 0,
            BudgetKind::ToolCalls => 1,
            BudgetKind::Tokens => 2,
            BudgetKind::Cost => 3,
        }
    }
}

impl Budget {
    /// The limit of this kind.
    pub fn limit(&self, kind: BudgetKind) -> Option<u64> {
        match kind {
            BudgetKind::LlmCalls => self.max_llm_calls,
            BudgetKind::ToolCalls => self.max_tool_calls,
            BudgetKind::Tokens => self.max_tokens,
            BudgetKind::Cost => self.max_cost_micros,
        }
    }

    /// Tokens that a model is told an answer may have; `None` if the budget does not bound answers.
    pub fn answer_tokens_max(&self) -> Option<u64> {
        let bounds_answers = self.max_tokens.is_some() || self.max_cost_micros.is_some();
        bounds_answers.then_some(self.answer_tokens)
    }

    // RUN-13.11
    /// The budget of a child run that may spend this.
    pub(crate) fn of_child(&self, reserved: &Usage) -> Self {
        let part = |kind| self.limit(kind).map(|_| reserved.of(kind));
        Self {
            max_llm_calls: part(BudgetKind::LlmCalls),
            max_tool_calls: part(BudgetKind::ToolCalls),
            max_tokens: part(BudgetKind::Tokens),
            max_cost_micros: part(BudgetKind::Cost),
            exhausted: Exhausted::Fail.into(),
            ..self.clone()
        }
    }

    // RUN-13.8
    /// What a call of a model is taken to use before it says what it did: a token for four bytes of its payload, and an answer
    /// of the size that it may have.
    pub(crate) fn reserved(&self, model: &str, payload_bytes: usize) -> Usage {
        let Some(completion_tokens) = self.answer_tokens_max() else {
            return Usage {
                llm_calls: 1,
                ..Usage::default()
            };
        };
        self.priced(
            model,
            Usage {
                llm_calls: 1,
                prompt_tokens: (payload_bytes as u64).div_ceil(4),
                completion_tokens,
                ..Usage::default()
            },
        )
    }

    /// Completes tokens and cost.
    pub(crate) fn priced(&self, model: &str, usage: Usage) -> Usage {
        let both = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        let total_tokens = usage.total_tokens.max(both);
        let named = self.prices.iter().find(|price| price.model == model);
        let price = named.or_else(|| self.prices.iter().find(|price| price.model.is_empty()));
        let cost_micros = price.map_or(0, |price| {
            let dearer = price.prompt_micros.max(price.completion_micros);
            let part = |tokens: u64, micros: u64| u128::from(tokens).saturating_mul(u128::from(micros));
            let whole = part(usage.prompt_tokens, price.prompt_micros)
                .saturating_add(part(usage.completion_tokens, price.completion_micros))
                .saturating_add(part(total_tokens - both, dearer));
            u64::try_from(whole.div_ceil(1_000_000)).unwrap_or(u64::MAX)
        });
        Usage {
            total_tokens,
            cost_micros,
            ..usage
        }
    }
}

impl Usage {
    /// What it is of this kind.
    pub fn of(&self, kind: BudgetKind) -> u64 {
        match kind {
            BudgetKind::LlmCalls => self.llm_calls,
            BudgetKind::ToolCalls => self.tool_calls,
            BudgetKind::Tokens => self.total_tokens,
            BudgetKind::Cost => self.cost_micros,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        self.with(other, u64::saturating_add)
    }

    /// Without the other.
    #[must_use]
    pub fn minus(&self, other: &Usage) -> Usage {
        self.with(other, u64::saturating_sub)
    }

    fn with(&self, other: &Usage, both: fn(u64, u64) -> u64) -> Usage {
        Usage {
            llm_calls: both(self.llm_calls, other.llm_calls),
            tool_calls: both(self.tool_calls, other.tool_calls),
            prompt_tokens: both(self.prompt_tokens, other.prompt_tokens),
            completion_tokens: both(self.completion_tokens, other.completion_tokens),
            total_tokens: both(self.total_tokens, other.total_tokens),
            cost_micros: both(self.cost_micros, other.cost_micros),
        }
    }

    /// The tokens that an output, an encoded `google.protobuf.Value`, says in `usage`; `None` if it says none.
    pub(crate) fn said_in(output: &Bytes) -> Option<Usage> {
        let Some(ValueView::Struct(object)) = crate::turn::values::view(output) else {
            return None;
        };
        let Some(ValueView::Struct(usage)) = field(object, "usage") else {
            return None;
        };
        let count = |name| match field(usage, name) {
            // What is no number of tokens counts as none; a number that no model can mean as a large one.
            Some(ValueView::Number(n)) if n >= 0.0 => Some(n.min(TOKENS_MAX) as u64),
            _ => None,
        };
        let said = ["prompt_tokens", "completion_tokens", "total_tokens"].map(count);
        if said.iter().all(Option::is_none) {
            return None;
        }
        let [prompt_tokens, completion_tokens, total_tokens] = said.map(Option::unwrap_or_default);
        Some(Usage {
            llm_calls: 1,
            tool_calls: 0,
            prompt_tokens,
            completion_tokens,
            total_tokens,
            cost_micros: 0,
        })
    }
}

/// Tokens that one call is believed to have used.
const TOKENS_MAX: f64 = 1e12;
