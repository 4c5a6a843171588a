//! The names in certificates, as anybody may present them: read twice alike, or refused. Verifies nothing.

use crate::source::Source;
use escapement_transport::tls::{InvalidIdentity, names_of};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use std::sync::OnceLock;

/// The first byte says what the rest is: the bytes of a certificate, or names for one.
pub(crate) fn run(input: &[u8]) {
    let mut source = Source::new(input);
    match source.byte() % 3 {
        0 => drop(judged(source.rest())),
        1 => bent(&mut source),
        _ => named(&mut source),
    }
}

/// What any bytes say: never more than what a policy can judge.
fn judged(der: &[u8]) -> Result<escapement_access::CertificateIdentity, InvalidIdentity> {
    let identity = names_of(der)?;
    assert_eq!(names_of(der).as_ref(), Ok(&identity), "read twice alike");
    if let Some(id) = &identity.spiffe_id {
        assert!(identity.dns_names.is_empty(), "a SPIFFE id stands alone");
        let rest = id.strip_prefix("spiffe://").expect("it has its scheme");
        let (domain, path) = rest.split_once('/').expect("it has a path");
        assert!((1..=255).contains(&domain.len()) && id.len() <= 2_048);
        assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")));
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*'));
    }
    for name in &identity.dns_names {
        assert!((1..=253).contains(&name.len()) && *name == name.to_ascii_lowercase());
        assert!(!name.contains(['*', ' ', '/']) && name.is_ascii());
    }
    Ok(identity)
}

/// A real certificate with some of its bytes changed.
fn bent(source: &mut Source<'_>) {
    let mut der = real().clone();
    for _ in 0..=source.below(6) {
        let at = usize::from(source.word()) % der.len();
        der[at] = source.byte();
    }
    drop(judged(&der));
}

/// A certificate with names of anybody's choice says those names that it may say, and no other.
fn named(source: &mut Source<'_>) {
    let mut params = CertificateParams::default();
    let mut uris = Vec::new();
    let mut dns_names = Vec::new();
    for _ in 0..source.below(5) {
        let is_uri = source.once_in(2);
        let text = match source.byte() {
            byte @ 0..=149 => TEXTS[usize::from(byte) % TEXTS.len()].to_owned(),
            _ => source.text(),
        };
        let Ok(name) = text.as_str().try_into() else {
            continue;
        };
        params.subject_alt_names.push(match is_uri {
            true => SanType::URI(name),
            false => SanType::DnsName(name),
        });
        if is_uri { &mut uris } else { &mut dns_names }.push(text);
    }
    let not_after = rcgen::date_time_ymd(
        1970 + i32::from(source.word() % 8_030),
        1 + source.byte() % 12,
        1 + source.byte() % 28,
    );
    params.not_after = not_after;
    let der = params
        .self_signed(key())
        .expect("a key of our own signs")
        .der()
        .to_vec();
    let says_spiffe = |uri: &&String| uri.to_ascii_lowercase().starts_with("spiffe:");
    let has_spiffe = uris.iter().any(|uri| says_spiffe(&uri));
    match judged(&der) {
        Ok(identity) => {
            match &identity.spiffe_id {
                Some(id) => assert_eq!(uris, std::slice::from_ref(id)),
                None => assert!(!has_spiffe, "{uris:?} was passed over"),
            }
            let is_said = |name: &String| dns_names.iter().any(|dns| dns.eq_ignore_ascii_case(name));
            assert!(identity.dns_names.iter().all(is_said));
            assert_eq!(identity.not_after_ms, not_after.unix_timestamp() * 1_000);
        }
        Err(InvalidIdentity::SeveralUris) => assert!(has_spiffe && uris.len() > 1),
        Err(InvalidIdentity::InvalidSpiffeId) => assert!(has_spiffe && uris.len() == 1),
        Err(InvalidIdentity::Malformed) => panic!("a certificate as rcgen writes it can be read"),
    }
}

const TEXTS: [&str; 10] = [
    "spiffe://prod.example/ns/agents/sa/worker-1",
    "spiffe://prod.example/",
    "spiffe://prod.example",
    "SPIFFE://prod.example/x",
    "spiffe:prod",
    "https://prod.example/x",
    "worker-1.example",
    "UPPER.example",
    "*.example",
    "",
];

fn key() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    KEY.get_or_init(crate::seeds::key_pair)
}

/// A certificate with names of every kind.
fn real() -> &'static Vec<u8> {
    static REAL: OnceLock<Vec<u8>> = OnceLock::new();
    REAL.get_or_init(|| certificate(&["spiffe://prod.example/ns/agents/sa/worker-1", "worker-1.example"]))
}

fn certificate(names: &[&str]) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "worker");
    for name in names {
        let text = (*name).try_into().expect("it is ASCII");
        params.subject_alt_names.push(match name.contains(':') {
            true => SanType::URI(text),
            false => SanType::DnsName(text),
        });
    }
    params
        .self_signed(key())
        .expect("a key of our own signs")
        .der()
        .to_vec()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![vec![1, 0, 10, 0, 0], vec![2, 0]];
    for names in [&TEXTS[..1], &TEXTS[6..8], &TEXTS[..7], &[]] {
        all.push([vec![0], certificate(names)].concat());
    }
    // One name, and two, of each known text.
    for index in 0..10 {
        all.push(vec![2, 1, 1, index]);
        all.push(vec![2, 2, 0, index, 1, (index + 3) % 10]);
    }
    // Ends at both sides of 2050, from which on a certificate writes them otherwise, and the last one that there is.
    for (year, month, day) in [(2_049_u16, 12, 28), (2_050, 1, 1), (9_999, 12, 28)] {
        let years = (year - 1_970).to_le_bytes();
        all.push(vec![2, 1, 1, 6, years[0], years[1], month - 1, day - 1]);
    }
    all
}
