//! What a state refers to by SHA-256, and whether that is kept. Reads none of it.

use super::{RunState, Stage};
use crate::input::DISCARDED;
use crate::journal::Stored;
use alloc::collections::BTreeSet;

impl RunState {
    // RUN-8.9
    /// True if the run was discarded: of what it refers to by SHA-256 only documents of revisions are kept.
    pub fn is_discarded(&self) -> bool {
        let error = self.end.as_ref().and_then(|end| end.error.as_ref());
        self.stage() == Stage::Cancelled && error.is_some_and(|error| error.message == DISCARDED)
    }

    /// The SHA-256 of every content that this state refers to. Earlier entries of the journal may refer to more.
    pub fn contents(&self) -> BTreeSet<[u8; 32]> {
        let steps = self.steps.iter().flat_map(|step| {
            let units = step.all_units().flat_map(|(_, unit)| {
                let live = unit.live.as_ref().map(|live| &live.request);
                let asked = unit.asked.as_ref().and_then(|asked| asked.arguments.as_ref());
                let own = [&unit.output, &unit.late_output, &unit.edited, &unit.child_input];
                own.into_iter().flatten().chain(live).chain(asked)
            });
            step.output.iter().chain(units)
        });
        let end = self.end.as_ref().and_then(|end| end.output.as_ref());
        let requests = self.requests.iter().flat_map(|request| {
            let answer = request.answer.as_ref().and_then(|answer| answer.value.as_ref());
            request.subject.iter().chain(answer).chain(&request.data)
        });
        let session = self.session.as_ref().map(|session| &session.state);
        let artifacts = self.artifacts.iter().flat_map(|artifact| {
            let live = artifact.live.as_ref().map(|live| &live.request);
            artifact.created.content.iter().chain(live)
        });
        let results = self.results.iter().map(|result| &result.output);
        let checkpoints = self.checkpoints.iter().map(|checkpoint| &checkpoint.data);
        let planning = self.planning.iter().flat_map(|planning| {
            let live = planning.live.as_ref().map(|live| &live.request);
            live.into_iter().chain(&planning.catalogue)
        });
        [&self.input, &self.environment, &self.document]
            .into_iter()
            .chain(planning)
            .chain(steps)
            .chain(requests)
            .chain(end)
            .chain(session)
            .chain(checkpoints)
            .chain(results)
            .chain(artifacts)
            .filter_map(Stored::content)
            .collect()
    }
}
