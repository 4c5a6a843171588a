//! Planners, models, budgets and sessions in the entries of a journal.

use super::{Event, Stored, Unit, artifacts, optional, stored};
use crate::wire::Message;

/// What a budget limits: calls of models, calls of tools, tokens, cost.
pub(crate) const KINDS: usize = 4;

/// Calls of models, calls of tools, tokens, cost.
pub(crate) type Usage = [u64; KINDS];

/// What a run may spend.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) limits: [Option<u64>; KINDS],
    /// Millionths for a million tokens of prompts and of answers, by model; that of the empty name is for all others.
    pub(crate) prices: Vec<(String, u64, u64)>,
    /// Of an answer.
    pub(crate) answer_tokens: u64,
    /// True if people are asked for more.
    pub(crate) asks: bool,
}

/// A call of a tool that a model asks for.
#[derive(Clone, Debug)]
pub(crate) struct AskedCall {
    pub(crate) action: String,
    pub(crate) arguments: Option<Stored>,
    pub(crate) is_refused: bool,
}

pub(super) fn of_models(kind: u32, body: &Message<'_>) -> Result<Event, String> {
    Ok(match kind {
        52..=54 => artifacts::of_artifacts(kind, body)?,
        44 => Event::GenerationStarted(body.small(1)),
        46 => Event::GenerationEnded {
            generation: body.small(1),
            accepted: body.small(2) == 0,
        },
        50 => Event::Replanned {
            disabled: body.texts(4),
            substitutes: body.has(5),
            falls_back: body.text(2) == "fallback",
        },
        51 => Event::UnitMemoized {
            unit: Unit::of(&body.message(1)?),
            output: stored(&body.message(3)?.message(2)?),
            key: body.message(3)?.bytes(1).to_vec(),
        },
        55 => {
            let call = |call: &[u8]| {
                let call = Message::parse(call)?;
                Ok(AskedCall {
                    action: call.text(1),
                    arguments: optional(&call, 2)?,
                    is_refused: call.has(3),
                })
            };
            Event::ToolsAsked {
                unit: Unit::of(&body.message(1)?),
                calls: body.all(2).map(call).collect::<Result<_, String>>()?,
            }
        }
        57 => Event::BudgetAwaited(Unit::of(&body.message(1)?)),
        60 => Event::SessionRead {
            state: optional(body, 1)?,
            version: body.number(2),
        },
        61 => Event::StatePatched {
            patch: stored(&body.message(3)?),
            state: optional(body, 4)?,
        },
        _ => Event::Other,
    })
}

pub(super) fn budget(spec: &Message<'_>) -> Result<Option<Budget>, String> {
    if !spec.has(23) {
        return Ok(None);
    }
    let budget = spec.message(23)?;
    let limit = |number| budget.has(number).then(|| budget.number(number));
    let price = |price: &[u8]| {
        let price = Message::parse(price)?;
        Ok((price.text(1), price.number(2), price.number(3)))
    };
    Ok(Some(Budget {
        prices: budget.all(5).map(price).collect::<Result<_, String>>()?,
        limits: [limit(1), limit(2), limit(3), limit(4)],
        answer_tokens: budget.number(8),
        asks: budget.number(7) == 0,
    }))
}

pub(super) fn usage(body: &Message<'_>, number: u32) -> Result<Option<Usage>, String> {
    if !body.has(number) {
        return Ok(None);
    }
    let usage = body.message(number)?;
    Ok(Some([1, 2, 5, 6].map(|part| usage.number(part))))
}
