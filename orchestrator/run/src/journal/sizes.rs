//! Sizes of entries, and what of an entry is left out to bound it.

use super::{CarriedResult, Doubt, Event, Failure};
use crate::bounds::{CARRIED_MAX, ENTRY_BYTES_MAX, RUN_TOO_LARGE};
use crate::spec::{ActionProfile, Spec};
use alloc::string::String;
use alloc::vec::Vec;
use prost::Message;

/// Returns the bytes of the spec in its entry, which has input and environment apart.
pub fn spec_bytes(spec: &Spec) -> usize {
    let apart = spec.input.len() + spec.environment.len();
    spec.encoded_len().saturating_sub(apart)
}

/// Returns the bytes of these profiles.
pub fn profiles_bytes(profiles: &[ActionProfile]) -> usize {
    profiles.iter().map(ActionProfile::encoded_len).sum()
}

// RUN-9.6
/// Returns true if an entry of this event would be too large. An entry leaves 256 KiB for its other fields.
pub(crate) fn is_too_large(event: &Event) -> bool {
    event.encoded_len() > ENTRY_BYTES_MAX - (256 << 10)
}

// RUN-12.14
/// Returns the newest effects in doubt, as many as a run knows.
pub(crate) fn newest_doubts(doubts: Vec<Doubt>) -> Vec<Doubt> {
    newest(doubts)
}

// RUN-12.6
/// Returns the newest results, as many as a run knows.
pub(crate) fn newest_results(results: Vec<CarriedResult>) -> Vec<CarriedResult> {
    newest(results)
}

fn newest<T>(mut all: Vec<T>) -> Vec<T> {
    all.drain(..all.len().saturating_sub(CARRIED_MAX));
    all
}

/// Returns the failure of a run that is too large.
pub(crate) fn too_large(why: &str) -> Failure {
    Failure {
        code: String::from(RUN_TOO_LARGE),
        message: String::from(why),
        step: None,
    }
}
