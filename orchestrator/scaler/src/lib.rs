//! Says how much there is to do for the workers of some actions, as KEDA asks for it (`externalscaler.ExternalScaler`).
//! Scales nothing, keeps nothing, and judges no caller.

#![warn(clippy::too_many_lines)]

mod looks;
mod metadata;
mod service;
#[cfg(test)]
mod tests;

pub use looks::Source;
pub use service::Scaler;
