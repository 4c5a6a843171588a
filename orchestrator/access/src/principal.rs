//! Who calls.

/// How a principal proved who it is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PrincipalKind {
    /// By nothing.
    Anonymous,
    /// By a static token of the policy.
    Token,
    /// By a JSON Web Token of an issuer of the policy.
    Jwt,
    /// By a client certificate.
    Certificate,
    /// By the token of an attempt that is under way.
    Attempt,
}

/// Who calls, as verified. Stands among the extensions of each request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Principal {
    /// What records and logs call it: the name of the token, the `sub` of a JSON Web Token, the SPIFFE id or DNS name of a
    /// certificate, `anonymous`.
    pub name: Box<str>,
    /// How it proved who it is.
    pub kind: PrincipalKind,
    /// The issuer of a JSON Web Token; empty for every other kind.
    pub issuer: Box<str>,
    /// Milliseconds since 1970 after which its credential is void. `None`: never.
    pub valid_until_ms: Option<i64>,
}
