//! Random numbers of a seed, which is a whole run. Adds nothing.

pub(crate) use escapement_tests::Dice;
