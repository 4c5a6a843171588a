//! Splits lists that are too large for one message, by an upper bound for the bytes of each item. Builds no message.

use crate::limits;
use crate::worker::Assignment;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;

/// Splits a list into messages, so that none exceeds the protocol's limits in bytes or in items. Keeps the order.
///
/// `bytes_of` is an upper bound for what an item takes on the wire. An item that is too large alone gets a message
/// of its own: the caller makes sure that it fits.
pub(super) fn split_by_size<T>(items: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let bytes_max = SESSION_MESSAGE_BYTES_MAX - limits::MESSAGE_OVERHEAD_BYTES;
    // What fits into one message is not moved at all.
    if !items.is_empty()
        && items.len() <= limits::MESSAGE_ITEMS_MAX
        && items.iter().map(&bytes_of).sum::<usize>() <= bytes_max
    {
        return vec![items];
    }
    let mut messages: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let size = bytes_of(&item);
        match messages.last_mut() {
            Some(message) if message.len() < limits::MESSAGE_ITEMS_MAX && bytes + size <= bytes_max => {
                message.push(item);
                bytes += size;
            }
            Some(_) | None => {
                messages.push(vec![item]);
                bytes = size;
            }
        }
    }
    messages
}

/// Payload, environment and headers have limits of their own that add up to less than a message.
pub(super) fn assignment_bytes(assignment: &Assignment) -> usize {
    let request = &assignment.request;
    let headers = request.correlation_context();
    limits::ASSIGNMENT_OVERHEAD_BYTES
        + request.plan().step(assignment.step).payload().len()
        + request.environment().len()
        + headers
            .iter()
            .map(|(key, value)| key.len() + value.len() + limits::HEADER_OVERHEAD_BYTES)
            .sum::<usize>()
}

pub(super) fn unreadable_bytes(token: &Bytes) -> usize {
    limits::UNREADABLE_OVERHEAD_BYTES + token.len()
}

/// Returns true if the answer to bytes that are no token fits into a message.
pub(super) fn can_answer(token: &Bytes) -> bool {
    unreadable_bytes(token) <= SESSION_MESSAGE_BYTES_MAX - limits::MESSAGE_OVERHEAD_BYTES
}
