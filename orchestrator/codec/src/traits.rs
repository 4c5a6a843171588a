//! What workers say of the nature of actions: as the engine keeps it without looking into it, and what all say together.

use bytes::Bytes;
use escapement_model::limits::{ACTION_CHARS_MAX, ACTION_TRAIT_NAMES_MAX, LABEL_CHARS_MAX};
use escapement_wire::v1::ActionTraits;
use escapement_wire::v1::action_traits::{Effect, Risk};
use prost::Message;

/// What one worker says, as it is kept; empty if it says nothing. Words that are not known count as the most careful ones.
pub(crate) fn kept(traits: Option<ActionTraits>) -> Bytes {
    let Some(mut traits) = traits else {
        return Bytes::new();
    };
    traits.set_effect(traits.effect());
    traits.set_risk(traits.risk());
    for (names, chars_max) in [
        (&mut traits.produces, LABEL_CHARS_MAX),
        (&mut traits.alternatives, ACTION_CHARS_MAX),
    ] {
        names.retain(|name| !name.is_empty() && name.chars().count() <= chars_max);
        names.truncate(ACTION_TRAIT_NAMES_MAX);
    }
    traits.encode_to_vec().into()
}

/// What all workers say together; `None` if none says anything. Lists and schemas count as far as all say the same.
pub(crate) fn of_all(said: &[Bytes]) -> Option<ActionTraits> {
    if said.iter().all(Bytes::is_empty) {
        return None;
    }
    // Only what was encoded here is kept; what is damaged all the same says nothing.
    let read = |bytes: &Bytes| ActionTraits::decode(bytes.clone()).unwrap_or_default();
    said.iter().map(read).reduce(|one, other| ActionTraits {
        effect: one.effect().max_by_care(other.effect()).into(),
        risk: one.risk().max_by_care(other.risk()).into(),
        idempotent: one.idempotent && other.idempotent,
        output_schema: match one.output_schema == other.output_schema {
            true => one.output_schema,
            false => String::new(),
        },
        produces: both(one.produces, &other.produces),
        alternatives: both(one.alternatives, &other.alternatives),
        not_for_planners: one.not_for_planners && other.not_for_planners,
    })
}

fn both(mut names: Vec<String>, others: &[String]) -> Vec<String> {
    names.retain(|name| others.contains(name));
    names
}

/// Words in ascending order of care.
trait Care: Copy + Sized {
    fn care(self) -> u8;

    fn max_by_care(self, other: Self) -> Self {
        if other.care() > self.care() { other } else { self }
    }
}

impl Care for Effect {
    fn care(self) -> u8 {
        match self {
            Effect::Pure => 0,
            Effect::Llm => 1,
            Effect::World => 2,
            Effect::SideEffect => 3,
            Effect::External => 4,
        }
    }
}

impl Care for Risk {
    fn care(self) -> u8 {
        match self {
            Risk::Safe => 0,
            Risk::Unusual => 1,
            Risk::Destructive => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{kept, of_all};
    use bytes::Bytes;
    use escapement_wire::v1::ActionTraits;
    use escapement_wire::v1::action_traits::{Effect, Risk};

    fn traits(effect: Effect, risk: Risk, produces: &[&str]) -> ActionTraits {
        ActionTraits {
            effect: effect.into(),
            risk: risk.into(),
            idempotent: true,
            output_schema: "{}".to_owned(),
            produces: produces.iter().map(|name| (*name).to_owned()).collect(),
            alternatives: vec!["other".to_owned()],
            not_for_planners: true,
        }
    }

    #[test]
    fn one_worker_s_word_counts_and_of_several_the_most_careful_one() {
        let safe = traits(Effect::Pure, Risk::Safe, &["image", "text"]);
        assert_eq!(of_all(&[kept(Some(safe.clone()))]), Some(safe.clone()));
        let careful = ActionTraits {
            not_for_planners: false,
            idempotent: false,
            output_schema: "[]".to_owned(),
            ..traits(Effect::World, Risk::Destructive, &["text"])
        };
        let together = ActionTraits {
            output_schema: String::new(),
            ..careful.clone()
        };
        for pair in [[&safe, &careful], [&careful, &safe]] {
            let said = pair.map(|traits| kept(Some(traits.clone())));
            assert_eq!(of_all(&said), Some(together.clone()));
        }
        // One that says nothing means the worst.
        let silent = of_all(&[kept(Some(safe)), kept(None)]).unwrap();
        assert_eq!(silent, ActionTraits::default());
        assert_eq!(
            (silent.effect(), silent.risk()),
            (Effect::SideEffect, Risk::Unusual)
        );
        assert_eq!(of_all(&[kept(None)]), None);
        assert_eq!(of_all(&[]), None);
        assert_eq!(
            of_all(&[Bytes::from_static(b"\xff\xff")]),
            Some(ActionTraits::default())
        );
    }

    #[test]
    fn what_has_no_meaning_is_not_kept() {
        let odd = ActionTraits {
            effect: 99,
            risk: -1,
            produces: (0..40).map(|n| format!("type {n}")).collect(),
            alternatives: vec![String::new(), "x".repeat(101), "y".repeat(100)],
            ..ActionTraits::default()
        };
        let found = of_all(&[kept(Some(odd))]).unwrap();
        assert_eq!((found.effect, found.risk), (0, 0));
        assert_eq!(found.produces.len(), 16);
        assert_eq!(found.alternatives, ["y".repeat(100)]);
    }
}
