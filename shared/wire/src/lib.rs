//! The wire types of all APIs, generated from `proto/`, the way from opaque objects to JSON and back, how events spell times,
//! and a bound on what decoding costs. Holds no rule and no state.
//!
//! The messages alone need no gRPC. The features `client` and `server` add the generated clients and services, the feature `runs`
//! the API of runs, which workers do not need.

pub mod counted;
pub mod json;
pub mod time;

/// `escapement.v1`: what callers and operators use.
#[allow(
    missing_docs,
    clippy::all,
    reason = "generated; the protos are the documentation"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/escapement.v1.rs"));
}

/// `escapement.worker`.
pub mod worker {
    /// `escapement.worker.v1`: what workers use.
    #[allow(
        missing_docs,
        clippy::all,
        reason = "generated; the protos are the documentation"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/escapement.worker.v1.rs"));
    }
}

/// `escapement.runs`.
#[cfg(feature = "runs")]
pub mod runs {
    /// `escapement.runs.v1`: what callers of runs use.
    #[allow(
        missing_docs,
        clippy::all,
        reason = "generated; the protos are the documentation"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/escapement.runs.v1.rs"));
    }
}

/// `externalscaler`: what KEDA calls.
#[allow(
    missing_docs,
    clippy::all,
    reason = "generated; the protos are the documentation"
)]
pub mod externalscaler {
    include!(concat!(env!("OUT_DIR"), "/externalscaler.rs"));
}

/// `google.rpc.ErrorInfo.domain` of every reason that we give.
pub const ERROR_DOMAIN: &str = "escapement.dev";

/// The encoded `FileDescriptorSet` of all packages, for reflection and for JSON.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
