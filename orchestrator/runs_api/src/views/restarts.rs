//! Events of an orchestrator that started again or stood still, as they are shown.

use escapement_model::opaque::StructBuilder;
use escapement_run::journal::Event;

/// Adds what an event says.
pub(super) fn data(data: StructBuilder, event: &Event) -> StructBuilder {
    match event {
        Event::RunRecovered(recovered) => data
            .number("pending", f64::from(recovered.pending))
            .number("completed", f64::from(recovered.completed))
            .number("failed", f64::from(recovered.failed))
            .number(
                "interrupted_with_child",
                f64::from(recovered.interrupted_with_child),
            )
            .number("ambiguous", f64::from(recovered.ambiguous))
            .number("resubmitted", f64::from(recovered.resubmitted))
            .boolean("orderly", recovered.orderly)
            .number("ahead_ms", recovered.ahead_ms as f64),
        Event::RunStalled(stalled) => data.number("stalled_ms", stalled.stalled_ms as f64),
        _ => data,
    }
}
