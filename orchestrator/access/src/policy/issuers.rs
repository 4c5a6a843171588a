//! The issuers of JSON Web Tokens that a policy knows.

use super::NamespaceLimits;
use super::grants;
use super::section::{Placed, Reading, Section};
use crate::jwt::{Algorithm, ClaimCondition, ClaimValue, Issuer, JwtGrant, KeySource};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use escapement_model::Namespace;
use toml::de::DeValue;

/// Reads every `[[jwt]]`.
pub(super) fn read<'t>(
    reading: &mut Reading<'t>,
    root: &mut Section<'t>,
    declared: &BTreeMap<Namespace, NamespaceLimits>,
) -> Vec<Issuer> {
    let mut issuers = Vec::new();
    let mut names = BTreeSet::new();
    for mut section in reading.tables(root, "jwt") {
        let name = reading.required_text(&mut section, "issuer");
        let name = name.filter(|name| grants::is_name(reading, name));
        // A token names its issuer: two entries would not tell which one it is for.
        if let Some(name) = name.as_ref().filter(|name| !names.insert(name.value)) {
            reading.wrong_value(name, "is the issuer of another entry too");
        }
        let audience = reading.required_text(&mut section, "audience");
        let audience = audience.filter(|audience| grants::is_name(reading, audience));
        let keys = keys(reading, &mut section);
        let algorithms = algorithms(reading, &mut section);
        let leeway_ms = reading.number(&mut section, "leeway_ms", 0..=LEEWAY_MS_MAX);
        let grants = grants(reading, &mut section, declared);
        reading.finish(section);
        if let (Some(name), Some(audience), Some(keys)) = (name, audience, keys) {
            issuers.push(Issuer {
                name: name.value.into(),
                audience: audience.value.into(),
                keys,
                algorithms,
                leeway_ms: i64::from(leeway_ms.unwrap_or(LEEWAY_MS)),
                grants,
            });
        }
    }
    issuers
}

fn keys<'t>(reading: &mut Reading<'t>, section: &mut Section<'t>) -> Option<KeySource> {
    let [file, url, ca_file, token_file] =
        ["jwks_file", "jwks_url", "jwks_ca_file", "jwks_token_file"].map(|key| path(reading, section, key));
    match (file, url) {
        (Some(file), None) => {
            for needless in [ca_file, token_file].iter().flatten() {
                reading.wrong_value(needless, "is for `jwks_url`, and there is `jwks_file`");
            }
            Some(KeySource::File(file.value.to_owned()))
        }
        (None, Some(url)) => {
            if !is_usable(url.value) {
                reading.wrong_value(
                    &url,
                    "must begin with https://, or with http:// and a loopback address",
                );
                return None;
            }
            Some(KeySource::Url {
                url: url.value.to_owned(),
                ca_file: ca_file.map(|file| file.value.to_owned()),
                token_file: token_file.map(|file| file.value.to_owned()),
            })
        }
        (None, None) | (Some(_), Some(_)) => {
            reading.wrong_value(&section.placed(), "must have one of `jwks_file` and `jwks_url`");
            None
        }
    }
}

fn path<'t>(reading: &mut Reading<'t>, section: &mut Section<'t>, key: &str) -> Option<Placed<&'t str>> {
    let text = reading.text(section, key)?;
    if text.value.is_empty() || text.value.chars().any(char::is_control) {
        reading.wrong_value(&text, "must not be empty and must hold no control character");
    }
    Some(text)
}

/// Returns true if what is read there cannot be read or changed on the way.
fn is_usable(url: &str) -> bool {
    let (rest, is_encrypted) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (rest, true),
        (None, Some(rest)) => (rest, false),
        (None, None) => return false,
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic()) && !url.contains(['#', '\\']);
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    is_plain && !host.is_empty() && !authority.contains('@') && (is_encrypted || is_loopback)
}

fn algorithms<'t>(reading: &mut Reading<'t>, section: &mut Section<'t>) -> Vec<Algorithm> {
    let placed = section.placed();
    let Some(names) = reading.texts(section, "algorithms") else {
        return Algorithm::DEFAULT.to_vec();
    };
    if names.is_empty() {
        reading.wrong_value(&placed, "allows no algorithm, so no token is ever right");
    }
    let mut algorithms = Vec::new();
    for name in names {
        match Algorithm::parse(name.value) {
            Some(algorithm) => algorithms.push(algorithm),
            None => {
                let known = Algorithm::ALL.map(Algorithm::as_str).join(", ");
                reading.wrong_value(&name, format!("is no algorithm: they are {known}"));
            }
        }
    }
    algorithms
}

fn grants<'t>(
    reading: &mut Reading<'t>,
    issuer: &mut Section<'t>,
    declared: &BTreeMap<Namespace, NamespaceLimits>,
) -> Vec<JwtGrant> {
    let mut all = Vec::new();
    for mut section in reading.tables(issuer, "grant") {
        let when = reading.table(&mut section, "when");
        if when.is_none() {
            reading.wrong_value(
                &section.placed(),
                "must have `when`, a table; {} is every token of the issuer",
            );
        }
        let mut conditions = Vec::new();
        if let Some(mut when) = when {
            for (name, value) in when.take_all() {
                read_conditions(reading, vec![name.into()], &value, &mut conditions);
            }
        }
        let grant = grants::read(reading, &mut section, declared, grants::Roles::Required);
        reading.finish(section);
        all.push(JwtGrant {
            when: conditions,
            grant,
        });
    }
    all
}

/// A table below a claim leads further down, so `realm_access.roles` is a path, and `"kubernetes.io"` one name.
fn read_conditions(
    reading: &mut Reading<'_>,
    path: Vec<Box<str>>,
    claim: &Placed<&DeValue<'_>>,
    conditions: &mut Vec<ClaimCondition>,
) {
    let value = match claim.value {
        DeValue::String(text) => ClaimValue::Text(text.as_ref().into()),
        DeValue::Boolean(boolean) => ClaimValue::Boolean(*boolean),
        DeValue::Table(table) => {
            if table.is_empty() || path.len() == PATH_NAMES_MAX {
                reading.wrong_value(claim, "asks for nothing, or leads too deep");
                return;
            }
            for (name, value) in table {
                let below = Placed {
                    path: format!("{}.{}", claim.path, name.get_ref()),
                    at: value.span().start,
                    value: value.get_ref(),
                };
                let path = [&path[..], &[name.get_ref().as_ref().into()]].concat();
                read_conditions(reading, path, &below, conditions);
            }
            return;
        }
        _ => {
            reading.wrong_value(
                claim,
                "must be a text, true or false; a claim that is a list holds if one member does",
            );
            return;
        }
    };
    conditions.push(ClaimCondition { path, value });
}

/// Names from the claims of a token down to a value.
const PATH_NAMES_MAX: usize = 16;
/// Clocks that differ by less do no harm, unless the policy says otherwise: a minute.
const LEEWAY_MS: u32 = 60_000;
/// The most that a policy may say: ten minutes.
const LEEWAY_MS_MAX: u32 = 600_000;

#[cfg(test)]
mod tests;
