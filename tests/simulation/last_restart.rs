//! The last look: the power is cut, a new process opens the disk, and what it finds there is final.
//! Judges nothing but that everything has settled.

use crate::disk::End;
use crate::edge::stored_state;
use crate::world::World;
use escapement_codec::archive::Archive;
use escapement_codec::archive::check;
use escapement_codec::stored;
use escapement_model::ExecutionId;
use escapement_store::{ListFilter, StoredExecution};
use escapement_tests::history::{Answer, Ask, Life, Surface};
use escapement_tests::reference::{Facts, retell};
use escapement_wire::v1::{AuditEntry, PlanResult, SubmitPlanRequest};
use prost::Message as _;
use std::collections::BTreeMap;

/// How an execution ended, as it stands on the disk.
#[derive(Debug)]
pub(crate) struct Final {
    pub(crate) entries: Vec<AuditEntry>,
    pub(crate) result: PlanResult,
    /// The process that settled it, and the number of it.
    pub(crate) settled_by: Option<u64>,
}

impl World {
    /// Returns every execution that was ever accepted, as the last process finds it.
    pub(crate) fn last_restart(&mut self) -> BTreeMap<ExecutionId, Final> {
        self.orchestrator = None;
        self.storage.end(End::PowerCut, false, &mut self.dice);
        self.history.life(Life::PowerCut);
        let unsettled = self.storage.open(self.now_ms, self.boots + 1, usize::MAX);
        let unsettled = unsettled.expect("a store on a sound disk opens");
        self.history.life(Life::Began);
        assert!(unsettled.is_empty(), "not settled on the disk: {unsettled:?}");
        let stored = self.read_all();
        let mut finals = BTreeMap::new();
        for stored in &stored {
            let execution = stored.summary.execution_id;
            let surface = Surface::Store;
            let call = self.history.ask(Ask::Look { execution, surface });
            self.history.answer(call, Answer::State(stored_state(stored)));
            let last = self.last_of(stored);
            if self.trace.keeps_lines() {
                for entry in &last.entries {
                    let line = format!("{execution} {:>13} {:?}", entry.at, entry.event);
                    self.trace.note(self.now_ms, line);
                }
            }
            self.retell(stored, &last);
            self.replay(stored);
            finals.insert(execution, last);
        }
        let jobs: Vec<ExecutionId> = self.jobs.iter().map(|job| job.id).collect();
        for execution in jobs.into_iter().filter(|id| !finals.contains_key(id)) {
            assert!(
                !self.storage.is_accepted(execution),
                "{execution} was accepted, and is not on the disk"
            );
            let surface = Surface::Store;
            let call = self.history.ask(Ask::Look { execution, surface });
            self.history.answer(call, Answer::Absent);
        }
        self.history.all_must_be_settled();
        finals
    }

    /// An interpreter of its own comes to the same result, told what the record says came from outside.
    fn retell(&mut self, stored: &StoredExecution, last: &Final) {
        let request = SubmitPlanRequest::decode(stored.record.clone()).expect("a request can be read");
        let facts = Facts {
            environment: request.environment,
            max_concurrent_steps: request.options.and_then(|options| options.max_concurrent_steps),
            slack_ms: self.scenario.is_steady.then_some(1),
        };
        let plan = request.plan.expect("a request has a plan");
        let told = retell(&plan, &facts, &last.entries, &last.result);
        assert!(
            told.is_ok(),
            "{}: {}",
            stored.summary.execution_id,
            told.expect_err("it differs")
        );
        self.tally().count("records told again");
    }

    /// What is on the disk is whole, and the core decides it again, whichever processes wrote it.
    //
    fn replay(&mut self, stored: &StoredExecution) {
        let id = stored.summary.execution_id;
        // Where it was given to the writer each was replayed; here one in four, for the sake of time.
        if !id.as_bytes()[0].is_multiple_of(4) {
            return;
        }
        let audit = self.storage.reader().audit(id).expect("the store can be read");
        let record = Archive::of_store(
            id,
            stored.summary.request_digest,
            stored.record.clone(),
            stored.result.clone().expect("it has settled"),
            &audit.expect("it has settled"),
        );
        let verdict = check::verify(&record.expect("a record can be read"));
        assert!(verdict.is_identical(), "{id}: {:#?}", verdict.differences);
        self.tally().count("records replayed");
    }

    fn read_all(&self) -> Vec<StoredExecution> {
        let reader = self.storage.reader();
        let mut all = Vec::new();
        let mut before = None;
        loop {
            let page = reader.list(&ListFilter::default(), before, 100);
            let page = page.expect("the store can be read");
            let Some(last) = page.last() else { return all };
            before = Some(last.number);
            for summary in &page {
                let stored = reader
                    .execution(summary.execution_id)
                    .expect("the store can be read");
                let stored = stored.expect("what is listed is there");
                assert_eq!(stored.summary, *summary, "the list shows what there is");
                all.push(stored);
            }
        }
    }

    fn last_of(&self, stored: &StoredExecution) -> Final {
        let id = stored.summary.execution_id;
        let result = stored.result.as_ref().expect("it has settled");
        let audit = self.storage.reader().audit(id).expect("the store can be read");
        Final {
            entries: stored::decode_audit(&audit.expect("it has settled")).expect("a record can be read"),
            result: stored::decode_result(result).expect("a result can be read"),
            settled_by: self.storage.settled_by(id),
        }
    }
}
