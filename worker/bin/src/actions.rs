//! Which actions there are, which of them the configuration opens, and how each is joined to its handler.
//! Contains no handler.

use crate::config::Config;
use crate::handlers::{
    delay, echo, execute_plan, fail, file_read, file_stat, file_write, http_request, json_filter, json_query,
    llm_chat, process_run, template_fill, template_render,
};
use escapement_sdk::{StepContext, WorkerBuilder};
use std::sync::Arc;

/// True if an action can be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It can.
    Open,
    /// Not without this flag.
    Needs(&'static str),
}

/// Returns every action of this worker, in the order of `HANDLERS.md`.
///
/// An action that would only ever answer "off" is not offered,
/// so that its steps go to a worker that has it open.
pub fn offers(config: &Config) -> [(&'static str, Offer); 14] {
    let needs = |flag, is_given| if is_given { Offer::Open } else { Offer::Needs(flag) };
    let with_root = needs("--root DIRECTORY", config.root.is_some());
    let with_model = needs("--llm-endpoint URL", config.llm.is_some());
    [
        (
            http_request::NAME,
            needs("--allow-host HOST", !config.hosts.is_empty()),
        ),
        (
            process_run::NAME,
            needs("--allow-program NAME", !config.programs.is_empty()),
        ),
        (file_read::NAME, with_root),
        (file_stat::NAME, with_root),
        (file_write::NAME, with_root),
        (json_query::NAME, Offer::Open),
        (json_filter::NAME, Offer::Open),
        (template_render::NAME, Offer::Open),
        (template_fill::NAME, Offer::Open),
        (llm_chat::NAME, with_model),
        (execute_plan::NAME, Offer::Open),
        (delay::NAME, Offer::Open),
        (echo::NAME, Offer::Open),
        (fail::NAME, Offer::Open),
    ]
}

/// Adds the chosen actions to a worker.
pub fn add_to(builder: WorkerBuilder, config: &Arc<Config>) -> WorkerBuilder {
    config
        .actions
        .iter()
        .fold(builder, |builder, name| add(builder, name, config))
}

fn add(builder: WorkerBuilder, name: &str, config: &Arc<Config>) -> WorkerBuilder {
    // A handler is called for every attempt, so each call takes its own reference.
    macro_rules! configured {
        ($handler:ident) => {{
            let config = config.clone();
            let body = move |input, context: StepContext| $handler::run(input, context, config.clone());
            builder.handler_with($handler::action(), body)
        }};
    }
    match name {
        http_request::NAME => configured!(http_request),
        process_run::NAME => configured!(process_run),
        file_read::NAME => configured!(file_read),
        file_stat::NAME => configured!(file_stat),
        file_write::NAME => configured!(file_write),
        json_query::NAME => configured!(json_query),
        json_filter::NAME => configured!(json_filter),
        template_render::NAME => configured!(template_render),
        template_fill::NAME => configured!(template_fill),
        llm_chat::NAME => configured!(llm_chat),
        execute_plan::NAME => configured!(execute_plan),
        delay::NAME => builder.handler_with(delay::action(), delay::run),
        echo::NAME => builder.handler_with(echo::action(), echo::run),
        fail::NAME => builder.handler_with(fail::action(), fail::run),
        other => unreachable!("the configuration chose {other:?}, which is no action"),
    }
}
