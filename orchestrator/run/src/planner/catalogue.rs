//! What a planner may choose from, bounded. Does not know where it comes from.

use crate::catalogue::{CATALOGUE_BYTES_MAX, Catalogue, CatalogueAction, SCHEMA_BYTES_MAX};
use crate::outcome::cut;
use crate::spec::Planner;
use alloc::string::String;
use alloc::vec::Vec;
use prost::Message;

// RUN-11.3
/// The actions that plans of the planner may call, sorted by name, as many as fit. Cutting what was cut changes nothing.
pub(crate) fn bounded(given: Catalogue, planner: &Planner) -> Catalogue {
    let Catalogue {
        mut actions,
        mut n_left_out,
    } = given;
    let is_allowed = |action: &CatalogueAction| {
        planner.catalogue.is_empty() || planner.catalogue.binary_search(&action.profile.action).is_ok()
    };
    actions.retain(is_allowed);
    actions.sort_by(|one, other| one.profile.action.cmp(&other.profile.action));
    actions.dedup_by(|one, other| one.profile.action == other.profile.action);
    let mut kept: Vec<CatalogueAction> = Vec::new();
    let (mut n_bytes, mut is_full) = (0, false);
    for action in actions {
        let action = shortened(action);
        n_bytes += action.encoded_len();
        is_full |= n_bytes > CATALOGUE_BYTES_MAX;
        if is_full {
            n_left_out = n_left_out.saturating_add(1);
        } else {
            kept.push(action);
        }
    }
    Catalogue {
        actions: kept,
        n_left_out,
    }
}

fn shortened(action: CatalogueAction) -> CatalogueAction {
    let is_long = action.input_schema.len() > SCHEMA_BYTES_MAX;
    CatalogueAction {
        description: cut(&action.description, DESCRIPTION_CHARS_MAX),
        input_schema: if is_long {
            String::new()
        } else {
            action.input_schema
        },
        is_schema_left_out: is_long || action.is_schema_left_out,
        ..action
    }
}

const DESCRIPTION_CHARS_MAX: usize = 1000;
