//! What a planner may choose from: what workers offer now, and what operators said of it. Changes nothing.

use std::collections::BTreeSet;

use escapement_model::RunId;
use escapement_run::catalogue::Catalogue;
use escapement_run::spec::ActionProfile;
use tokio::time::sleep;
use tracing::warn;

use crate::catalogue::{catalogue, profiles_for};
use crate::error::CallError;
use crate::handle::RunsHandle;
use crate::limits::CHILD_PAUSE;

/// The actions that a plan of the run may call, and what is known of those that the run calls itself. If the store cannot be
/// read there are none, and the generation fails.
pub(crate) async fn offered(
    runs: &RunsHandle,
    run_id: RunId,
    allowed: &[String],
    own: &[String],
) -> (Catalogue, Vec<ActionProfile>) {
    loop {
        match once(runs, allowed, own).await {
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

async fn once(
    runs: &RunsHandle,
    allowed: &[String],
    own: &[String],
) -> Result<(Catalogue, Vec<ActionProfile>), CallError> {
    let allowed: BTreeSet<String> = allowed.iter().cloned().collect();
    let is_wanted = move |action: &str| allowed.is_empty() || allowed.contains(action);
    let catalogue = catalogue(runs, is_wanted).await?;
    let (own, seen) = (own.to_vec(), runs.seen().clone());
    let read = runs.readers().read(move |reader| {
        let own: BTreeSet<&str> = own.iter().map(String::as_str).collect();
        profiles_for(reader, &own, &seen)
    });
    Ok((catalogue, read.await?))
}
