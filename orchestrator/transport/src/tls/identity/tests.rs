#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::tls::testing::{authority, leaf, leaf_with};

fn read(names: &[&str]) -> Result<(Option<String>, Vec<String>), InvalidIdentity> {
    let identity = names_of(&leaf(&authority("ca"), names).der)?;
    Ok((identity.spiffe_id, identity.dns_names))
}

#[test]
fn a_certificate_is_known_by_its_spiffe_id_or_else_by_its_dns_names() {
    let id = "spiffe://prod.example/ns/agents/sa/worker-1";
    assert_eq!(read(&[id]), Ok((Some(id.to_owned()), vec![])));
    assert_eq!(
        read(&["a.example", id]),
        Ok((Some(id.to_owned()), vec![])),
        "the id alone counts"
    );
    let two = vec!["b.example".to_owned(), "a.example".to_owned()];
    assert_eq!(read(&["B.Example", "a.example", "*.example"]), Ok((None, two)));
    assert_eq!(
        read(&["https://a.example/x", "https://b.example/"]),
        Ok((None, vec![]))
    );
    assert_eq!(read(&[]), Ok((None, vec![])));
}

#[test]
fn a_spiffe_id_stands_alone() {
    let id = "spiffe://prod.example/worker";
    for other in ["spiffe://test.example/worker", "https://prod.example/", id] {
        assert_eq!(read(&[id, other]), Err(InvalidIdentity::SeveralUris), "{other}");
        assert_eq!(read(&[other, id]), Err(InvalidIdentity::SeveralUris), "{other}");
    }
}

#[test]
fn what_only_looks_like_a_spiffe_id_is_refused() {
    for wrong in [
        "spiffe://prod.example",
        "spiffe://prod.example/",
        "spiffe:///worker",
        "spiffe:/prod.example/worker",
        "spiffe://Prod.example/worker",
        "SPIFFE://prod.example/worker",
        "spiffe://prod.example:80/worker",
        "spiffe://me@prod.example/worker",
        "spiffe://prod.example/a//b",
        "spiffe://prod.example/a/../b",
        "spiffe://prod.example/a/./b",
        "spiffe://prod.example/a/",
        "spiffe://prod.example/a?b",
        "spiffe://prod.example/a%20b",
        &format!("spiffe://prod.example/{}", "a".repeat(2_048)),
        &format!("spiffe://{}/a", "a".repeat(256)),
    ] {
        assert_eq!(read(&[wrong]), Err(InvalidIdentity::InvalidSpiffeId), "{wrong}");
    }
}

#[test]
fn the_end_of_the_validity_and_the_fingerprint_are_those_of_the_certificate() {
    let leaf = leaf_with(&authority("ca"), &["a.example"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2051, 2, 3);
    });
    let identity = names_of(&leaf.der).unwrap();
    assert_eq!(identity.not_after_ms, 2_558_995_200_000);
    assert_eq!(identity.fingerprint, <[u8; 32]>::from(Sha256::digest(&leaf.der)));
}

#[test]
fn bytes_that_are_no_certificate_name_nobody() {
    let der = leaf(&authority("ca"), &["a.example"]).der;
    for broken in [&der[..der.len() - 1], &der[1..], b"", &[0x30, 0x80]] {
        assert_eq!(names_of(broken), Err(InvalidIdentity::Malformed));
    }
}
