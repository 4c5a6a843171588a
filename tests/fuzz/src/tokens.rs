//! Tokens as anybody may show them: nobody is believed whose token the issuer did not sign, whatever it says.

use crate::source::Source;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use escapement_access::{Access, Credentials, Denial, KeySet, KeySource, Policy};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use std::sync::{Arc, OnceLock};

/// The first byte says what the rest is.
pub(crate) fn run(input: &[u8]) {
    let mut source = Source::new(input);
    match source.byte() % 4 {
        0 => shown(source.rest()),
        1 => bent(&mut source),
        2 => parts(&mut source),
        _ => keys(source.rest()),
    }
}

/// Any header value is nobody's, unless it is the one right token.
fn shown(header: &[u8]) {
    let issuer = issuer();
    let is_right = std::str::from_utf8(header).is_ok_and(|header| {
        let token = header
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        token.is_some_and(|(_, token)| token.trim_matches(' ') == issuer.token)
    });
    assert_eq!(
        judge(header).is_ok(),
        is_right,
        "{:?}",
        String::from_utf8_lossy(header)
    );
}

/// The right token with some characters changed is another token.
fn bent(source: &mut Source<'_>) {
    let mut token = issuer().token.clone().into_bytes();
    for _ in 0..=source.below(4) {
        let at = usize::from(source.word()) % token.len();
        token[at] = source.byte();
    }
    shown(&[b"Bearer ".as_slice(), &token].concat());
}

/// A header and claims of anybody's choice. What the issuer signed is judged by its claims, and what it did not sign never.
fn parts(source: &mut Source<'_>) {
    let is_signed = source.once_in(2);
    let header = match source.once_in(2) {
        true => source.chunk(),
        false => HEADER.as_bytes(),
    };
    let claims = source.rest();
    let message = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(claims)
    );
    let signature = match is_signed {
        true => issuer()
            .key
            .sign(message.as_bytes())
            .expect("the key was made here"),
        false => vec![7; 64],
    };
    let token = format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature));
    match judge(token.as_bytes()) {
        Ok(name) => {
            assert!(is_signed, "{token} is a forgery");
            let claims: serde_json::Value = serde_json::from_slice(claims).expect("it was read");
            assert_eq!(claims["sub"], *name);
            assert_eq!(claims["iss"], "https://issuer.example");
            let audiences = claims["aud"].as_array().cloned();
            let audiences = audiences.unwrap_or_else(|| vec![claims["aud"].clone()]);
            assert!(audiences.contains(&"escapement".into()));
            assert!(claims["exp"].as_f64().expect("a number") * 1_000.0 + 60_000.0 > NOW_MS as f64);
        }
        Err(denial) => assert!(
            matches!(denial, Denial::CredentialsInvalid | Denial::CredentialsExpired)
                && (is_signed || denial == Denial::CredentialsInvalid),
            "{denial:?}"
        ),
    }
}

/// Any set of keys is refused with a reason, or has keys within its limits.
fn keys(set: &[u8]) {
    match KeySet::parse(set) {
        Ok(set) => assert!((1..=KeySet::KEYS_MAX).contains(&set.len()) && !set.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Returns the name of who shows this.
fn judge(header: &[u8]) -> Result<Box<str>, Denial> {
    let credentials = Credentials {
        authorization: Some(header),
        ..Credentials::default()
    };
    let judged = issuer().access.authenticate(credentials, NOW_MS);
    judged.map(|principal| principal.name.clone())
}

struct Issuer {
    key: KeyPair,
    access: Access,
    /// The one token that is right.
    token: String,
}

fn issuer() -> &'static Issuer {
    static ISSUER: OnceLock<Issuer> = OnceLock::new();
    ISSUER.get_or_init(|| {
        let key = crate::seeds::key_pair();
        let set = key_set(&key);
        let source = KeySource::File("keys".to_owned());
        let set = KeySet::parse(set.as_bytes()).expect("it is a set");
        let policy = Policy::parse(POLICY).expect("it is a policy");
        let message = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(HEADER),
            URL_SAFE_NO_PAD.encode(CLAIMS)
        );
        let signature = key.sign(message.as_bytes()).expect("the key was made here");
        Issuer {
            access: Access::new(policy).with_keys([(source, Arc::new(set))]),
            token: format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)),
            key,
        }
    })
}

fn key_set(key: &KeyPair) -> String {
    let x = URL_SAFE_NO_PAD.encode(key.der_bytes());
    format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","use":"sig","kid":"k","x":"{x}"}}]}}"#)
}

const NOW_MS: i64 = 1_800_000_000_000;
const HEADER: &str = r#"{"alg":"EdDSA","kid":"k","typ":"JWT"}"#;
const CLAIMS: &str = r#"{"iss":"https://issuer.example","aud":["x","escapement"],"sub":"anna",
    "exp":1800000600,"nbf":1.8e9,"groups":["a"]}"#;
const POLICY: &str = r#"version = 1
[[jwt]]
issuer = "https://issuer.example"
audience = "escapement"
jwks_file = "keys"
[[jwt.grant]]
when = { groups = "a" }
roles = ["viewer"]
"#;

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let header = format!("Bearer {}", issuer().token);
    let mut all = vec![
        [vec![0], header.into_bytes()].concat(),
        vec![1, 0, 9, 0, b'A'],
        [vec![3], key_set(&issuer().key).into_bytes()].concat(),
        [
            vec![3],
            br#"{"keys":[{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB","alg":"RS256"},{}]}"#.to_vec(),
        ]
        .concat(),
        b"\x00bearer  esc_AAAA".to_vec(),
    ];
    // Signed and not, with the right header and with others.
    for is_signed in [0, 1] {
        all.push([vec![2, is_signed, 0], CLAIMS.into()].concat());
        for header in [
            r#"{"alg":"none","kid":"k"}"#,
            r#"{"alg":"HS256","kid":"k"}"#,
            r#"{"alg":"EdDSA","kid":"k","crit":["b64"],"b64":false}"#,
        ] {
            let length = u8::try_from(header.len()).expect("it is short");
            all.push([vec![2, is_signed, 1, length], header.into(), CLAIMS.into()].concat());
        }
    }
    all
}
