//! What an entry of the policy gives: the keys that every kind of entry has.

use super::NamespaceLimits;
use super::section::{FlagOrText, Placed, Reading, Section};
use crate::grant::{Grant, NamespaceScope, UserScope};
use crate::pattern::Pattern;
use crate::role::{self, Role};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use escapement_model::Namespace;
use escapement_model::limits::LABEL_CHARS_MAX;

/// True if an entry must give a role.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Roles {
    Required,
    MayBeNone,
}

/// Reads what an entry gives.
pub(super) fn read<'t>(
    reading: &mut Reading<'t>,
    section: &mut Section<'t>,
    declared: &BTreeMap<Namespace, NamespaceLimits>,
    needs: Roles,
) -> Grant {
    let roles = roles(reading, section, needs);
    let namespaces = scope(reading, section, declared);
    let mut grant = Grant::new(roles, namespaces);
    if let Some(actions) = patterns(reading, section, "actions") {
        grant.actions = actions;
    }
    if let Some(worker_ids) = patterns(reading, section, "worker_ids") {
        grant.worker_ids = worker_ids;
    }
    grant.max_in_flight = reading.number(section, "max_in_flight", 1..=u32::MAX);
    grant.max_sessions = reading.number(section, "max_sessions", 1..=u32::MAX);
    grant.payloads = reading.boolean(section, "payloads").unwrap_or(false);
    grant.is_agent = reading.boolean(section, "agent").unwrap_or(false);
    grant.user = user(reading, section);
    grant
}

fn roles<'t>(reading: &mut Reading<'t>, section: &mut Section<'t>, needs: Roles) -> role::Roles {
    let Some(names) = reading.texts(section, "roles") else {
        if needs == Roles::Required {
            reading.wrong_value(&section.placed(), "must have `roles`");
        }
        return role::Roles::default();
    };
    let mut roles = Vec::new();
    for name in names {
        match Role::parse(name.value) {
            Some(role) => roles.push(role),
            None => reading.wrong_value(
                &name,
                "is no role: they are viewer, submitter, worker, operator and admin",
            ),
        }
    }
    roles.into_iter().collect()
}

/// Left out: `default` alone. `*` stands for every namespace.
fn scope<'t>(
    reading: &mut Reading<'t>,
    section: &mut Section<'t>,
    declared: &BTreeMap<Namespace, NamespaceLimits>,
) -> NamespaceScope {
    let Some(names) = reading.texts(section, "namespaces") else {
        return NamespaceScope::Named(BTreeSet::from([Namespace::default()]));
    };
    if names.iter().any(|name| name.value == "*") {
        for name in names.iter().filter(|name| name.value != "*") {
            reading.wrong_value(name, "stands beside `*`, which is every namespace");
        }
        return NamespaceScope::All;
    }
    let mut scope = BTreeSet::new();
    for name in names {
        match Namespace::parse(name.value).filter(|namespace| declared.contains_key(namespace)) {
            Some(namespace) => {
                scope.insert(namespace);
            }
            None => reading.wrong_value(&name, "names no namespace that a [[namespace]] declares"),
        }
    }
    NamespaceScope::Named(scope)
}

/// In whose name the holder acts: `true` for its own, a name, or `*` for everybody's.
fn user<'t>(reading: &mut Reading<'t>, section: &mut Section<'t>) -> UserScope {
    match reading.flag_or_text(section, "user", "must be true, a name, or `*`") {
        None | Some(FlagOrText::Flag(false)) => UserScope::Free,
        Some(FlagOrText::Flag(true)) => UserScope::Own,
        Some(FlagOrText::Text(name)) if name.value == "*" => UserScope::Any,
        Some(FlagOrText::Text(name)) => match is_name(reading, &name) {
            true => UserScope::Named(name.value.into()),
            false => UserScope::Free,
        },
    }
}

fn patterns<'t>(reading: &mut Reading<'t>, section: &mut Section<'t>, key: &str) -> Option<Vec<Pattern>> {
    let texts = reading.texts(section, key)?;
    let mut patterns = Vec::new();
    for text in texts {
        match Pattern::new(text.value) {
            // Stars may stand for nothing; everything else takes a place in a name that is bounded.
            Ok(_) if text.value.chars().filter(|c| *c != '*').count() > LABEL_CHARS_MAX => {
                reading.wrong_value(
                    &text,
                    format!("is longer than any name, which has {LABEL_CHARS_MAX} characters"),
                );
            }
            Ok(pattern) => patterns.push(pattern),
            Err(error) => reading.wrong_value(&text, format!("{error}")),
        }
    }
    Some(patterns)
}

/// Returns true if the text can be a name in records and logs; says what is wrong otherwise.
pub(super) fn is_name(reading: &mut Reading<'_>, name: &Placed<&str>) -> bool {
    let n_chars = name.value.chars().count();
    let holds = (1..=LABEL_CHARS_MAX).contains(&n_chars) && !name.value.chars().any(char::is_control);
    if !holds {
        reading.wrong_value(
            name,
            format!("must have 1 to {LABEL_CHARS_MAX} characters, none of them a control character"),
        );
    }
    holds
}
