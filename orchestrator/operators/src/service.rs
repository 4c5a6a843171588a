//! What operators did, listed, and files read again on demand. Judges nobody.

use crate::operators::Operators;
use escapement_codec::page_token;
use escapement_model::hex;
use escapement_store::{OperatorAction, OperatorDeed, OperatorEntry, OperatorFilter, Reader, StoreFault};
use escapement_transport::refusal::{again_later, plain};
use escapement_transport::reload::{Looked, Looks, Report};
use escapement_wire::v1;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tonic::{Code, Extensions, Status};
use tracing::error;

/// What stands behind the calls of `AccessService` that are for operators. Cheap to clone.
#[derive(Clone)]
pub struct AccessEdge {
    operators: Operators,
    /// One, so that what one caller lists never takes more than one thread.
    reader: Arc<Mutex<Box<dyn Reader>>>,
    /// `None`: there are no files that are read again.
    looks: Option<Looks>,
}

impl std::fmt::Debug for AccessEdge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessEdge").finish_non_exhaustive()
    }
}

impl AccessEdge {
    /// Over a reader of its own.
    pub fn new(operators: Operators, reader: Box<dyn Reader>) -> Self {
        Self {
            operators,
            reader: Arc::new(Mutex::new(reader)),
            looks: None,
        }
    }

    /// With files that can be read again.
    #[must_use]
    pub fn with_looks(self, looks: Option<Looks>) -> Self {
        Self { looks, ..self }
    }

    /// What records the acts of other services.
    pub fn operators(&self) -> &Operators {
        &self.operators
    }

    async fn list(
        &self,
        filter: OperatorFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<OperatorAction>, Status> {
        let reader = Arc::clone(&self.reader);
        let read = tokio::task::spawn_blocking(move || {
            // A reader that panicked reads all the same.
            let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            reader.operator_actions(&filter, before, limit)
        });
        match read.await {
            Ok(Ok(actions)) => Ok(actions),
            Ok(Err(fault)) => {
                error!(error = &fault as &dyn std::error::Error, "store does not read");
                Err(unreadable(&fault))
            }
            Err(_stopping) => Err(unreadable(&StoreFault::Busy("it ends".into()))),
        }
    }

    /// What operators did, newest first, page by page.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a page that there cannot be, `DATA_LOSS` for a damaged entry, `UNAVAILABLE` if the store cannot be read.
    pub async fn list_operator_actions(
        &self,
        request: v1::ListOperatorActionsRequest,
    ) -> Result<v1::ListOperatorActionsResponse, Status> {
        let page_size = page_size(request.page_size)?;
        let given = |text: String| Some(text).filter(|text| !text.is_empty());
        let filter = OperatorFilter {
            name: given(request.name),
            rpc: given(request.rpc),
            is_open: false,
        };
        let before = match request.page_token.as_str() {
            "" => None,
            token => Some(page_token::decode(token, &filter).map_err(|_| no_page())?),
        };
        let mut actions = self.list(filter.clone(), before, page_size + 1).await?;
        let has_more = actions.len() > page_size;
        actions.truncate(page_size);
        let next_page_token = match actions.last() {
            Some(last) if has_more => page_token::encode(last.intent.number, &filter),
            Some(_) | None => String::new(),
        };
        Ok(v1::ListOperatorActionsResponse {
            actions: actions.iter().map(listed).collect(),
            next_page_token,
        })
    }

    /// Reads the files again, once that is on record. `caller`: the extensions of the call.
    ///
    /// # Errors
    /// It cannot be recorded, or the orchestrator ends.
    pub async fn reload(&self, caller: &Extensions) -> Result<v1::ReloadResponse, Status> {
        let looks = self.looks.clone();
        let act = async move {
            let reports = match looks {
                Some(looks) => looks.look_now().await.ok_or_else(stopping)?,
                None => Vec::new(),
            };
            let files: Vec<_> = reports.iter().map(reloaded).collect();
            let said = reports.iter().map(said).collect();
            Ok((v1::ReloadResponse { files }, said))
        };
        let rpc = "escapement.v1.AccessService/Reload";
        self.operators.perform(caller, rpc, json!({}), act).await
    }
}

fn page_size(page_size: Option<i32>) -> Result<usize, Status> {
    let page_size = page_size.unwrap_or(PAGE_DEFAULT);
    match usize::try_from(page_size) {
        Ok(size) if (1..=PAGE_MAX).contains(&page_size) => Ok(size),
        Ok(_) | Err(_) => {
            let message = format!("page_size: must be 1 to {PAGE_MAX}");
            Err(plain(Code::InvalidArgument, "INVALID_ARGUMENT", message, []))
        }
    }
}

fn no_page() -> Status {
    let message = "page_token: must be the next_page_token of a page with the same filters".to_owned();
    plain(Code::InvalidArgument, "PAGE_TOKEN_INVALID", message, [])
}

fn unreadable(fault: &StoreFault) -> Status {
    match fault {
        StoreFault::Corrupt { number, .. } => plain(
            Code::DataLoss,
            "RECORD_DAMAGED",
            format!("Entry {number} of what operators did is damaged; `orchestrator check` says more."),
            [("number", number.to_string())],
        ),
        _ => {
            let message = "The store could not be read; ask again.".to_owned();
            again_later(Code::Unavailable, "STORE_UNREADABLE", message, [])
        }
    }
}

fn stopping() -> Status {
    escapement_transport::Refusal::Stopping.into()
}

fn listed(action: &OperatorAction) -> v1::OperatorAction {
    let OperatorEntry {
        number,
        at,
        boot_id,
        deed,
        previous_hash,
        hash,
    } = &action.intent;
    let OperatorDeed::Intent(intent) = deed else {
        unreachable!("an action begins with an intent");
    };
    let intent = intent.clone();
    v1::OperatorAction {
        number: *number,
        at: *at,
        boot_id: hex::text(boot_id.as_bytes()),
        name: intent.name,
        kind: intent.kind,
        issuer: intent.issuer,
        peer: intent.peer,
        rpc: intent.rpc,
        request: intent.request,
        previous_hash: hex::text(previous_hash),
        hash: hex::text(hash),
        outcome: action.outcome.as_ref().map(listed_outcome),
    }
}

fn listed_outcome(entry: &OperatorEntry) -> v1::OperatorOutcome {
    let OperatorDeed::Outcome { outcome, .. } = &entry.deed else {
        unreachable!("an action ends with an outcome");
    };
    v1::OperatorOutcome {
        number: entry.number,
        at: entry.at,
        boot_id: hex::text(entry.boot_id.as_bytes()),
        outcome: outcome.clone(),
        previous_hash: hex::text(&entry.previous_hash),
        hash: hex::text(&entry.hash),
    }
}

fn reloaded(report: &Report) -> v1::ReloadedFiles {
    use v1::reloaded_files::Result as Told;
    let (result, sha256, problems) = match &report.looked {
        Looked::Unchanged { sha256 } => (Told::Unchanged, hex::text(sha256), Vec::new()),
        Looked::Replaced { sha256 } => (Told::Replaced, hex::text(sha256), Vec::new()),
        Looked::Refused { problem } => (Told::Refused, String::new(), lines(problem)),
    };
    v1::ReloadedFiles {
        what: report.what.to_owned(),
        paths: report
            .files
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        result: result.into(),
        sha256,
        problems,
    }
}

/// The same for the record.
fn said(report: &Report) -> Value {
    let what = report.what;
    match &report.looked {
        Looked::Unchanged { sha256 } => {
            json!({"what": what, "result": "unchanged", "sha256": hex::text(sha256)})
        }
        Looked::Replaced { sha256 } => {
            json!({"what": what, "result": "replaced", "sha256": hex::text(sha256)})
        }
        Looked::Refused { problem } => json!({"what": what, "result": "refused", "problems": lines(problem)}),
    }
}

/// A problem may have a line for each thing that is wrong.
fn lines(problem: &str) -> Vec<String> {
    let lines = problem.lines().map(|line| line.trim().to_owned());
    lines.take(PROBLEMS_MAX).collect()
}

/// Actions on a page.
const PAGE_DEFAULT: i32 = 50;
const PAGE_MAX: i32 = 100;
/// Lines of what is wrong with files.
const PROBLEMS_MAX: usize = 1_000;
