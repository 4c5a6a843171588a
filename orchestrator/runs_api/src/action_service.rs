//! `ActionService`: what operators say of actions.

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_model::limits::{ACTION_CHARS_MAX, LABEL_CHARS_MAX};
use escapement_model::opaque::{ValueView, value};
use escapement_run::catalogue::SCHEMA_BYTES_MAX;
use escapement_run::json::value_of_json;
use escapement_run::spec::{ActionProfile, EffectClass, Risk};
use escapement_runs_host::{Deciding, RunsHost};
use escapement_runs_shell::limits::PROFILES_MAX;
use escapement_runs_shell::{CallError, Decided, RunsHandle};
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionChange, DefinitionKind, DefinitionPut, RunReader};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::action_profile;
use escapement_wire::runs::v1::action_service_server::ActionService;
use prost::Message;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::paging;

/// The service.
#[derive(Clone, Debug)]
pub struct Actions {
    runs: RunsHandle,
}

impl Actions {
    /// Keeps profiles with these runs.
    pub fn new(runs: RunsHandle) -> Self {
        Self { runs }
    }

    async fn put(&self, profile: Option<v1::ActionProfile>) -> Result<v1::ActionProfile, Rejection> {
        let profile = read(profile)?;
        let name = profile.action.clone();
        let put = DefinitionPut {
            namespace: Namespace::default(),
            owner: None,
            priority: 0,
            at: 0,
            record: Bytes::from(profile.encode_to_vec()),
            contents: Vec::new(),
            pinned: Vec::new(),
        };
        if let Err(bound) = put.check_bounds() {
            return Err(CallError::TooLarge(bound.to_string()).into());
        }
        let decide = move |deciding: &Deciding<'_>| {
            let is_known = match deciding.definition(PROFILE, &name) {
                // A damaged one is written anew.
                Err(StoreFault::CorruptDefinition { .. }) => true,
                known => known?.is_some(),
            };
            if !is_known && deciding.n_definitions(PROFILE)? >= PROFILES_MAX {
                return Ok(Decided::Answer(None));
            }
            let (name, put) = (name.clone(), put.clone());
            Ok(Decided::write(
                put.record.len(),
                move |host: &mut RunsHost, now| {
                    let put = DefinitionPut { at: now, ..put };
                    host.define(PROFILE, &name, DefinitionChange::Put(put));
                    Some(now)
                },
            ))
        };
        let Some(at) = self.runs.decide(None, decide).await? else {
            return Err(Rejection::failed(
                "PROFILES_FULL",
                format!("There are {PROFILES_MAX} profiles of actions, as many as there may be."),
            ));
        };
        Ok(view(&profile, at))
    }

    async fn delete(&self, action: String) -> Result<(), Rejection> {
        let mut fields = Fields::default();
        fields.text("action", &action, 1..=ACTION_CHARS_MAX);
        fields.conclude()?;
        let name = action.clone();
        let decide = move |deciding: &Deciding<'_>| {
            let is_there = match deciding.definition(PROFILE, &name) {
                // A damaged one can be deleted.
                Err(StoreFault::CorruptDefinition { .. }) => true,
                found => found?.is_some(),
            };
            if !is_there {
                return Ok(Decided::Answer(false));
            }
            let name = name.clone();
            Ok(Decided::write(0, move |host: &mut RunsHost, _now| {
                host.define(PROFILE, &name, DefinitionChange::Delete);
                true
            }))
        };
        match self.runs.decide(None, decide).await? {
            true => Ok(()),
            false => Err(Rejection::NotFound {
                reason: "PROFILE_NOT_FOUND",
                message: format!("No profile is kept of the action {action}."),
            }),
        }
    }

    async fn list(
        &self,
        request: v1::ListActionProfilesRequest,
        caller: &Caller,
    ) -> Result<v1::ListActionProfilesResponse, Rejection> {
        let mut fields = Fields::default();
        let page_size = fields.page_size(request.page_size, 100, 1000);
        fields.conclude()?;
        let after = paging::name(&request.page_token, &FILTERS)?;
        let read = move |reader: &dyn RunReader| {
            reader.definitions_by_name(DefinitionKind::ActionProfile, after.as_deref(), page_size)
        };
        let page = self.runs.readers().read(read).await?;
        let last = page.definitions.last().filter(|_| page.has_more);
        let next = last.map(|last| paging::token_of_name(&last.name, &FILTERS));
        let profiles = page.definitions.iter().filter_map(|definition| {
            // Lists leave out what is damaged.
            let profile = ActionProfile::decode(definition.record.clone()).ok()?;
            let is_shown = caller.lists_action(&profile.action);
            is_shown.then(|| view(&profile, definition.updated_at))
        });
        Ok(v1::ListActionProfilesResponse {
            profiles: profiles.collect(),
            next_page_token: next.unwrap_or_default(),
        })
    }
}

fn read(profile: Option<v1::ActionProfile>) -> Result<ActionProfile, Rejection> {
    let mut fields = Fields::default();
    let Some(profile) = profile else {
        fields.wrong("profile", "is required");
        return Err(fields.conclude().expect_err("there is a problem"));
    };
    fields.text("profile.action", &profile.action, 1..=ACTION_CHARS_MAX);
    fields.text("profile.skill", &profile.skill, 0..=ACTION_CHARS_MAX);
    fields.number("profile.attempt_ms", profile.attempt_ms, 0..=86_400_000);
    if profile.updated_at != 0 {
        fields.because(
            "profile.updated_at",
            "OUTPUT_ONLY",
            "is set by the orchestrator alone",
        );
    }
    let effect = EFFECTS
        .iter()
        .find(|(word, _)| i32::from(*word) == profile.effect);
    if effect.is_none() {
        fields.wrong("profile.effect", "must be a known effect");
    }
    let risk = RISKS.iter().find(|(word, _)| i32::from(*word) == profile.risk);
    if risk.is_none() {
        fields.wrong("profile.risk", "must be a known risk");
    }
    fields.texts(
        "profile.produces",
        &profile.produces,
        NAMES_MAX,
        1..=LABEL_CHARS_MAX,
    );
    fields.texts(
        "profile.alternatives",
        &profile.alternatives,
        NAMES_MAX,
        1..=ACTION_CHARS_MAX,
    );
    if let Some(what) = no_schema(&profile.output_schema) {
        fields.wrong("profile.output_schema", what);
    }
    fields.conclude()?;
    let mut read = ActionProfile {
        produces: profile.produces,
        alternatives: profile.alternatives,
        output_schema: profile.output_schema,
        action: profile.action,
        skill: profile.skill,
        idempotent: profile.idempotent,
        not_for_planners: profile.not_for_planners,
        attempt_ms: u64::try_from(profile.attempt_ms).unwrap_or(0),
        ..ActionProfile::default()
    };
    read.set_effect(effect.map_or(EffectClass::SideEffect, |(_, effect)| *effect));
    read.set_risk(risk.map_or(Risk::Unusual, |(_, risk)| *risk));
    Ok(read)
}

/// What is wrong with the schema of an output; `None` if nothing is, or there is none.
fn no_schema(text: &str) -> Option<String> {
    if text.len() > SCHEMA_BYTES_MAX {
        return Some(format!("must have at most {SCHEMA_BYTES_MAX} bytes"));
    }
    if text.is_empty() {
        return None;
    }
    match value_of_json(text) {
        Err(why) => Some(format!("must be JSON: {why}")),
        Ok(schema) => match value(&schema) {
            Ok(ValueView::Struct(_)) => None,
            _ => Some("must be an object: a JSON Schema".to_owned()),
        },
    }
}

fn view(profile: &ActionProfile, updated_at: i64) -> v1::ActionProfile {
    let effect = EFFECTS.iter().find(|(_, effect)| *effect == profile.effect());
    let risk = RISKS.iter().find(|(_, risk)| *risk == profile.risk());
    v1::ActionProfile {
        action: profile.action.clone(),
        effect: effect
            .map_or(action_profile::Effect::SideEffect, |(word, _)| *word)
            .into(),
        risk: risk
            .map_or(action_profile::Risk::Unusual, |(word, _)| *word)
            .into(),
        idempotent: profile.idempotent,
        attempt_ms: i64::try_from(profile.attempt_ms).unwrap_or(i64::MAX),
        updated_at,
        produces: profile.produces.clone(),
        alternatives: profile.alternatives.clone(),
        output_schema: profile.output_schema.clone(),
        skill: profile.skill.clone(),
        not_for_planners: profile.not_for_planners,
    }
}

#[tonic::async_trait]
impl ActionService for Actions {
    async fn list_action_profiles(
        &self,
        request: Request<v1::ListActionProfilesRequest>,
    ) -> Result<Response<v1::ListActionProfilesResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.list(request.into_inner(), &caller).await?))
    }

    async fn put_action_profile(
        &self,
        request: Request<v1::PutActionProfileRequest>,
    ) -> Result<Response<v1::PutActionProfileResponse>, Status> {
        let profile = Some(self.put(request.into_inner().profile).await?);
        Ok(Response::new(v1::PutActionProfileResponse { profile }))
    }

    async fn delete_action_profile(
        &self,
        request: Request<v1::DeleteActionProfileRequest>,
    ) -> Result<Response<v1::DeleteActionProfileResponse>, Status> {
        self.delete(request.into_inner().action).await?;
        Ok(Response::new(v1::DeleteActionProfileResponse {}))
    }
}

const PROFILE: DefinitionKind = DefinitionKind::ActionProfile;
/// Types that an action produces, and alternatives that it has.
const NAMES_MAX: usize = 16;
/// What page tokens of this list are made for.
const FILTERS: &str = "action profiles";
const EFFECTS: [(action_profile::Effect, EffectClass); 5] = [
    (action_profile::Effect::SideEffect, EffectClass::SideEffect),
    (action_profile::Effect::Pure, EffectClass::Pure),
    (action_profile::Effect::World, EffectClass::World),
    (action_profile::Effect::Llm, EffectClass::Llm),
    (action_profile::Effect::External, EffectClass::External),
];
const RISKS: [(action_profile::Risk, Risk); 3] = [
    (action_profile::Risk::Unusual, Risk::Unusual),
    (action_profile::Risk::Safe, Risk::Safe),
    (action_profile::Risk::Destructive, Risk::Destructive),
];
