//! What runs are, in the words of the API: pure functions of a run's state and journal. Asks nobody.

mod artifact;
mod attempts;
mod event;
mod input_request;
mod plan;
mod planning;
mod restarts;
mod revision_result;
mod run;
mod session;
mod spending;
mod step;
mod words;

pub(crate) use artifact::{artifact_of, artifact_view, was_verified};
pub(crate) use attempts::{AttemptsFold, evidence, key_of, uncalled, unit_text};
pub(crate) use event::{event, event_id};
pub(crate) use input_request::{request_state, request_view};
pub(crate) use plan::{Document, step_objects};
pub(crate) use revision_result::{EndOfRevision, revision_result};
pub(crate) use run::{Detail, execution_of, listed, percent, run_view};
pub(crate) use session::skill_view;
pub(crate) use step::{result_view, step_state, step_view};
pub(crate) use words::{STATES, signed, state_of, state_of_byte, status_word, uuid_text};
