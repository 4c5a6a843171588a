//! Issuers of the tests: keys of every kind, and tokens that are right or forged. Signs with `ring` alone.

use super::KeySet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

/// A private key with its name.
pub(crate) enum Signer {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    pub(crate) fn p256() -> Self {
        let how = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(how, &SystemRandom::new()).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(how, key.as_ref(), &SystemRandom::new()).unwrap())
    }

    pub(crate) fn p384() -> Self {
        let how = &ECDSA_P384_SHA384_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(how, &SystemRandom::new()).unwrap();
        Self::P384(EcdsaKeyPair::from_pkcs8(how, key.as_ref(), &SystemRandom::new()).unwrap())
    }

    pub(crate) fn ed25519() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    /// Always the same one: `ring` makes none.
    pub(crate) fn rsa() -> Self {
        let text: String = include_str!("testing/rsa.txt").lines().collect();
        Self::Rsa(RsaKeyPair::from_der(&STANDARD.decode(text).unwrap()).unwrap())
    }

    /// Its public half in a set, under this name.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let ec = |key: &EcdsaKeyPair, curve: &str| {
            let (x, y) = key.public_key().as_ref()[1..].split_at(key.public_key().as_ref().len() / 2);
            json!({"kty": "EC", "crv": curve, "kid": kid, "x": encoded(x), "y": encoded(y)})
        };
        match self {
            Self::P256(key) => ec(key, "P-256"),
            Self::P384(key) => ec(key, "P-384"),
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": encoded(key.public_key().as_ref())})
            }
            Self::Rsa(key) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                json!({"kty": "RSA", "kid": kid, "use": "sig", "n": encoded(&n), "e": encoded(&e)})
            }
        }
    }

    /// Returns the name of its algorithm.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) | Self::P384(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signed = Vec::from([0; 256]);
                match algorithm {
                    "PS256" => key.sign(&RSA_PSS_SHA256, &random, message, &mut signed),
                    _ => key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signed),
                }
                .unwrap();
                signed
            }
        }
    }

    /// Returns a token with these claims, for the key of this name.
    pub(crate) fn token(&self, kid: &str, claims: &Value) -> String {
        self.token_with(
            &json!({"alg": self.algorithm(), "kid": kid, "typ": "JWT"}),
            claims,
        )
    }

    /// The same with any header.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = part(header) + "." + &part(claims);
        let algorithm = header["alg"].as_str().unwrap_or_default();
        let signature = self.sign(algorithm, message.as_bytes());
        message + "." + &encoded(&signature)
    }
}

/// One part of a token.
pub(crate) fn part(value: &Value) -> String {
    encoded(value.to_string().as_bytes())
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the set of these keys.
pub(crate) fn set(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}
