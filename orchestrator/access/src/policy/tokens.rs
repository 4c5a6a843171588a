//! The static tokens of a policy.

use super::NamespaceLimits;
use super::grants;
use super::instant::unix_ms;
use super::section::{Placed, Reading, Section};
use crate::principal::{Principal, PrincipalKind};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use escapement_model::{Namespace, hex};

/// Reads every `[[token]]`.
pub(super) fn read<'t>(
    reading: &mut Reading<'t>,
    root: &mut Section<'t>,
    declared: &BTreeMap<Namespace, NamespaceLimits>,
) -> BTreeMap<[u8; 32], Arc<Principal>> {
    let mut tokens = BTreeMap::new();
    let mut names = BTreeSet::new();
    for mut section in reading.tables(root, "token") {
        let name = reading.required_text(&mut section, "name");
        let sha256 = reading.required_text(&mut section, "sha256");
        let previous = reading.text(&mut section, "previous_sha256");
        let expires = expires(reading, &mut section);
        let grant = grants::read(reading, &mut section, declared, grants::Roles::Required);
        reading.finish(section);
        let name = name.filter(|name| grants::is_name(reading, name));
        // Two tokens of one name: records would not tell whose an execution is.
        if let Some(name) = name.as_ref().filter(|name| !names.insert(name.value)) {
            reading.wrong_value(name, "is the name of another token too");
        }
        // While a token is rotated, the one that it replaces is as good: who has either is the same principal.
        let digests = [sha256, previous].into_iter().flatten();
        let digests = digests.filter_map(|text| Some(text.with(digest(reading, &text)?)));
        let digests: Vec<Placed<[u8; 32]>> = digests.collect();
        let Some(name) = name else { continue };
        let principal = Principal {
            name: name.value.into(),
            kind: PrincipalKind::Token,
            issuer: "".into(),
            valid_until_ms: expires,
            grants: vec![grant],
        };
        let principal = Arc::new(principal);
        for digest in digests {
            if tokens.insert(digest.value, Arc::clone(&principal)).is_some() {
                reading.wrong_value(&digest, "is the digest of another token too");
            }
        }
    }
    tokens
}

fn expires<'t>(reading: &mut Reading<'t>, section: &mut Section<'t>) -> Option<i64> {
    let value = section.take("expires")?;
    let instant = value.value.as_datetime().and_then(unix_ms);
    if instant.is_none() {
        reading.wrong_value(
            &value,
            "must be a time with its zone, such as 2027-06-30T00:00:00Z",
        );
    }
    instant
}

fn digest(reading: &mut Reading<'_>, text: &Placed<&str>) -> Option<[u8; 32]> {
    let digest = hex::array(text.value);
    if digest.is_none() {
        reading.wrong_value(text, "must be the SHA-256 of the token: 64 hexadecimal digits");
    }
    digest
}
