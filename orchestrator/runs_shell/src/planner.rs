//! What a planner may choose from: what workers offer now, and what operators said of it; and the expressions of what it answers.
//! Changes nothing.

use std::collections::BTreeSet;

use escapement_model::RunId;
use escapement_run::catalogue::Catalogue;
use escapement_run::journal::RefusedPart;
use escapement_run::outcome::AttemptOutcome;
use escapement_run::plan::Code;
use escapement_run::planner::expressions_in;
use escapement_run::spec::ActionProfile;
use tokio::time::sleep;
use tracing::warn;

use crate::catalogue::{catalogue, profiles_for};
use crate::error::CallError;
use crate::handle::RunsHandle;
use crate::limits::CHILD_PAUSE;
use crate::rights::Origin;

/// Returns the actions that a plan of the run may call, as far as its author may have them called, and what is known of those that the run
/// calls itself. If the store cannot be read there are none, and the generation fails.
pub(crate) async fn offered(
    runs: &RunsHandle,
    run_id: RunId,
    origin: &Origin,
    allowed: &[String],
    own: &[String],
) -> (Catalogue, Vec<ActionProfile>) {
    loop {
        match once(runs, origin, allowed, own).await {
            Ok(offered) => return offered,
            // That others read says nothing about the actions.
            Err(CallError::Overloaded) if runs.is_live(run_id) => sleep(CHILD_PAUSE).await,
            Err(error) => {
                warn!(%run_id, %error, "actions cannot be listed");
                return (Catalogue::default(), Vec::new());
            }
        }
    }
}

// RUN-11.5
/// What is wrong with the expressions of the plan in an output; nothing if there is no plan.
pub(crate) fn mistakes_in(outcome: &AttemptOutcome) -> Vec<RefusedPart> {
    let expressions = outcome.output.as_ref().map(expressions_in).unwrap_or_default();
    let mistakes = expressions.into_iter().filter_map(|(path, text)| {
        let message = escapement_expressions::check(&text).err()?;
        Some(RefusedPart {
            path,
            code: Code::InvalidField.as_str().to_owned(),
            message: format!("The expression cannot be read: {message}."),
        })
    });
    mistakes.collect()
}

async fn once(
    runs: &RunsHandle,
    origin: &Origin,
    allowed: &[String],
    own: &[String],
) -> Result<(Catalogue, Vec<ActionProfile>), CallError> {
    let allowed: BTreeSet<String> = allowed.iter().cloned().collect();
    let (rights, origin) = (runs.rights(), origin.clone());
    let is_wanted = move |action: &str| {
        (allowed.is_empty() || allowed.contains(action)) && rights.permit(&origin, action)
    };
    let catalogue = catalogue(runs, is_wanted).await?;
    let (own, seen) = (own.to_vec(), runs.seen().clone());
    let read = runs.readers().read(move |reader| {
        let own: BTreeSet<&str> = own.iter().map(String::as_str).collect();
        profiles_for(reader, &own, &seen)
    });
    // The planner does not wait for unknown profiles: the generation has a time limit.
    let own = read.await?.into_iter().map(|own| ActionProfile {
        unknown: false,
        ..own
    });
    Ok((catalogue, own.collect()))
}

#[cfg(test)]
mod tests {
    use super::mistakes_in;
    use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, encode_value};
    use escapement_run::outcome::AttemptOutcome;

    // RUN-11.5
    #[test]
    fn the_expressions_of_a_plan_are_looked_at_and_nothing_else() {
        let asking = |condition: &str| {
            let config = StructBuilder::new().text("condition", condition).build();
            let step = StructBuilder::new().text("key", "c").text("type", "condition");
            let step = step.object("config", config.as_encoded()).build();
            let plan = StructBuilder::new()
                .text("schema", "escapement.plan/1")
                .text("name", "Asks");
            let plan = plan
                .list("steps", ListBuilder::new().object(step.as_encoded()))
                .build();
            let output = StructBuilder::new().object("plan", plan.as_encoded()).build();
            let mut bytes = Vec::new();
            encode_value(ValueView::Struct(output.as_encoded()), &mut bytes);
            let outcome = AttemptOutcome {
                output: Some(bytes.into()),
                ..AttemptOutcome::default()
            };
            mistakes_in(&outcome)
        };
        assert_eq!(asking("input.n > 2"), []);
        let mistakes = asking("input.n >");
        assert_eq!(
            (mistakes.len(), mistakes[0].path.as_str()),
            (1, "steps[0].config.condition")
        );
        assert_eq!(mistakes[0].code, "INVALID_FIELD");
        assert_eq!(mistakes_in(&AttemptOutcome::default()), []);
    }
}
