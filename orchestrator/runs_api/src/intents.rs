//! The table by which requests in plain words have their intents.

use escapement_run::intents::{Intents, SHIPPED};
use std::sync::LazyLock;

/// The table that comes with the engine, read once.
pub(crate) fn intents() -> &'static Intents {
    static INTENTS: LazyLock<Intents> =
        LazyLock::new(|| Intents::read(SHIPPED).expect("a test reads the table that is compiled in"));
    &INTENTS
}
