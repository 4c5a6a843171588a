//! What a run saw of its session and what it changed there, as events say it.

use super::event::stored_object;
use escapement_model::opaque::StructBuilder;
use escapement_run::journal::Event;
use escapement_run::session::{Health, SkillHealth};
use escapement_wire::runs::v1;

/// What the entry says.
pub(super) fn data(data: StructBuilder, event: &Event) -> StructBuilder {
    match event {
        Event::SessionRead(read) => {
            let data = match &read.state {
                Some(state) => stored_object(
                    data.number("state_version", read.state_version as f64),
                    "state",
                    state,
                ),
                None => data,
            };
            let Some(health) = &read.health else {
                return data;
            };
            let skills = health.skills.iter().fold(StructBuilder::new(), |skills, one| {
                skills.text(&one.skill, one.health().as_str())
            });
            data.object("skills", skills.build().as_encoded())
        }
        Event::StatePatched(patched) => stored_object(
            data.number("index", f64::from(patched.index)),
            "patch",
            &patched.patch,
        ),
        Event::SkillHealthChanged(changed) => data
            .text("skill", &changed.skill)
            .text("before", changed.before().as_str())
            .text("health", changed.health().as_str())
            .number("failures", f64::from(changed.failures))
            .boolean("is_given_up", changed.is_given_up),
        _ => data,
    }
}

/// How a skill does.
pub(crate) fn skill_view(skill: &SkillHealth) -> v1::SkillHealth {
    use v1::skill_health::Health as Word;
    let health = match skill.health() {
        Health::Healthy => Word::Healthy,
        Health::TemporaryFailure => Word::TemporaryFailure,
        Health::Degraded => Word::Degraded,
        Health::PermanentFailure => Word::PermanentFailure,
    };
    v1::SkillHealth {
        skill: skill.skill.clone(),
        health: health.into(),
        failures: i32::try_from(skill.failures).unwrap_or(i32::MAX),
    }
}
