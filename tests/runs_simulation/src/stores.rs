//! Rows of both stores, as the judge compares them. Changes nothing.

use crate::process::Process;
use crate::world::World;
use escapement_model::InputRequestId;
use escapement_model::planted::{self, Bug};
use escapement_runs_judge::{Judge, Shown};
use escapement_store::runs::{DefinitionKind, RunFilter};
use std::collections::BTreeSet;

impl World {
    /// Compares the executions with the journals, unless the contract is down.
    pub(crate) fn compare_stores(&mut self) {
        if let Some(contract) = &self.contract {
            self.judge.has_executions(&contract.executions());
        }
    }

    /// Shows rows of the runs outside, at some instants.
    pub(crate) fn show_rows(&mut self) {
        let is_wanted = self.now_ms.is_multiple_of(SHOWN_EVERY_MS);
        if let Some(process) = self.process.as_ref().filter(|_| is_wanted) {
            let rows = process.rows(&self.judge);
            self.judge.shows(rows);
        }
    }

    /// Checks that a start finds the rows that were shown.
    pub(crate) fn find_rows_again(&mut self, process: &Process) {
        let rows = process.rows(&self.judge);
        self.judge.finds_again(&rows);
        self.count("starts that find what was shown");
    }
}

impl Process {
    /// Returns the rows that readers of the store see, and those that were shown before.
    fn rows(&self, judge: &Judge) -> Vec<Shown> {
        let summaries = self.reader.list(&RunFilter::default(), None, usize::MAX);
        let runs = summaries
            .expect("the store reads")
            .runs
            .into_iter()
            .map(|summary| {
                let run = *summary.run_id.as_bytes();
                let live = self.host.runs().in_memory(summary.run_id);
                let decided = live.filter(|_| planted::is_on(Bug::RunShownEarly));
                Shown {
                    row: ("a run", run.to_vec()),
                    version: decided.map_or(summary.next_seq, |run| run.state().sequence + 1),
                    run: Some(run),
                }
            });
        let open = self.reader.open_input_requests(None, None, usize::MAX);
        let open = open.expect("the store reads").requests.into_iter();
        let mut questions: BTreeSet<InputRequestId> = open.map(|request| request.id).collect();
        let before = judge.shown_in("a question").into_iter();
        questions.extend(before.filter_map(|id| InputRequestId::from_bytes(id.try_into().ok()?)));
        let question = |id| {
            let request = self.reader.input_request(id).expect("the store reads")?;
            Some(Shown {
                row: ("a question", id.as_bytes().to_vec()),
                version: 1 + u64::from(request.closed_at.is_some()),
                run: Some(*request.run_id.as_bytes()),
            })
        };
        let questions = questions.into_iter().filter_map(question);
        let definitions = LASTING.into_iter().flat_map(|kind| {
            let page = self.reader.definitions(kind, None, None, usize::MAX);
            page.expect("the store reads").definitions
        });
        let definitions = definitions.map(|definition| Shown {
            row: ("a definition", definition.name.into_bytes()),
            version: definition.version,
            run: None,
        });
        let numbers = self.reader.last_numbers().expect("the store reads");
        let ended = self.reader.ended(0, 1).expect("the store reads").last;
        let last =
            [("a notice", numbers.notice), ("the end of a run", ended)].map(|(table, version)| Shown {
                row: (table, Vec::new()),
                version,
                run: None,
            });
        runs.chain(questions).chain(definitions).chain(last).collect()
    }
}

/// Kinds of definitions that nothing deletes here.
const LASTING: [DefinitionKind; 3] = [
    DefinitionKind::Session,
    DefinitionKind::Trigger,
    DefinitionKind::Firing,
];
/// Milliseconds between two reads of all rows.
const SHOWN_EVERY_MS: u64 = 4;
