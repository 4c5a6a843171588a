//! What attempts and child runs spend, as events tell it.

use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_run::journal::Usage;

/// What a child run used or may use, if that is limited.
pub(super) fn spent(data: StructBuilder, name: &str, usage: Option<Usage>) -> StructBuilder {
    let Some(usage) = usage else { return data };
    let all = StructBuilder::from_opaque(&usage_data(&usage)).number("tool_calls", usage.tool_calls as f64);
    data.object(name, all.build().as_encoded())
}

/// What attempts that asked models used.
pub(super) fn usage_data(usage: &Usage) -> Opaque {
    StructBuilder::new()
        .number("llm_calls", usage.llm_calls as f64)
        .number("prompt_tokens", usage.prompt_tokens as f64)
        .number("completion_tokens", usage.completion_tokens as f64)
        .number("total_tokens", usage.total_tokens as f64)
        .number("cost_micros", usage.cost_micros as f64)
        .build()
}
