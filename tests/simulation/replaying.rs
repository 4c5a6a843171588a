//! Tells the core again what each execution was told, where its end is given to the writer. Writes nothing itself.

use escapement_contract::{Request, Settlement, chain_seed, replay};
use escapement_engine::StoreWrite;
use escapement_model::ExecutionId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was accepted, by whichever process.
#[derive(Debug, Default)]
pub(crate) struct Replayer {
    accepted: BTreeMap<ExecutionId, Accepted>,
    pub(crate) n_replayed: u64,
}

/// As it was given to the writer first: a process that comes later has read it from the disk.
#[derive(Debug)]
struct Accepted {
    request: Arc<Request>,
    accepted_at: i64,
    deadline_ms: i64,
}

impl Replayer {
    /// An engine wants this written.
    pub(crate) fn written(&mut self, content: &StoreWrite) {
        match content {
            StoreWrite::Accept {
                execution_id,
                request,
                accepted_at,
                deadline_ms,
                ..
            } => {
                let accepted = Accepted {
                    request: Arc::clone(request),
                    accepted_at: *accepted_at,
                    deadline_ms: *deadline_ms,
                };
                self.accepted.insert(*execution_id, accepted);
            }
            StoreWrite::Settle { settlement, .. } => self.judge(settlement),
            StoreWrite::Start { .. } | StoreWrite::RememberActions { .. } => {}
        }
    }

    //
    fn judge(&mut self, settlement: &Settlement) {
        let id = settlement.result.execution_id;
        let accepted = &self.accepted[&id];
        assert!(settlement.inputs.is_complete, "{id}: no run here is so long");
        let replayed = replay(
            Arc::clone(&accepted.request),
            id,
            accepted.accepted_at,
            accepted.deadline_ms,
            &settlement.inputs,
        );
        let replayed = match replayed {
            Ok(replayed) => replayed,
            Err(refused) => panic!("{id}: the core refuses what it took before: {refused}"),
        };
        let is_same = replayed.settlement().map(Arc::as_ref) == Some(settlement);
        assert!(is_same, "{id}: a replay ends in another way");
        let mut head = chain_seed(id, accepted.request.digest());
        for entry in &settlement.audit {
            head = entry.link(&head);
            assert_eq!(entry.hash, head, "{id}: entry {} is chained", entry.sequence);
        }
        self.n_replayed += 1;
    }
}
