//! `ListEvidence`: attempts and how they ended, out of the journal.

use super::Runs;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::journal::{Linked, forward};
use crate::paging;
use crate::revision_plans::RevisionPlans;
use crate::views::{
    AttemptsFold, artifact_view, event_id, evidence, key_of, uncalled, unit_text, was_verified,
};
use escapement_model::{ExecutionId, RunId};
use escapement_run::ids::artifact_id;
use escapement_run::journal::{Entry, Event};
use escapement_run::plan::Plan;
use escapement_run::state::Replan;
use escapement_wire::runs::v1;
use std::sync::Arc;

impl Runs {
    pub(super) async fn list_evidence(
        &self,
        request: v1::ListEvidenceRequest,
    ) -> Result<v1::ListEvidenceResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        let page_size = fields.page_size(request.page_size, PAGE, PAGE_MAX);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let filters = ("evidence", run_id, &request.step_key);
        let from = paging::number(&request.page_token, &filters)?.unwrap_or(1);
        let seen = self.look(run_id, |run, _| {
            let spec = &run.state().spec;
            let origin = crate::views::uuid_text(&spec.forked_from);
            let replans = run.state().replans.clone();
            (RevisionPlans::of(run), spec.request_id.clone(), origin, replans)
        });
        let (plans, request_id, origin, replans) = seen.await?;
        let mut page = Page {
            run_id,
            fold: AttemptsFold::new(run_id, plans.seed()),
            plans,
            replans,
            step_key: &request.step_key,
            request_id: &request_id,
            origin: &origin,
            page_size,
            n_begun: 0,
            behind: None,
            found: Vec::new(),
        };
        let (mut next, mut n_read) = (from, 0);
        loop {
            let stretch = forward(&self.runs, run_id, next, usize::MAX, SCAN_BYTES).await?;
            let Some((last, _)) = stretch.entries.last() else {
                break;
            };
            next = last.sequence + 1;
            n_read += 1;
            page.plans = page.plans.with_those_of(&self.runs, &stretch.entries).await?;
            stretch.entries.iter().for_each(|entry| page.take(entry));
            if page.is_whole() || n_read >= STRETCHES_MAX {
                break;
            }
        }
        let is_at_the_end = |behind: u64, last: u64| behind > last;
        let last = forward(&self.runs, run_id, next, 1, 1).await?.last_sequence;
        let behind = page.behind.unwrap_or(next);
        Ok(v1::ListEvidenceResponse {
            evidence: self.with_records(page.shown()).await,
            next_page_token: match is_at_the_end(behind, last) {
                true => String::new(),
                false => paging::token([behind, 0, 0], &filters),
            },
        })
    }
}

impl Runs {
    /// The same, with what the contract has on record of what was called.
    async fn with_records(&self, mut found: Vec<v1::Evidence>) -> Vec<v1::Evidence> {
        let called = found
            .iter()
            .filter_map(|evidence| evidence.execution_id.parse().ok());
        let records = self.runs.records_of(called.collect()).await;
        let called = found
            .iter_mut()
            .filter(|evidence| evidence.execution_id.parse::<ExecutionId>().is_ok());
        for (evidence, record) in called.zip(records) {
            evidence.worker_id = record.worker_id;
            evidence.contract_digest = record.plan_digest;
            if evidence.status == FENCED {
                evidence.late_outcome = record.outcome;
            }
        }
        found
    }
}

/// The attempts that begin in a stretch, and their ends, which may come later.
struct Page<'a> {
    run_id: RunId,
    fold: AttemptsFold,
    plans: RevisionPlans,
    replans: Vec<Replan>,
    step_key: &'a str,
    request_id: &'a str,
    origin: &'a str,
    page_size: usize,
    n_begun: usize,
    /// Where the next page begins, once this one has all that it may have.
    behind: Option<u64>,
    found: Vec<(i64, v1::Evidence)>,
}

impl Page<'_> {
    fn take(&mut self, (entry, _): &Linked) {
        let plan = Arc::clone(self.plans.at(entry.sequence));
        let uncalled = uncalled(&plan, entry, self.origin);
        let step = match (entry.event.as_ref(), &uncalled) {
            (Some(Event::ToolCalled(called)), _) => Some(key_of(&plan, called.unit.step)),
            (_, Some(evidence)) => Some(evidence.step_id.as_str()),
            _ => None,
        };
        if let Some(step) = step {
            let is_wanted = self.step_key.is_empty() || step == self.step_key;
            if !is_wanted || self.behind.is_some() {
                return;
            }
            if self.n_begun == self.page_size {
                self.behind = Some(entry.sequence);
                return;
            }
            self.n_begun += 1;
        }
        if let Some(evidence) = uncalled {
            self.found.push((evidence.settled_sequence, evidence));
        }
        for settled in self.fold.take(entry, &plan) {
            let evidence = evidence(&self.fold, &settled, self.request_id);
            self.found.push((evidence.intended_sequence, evidence));
        }
        self.made(entry, &plan);
    }

    /// Adds an artifact to what made it, and what was found out about it.
    fn made(&mut self, entry: &Entry, plan: &Plan) {
        let mut all = self.found.iter_mut().rev().map(|(_, evidence)| evidence);
        match entry.event.as_ref() {
            Some(Event::ArtifactCreated(created)) => {
                let Some(of) = created.unit else {
                    return;
                };
                let (unit, epoch) = (unit_text(plan, of), i64::from(of.epoch));
                let made_it = |evidence: &&mut v1::Evidence| {
                    let is_of_epoch = i64::from(evidence.epoch) == epoch || !evidence.memo_of.is_empty();
                    evidence.unit == unit && is_of_epoch && evidence.status == "completed"
                };
                if let Some(evidence) = all.find(made_it) {
                    let view = artifact_view(self.run_id, plan, created, entry.at);
                    evidence.artifacts.push(view);
                }
            }
            Some(Event::ArtifactVerified(verified)) => {
                let id = artifact_id(self.run_id, verified.number).to_string();
                let mut artifacts = all.flat_map(|evidence| &mut evidence.artifacts);
                if let Some(artifact) = artifacts.find(|artifact| artifact.artifact_id == id) {
                    was_verified(artifact, verified);
                }
            }
            _ => {}
        }
    }

    /// True if nothing of what comes belongs to it.
    fn is_whole(&self) -> bool {
        self.behind.is_some() && self.fold.living().next().is_none()
    }

    /// In the order in which they were intended. Those that live have no end yet.
    fn shown(mut self) -> Vec<v1::Evidence> {
        let living = self.fold.living();
        let living: Vec<_> = living
            .map(|attempt| {
                let mut evidence = evidence(&self.fold, &attempt, self.request_id);
                "submitted".clone_into(&mut evidence.status);
                (evidence.intended_sequence, evidence)
            })
            .collect();
        self.found.extend(living);
        self.found.sort_by_key(|(sequence, _)| *sequence);
        let (run_id, replans) = (self.run_id, self.replans);
        let shown = self.found.into_iter().map(|(_, evidence)| {
            let touched = replans
                .iter()
                .filter(|replan| replan.step_keys.contains(&evidence.step_id));
            v1::Evidence {
                replan_events: touched.map(|replan| event_id(run_id, replan.sequence)).collect(),
                ..evidence
            }
        });
        shown.collect()
    }
}

/// The status of an attempt that its run went on without.
const FENCED: &str = "fenced";
const PAGE: i32 = 20;
const PAGE_MAX: i32 = 100;
/// Bytes of entries that are read at a time.
const SCAN_BYTES: usize = 1 << 20;
/// How often so much is read for one page.
const STRETCHES_MAX: usize = 8;
