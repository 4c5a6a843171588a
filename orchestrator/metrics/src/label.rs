//! Values of labels, and how many of them there are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Names that callers and workers choose. The first ones are labels, all others are one.
#[derive(Debug)]
pub(crate) struct Names {
    known: Mutex<BTreeMap<Box<str>, Arc<str>>>,
    other: Arc<str>,
    names_max: usize,
}

impl Names {
    pub(crate) fn new(names_max: usize) -> Self {
        Self {
            known: Mutex::default(),
            other: OTHER.into(),
            names_max,
        }
    }

    /// The label of a name.
    pub(crate) fn label(&self, name: &str) -> Arc<str> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(name) {
            return Arc::clone(label);
        }
        if known.len() >= self.names_max {
            return Arc::clone(&self.other);
        }
        let label: Arc<str> = name.into();
        known.insert(name.into(), Arc::clone(&label));
        label
    }
}

/// The label of what has none of its own. No action and no namespace begins so.
pub(crate) const OTHER: &str = "_other";
