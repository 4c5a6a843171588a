//! What is wrong with files is said in words that name the flag and the file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::tls::settings::ClientCa;
use crate::tls::testing::{at, authority, leaf, leaf_with};
use rcgen::date_time_ymd;
use std::path::PathBuf;

/// Builds with these contents of `cert`, `key`, `ca` and `crl`; `None` leaves the two last out.
fn build(cert: &str, key: &str, ca: Option<&str>, crl: Option<&str>) -> Result<TlsServer, String> {
    let folder = std::env::temp_dir().join(format!(
        "escapement-material-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let settings = TlsSettings {
        cert: write("cert", cert),
        key: write("key", key),
        client_cas: ca
            .map(|ca| ClientCa {
                trust_domain: None,
                file: write("ca", ca),
            })
            .into_iter()
            .collect(),
        client_auth: if ca.is_some() {
            ClientAuth::Optional
        } else {
            ClientAuth::None
        },
        crls: crl.map(|crl| write("crl", crl)).into_iter().collect(),
        min_version: MinVersion::Tls13,
    };
    let contents = Contents::read(&settings.files()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    TlsServer::new(&settings, &contents, at(2026))
}

fn problem(cert: &str, key: &str, ca: Option<&str>, crl: Option<&str>) -> String {
    build(cert, key, ca, crl).unwrap_err()
}

#[test]
fn a_certificate_with_its_key_makes_a_server_that_says_what_it_shows() {
    let authority = authority("ca");
    let own = leaf(&authority, &["server.example"]);
    let chain = format!("a comment\n{}{}", own.cert_pem, authority.pem());
    let server = build(&chain, &own.key_pem, None, None).unwrap();
    assert!(server.trust.is_none());
    assert_eq!(server.config.alpn_protocols, [ALPN]);
    assert_eq!(server.config.send_tls13_tickets, 0);
    // The first moment of 4096.
    assert_eq!(server.end_seconds(), 67_090_118_400);
    let shown = server.to_string();
    assert!(
        shown.starts_with("CN=leaf (SHA-256 ") && shown.contains("valid until 4096-01-01T"),
        "{shown}"
    );
    assert!(
        build(&chain, &own.key_pem, Some(&authority.pem()), None)
            .unwrap()
            .trust
            .is_some()
    );
}

#[test]
fn a_pair_that_does_not_match_is_refused() {
    let authority = authority("ca");
    let (one, other) = (leaf(&authority, &["a"]), leaf(&authority, &["b"]));
    let wrong_order = format!("{}{}", authority.pem(), one.cert_pem);
    for (cert, key) in [(&one.cert_pem, &other.key_pem), (&wrong_order, &one.key_pem)] {
        let problem = problem(cert, key, None, None);
        assert!(
            problem.starts_with("--tls-key ") && problem.contains("is not the key of the first certificate"),
            "{problem}"
        );
    }
}

#[test]
fn files_without_what_they_should_hold_are_named() {
    let authority = authority("ca");
    let own = leaf(&authority, &["a"]);
    let (cert, key) = (own.cert_pem.as_str(), own.key_pem.as_str());
    let half = &cert[..cert.len() / 2];
    let junk = "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n";
    for (found, begin, end) in [
        (
            problem("", key, None, None),
            "--tls-cert ",
            "holds no certificate",
        ),
        (
            problem(key, key, None, None),
            "--tls-cert ",
            "holds no certificate",
        ),
        (problem(half, key, None, None), "--tls-cert ", "is no PEM"),
        (problem(junk, key, None, None), "--tls-cert ", "is no PEM"),
        (
            problem(cert, "", None, None),
            "--tls-key ",
            "holds no private key",
        ),
        (
            problem(cert, cert, None, None),
            "--tls-key ",
            "holds no private key",
        ),
        (
            problem(cert, key, Some(""), None),
            "--tls-client-ca ",
            "holds no certificate",
        ),
        (
            problem(cert, key, Some(&authority.pem()), Some("")),
            "--tls-client-crl ",
            "holds no revocation list",
        ),
    ] {
        assert!(found.starts_with(begin) && found.contains(end), "{found}");
    }
}

#[test]
fn what_is_not_valid_now_is_refused() {
    let authority = authority("ca");
    for (from, to, said) in [
        (2000, 2001, "has expired at 2001"),
        (2400, 2500, "is not valid before 2400"),
    ] {
        let own = leaf_with(&authority, &["a"], |params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        });
        let problem = problem(&own.cert_pem, &own.key_pem, None, None);
        assert!(
            problem.starts_with("--tls-cert ") && problem.contains(said),
            "{problem}"
        );
    }
}
