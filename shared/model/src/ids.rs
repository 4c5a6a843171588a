//! Typed ids. Draws no random number: the caller brings the random bytes.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A text that is not a UUID v4 in canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidId;

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a UUID v4 in canonical form (8-4-4-4-12 hexadecimal digits)")
    }
}

impl core::error::Error for InvalidId {}

/// Reads a UUID v4: canonical form only, either letter case. Braces, urn form, bare hex, nil and other versions are refused.
fn parse_uuid4(text: &str) -> Result<[u8; 16], InvalidId> {
    let text: &[u8; 36] = text.as_bytes().try_into().map_err(|_| InvalidId)?;
    let mut bytes = [0u8; 16];
    let mut seen = 0;
    for (byte, at) in bytes.iter_mut().zip(DIGITS_AT) {
        let (high, low) = (NIBBLES[usize::from(text[at])], NIBBLES[usize::from(text[at + 1])]);
        seen |= high | low;
        *byte = high << 4 | low & 0x0f;
    }
    let digits_are_hexadecimal = seen & 0xf0 == 0;
    let hyphens_are_in_place = [8, 13, 18, 23].iter().all(|at| text[*at] == b'-');
    let version_is_4 = bytes[6] >> 4 == 4;
    let variant_is_rfc = bytes[8] >> 6 == 0b10;
    let valid = digits_are_hexadecimal && hyphens_are_in_place && version_is_4 && variant_is_rfc;
    if valid { Ok(bytes) } else { Err(InvalidId) }
}

/// Where each byte's two digits stand in the canonical form.
const DIGITS_AT: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// By character: the value of a hexadecimal digit of either case, or [`NO_DIGIT`].
const NIBBLES: [u8; 256] = nibbles();

const NO_DIGIT: u8 = 0xff;

const fn nibbles() -> [u8; 256] {
    let mut table = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        table[b"0123456789abcdef"[value] as usize] = value as u8;
        table[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    table
}

fn write_uuid(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 0x0f)];
        at += 2;
    }
    f.write_str(core::str::from_utf8(&text).expect("hexadecimal digits are ASCII"))
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Makes a UUID v4 of 16 random bytes; version and variant bits are set here.
            pub fn from_random(mut bytes: [u8; 16]) -> Self {
                bytes[6] = (bytes[6] & 0x0f) | 0x40;
                bytes[8] = (bytes[8] & 0x3f) | 0x80;
                Self(bytes)
            }

            /// Takes 16 bytes that were an id before, for example from the store; `None` if they are no UUID v4.
            pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
                (bytes[6] >> 4 == 4 && bytes[8] >> 6 == 0b10).then_some(Self(bytes))
            }

            /// Returns the 16 bytes.
            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_uuid4(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_uuid(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_uuid(&self.0, f)
            }
        }
    };
}

uuid_id!(
    /// Names one execution. Lower case when written.
    ExecutionId
);
uuid_id!(
    /// Names one plan instance. Lower case when written.
    PlanId
);
uuid_id!(
    /// Names one step in its plan. Lower case when written.
    StepId
);
uuid_id!(
    /// Names one run. Lower case when written.
    RunId
);
uuid_id!(
    /// Names one question of a run to a person. Lower case when written.
    InputRequestId
);
uuid_id!(
    /// Names one artifact of a run. Lower case when written.
    ArtifactId
);

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Takes 16 random bytes.
            pub fn new(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Takes the id from the wire; `None` unless it has exactly 16 bytes.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// Returns the 16 bytes.
            pub fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// Reads 32 hexadecimal digits of either case; `None` for anything else.
            pub fn from_hex(text: &str) -> Option<Self> {
                crate::hex::array(text).map(Self)
            }

            /// 32 hexadecimal digits, lower case.
            pub fn to_hex(&self) -> String {
                crate::hex::text(&self.0)
            }
        }
    };
}

/// Writes an id that is no secret as its digits.
macro_rules! shown_id {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_hex())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_hex())
            }
        }
    };
}

random_id!(
    /// Names one attempt and proves that it was handed to the worker that shows it: a secret, which nothing writes by itself.
    AttemptToken
);

/// Shows the half that names the attempt, and nothing of the half that proves it.
impl fmt::Debug for AttemptToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _proof) = self.0.split_at(8);
        write!(f, "{}…", crate::hex::text(name))
    }
}

random_id!(
    /// Names one worker session.
    SessionId
);
shown_id!(SessionId);

random_id!(
    /// Names one process lifetime of a worker.
    InstanceId
);
shown_id!(InstanceId);

random_id!(
    /// Names one process lifetime of an orchestrator.
    BootId
);
shown_id!(BootId);
