//! Entries about how plans are made, as events tell them.

use super::event::{failure, optional, word};
use super::words::digest_text;
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_run::journal::{Event, GenerationEnded, ReplanTriggered};

/// What an entry about planning says.
pub(super) fn data(data: StructBuilder, event: &Event) -> StructBuilder {
    match event {
        Event::GenerationStarted(started) => {
            let data = data.number("generation", f64::from(started.generation));
            word(data, "parent_plan_id", &digest_text(&started.parent))
        }
        Event::CatalogueGiven(given) => data
            .number("generation", f64::from(given.generation))
            .number("actions", f64::from(given.n_actions))
            .number("left_out", f64::from(given.n_left_out)),
        Event::GenerationEnded(ended) => generation_ended(data, ended),
        Event::ReplanTriggered(replan) => replan_triggered(data, replan),
        Event::PlanSummary(summary) => data
            .number("revision", f64::from(summary.number))
            .number("total_steps", f64::from(summary.n_steps))
            .text("name", &summary.name)
            .list("steps", texts(&summary.steps)),
        Event::FallbackUsed(used) => optional(data.text("kind", &used.kind), "output", Some(&used.output)),
        _ => data,
    }
}

fn generation_ended(data: StructBuilder, ended: &GenerationEnded) -> StructBuilder {
    let data = data
        .number("generation", f64::from(ended.generation))
        .text("verdict", ended.verdict().as_str());
    let violations = ended.violations.iter().fold(ListBuilder::new(), |list, part| {
        let part = StructBuilder::new()
            .text("path", &part.path)
            .text("code", &part.code)
            .text("message", &part.message);
        list.object(part.build().as_encoded())
    });
    let data = word(data, "revision_digest", &digest_text(&ended.digest)).list("violations", violations);
    match &ended.error {
        Some(error) => failure(data, error),
        None => data,
    }
}

fn replan_triggered(data: StructBuilder, replan: &ReplanTriggered) -> StructBuilder {
    let failed = replan.failed.iter().fold(ListBuilder::new(), |list, step| {
        let step = StructBuilder::new()
            .text("step_key", &step.key)
            .text("tool_name", &step.action)
            .text("code", &step.code)
            .text("message", &step.message);
        list.object(step.build().as_encoded())
    });
    let data = failure(data, &replan.error)
        .number("revision", f64::from(replan.revision))
        .text("cause", &replan.cause)
        .list("disabled", texts(&replan.disabled));
    match &replan.substituted {
        Some(one) => data
            .text("step_key", &one.step_key)
            .text("from", &one.from)
            .text("to", &one.to),
        None => word(data, "comment", &replan.comment)
            .number("generation", f64::from(replan.generation))
            .list("failed_steps", failed),
    }
}

fn texts(texts: &[String]) -> ListBuilder {
    texts
        .iter()
        .fold(ListBuilder::new(), |list, text| list.text(text))
}
