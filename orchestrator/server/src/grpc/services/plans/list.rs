//! `ListExecutions`: one page of what the store has, newest first. Reads no execution whole.

use super::Plans;
use crate::grpc::caller::Caller;
use crate::grpc::queries::paging::page_size;
use crate::limits::{EXECUTIONS_PAGE_DEFAULT, EXECUTIONS_PAGE_MAX};
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use escapement_codec::page_token;
use escapement_codec::stored_execution;
use escapement_model::planted::{self, Bug};
use escapement_store::{ListFilter, Reader, StoreFault, StoredState, StoredSummary};
use escapement_transport::CallClass;
use escapement_wire::v1;
use tonic::{Response, Status};

impl Plans {
    pub(super) async fn list(
        &self,
        request: &v1::ListExecutionsRequest,
        caller: &Caller,
    ) -> Result<Response<v1::ListExecutionsResponse>, Status> {
        let page_size = page_size(request.page_size, EXECUTIONS_PAGE_DEFAULT, EXECUTIONS_PAGE_MAX)?;
        let filter = ListFilter {
            namespaces: caller.listed(&request.namespace)?,
            ..list_filter(request)?
        };
        let before = match request.page_token.as_str() {
            "" => None,
            token => Some(page_token::decode(token, &filter).map_err(|_| Rejection::PageTokenInvalid)?),
        };
        let query = filter.clone();
        let caller = caller.principal().is_held_somewhere().then(|| caller.clone());
        let n_wanted = caller.as_ref().map_or(page_size + 1, |_| LOOKED_AT_MAX);
        let read = move |reader: &dyn Reader| {
            let mut page = list(reader, &query, before, n_wanted)?;
            let last = page.last().filter(|_| page.len() == LOOKED_AT_MAX);
            let unread = last.filter(|_| caller.is_some()).map(|last| last.number);
            let is_found = |it: &StoredSummary| caller.as_ref().is_none_or(|who| finds(who, reader, it));
            page.retain(is_found);
            Ok((page, unread))
        };
        let (mut summaries, unread) = self.edge.readers.read(ReadClass::List, read).await?;
        let has_more = summaries.len() > page_size;
        summaries.truncate(page_size);
        let next_page_token = match summaries.last() {
            Some(last) if has_more => {
                let skipped = u64::from(planted::is_on(Bug::PageSkipsOne));
                page_token::encode(last.number - skipped, &filter)
            }
            Some(_) | None => unread.map_or_else(String::new, |from| page_token::encode(from, &filter)),
        };
        let executions = summaries.iter().map(stored_execution::listed_execution).collect();
        let answer = v1::ListExecutionsResponse {
            executions,
            next_page_token,
        };
        self.edge.answers.answer(CallClass::Reads, answer)
    }
}

/// Returns true if the caller finds the execution: who handed it in stands in its record alone.
fn finds(caller: &Caller, reader: &dyn Reader, summary: &StoredSummary) -> bool {
    let stored = reader.execution_or_ending(summary.execution_id).ok().flatten();
    let owner = stored.as_ref().and_then(stored_execution::owner);
    caller.principal().sees_of(&summary.namespace, owner.as_deref())
}

fn list_filter(request: &v1::ListExecutionsRequest) -> Result<ListFilter, Rejection> {
    let unknown = |field| Rejection::InvalidField {
        field,
        message: "is no value of this enumeration".to_owned(),
    };
    let state = match v1::execution::State::try_from(request.state).map_err(|_| unknown("state"))? {
        v1::execution::State::Unspecified => None,
        v1::execution::State::Queued => Some(StoredState::Queued),
        v1::execution::State::Running => Some(StoredState::Running),
        v1::execution::State::Settled => Some(StoredState::Settled),
    };
    let status = match v1::plan_result::Status::try_from(request.status).map_err(|_| unknown("status"))? {
        v1::plan_result::Status::Unspecified => None,
        v1::plan_result::Status::Success => Some(1),
        v1::plan_result::Status::Partial => Some(2),
        v1::plan_result::Status::Failure => Some(3),
    };
    let parent = request.parent_execution_id.as_deref().map(str::parse).transpose();
    Ok(ListFilter {
        state,
        status,
        plan_name: request.plan_name.clone(),
        tag: request.tag.clone(),
        user_id: request.user_id.clone(),
        accepted_after: request.accepted_after,
        accepted_before: request.accepted_before,
        parent_execution_id: parent.map_err(|invalid: escapement_model::InvalidId| {
            Rejection::InvalidField {
                field: "parent_execution_id",
                message: invalid.to_string(),
            }
        })?,
        namespaces: None,
    })
}

/// Reads until there are enough or no more. A page of the store may be short, and a damaged execution is
/// passed over:
/// asking for it by its id tells that it is damaged.
fn list(
    reader: &dyn Reader,
    filter: &ListFilter,
    mut before: Option<u64>,
    n_wanted: usize,
) -> Result<Vec<StoredSummary>, StoreFault> {
    let mut all: Vec<StoredSummary> = Vec::new();
    while all.len() < n_wanted {
        match reader.list(filter, before, n_wanted - all.len()) {
            Ok(page) => {
                let Some(last) = page.last() else { break };
                before = Some(last.number);
                all.extend(page);
            }
            Err(StoreFault::Corrupt { number, .. }) => before = Some(number),
            Err(fault) => return Err(fault),
        }
    }
    Ok(all)
}

/// Executions that are looked at for one page of those whose records say who finds them.
const LOOKED_AT_MAX: usize = 64;
