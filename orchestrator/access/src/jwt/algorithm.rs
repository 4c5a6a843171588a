//! The algorithms by which tokens are signed. There is none among them that needs a secret of ours.

use alloc::vec::Vec;
use core::fmt;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

/// How a token is signed. What signs with a shared secret (`HS*`) and what does not sign (`none`) is not here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// RSA PKCS #1 1.5 with SHA-256.
    Rs256,
    /// RSA PKCS #1 1.5 with SHA-384.
    Rs384,
    /// RSA PKCS #1 1.5 with SHA-512.
    Rs512,
    /// RSA PSS with SHA-256.
    Ps256,
    /// RSA PSS with SHA-384.
    Ps384,
    /// RSA PSS with SHA-512.
    Ps512,
}

/// A public key, as `ring` takes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum PublicKey {
    /// A point of P-256, without compression.
    P256(Vec<u8>),
    /// A point of P-384, without compression.
    P384(Vec<u8>),
    /// A point of Ed25519.
    Ed25519(Vec<u8>),
    /// A modulus of 2048 to 8192 bits, and an exponent.
    Rsa { n: Vec<u8>, e: Vec<u8> },
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
    ];

    /// Those that a policy allows unless it says otherwise.
    pub(crate) const DEFAULT: [Self; 3] = [Self::Es256, Self::EdDsa, Self::Rs256];

    /// Returns the algorithm of a name, as tokens and policies write it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PublicKey {
    /// Returns true if the algorithm is one for keys of this kind.
    pub(crate) fn is_for(&self, algorithm: Algorithm) -> bool {
        match self {
            PublicKey::P256(_) => algorithm == Algorithm::Es256,
            PublicKey::P384(_) => algorithm == Algorithm::Es384,
            PublicKey::Ed25519(_) => algorithm == Algorithm::EdDsa,
            PublicKey::Rsa { .. } => rsa(algorithm).is_some(),
        }
    }

    /// Returns true if the holder of the private key signed the message so.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> bool {
        let by = |how: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(how, key).verify(message, signed).is_ok()
        };
        match (self, algorithm) {
            (PublicKey::P256(key), Algorithm::Es256) => by(&signature::ECDSA_P256_SHA256_FIXED, key),
            (PublicKey::P384(key), Algorithm::Es384) => by(&signature::ECDSA_P384_SHA384_FIXED, key),
            (PublicKey::Ed25519(key), Algorithm::EdDsa) => by(&signature::ED25519, key),
            (PublicKey::Rsa { n, e }, algorithm) => rsa(algorithm).is_some_and(|how| {
                signature::RsaPublicKeyComponents { n, e }
                    .verify(how, message, signed)
                    .is_ok()
            }),
            (PublicKey::P256(_) | PublicKey::P384(_) | PublicKey::Ed25519(_), _) => false,
        }
    }
}

/// Keys of fewer than 2048 bits verify nothing.
fn rsa(algorithm: Algorithm) -> Option<&'static signature::RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}
