//! What a firing is known by: for ever the same for the same cause. Fires nothing.

use alloc::format;
use alloc::string::String;

use escapement_model::{RunId, hex};
use sha2::{Digest, Sha256};

/// Why a trigger fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An instant of its schedule, Unix milliseconds.
    Due(i64),
    /// An event.
    Event {
        /// What happened.
        kind: String,
        /// Which one of its kind.
        id: String,
    },
    /// The edge of its condition of that number.
    Edge(u64),
    /// A delivery to its webhook, by its id.
    Delivery(String),
    /// A request of a caller, by its id.
    Request(String),
}

/// The trigger and the cause of a firing: one firing has it, and at most one run is made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FiringKey([u8; 32]);

impl FiringKey {
    // TRIG-1.1
    /// The key of a firing.
    pub fn new(trigger_id: &str, cause: &Cause) -> Self {
        let number;
        let (kind, parts): (&str, [&str; 2]) = match cause {
            Cause::Due(at) => {
                number = format!("{at}");
                ("due", [&number, ""])
            }
            Cause::Event { kind, id } => ("event", [kind, id]),
            Cause::Edge(n) => {
                number = format!("{n}");
                ("edge", [&number, ""])
            }
            Cause::Delivery(id) => ("delivery", [id, ""]),
            Cause::Request(id) => ("request", [id, ""]),
        };
        let mut digest = Sha256::new();
        for part in ["escapement firing", trigger_id, kind, parts[0], parts[1]] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }

    // TRIG-1.1
    /// The run that is made for it.
    pub fn run_id(&self) -> RunId {
        run_id(
            Sha256::new()
                .chain_update("escapement run of a firing")
                .chain_update(self.0),
        )
    }

    /// 64 hexadecimal digits.
    pub fn text(&self) -> String {
        hex::text(&self.0)
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

// TRIG-4.3
/// The run that probes for the look of that number at the condition of a trigger.
pub fn probe_run_id(trigger_id: &str, look: u64) -> RunId {
    let digest = Sha256::new().chain_update("escapement run of a probe");
    run_id(digest.chain_update(look.to_le_bytes()).chain_update(trigger_id))
}

fn run_id(digest: Sha256) -> RunId {
    let digest: [u8; 32] = digest.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    RunId::from_random(bytes)
}

/// Triggers in a row that fire because of runs that triggers have started.
pub const DEPTH_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::{Cause, FiringKey, probe_run_id};
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    // TRIG-1.1
    #[test]
    fn a_key_differs_for_each_trigger_and_cause_and_is_the_same_for_the_same() {
        let event = |kind: &str, id: &str| Cause::Event {
            kind: kind.to_string(),
            id: id.to_string(),
        };
        let causes = [
            Cause::Due(1),
            Cause::Due(11),
            Cause::Edge(1),
            event("a", "bc"),
            event("ab", "c"),
            Cause::Delivery("1".to_string()),
            Cause::Request("1".to_string()),
        ];
        let keys: BTreeSet<_> = ["t", "u"]
            .iter()
            .flat_map(|trigger| causes.iter().map(|cause| FiringKey::new(trigger, cause)))
            .collect();
        assert_eq!(keys.len(), 2 * causes.len());
        let runs: BTreeSet<_> = keys.iter().map(FiringKey::run_id).collect();
        assert_eq!(runs.len(), keys.len());
        let again = FiringKey::new("t", &causes[3]);
        assert_eq!(again.run_id(), FiringKey::new("t", &event("a", "bc")).run_id());
        assert_eq!(
            FiringKey::new("t", &Cause::Due(1)).run_id().to_string(),
            "bedfbf3e-dcf6-4a39-b35c-f77b547ae924",
            "stores keep ids"
        );
    }

    // TRIG-4.3
    #[test]
    fn each_look_of_each_trigger_has_a_run_of_its_own() {
        let runs: BTreeSet<_> = [("t", 1), ("t", 2), ("u", 1)]
            .map(|(trigger, look)| probe_run_id(trigger, look))
            .into();
        assert_eq!(runs.len(), 3);
        assert_eq!(probe_run_id("t", 1), probe_run_id("t", 1));
    }
}
