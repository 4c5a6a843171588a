//! Judges every settlement that an engine wants written, in every story: told the same again, the core ends in the same way.
//! Writes nothing itself.

use escapement_contract::{Request, Settlement, chain_seed, replay};
use escapement_engine::{Input, LoadOutcome, Recovered, StoreWrite};
use escapement_model::ExecutionId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the engine was given or wrote of each execution, before it settled.
#[derive(Default)]
pub struct Replayer {
    accepted: BTreeMap<ExecutionId, Accepted>,
    pub n_replayed: u64,
}

struct Accepted {
    request: Arc<Request>,
    accepted_at: i64,
    deadline_ms: i64,
}

impl Replayer {
    /// The engine is about to get this.
    pub fn given(&mut self, input: &Input) {
        let (Input::Recover(recovered)
        | Input::Loaded {
            outcome: LoadOutcome::Loaded(recovered),
            ..
        }) = input
        else {
            return;
        };
        self.accepted.insert(recovered.execution_id, of(recovered));
    }

    /// The engine wants this written.
    pub fn written(&mut self, content: &StoreWrite) {
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
            StoreWrite::Settle { settlement } => self.judge(settlement),
            StoreWrite::Start { .. } | StoreWrite::RememberActions { .. } => {}
        }
    }

    //
    fn judge(&mut self, settlement: &Settlement) {
        let id = settlement.result.execution_id;
        let accepted = &self.accepted[&id];
        assert!(settlement.inputs.is_complete, "no story here is so long");
        let replayed = replay(
            Arc::clone(&accepted.request),
            id,
            accepted.accepted_at,
            accepted.deadline_ms,
            &settlement.inputs,
        );
        let replayed = replayed.expect("the core takes what it took before");
        assert_eq!(
            replayed.settlement().map(Arc::as_ref),
            Some(settlement),
            "a replay ends in the same way"
        );
        let mut head = chain_seed(id, accepted.request.digest());
        for entry in &settlement.audit {
            head = entry.link(&head);
            assert_eq!(entry.hash, head, "entry {} is chained", entry.sequence);
        }
        self.n_replayed += 1;
    }
}

fn of(recovered: &Recovered) -> Accepted {
    Accepted {
        request: Arc::clone(&recovered.request),
        accepted_at: recovered.accepted_at,
        deadline_ms: recovered.deadline_ms,
    }
}

/// What a restart finds of an acceptance that was written; `None` if it starts at once.
pub fn queued(content: &StoreWrite) -> Option<Recovered> {
    let StoreWrite::Accept {
        execution_id,
        request,
        accepted_at,
        deadline_ms,
        started_at: None,
    } = content
    else {
        return None;
    };
    Some(Recovered {
        execution_id: *execution_id,
        request: Arc::clone(request),
        accepted_at: *accepted_at,
        deadline_ms: *deadline_ms,
        interruption: None,
    })
}
