//! Plans against stubs.
