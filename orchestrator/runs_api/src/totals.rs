//! Totals of lists. The first page counts, and its token carries the total to later ones. Never costs more than a page that finds
//! nothing.

use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionKind, ListCount, Listing, RunReader, Scope};

/// Returns the total that came with the page token, else counts along the indexes.
pub(crate) fn total(
    reader: &dyn RunReader,
    known: Option<ListCount>,
    listing: Listing<'_>,
) -> Result<ListCount, StoreFault> {
    known.map_or_else(|| reader.count(listing), Ok)
}

/// Returns the total of a list whose filter is about records. Reads [`CHUNK`] × [`CHUNKS_MAX`] of them at most.
pub(crate) fn total_of_records(
    reader: &dyn RunReader,
    known: Option<ListCount>,
    kind: DefinitionKind,
    scopes: Option<&[Scope]>,
    is_wanted: impl Fn(&Definition) -> Result<bool, StoreFault>,
) -> Result<ListCount, StoreFault> {
    if let Some(known) = known {
        return Ok(known);
    }
    let (mut n, mut before) = (0, None);
    for _ in 0..CHUNKS_MAX {
        let page = reader.definitions(kind, scopes, before, CHUNK)?;
        for found in &page.definitions {
            n += u64::from(is_wanted(found)?);
        }
        before = page.next();
        if before.is_none() {
            break;
        }
    }
    Ok(ListCount {
        n,
        is_at_least: before.is_some(),
    })
}

/// Returns the number as answers have it.
pub(crate) fn size(total: ListCount) -> i64 {
    i64::try_from(total.n).unwrap_or(i64::MAX)
}

/// Definitions of one read.
pub(crate) const CHUNK: usize = 200;
/// Reads of definitions for one page, or for one total.
pub(crate) const CHUNKS_MAX: usize = 10;
