//! The law of runs a second time, and every run of every small plan held against it. Plays no story, and draws no random
//! number that does not follow from a seed.

pub mod explore;
pub mod moves;
pub mod plans;
pub mod product;
pub mod reference;
pub mod subject;
pub mod transitions;
