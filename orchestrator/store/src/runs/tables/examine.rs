//! The pages of an examination that are about runs. Remembers nothing.

pub(crate) mod definitions;
mod indexes;
pub(crate) mod notices;
pub(crate) mod runs;
