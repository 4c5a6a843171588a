//! The policy's text, section by section.

use super::section::{Reading, Section};
use super::violation::PolicyViolation;
use super::{NamespaceLimits, Policy, certificates, grants, issuers, tokens};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use escapement_model::Namespace;
use toml::de::DeTable;

/// Reads a policy.
///
/// # Errors
/// All violations, in the order of their lines.
pub(super) fn read(text: &str) -> Result<Policy, Vec<PolicyViolation>> {
    let mut reading = Reading::new(text);
    if text.len() > Policy::BYTES_MAX {
        reading.wrong(
            0,
            "",
            format!("the policy has more than {} bytes", Policy::BYTES_MAX),
        );
        return Err(reading.violations());
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        reading.wrong(at, "", format!("is no TOML: {}", error.message()));
    }
    // What was recovered from a broken text would be judged by guesses.
    if !errors.is_empty() {
        return Err(reading.violations());
    }
    let mut section = reading.section(String::new(), 0, root.get_ref());
    let policy = read_root(&mut reading, &mut section);
    reading.finish(section);
    match reading.violations() {
        violations if violations.is_empty() => Ok(policy),
        violations => Err(violations),
    }
}

fn read_root<'t>(reading: &mut Reading<'t>, root: &mut Section<'t>) -> Policy {
    // Before all else: another version may mean something else by every other key.
    let version = reading.number(root, "version", 1..=1);
    if version.is_none() && !reading.has_violations() {
        reading.wrong(0, "version", "is required");
    }
    let anonymous_reflection = reading.boolean(root, "anonymous_reflection").unwrap_or(true);
    let namespaces = namespaces(reading, root);
    let anonymous = reading.table(root, "anonymous").map(|mut section| {
        let grant = grants::read(reading, &mut section, &namespaces, grants::Roles::MayBeNone);
        reading.finish(section);
        grant
    });
    Policy {
        anonymous: anonymous.map_or_else(Vec::new, |grant| vec![grant]),
        anonymous_reflection,
        tokens: tokens::read(reading, root, &namespaces),
        certificates: certificates::read(reading, root, &namespaces),
        issuers: issuers::read(reading, root, &namespaces),
        namespaces,
    }
}

fn namespaces<'t>(reading: &mut Reading<'t>, root: &mut Section<'t>) -> BTreeMap<Namespace, NamespaceLimits> {
    let mut namespaces = BTreeMap::new();
    for mut section in reading.tables(root, "namespace") {
        let name = reading.required_text(&mut section, "name");
        let limits = NamespaceLimits {
            weight: reading.number(&mut section, "weight", 1..=1_000).unwrap_or(1),
            max_live_executions: reading.number(&mut section, "max_live_executions", 1..=u32::MAX),
            max_running_executions: reading.number(&mut section, "max_running_executions", 1..=u32::MAX),
        };
        if let Some(name) = name {
            match Namespace::parse(name.value) {
                None => reading.wrong_value(
                    &name,
                    "must be 1 to 63 of a to z, 0 to 9 and -, with - inside only",
                ),
                Some(namespace) => {
                    if namespaces.insert(namespace, limits).is_some() {
                        reading.wrong_value(&name, "names a namespace that another entry names too");
                    }
                }
            }
        }
        reading.finish(section);
    }
    namespaces.entry(Namespace::default()).or_default();
    namespaces
}
