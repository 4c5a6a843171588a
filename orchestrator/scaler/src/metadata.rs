//! What the metadata of a trigger asks for. Asks the engine nothing.

use crate::looks::Busy;
use escapement_access::Pattern;
use escapement_engine::ActionView;
use escapement_model::limits::SESSION_IN_FLIGHT_MAX;
use escapement_transport::refusal::invalid_field;
use escapement_wire::externalscaler::ScaledObjectRef;
use std::ops::RangeInclusive;
use tonic::Status;

/// Some workers: what they do, and how much of it one of them is to have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    actions: Vec<Pattern>,
    /// Attempts that one worker is to have on average; above 0.
    pub(crate) target: f64,
}

impl Pool {
    /// Reads the metadata. Keys that are not ours are KEDA's.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the path of what is missing or wrong.
    pub(crate) fn of(scaled: &ScaledObjectRef) -> Result<Self, Status> {
        let given = |key: &str| scaled.scaler_metadata.get(key).map(|value| value.trim());
        let slots = given(SLOTS).ok_or_else(|| wrong(SLOTS, "must be given"))?;
        let slots: u32 = number(SLOTS, slots, 1..=SESSION_IN_FLIGHT_MAX)?;
        let utilisation = match given(UTILISATION) {
            Some(text) => number(UTILISATION, text, UTILISATION_MIN..=1.0)?,
            None => UTILISATION_DEFAULT,
        };
        Ok(Self {
            actions: patterns(given(ACTIONS).unwrap_or_default())?,
            target: f64::from(slots) * utilisation,
        })
    }

    /// What there is to do for its workers.
    pub(crate) fn demand(&self, actions: &[ActionView]) -> u64 {
        // Mostly there is nothing to do, and patterns cost more than figures.
        let busy = actions.iter().filter(|action| action.demand() > 0);
        let own = busy.filter(|action| self.does(&action.name));
        own.map(ActionView::demand).sum()
    }

    /// Returns true if there is anything to do for its workers.
    pub(crate) fn is_active(&self, busy: &Busy) -> bool {
        busy.iter().any(|action| self.does(action))
    }

    fn does(&self, action: &str) -> bool {
        self.actions.iter().any(|pattern| pattern.matches(action))
    }
}

fn patterns(text: &str) -> Result<Vec<Pattern>, Status> {
    let texts: Vec<&str> = text.split(',').map(str::trim).collect();
    if texts.len() > PATTERNS_MAX {
        let problem = format!("must have at most {PATTERNS_MAX} patterns");
        return Err(wrong(ACTIONS, &problem));
    }
    let patterns = texts.into_iter().map(Pattern::new);
    patterns
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(ACTIONS, &format!("each pattern {error}")))
}

fn number<T>(key: &str, text: &str, range: RangeInclusive<T>) -> Result<T, Status>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| wrong(key, &format!("must be {} to {}", range.start(), range.end())))
}

/// Returns the answer to metadata that is wrong.
fn wrong(key: &str, problem: &str) -> Status {
    invalid(&format!("scalerMetadata.{key}"), problem)
}

/// Returns the answer to a field that is wrong.
pub(crate) fn invalid(field: &str, problem: &str) -> Status {
    invalid_field(field, "INVALID_ARGUMENT", problem)
}

const ACTIONS: &str = "actions";
const SLOTS: &str = "slotsPerWorker";
const UTILISATION: &str = "targetUtilisation";
/// Leaves room for what comes while a worker starts.
const UTILISATION_DEFAULT: f64 = 0.8;
const UTILISATION_MIN: f64 = 0.01;
/// Patterns of one trigger.
const PATTERNS_MAX: usize = 64;
