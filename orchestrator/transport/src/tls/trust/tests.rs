#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::tls::testing::{Authority, Leaf, authority, leaf, leaf_with};
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd};
use rustls::crypto::ring;

fn trust(
    roots: &[(Option<&str>, &Authority)],
    crls: &[CertificateRevocationListDer<'static>],
) -> Result<ClientTrust, String> {
    let mut stores: BTreeMap<Option<String>, RootCertStore> = BTreeMap::new();
    for (domain, authority) in roots {
        let store = stores
            .entry(domain.map(str::to_owned))
            .or_insert_with(RootCertStore::empty);
        store.add(authority.der().clone()).unwrap();
    }
    ClientTrust::new(stores, crls, false, &Arc::new(ring::default_provider()))
}

fn judged(trust: &ClientTrust, leaf: &Leaf) -> Result<Option<String>, String> {
    let judged = trust.judge(std::slice::from_ref(&leaf.der), UnixTime::now());
    judged
        .map(|identity| identity.spiffe_id)
        .map_err(|error| reason(&error))
}

const ID: &str = "spiffe://prod.example/worker";

#[test]
fn each_root_vouches_for_its_trust_domain_alone() {
    let (prod, test, dns) = (authority("prod"), authority("test"), authority("dns"));
    let roots = [
        (Some("prod.example"), &prod),
        (Some("test.example"), &test),
        (None, &dns),
    ];
    let trust = trust(&roots, &[]).unwrap();
    assert_eq!(judged(&trust, &leaf(&prod, &[ID])), Ok(Some(ID.to_owned())));
    assert_eq!(judged(&trust, &leaf(&dns, &["a.example"])), Ok(None));
    for (other, names) in [
        (&test, [ID]),
        (&dns, [ID]),
        (&prod, ["spiffe://test.example/worker"]),
        (&prod, ["a.example"]),
        (&prod, ["https://a.example/"]),
    ] {
        let refused = judged(&trust, &leaf(other, &names)).unwrap_err();
        assert!(refused.contains("UnknownIssuer"), "{names:?}: {refused}");
    }
    let refused = judged(&trust, &leaf(&prod, &["spiffe://else.example/worker"])).unwrap_err();
    assert!(refused.contains("--tls-client-ca else.example=FILE"), "{refused}");
}

#[test]
fn without_roots_for_dns_names_a_certificate_without_a_spiffe_id_is_refused() {
    let prod = authority("prod");
    let trust = trust(&[(Some("prod.example"), &prod)], &[]).unwrap();
    let refused = judged(&trust, &leaf(&prod, &["a.example"])).unwrap_err();
    assert!(refused.contains("without a trust domain"), "{refused}");
}

#[test]
fn expired_and_future_certificates_are_refused() {
    let dns = authority("dns");
    let trust = trust(&[(None, &dns)], &[]).unwrap();
    for (from, to, problem) in [(2000, 2001, "expired"), (2400, 2500, "not valid yet")] {
        let leaf = leaf_with(&dns, &["a.example"], |params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        });
        let refused = judged(&trust, &leaf).unwrap_err();
        assert!(refused.contains(problem), "{refused}");
    }
}

/// Returns a list of the authority that revokes this number, valid until then.
fn crl(authority: &Authority, revoked: u64, until: i32) -> CertificateRevocationListDer<'static> {
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(until, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(revoked),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(authority).unwrap().der().clone()
}

fn numbered(authority: &Authority, number: u64) -> Leaf {
    leaf_with(authority, &["a.example"], |params| {
        params.serial_number = Some(SerialNumber::from(number));
    })
}

#[test]
fn a_revocation_list_revokes_what_its_authority_signed() {
    let (one, other) = (authority("one"), authority("other"));
    let roots = [(None, &one), (None, &other)];
    let with_list = trust(&roots, &[crl(&one, 7, 2400)]).unwrap();
    assert!(
        judged(&with_list, &numbered(&one, 7))
            .unwrap_err()
            .contains("Revoked")
    );
    assert_eq!(judged(&with_list, &numbered(&one, 8)), Ok(None));
    assert_eq!(
        judged(&with_list, &numbered(&other, 7)),
        Ok(None),
        "it has no list"
    );
    let stale = trust(&roots, &[crl(&one, 7, 2021)]).unwrap();
    let refused = judged(&stale, &numbered(&one, 8)).unwrap_err();
    assert!(
        refused.contains("revocation list expired"),
        "fails closed: {refused}"
    );
    let junk = CertificateRevocationListDer::from(vec![1, 2, 3]);
    assert!(trust(&roots, &[junk]).is_err());
}

#[test]
fn nothing_is_believed_without_a_certificate() {
    let trust = trust(&[(None, &authority("one"))], &[]).unwrap();
    assert!(trust.judge(&[], UnixTime::now()).is_err());
}
