//! What a reader asks of the runs in memory. Changes nothing.

use std::ops::Bound;

use bytes::Bytes;
use escapement_model::{InputRequestId, RunId};

use super::{Entry, RunContents};
use escapement_store::runs::Scope;
use escapement_store::runs::limits::ROWS_LOOKED_AT_MAX;
use escapement_store::runs::{
    InputRequestPage, JournalEntry, JournalPage, ListCount, Listing, RemovedRun, RunCounts, RunFilter,
    RunKey, RunPage, RunSummary, StoredInputRequest, StoredRun,
};

fn is_shown(filter: &RunFilter, run: &RunSummary) -> bool {
    let same = |wanted: &Option<String>, name: &Option<String>| wanted.is_none() || wanted == name;
    let created = &run.created;
    (filter.states.is_empty() || filter.states.contains(&run.progress.state))
        && (!filter.is_live || run.progress.ended_at.is_none())
        && Scope::any_has(
            filter.scopes.as_deref(),
            &created.namespace,
            created.owner.as_deref(),
        )
        && same(&filter.plan, &created.plan)
        && same(&filter.goal, &created.goal)
        && same(&filter.trigger, &created.trigger)
        && same(&filter.session, &created.session)
        && (filter.parent.is_none() || filter.parent == created.parent)
}

impl Entry {
    fn stretch(&self, from: u64, bytes_max: usize) -> Vec<JournalEntry> {
        let (mut page, mut n_bytes) = (Vec::new(), 0);
        for entry in self.journal.range(from..).map(|(_, entry)| entry) {
            n_bytes += entry.bytes.len();
            if n_bytes > bytes_max && !page.is_empty() {
                break;
            }
            page.push(entry.clone());
        }
        page
    }
}

impl RunContents {
    fn entry(&self, id: RunId) -> Option<&Entry> {
        self.runs.get(self.by_id.get(&id)?)
    }

    pub(in crate::runs::memory) fn summary(&self, id: RunId) -> Option<RunSummary> {
        Some(self.entry(id)?.summary.clone())
    }

    pub(in crate::runs::memory) fn run(&self, id: RunId, bytes_max: usize) -> Option<StoredRun> {
        let entry = self.entry(id)?;
        Some(StoredRun {
            summary: entry.summary.clone(),
            snapshot: entry.snapshot.clone(),
            tail: entry.stretch(entry.summary.snapshot_seq + 1, bytes_max),
        })
    }

    pub(in crate::runs::memory) fn journal(
        &self,
        id: RunId,
        from: u64,
        bytes_max: usize,
    ) -> Option<JournalPage> {
        let entry = self.entry(id)?;
        Some(JournalPage {
            first_seq: entry.summary.first_seq,
            next_seq: entry.summary.next_seq,
            entries: entry.stretch(from, bytes_max),
        })
    }

    pub(in crate::runs::memory) fn live(&self, after: Option<u64>, limit: usize) -> Vec<RunSummary> {
        self.runs
            .range((Bound::Excluded(after.unwrap_or_default()), Bound::Unbounded))
            .map(|(_, entry)| &entry.summary)
            .filter(|run| run.progress.ended_at.is_none())
            .take(limit)
            .cloned()
            .collect()
    }

    /// Looks at all runs in the order of the list.
    pub(in crate::runs::memory) fn list(
        &self,
        filter: &RunFilter,
        behind: Option<RunKey>,
        limit: usize,
    ) -> RunPage {
        let is_behind =
            |run: &&RunSummary| behind.is_none_or(|behind| filter.order.compare(run.key(), behind).is_gt());
        let runs = self.runs.values().map(|entry| &entry.summary);
        let mut runs: Vec<&RunSummary> = runs.filter(is_behind).collect();
        runs.sort_unstable_by(|one, other| filter.order.compare(one.key(), other.key()));
        let mut page = RunPage::default();
        for (n_before, run) in runs.into_iter().enumerate() {
            if page.runs.len() == limit || n_before == ROWS_LOOKED_AT_MAX {
                return page;
            }
            page.next = Some(run.key());
            if is_shown(filter, run) {
                page.runs.push(run.clone());
            }
        }
        page.next = page.next.filter(|_| page.runs.len() == limit);
        page
    }

    /// Looks at everything.
    pub(in crate::runs::memory) fn count(&self, listing: Listing<'_>) -> ListCount {
        let n = match listing {
            Listing::Runs(filter) => {
                let runs = self.runs.values();
                runs.filter(|entry| is_shown(filter, &entry.summary)).count()
            }
            Listing::Definitions { kind, scopes } => self
                .of_kind(kind)
                .filter(|found| Scope::any_has(scopes, &found.namespace, found.owner.as_deref()))
                .count(),
            Listing::OpenInputRequests { scopes, kind, run_id } => self
                .input_requests
                .values()
                .map(|(_, request)| request)
                .filter(|request| request.closed_at.is_none())
                .filter(|request| Scope::any_has(scopes, &request.namespace, request.owner.as_deref()))
                .filter(|request| kind.is_none_or(|kind| kind == request.kind))
                .filter(|request| run_id.is_none_or(|run_id| run_id == request.run_id))
                .count(),
        };
        ListCount {
            n: n.min(ROWS_LOOKED_AT_MAX) as u64,
            is_at_least: n > ROWS_LOOKED_AT_MAX,
        }
    }

    pub(in crate::runs::memory) fn newest_run_of(&self, plan: &str) -> Option<RunSummary> {
        let mut runs = self.runs.values().rev().map(|entry| &entry.summary);
        runs.find(|run| run.created.plan.as_deref() == Some(plan))
            .cloned()
    }

    pub(in crate::runs::memory) fn answered(&self, key: &str) -> Option<(RunId, [u8; 32])> {
        let (_, run_id, digest) = self.answered.get(key)?;
        Some((*run_id, *digest))
    }

    pub(in crate::runs::memory) fn lose_content(&mut self, digest: &[u8; 32]) {
        self.contents.remove(digest);
    }

    pub(in crate::runs::memory) fn content(&self, digest: &[u8; 32]) -> Option<Bytes> {
        self.contents.get(digest).map(|kept| kept.bytes.clone())
    }

    pub(in crate::runs::memory) fn input_request(&self, id: InputRequestId) -> Option<StoredInputRequest> {
        let at = self.input_requests_by_id.get(&id)?;
        Some(self.input_requests[at].1.clone())
    }

    pub(in crate::runs::memory) fn open_input_requests(
        &self,
        scopes: Option<&[Scope]>,
        after: Option<u64>,
        limit: usize,
    ) -> InputRequestPage {
        let open = self
            .input_requests
            .range((Bound::Excluded(after.unwrap_or_default()), Bound::Unbounded))
            .map(|(_, (_, request))| request)
            .filter(|request| request.closed_at.is_none());
        let mut page = InputRequestPage::default();
        for (n_before, request) in open.enumerate() {
            if page.requests.len() == limit || n_before == ROWS_LOOKED_AT_MAX {
                return page;
            }
            page.next = Some(request.number);
            if Scope::any_has(scopes, &request.namespace, request.owner.as_deref()) {
                page.requests.push(request.clone());
            }
        }
        page.next = page.next.filter(|_| page.requests.len() == limit);
        page
    }

    pub(in crate::runs::memory) fn created_by(&self, key: &str) -> Option<(RunId, [u8; 32])> {
        let here = self.by_request.get(key).and_then(|number| {
            let summary = &self.runs[number].summary;
            Some((summary.run_id, summary.created.request.as_ref()?.digest))
        });
        here.or_else(|| {
            self.removed.iter().find_map(|removed| {
                let request = removed.request.as_ref().filter(|request| request.key == key)?;
                Some((removed.run_id, request.digest))
            })
        })
    }

    pub(in crate::runs::memory) fn removed(&self, id: RunId) -> Option<RemovedRun> {
        self.removed.iter().find(|removed| removed.run_id == id).cloned()
    }

    pub(in crate::runs::memory) fn counts(&self) -> RunCounts {
        let runs = self.runs.values();
        let n_live = runs
            .filter(|entry| entry.summary.progress.ended_at.is_none())
            .count() as u64;
        RunCounts {
            live: n_live,
            ended: self.runs.len() as u64 - n_live,
            removed: self.removed.len() as u64 + self.n_forgotten,
        }
    }
}
