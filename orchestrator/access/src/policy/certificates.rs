//! The certificates that a policy knows.

use super::grants;
use super::section::{Placed, Reading, Section};
use super::{CertificateNames, CertificateRule, NamespaceLimits};
use crate::pattern::Pattern;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use escapement_model::Namespace;

/// Reads every `[[certificate]]`.
pub(super) fn read<'t>(
    reading: &mut Reading<'t>,
    root: &mut Section<'t>,
    declared: &BTreeMap<Namespace, NamespaceLimits>,
) -> Vec<CertificateRule> {
    let mut rules = Vec::new();
    for mut section in reading.tables(root, "certificate") {
        let spiffe = reading.text(&mut section, "spiffe");
        let dns = reading.text(&mut section, "dns");
        let names = match (spiffe, dns) {
            (Some(spiffe), None) => self::spiffe(reading, &spiffe),
            (None, Some(dns)) => self::dns(reading, &dns),
            (None, None) | (Some(_), Some(_)) => {
                reading.wrong_value(&section.placed(), "must have one of `spiffe` and `dns`");
                None
            }
        };
        let grant = grants::read(reading, &mut section, declared, grants::Roles::Required);
        reading.finish(section);
        rules.extend(names.map(|names| CertificateRule { names, grant }));
    }
    rules
}

fn spiffe(reading: &mut Reading<'_>, text: &Placed<&str>) -> Option<CertificateNames> {
    let Some((domain, _path)) = text
        .value
        .strip_prefix("spiffe://")
        .and_then(|id| id.split_once('/'))
    else {
        reading.wrong_value(text, "must be spiffe://, a trust domain, / and a path");
        return None;
    };
    // Another domain is another authority: which ones are trusted stands in the file, one by one.
    let is_domain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if domain.is_empty() || !domain.bytes().all(is_domain) {
        reading.wrong_value(
            text,
            "must name its trust domain in full: a to z, 0 to 9, dot, - and _",
        );
        return None;
    }
    if !text.value.is_ascii() || text.value.contains([' ', '?', '#', '%']) || text.value.ends_with('/') {
        reading.wrong_value(
            text,
            "holds a character that no SPIFFE id has there, so it matches nothing",
        );
        return None;
    }
    pattern(reading, text, '/').map(CertificateNames::Spiffe)
}

fn dns(reading: &mut Reading<'_>, text: &Placed<&str>) -> Option<CertificateNames> {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_*".contains(&byte);
    if !text.value.bytes().all(is_of_name) {
        reading.wrong_value(
            text,
            "must be a DNS name in lower case, with * for parts of a label",
        );
        return None;
    }
    pattern(reading, text, '.').map(CertificateNames::Dns)
}

fn pattern(reading: &mut Reading<'_>, text: &Placed<&str>, separator: char) -> Option<Pattern> {
    match Pattern::within(text.value, separator) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            reading.wrong_value(text, format!("{error}"));
            None
        }
    }
}
