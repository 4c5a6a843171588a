//! An operator of NATS with one account, as `nsc` makes them: signs tokens for users. Judges nothing.

use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};
use serde_json::{Value, json};

use crate::Fault;
use crate::token_issuer::base64url;

/// The keys of an operator, of its account for events, and of a user of that account.
pub struct NatsAccounts {
    operator: KeyPair,
    account: KeyPair,
    system: KeyPair,
    user: KeyPair,
}

impl NatsAccounts {
    /// New ones.
    ///
    /// # Errors
    /// No key can be drawn.
    pub fn new() -> Result<Self, Fault> {
        let key = || KeyPair::generate_for(&PKCS_ED25519);
        Ok(Self {
            operator: key()?,
            account: key()?,
            system: key()?,
            user: key()?,
        })
    }

    /// What makes a server believe the operator.
    pub fn configuration(&self) -> String {
        let (account, system) = (public(ACCOUNT, &self.account), public(ACCOUNT, &self.system));
        let unlimited = [
            "subs",
            "data",
            "payload",
            "imports",
            "exports",
            "conn",
            "leaf",
            "mem_storage",
            "disk_storage",
            "streams",
            "consumer",
        ];
        let mut limits = json!({});
        for name in unlimited {
            limits[name] = (-1).into();
        }
        limits["wildcards"] = true.into();
        let of_account = |subject: &str, limits: &Value| {
            signed(
                &self.operator,
                OPERATOR,
                subject,
                &json!({"type": "account", "version": 2, "limits": limits}),
            )
        };
        let operator = public(OPERATOR, &self.operator);
        let of_operator = json!({"type": "operator", "version": 2, "system_account": system});
        let of_operator = signed(&self.operator, OPERATOR, &operator, &of_operator);
        let of_events = of_account(&account, &limits);
        // A system account has no streams.
        for name in ["mem_storage", "disk_storage", "streams", "consumer"] {
            limits[name] = 0.into();
        }
        let of_system = of_account(&system, &limits);
        format!(
            "operator: {of_operator}\nsystem_account: {system}\nresolver: MEMORY\n\
             resolver_preload: {{ {account}: {of_events}, {system}: {of_system} }}"
        )
    }

    /// Returns the token of a user of the account for events, who is known by this public key.
    pub fn token(&self, user: &str) -> String {
        let nothing = json!({});
        let claims = json!({"type": "user", "version": 2, "pub": nothing, "sub": nothing, "subs": -1, "data": -1, "payload": -1});
        signed(&self.account, ACCOUNT, user, &claims)
    }

    /// What a client of the account says of itself to a server that sent this challenge.
    pub(crate) fn answer(&self, challenge: &str) -> Value {
        let signature = self
            .user
            .sign(challenge.as_bytes())
            .expect("the key was made here");
        json!({"jwt": self.token(&public(USER, &self.user)), "sig": base64url(&signature)})
    }
}

fn signed(by: &KeyPair, kind: u8, subject: &str, claims: &Value) -> String {
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({"jti": subject, "iat": 1, "iss": public(kind, by), "sub": subject, "name": "test", "nats": claims});
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    let message = format!("{}.{}", part(&header), part(&claims));
    let signature = by.sign(message.as_bytes()).expect("the key was made here");
    format!("{message}.{}", base64url(&signature))
}

/// Returns the kind and the key in base 32, with a CRC-16 behind.
fn public(kind: u8, key: &KeyPair) -> String {
    let mut bytes = vec![kind];
    bytes.extend(key.der_bytes());
    let mut sum = 0_u16;
    for byte in &bytes {
        sum ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            sum = if sum & 0x8000 == 0 {
                sum << 1
            } else {
                (sum << 1) ^ 0x1021
            };
        }
    }
    bytes.extend(sum.to_le_bytes());
    // 35 bytes are 56 digits of five bits.
    let digit = |index: usize| {
        let (byte, bit) = (index * 5 / 8, index * 5 % 8);
        let pair = u16::from(bytes[byte]) << 8 | u16::from(bytes.get(byte + 1).copied().unwrap_or(0));
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[usize::from(pair >> (11 - bit) & 31)])
    };
    (0..56).map(digit).collect()
}

const OPERATOR: u8 = 14 << 3;
const ACCOUNT: u8 = 0;
const USER: u8 = 20 << 3;
