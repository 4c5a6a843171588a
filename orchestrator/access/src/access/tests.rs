//! Who a caller is: what wins, what never falls back, and what ends.

use super::{Access, Credentials};
use crate::certificate::CertificateIdentity;
use crate::denial::Denial;
use crate::policy::Policy;
use crate::policy::tests::whole;
use crate::principal::PrincipalKind;
use crate::role::Role;
use crate::token::StaticToken;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use escapement_model::{AttemptSeal, Namespace, bearer as attempt_bearer};

const NOW_MS: i64 = 1_800_000_000_000;

fn access() -> Access {
    Access::new(Policy::parse(&whole()).unwrap())
}

fn header(seed: u8) -> String {
    "Bearer ".to_owned() + StaticToken::from_random([seed; 32]).secret()
}

fn shown(authorization: &str) -> Credentials<'_> {
    Credentials {
        authorization: Some(authorization.as_bytes()),
        ..Credentials::default()
    }
}

fn certificate(spiffe_id: Option<&str>, dns_names: &[&str]) -> CertificateIdentity {
    CertificateIdentity {
        spiffe_id: spiffe_id.map(str::to_owned),
        dns_names: dns_names.iter().map(|&name| name.to_owned()).collect(),
        not_after_ms: NOW_MS + 1,
        fingerprint: [0; 32],
    }
}

#[test]
fn a_token_is_known_by_its_digest_and_in_any_spelling_of_bearer() {
    for scheme in ["Bearer ", "bearer ", "BEARER  "] {
        let header = header(1).replace("Bearer ", scheme);
        let principal = access().authenticate(shown(&header), NOW_MS).unwrap();
        assert_eq!(
            (&*principal.name, principal.kind),
            ("billing-planner", PrincipalKind::Token)
        );
    }
}

#[test]
fn what_is_wrong_in_authorization_falls_back_to_nothing() {
    let good = certificate(None, &["a.planners.example"]);
    let unknown = header(9);
    let mut mistyped = header(1);
    mistyped.pop();
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Basic eDp5",
        &unknown,
        &mistyped,
        "Bearer eyJhbGciOiJub25lIn0.e30.",
    ] {
        let shown = Credentials {
            authorization: Some(wrong.as_bytes()),
            certificate: Some(&good),
            ..Credentials::default()
        };
        let judged = access().authenticate(shown, NOW_MS);
        assert_eq!(judged, Err(Denial::CredentialsInvalid), "{wrong:?}");
    }
    let judged = access().authenticate(
        Credentials {
            authorization: Some(b"\xff"),
            ..Credentials::default()
        },
        NOW_MS,
    );
    assert_eq!(judged, Err(Denial::CredentialsInvalid));
}

#[test]
fn a_token_ends_with_the_instant_that_it_names() {
    let end_ms = 1_814_313_600_000;
    assert!(access().authenticate(shown(&header(1)), end_ms - 1).is_ok());
    let late = access().authenticate(shown(&header(1)), end_ms);
    assert_eq!(late, Err(Denial::CredentialsExpired));
}

#[test]
fn certificates_are_known_by_spiffe_id_or_by_dns_name() {
    let judge = |certificate: &CertificateIdentity| {
        let shown = Credentials {
            certificate: Some(certificate),
            ..Credentials::default()
        };
        access().authenticate(shown, NOW_MS)
    };
    let worker = judge(&certificate(
        Some("spiffe://prod.example/ns/agents/sa/worker-1"),
        &[],
    ))
    .unwrap();
    assert!(worker.roles().contains(Role::Worker));
    assert_eq!(worker.valid_until_ms, Some(NOW_MS + 1));
    let deeper = judge(&certificate(
        Some("spiffe://prod.example/ns/agents/sa/worker-1/x"),
        &[],
    ))
    .unwrap();
    assert!(deeper.roles().is_empty(), "a star never crosses a slash");
    let planner = judge(&certificate(None, &["other.example", "a.planners.example"])).unwrap();
    assert_eq!(&*planner.name, "a.planners.example");
    assert!(planner.has(Role::Submitter, &Namespace::parse("anything").unwrap()));
    let deeper = judge(&certificate(None, &["a.b.planners.example"])).unwrap();
    assert!(deeper.roles().is_empty(), "a star never crosses a dot");
    let mut expired = certificate(None, &["a.planners.example"]);
    expired.not_after_ms = NOW_MS;
    assert_eq!(judge(&expired), Err(Denial::CredentialsExpired));
}

#[test]
fn without_a_policy_everything_is_permitted_and_a_certificate_has_its_name() {
    let open = Access::without_policy();
    let nobody = open.authenticate(shown("Bearer nonsense"), NOW_MS).unwrap();
    assert_eq!(nobody.kind, PrincipalKind::Anonymous);
    for path in ["/escapement.v1.FleetService/DrainWorker", "/no/call", ""] {
        assert_eq!(open.permit(&nobody, path), Ok(()));
    }
    let certificate = certificate(None, &["a.example"]);
    let shown = Credentials {
        certificate: Some(&certificate),
        ..Credentials::default()
    };
    let somebody = open.authenticate(shown, NOW_MS).unwrap();
    assert_eq!(
        (&*somebody.name, somebody.kind),
        ("a.example", PrincipalKind::Certificate)
    );
}

#[test]
fn a_call_without_a_row_is_refused_to_everybody_under_a_policy() {
    let access = access();
    let sre = access.authenticate(shown(&header(3)), NOW_MS).unwrap();
    assert_eq!(
        access.permit(&sre, "/escapement.v1.FleetService/NewCall"),
        Err(Denial::UnknownCall)
    );
}

#[test]
fn reflection_can_be_kept_from_strangers() {
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let access = access();
    let nobody = access.authenticate(Credentials::default(), NOW_MS).unwrap();
    assert_eq!(access.permit(&nobody, path), Err(Denial::CredentialsMissing));
    let anybody = access.authenticate(shown(&header(2)), NOW_MS).unwrap();
    assert_eq!(access.permit(&anybody, path), Ok(()));
    let open = Access::new(Policy::parse("version = 1").unwrap());
    assert_eq!(open.permit(&nobody, path), Ok(()));
}

#[test]
fn the_token_of_an_attempt_is_believed_by_its_seal_alone() {
    let seal = AttemptSeal::new([1; 32]);
    let bearer = |seal: &AttemptSeal| format!("Bearer {}", attempt_bearer::of_attempt(seal.token(3)));
    let (real, made_up) = (bearer(&seal), bearer(&AttemptSeal::new([2; 32])));
    for access in [access(), Access::without_policy()] {
        let judge = |authorization, attempts| {
            let shown = Credentials {
                attempts,
                ..shown(authorization)
            };
            access.authenticate(shown, NOW_MS).map(|principal| principal.kind)
        };
        assert_eq!(judge(&real, Some(&seal)), Ok(PrincipalKind::Attempt));
        assert_eq!(judge(&made_up, Some(&seal)), Err(Denial::CredentialsInvalid));
        assert_eq!(judge(&real, None), Err(Denial::CredentialsInvalid));
    }
}

#[test]
fn a_principal_is_the_same_after_its_token_was_renewed() {
    let one = access().authenticate(shown(&header(1)), NOW_MS).unwrap();
    let mut renewed = (*one).clone();
    renewed.valid_until_ms = None;
    renewed.grants = vec![];
    assert_eq!(one.identity(), renewed.identity());
    renewed.kind = PrincipalKind::Jwt;
    assert_ne!(one.identity(), renewed.identity());
}
