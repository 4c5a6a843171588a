//! What operators do to workers, and outcomes that come without a session.

use crate::effect::Reply;
use crate::engine::Engine;
use crate::input::{CallerId, WorkerSelector};
use crate::worker::AttemptReport;
use alloc::vec::Vec;
use escapement_model::{AttemptToken, InstanceId};

impl Engine {
    pub(crate) fn report_outcomes(&mut self, caller: CallerId, _items: Vec<(AttemptToken, AttemptReport)>) {
        self.reply(caller, Reply::OutcomeAcks(Vec::new()));
    }

    pub(crate) fn drain_worker(&mut self, caller: CallerId, _worker: &WorkerSelector) {
        self.reply(caller, Reply::NoSuchWorker);
    }

    pub(crate) fn declare_worker_dead(&mut self, caller: CallerId, _instance_id: InstanceId) {
        self.reply(caller, Reply::NoSuchWorker);
    }
}
