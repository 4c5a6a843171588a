//! What runs are told of actions: what operators said of them and what workers say. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use escapement_run::catalogue::{CATALOGUE_BYTES_MAX, Catalogue, CatalogueAction, SCHEMA_BYTES_MAX};
use escapement_run::plan::{Plan, Step, StepKind};
use escapement_run::spec::{ActionProfile, EffectClass, LOOK_ACTION, Risk};
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionKind, RunReader};
use escapement_wire::v1;
use escapement_wire::v1::action_traits;
use prost::Message;

use crate::error::CallError;
use crate::handle::RunsHandle;
use crate::seen::{OfferedAction, SeenActions};

/// What is known of the actions that the plan calls, of those of the run itself ([`Spec::actions`]), and of those that may take
/// the place of one of them, sorted by name. Of those that models may call also what models are told of them, as long as there is
/// room in 256 KiB; call [`SeenActions::refresh`] before if there are such.
///
/// [`Spec::actions`]: escapement_run::spec::Spec::actions
///
/// # Errors
/// As the store fails.
pub fn profiles_of(
    reader: &dyn RunReader,
    plan: &Plan,
    own_actions: &[String],
    seen: &SeenActions,
) -> Result<Vec<ActionProfile>, StoreFault> {
    let mut actions = plan.actions();
    actions.extend(own_actions.iter().map(String::as_str));
    let constraints = &plan.constraints;
    if !constraints.must_produce.is_empty() || constraints.expected_artifact_type.is_some() {
        actions.insert(LOOK_ACTION);
    }
    let mut profiles = profiles_for(reader, &actions, seen)?;
    // RUN-2.6: of the run's own actions that counts with which every plan with a question to a model begins.
    let asks_a_model = |step: &Step| matches!(step.kind, StepKind::LlmDecision(_));
    let called = plan.actions();
    let asks = plan.steps.iter().any(asks_a_model);
    let counts =
        |action: &str| called.contains(action) || (asks && own_actions.iter().any(|own| own == action));
    for profile in &mut profiles {
        profile.unknown = profile.unknown && seen.is_waited_for() && counts(&profile.action);
    }
    let mut known: BTreeSet<String> = actions.into_iter().map(str::to_owned).collect();
    let mut at = 0;
    while at < profiles.len() && profiles.len() < PROFILES_OF_RUN_MAX {
        let further: BTreeSet<String> = profiles[at]
            .alternatives
            .iter()
            .filter(|action| !known.contains(*action))
            .cloned()
            .collect();
        let names = further.iter().map(String::as_str).collect();
        let others = profiles_for(reader, &names, seen)?.into_iter();
        profiles.extend(others.map(|other| ActionProfile {
            unknown: false,
            ..other
        }));
        known.extend(further);
        at += 1;
    }
    profiles.sort_by(|one, other| one.action.cmp(&other.action));
    // RUN-12.13
    let mut room = CATALOGUE_BYTES_MAX;
    for profile in &mut profiles {
        match room.checked_sub(profile.output_schema.len()) {
            Some(rest) => room = rest,
            None => profile.output_schema.clear(),
        }
    }
    let (tools, offered): (BTreeSet<&str>, _) = (plan.tools().collect(), seen.offered());
    let mut room = CATALOGUE_BYTES_MAX;
    for profile in profiles
        .iter_mut()
        .filter(|profile| tools.contains(&*profile.action))
    {
        let Some(offer) = offered.get(&profile.action) else {
            continue;
        };
        let told = offer.description.len() + offer.input_schema.len();
        if offer.input_schema.len() <= SCHEMA_BYTES_MAX && told <= room {
            room -= told;
            profile.description = offer.description.clone();
            profile.input_schema = offer.input_schema.clone();
        }
    }
    Ok(profiles)
}

/// Profiles of these actions, sorted by name: by the word of the operator, else by the last word of workers, else marked as unknown,
/// with the effect `side_effect`, the risk `unusual` and not idempotent.
///
/// # Errors
/// As the store fails.
pub fn profiles_for(
    reader: &dyn RunReader,
    actions: &BTreeSet<&str>,
    seen: &SeenActions,
) -> Result<Vec<ActionProfile>, StoreFault> {
    let profile = |action: &&str| {
        let definition = reader.definition(DefinitionKind::ActionProfile, action)?;
        let said = definition.as_ref().map(decoded).transpose()?;
        Ok(profile(action, said, seen.said_of(action).as_ref(), seen))
    };
    actions.iter().map(profile).collect()
}

/// Returns the actions that workers offer now and that are wanted, for planners and models: as [`catalogue_of`], with what the
/// contract tells now.
///
/// # Errors
/// [`CallError::Overloaded`], [`CallError::Damaged`], [`CallError::Store`] as the store fails.
pub async fn catalogue(
    runs: &RunsHandle,
    is_wanted: impl Fn(&str) -> bool + Send + 'static,
) -> Result<Catalogue, CallError> {
    let seen = runs.seen().clone();
    seen.refresh().await;
    let read = move |reader: &dyn RunReader| catalogue_of(reader, &seen, &is_wanted);
    runs.readers().read(read).await
}

/// Returns the input schemas that workers publish of these actions, as many as fit into a catalogue. Reads nothing; call
/// [`SeenActions::refresh`] before.
pub fn input_schemas_of(seen: &SeenActions, actions: &BTreeSet<String>) -> BTreeMap<String, String> {
    let offered = seen.offered();
    let schemas = actions.iter().filter_map(|action| {
        let schema = &offered.get(action)?.input_schema;
        let is_kept = !schema.is_empty() && schema.len() <= SCHEMA_BYTES_MAX;
        is_kept.then(|| (action.clone(), schema.clone()))
    });
    let mut bytes = 0;
    let has_room = |(_, schema): &(String, String)| {
        bytes += schema.len();
        bytes <= CATALOGUE_BYTES_MAX
    };
    schemas.take_while(has_room).collect()
}

/// Returns the actions that workers offer and that are wanted, for planners and models. Actions are left out from the end of the
/// alphabet once there is no room for more. Call [`SeenActions::refresh`] before.
///
/// # Errors
/// As the store fails.
pub fn catalogue_of(
    reader: &dyn RunReader,
    seen: &SeenActions,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Catalogue, StoreFault> {
    let mut catalogue = Catalogue::default();
    let mut bytes = 0;
    for (name, offer) in seen.offered().iter().filter(|(name, _)| is_wanted(name)) {
        if catalogue.n_left_out > 0 {
            catalogue.n_left_out += 1;
            continue;
        }
        let said = match reader.definition(DefinitionKind::ActionProfile, name) {
            // What is damaged says nothing.
            Err(StoreFault::CorruptDefinition { .. }) => None,
            said => said?.as_ref().map(decoded).transpose()?,
        };
        let is_schema_left_out = offer.input_schema.len() > SCHEMA_BYTES_MAX;
        let action = CatalogueAction {
            profile: profile(name, said, Some(offer), seen),
            description: offer.description.clone(),
            input_schema: match is_schema_left_out {
                true => String::new(),
                false => offer.input_schema.clone(),
            },
            is_schema_left_out,
        };
        bytes += action.encoded_len() + FRAME_BYTES;
        if bytes > CATALOGUE_BYTES_MAX {
            catalogue.n_left_out += 1;
        } else {
            catalogue.actions.push(action);
        }
    }
    Ok(catalogue)
}

fn profile(
    action: &str,
    said: Option<ActionProfile>,
    offer: Option<&OfferedAction>,
    seen: &SeenActions,
) -> ActionProfile {
    let traits = offer.and_then(|offer| offer.traits.as_ref());
    let is_unknown = said.is_none() && offer.is_none();
    let declared = || traits.map(declared);
    let schema = traits.map(|traits| traits.output_schema.as_str());
    let schema = schema.filter(|schema| schema.len() <= SCHEMA_BYTES_MAX);
    let known = said.or_else(declared).unwrap_or_default();
    ActionProfile {
        action: action.to_owned(),
        // RUN-12.13
        output_schema: match known.output_schema.as_str() {
            "" => schema.unwrap_or_default().to_owned(),
            said => said.to_owned(),
        },
        seen: seen.contains(action),
        unknown: is_unknown,
        ..known
    }
}

/// What workers say, as a profile.
fn declared(traits: &v1::ActionTraits) -> ActionProfile {
    let effect = match traits.effect() {
        action_traits::Effect::SideEffect => EffectClass::SideEffect,
        action_traits::Effect::Pure => EffectClass::Pure,
        action_traits::Effect::World => EffectClass::World,
        action_traits::Effect::Llm => EffectClass::Llm,
        action_traits::Effect::External => EffectClass::External,
    };
    let risk = match traits.risk() {
        action_traits::Risk::Unusual => Risk::Unusual,
        action_traits::Risk::Safe => Risk::Safe,
        action_traits::Risk::Destructive => Risk::Destructive,
    };
    ActionProfile {
        effect: effect.into(),
        risk: risk.into(),
        idempotent: traits.idempotent,
        produces: traits.produces.clone(),
        alternatives: traits.alternatives.clone(),
        not_for_planners: traits.not_for_planners,
        ..ActionProfile::default()
    }
}

fn decoded(definition: &Definition) -> Result<ActionProfile, StoreFault> {
    let number = definition.number;
    ActionProfile::decode(definition.record.clone()).map_err(|_| StoreFault::CorruptDefinition { number })
}

/// Alternatives are looked up until a run knows so many actions.
const PROFILES_OF_RUN_MAX: usize = 256;
/// Bytes that an action takes in an encoded catalogue beside itself.
const FRAME_BYTES: usize = 8;
