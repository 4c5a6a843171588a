//! How many entries a page of an answer may have. Knows no answer.

use crate::status::Rejection;

/// Reads a page size of 1 to `max`, `default` if there is none.
///
/// # Errors
/// [`Rejection::InvalidField`] outside of the range.
pub(crate) fn page_size(page_size: Option<i32>, default: i32, max: i32) -> Result<usize, Rejection> {
    let page_size = page_size.unwrap_or(default);
    match usize::try_from(page_size) {
        Ok(size) if (1..=max).contains(&page_size) => Ok(size),
        Ok(_) | Err(_) => Err(Rejection::InvalidField {
            field: "page_size",
            message: format!("must be 1 to {max}"),
        }),
    }
}
