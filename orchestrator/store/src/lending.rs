//! Readers that are lent one by one, and are back however their use ends. Opens none and waits for none.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// Readers that are not in use. Cheap to clone; all clones lend the same ones.
#[derive(Debug)]
pub struct Lending<R: ?Sized>(Arc<Mutex<Vec<Box<R>>>>);

/// A reader in use.
#[derive(Debug)]
pub struct Lent<R: ?Sized> {
    reader: Option<Box<R>>,
    lending: Lending<R>,
}

impl<R: ?Sized> Lending<R> {
    /// Lends these.
    pub fn new(readers: Vec<Box<R>>) -> Self {
        Self(Arc::new(Mutex::new(readers)))
    }

    /// Lends one.
    ///
    /// # Panics
    /// If all are in use: the caller holds a permit for each that it takes.
    pub fn take(&self) -> Lent<R> {
        // A poisoned list is a list all the same: no reader is in it half.
        let reader = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        assert!(reader.is_some(), "the holder of a permit finds a reader");
        let lending = self.clone();
        Lent { reader, lending }
    }
}

impl<R: ?Sized> Clone for Lending<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: ?Sized> Deref for Lent<R> {
    type Target = R;

    fn deref(&self) -> &R {
        self.reader.as_deref().expect("there until it is dropped")
    }
}

impl<R: ?Sized> Drop for Lent<R> {
    fn drop(&mut self) {
        let mut readers = self.lending.0.lock().unwrap_or_else(PoisonError::into_inner);
        readers.extend(self.reader.take());
    }
}
