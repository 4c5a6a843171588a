//! Labels, their values, and how many of these there are.

use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// A label of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Name.
    pub name: &'static str,
    /// Number of values that it has at most, `_other` not counted.
    pub values_max: usize,
}

/// The labels of one of the values of a figure. Each execution looks for a dozen of them, so none is copied.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    labels: &'static [Label],
    /// Empty behind those that there are.
    values: [Value; LABELS_MAX],
}

/// The value of a label.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Fixed(&'static str),
    Shared(Arc<str>),
}

impl Labels {
    /// These values, in the order of the labels.
    pub(crate) fn new<V: Into<Value>, const N: usize>(labels: &'static [Label], values: [V; N]) -> Self {
        const { assert!(N <= LABELS_MAX) };
        let mut all = [const { Value::Fixed("") }; LABELS_MAX];
        for (place, value) in all.iter_mut().zip(values) {
            *place = value.into();
        }
        Self { labels, values: all }
    }

    fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().take(self.labels.len()).map(Value::as_str)
    }
}

// All labels of one figure have the same names: the values alone tell them apart.
impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.values().eq(other.values())
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values().for_each(|value| value.hash(state));
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut pairs = self.labels.iter().zip(self.values());
        pairs.try_for_each(|(label, value)| (label.name, value).encode(encoder.encode_label()))
    }
}

impl Value {
    fn as_str(&self) -> &str {
        match self {
            Value::Fixed(text) => text,
            Value::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Value::Fixed(text)
    }
}

impl From<Arc<str>> for Value {
    fn from(text: Arc<str>) -> Self {
        Value::Shared(text)
    }
}

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

    /// Returns the label of a name.
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
/// Labels that a figure has at most.
const LABELS_MAX: usize = 2;
