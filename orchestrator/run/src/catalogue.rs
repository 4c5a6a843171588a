//! The actions that planners and models may choose from, as they see them. Decides nothing.

use crate::spec::ActionProfile;
use alloc::string::String;
use alloc::vec::Vec;
use prost::Message;

/// An action, as planners and models see it.
#[derive(Clone, PartialEq, Message)]
pub struct CatalogueAction {
    /// What is known of it, its name included.
    #[prost(message, required, tag = "1")]
    pub profile: ActionProfile,
    /// A sentence for people and models, as a worker said it; may be empty.
    #[prost(string, tag = "2")]
    pub description: String,
    /// JSON Schema of its payload: unchecked JSON text that a worker sent. May be empty.
    #[prost(string, tag = "3")]
    pub input_schema: String,
    /// True if a worker sent a schema that is too large to be told.
    #[prost(bool, tag = "4")]
    pub is_schema_left_out: bool,
}

/// The actions that are offered at one moment, sorted by name. Bounded in bytes.
#[derive(Clone, PartialEq, Message)]
pub struct Catalogue {
    /// The actions.
    #[prost(message, repeated, tag = "1")]
    pub actions: Vec<CatalogueAction>,
    /// How many actions behind the last one there was no room for.
    #[prost(uint32, tag = "2")]
    pub n_left_out: u32,
}

impl Catalogue {
    /// The action of that name.
    pub fn find(&self, action: &str) -> Option<&CatalogueAction> {
        let name = |entry: &CatalogueAction| entry.profile.action.as_str().cmp(action);
        let at = self.actions.binary_search_by(name).ok()?;
        Some(&self.actions[at])
    }
}

/// Bytes of an input schema in a catalogue; a larger one is left out: 16 KiB.
pub const SCHEMA_BYTES_MAX: usize = 16 << 10;
/// Bytes of a catalogue as it is encoded: 256 KiB.
pub const CATALOGUE_BYTES_MAX: usize = 256 << 10;
