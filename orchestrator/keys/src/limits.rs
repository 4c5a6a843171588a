//! Every limit of asking for keys. Enforces none of them.

use std::time::Duration;

/// Time that an issuer has to answer, from the connection to the last byte.
pub(crate) const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Milliseconds between two looks at the keys of an issuer, up to a tenth more.
pub(crate) const REFRESH_MS: u64 = 600_000;
/// Milliseconds between the beginnings of two looks at one issuer, however many tokens name a key that it lacks.
pub(crate) const ASK_MS_MIN: u64 = 30_000;
/// Milliseconds for which keys are believed without an answer of their issuer: a day.
pub(crate) const KEEP_MS: u64 = 86_400_000;
