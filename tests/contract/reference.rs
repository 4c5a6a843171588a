//! What stands between the contract crate and its second writing: the validator, written a second time, and the words
//! of the second interpreter, which stands in `escapement_tests::reference`.

pub(crate) mod border;
pub(crate) mod validate;
