//! `InboxService`: what runs ask people, and what people say.

mod answer;
mod asked;
mod watch;

use std::sync::Arc;

use escapement_model::{InputRequestId, RunId};
use escapement_run::journal::RequestKind;
use escapement_run::plan::Plan;
use escapement_run::{Answer, Blobs, Input, RefusedReason, Run};
use escapement_runs::REQUEST_KINDS;
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::runs::{ClientRequest, Listing, StoredInputRequest};
use escapement_transport::response_budget::ResponseBudget;
use escapement_transport::{CallClass, Recipient};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::inbox_service_server::InboxService;
use prost::Message;
use tonic::{Request, Response, Status};

use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::{self, Fields};
use crate::paging::{self, Room};
use crate::saved::profiles;
use crate::totals::{size, total};
use crate::watching::AnswerStream;
use answer::{Read, key_in, read};
use asked::{Said, said_to, stored, view};

/// The service.
#[derive(Clone)]
pub struct Inbox {
    runs: RunsHandle,
    answers: ResponseBudget,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Inbox {
    /// Asks and answers for these runs. `answers`: the budget of unread answers, which all services share.
    pub fn new(runs: RunsHandle, answers: ResponseBudget) -> Self {
        Self { runs, answers }
    }

    async fn list(
        &self,
        request: v1::ListInputRequestsRequest,
        caller: &Caller,
    ) -> Result<v1::ListInputRequestsResponse, Rejection> {
        let mut fields = Fields::default();
        let page_size = fields.page_size(request.page_size, 20, 200);
        fields.note("user_id", &request.user_id);
        let kind = wanted_kind(&request.kind, &mut fields);
        let run_id = match request.run_id.as_str() {
            "" => None,
            run_id => fields.id::<RunId>("run_id", run_id),
        };
        fields.conclude()?;
        let filters = (
            "inbox",
            &request.user_id,
            &request.kind,
            &request.run_id,
            &request.namespace,
        );
        let (after, known) = paging::place_and_total(&request.page_token, &filters)?;
        let after = after.map(|[number, _, _]| number);
        let scopes = caller.listed(&request.namespace, &request.user_id)?;
        let read = move |reader: &dyn escapement_store::runs::RunReader| {
            let is_wanted = |request: &StoredInputRequest| {
                kind.is_none_or(|kind| asked::kind_of(request) == Some(kind))
                    && run_id.is_none_or(|run_id| request.run_id == run_id)
            };
            let scopes = scopes.as_deref();
            let kind_byte = kind.and_then(|kind| u8::try_from(i32::from(kind)).ok());
            let listing = Listing::OpenInputRequests {
                scopes,
                kind: kind_byte,
                run_id,
            };
            let total = total(reader, known, listing)?;
            let found = reader.open_input_requests(scopes, after, SEEN_MAX)?;
            let mut next = found.next;
            let mut wanted: Vec<_> = found.requests.into_iter().filter(is_wanted).collect();
            if wanted.len() > page_size {
                wanted.truncate(page_size);
                next = wanted.last().map(|request| request.number);
            }
            Ok((wanted, next, total))
        };
        let (wanted, mut next, total) = self.runs.readers().read(read).await?;
        let (mut input_requests, mut room, mut last) = (Vec::new(), Room::default(), None);
        for stored in wanted {
            let number = stored.number;
            if let Some(shown) = view(&self.runs, stored, LISTED_BYTES_MAX).await? {
                if !room.takes(shown.encoded_len()) {
                    next = last;
                    break;
                }
                input_requests.push(shown);
            }
            last = Some(number);
        }
        asked::show_workers(&self.runs, input_requests.iter_mut()).await;
        Ok(v1::ListInputRequestsResponse {
            input_requests,
            next_page_token: next.map_or_else(String::new, |next| {
                paging::token_with([next, 0, 0], total, &filters)
            }),
            total_size: size(total),
            total_is_at_least: total.is_at_least,
        })
    }

    async fn get(&self, id: &str, caller: &Caller) -> Result<v1::InputRequest, Rejection> {
        let id: InputRequestId = fields::id("input_request_id", id)?;
        let stored = self.stored(id, caller).await?;
        let mut shown = view(&self.runs, stored, u64::MAX).await?;
        asked::show_workers(&self.runs, shown.iter_mut()).await;
        shown.ok_or_else(|| not_found(id))
    }

    async fn respond(
        &self,
        request: v1::RespondToInputRequest,
        caller: &Caller,
    ) -> Result<v1::InputRequest, Rejection> {
        let given = request.answer.clone();
        let Read {
            mut answer,
            mut condition,
            plan,
        } = read(request, caller.principal())?;
        let id = answer.request_id;
        let stored = self.stored(id, caller).await?;
        let users = caller.principal().named_users(&stored.namespace);
        answer.responder.users = users.map(str::to_owned).collect();
        let run_id = stored.run_id;
        if let Some(given) = &given {
            asked::check_shape(&stored, given).map_err(|error| Rejection::OfRun(run_id, error))?;
        }
        condition.request = condition.request.map(|request| ClientRequest {
            key: key_in(&stored.namespace, request.key),
            ..request
        });
        let input = match plan {
            None => Input::Answer(answer.clone()),
            Some(plan) => {
                caller.check_plan(&stored.namespace, "approval.approve_with_edits.document", &plan)?;
                self.with_another_plan(run_id, answer.clone(), plan).await?
            }
        };
        match self.runs.input(run_id, condition, input).await {
            Ok(()) => {}
            Err(CallError::Refused(
                reason @ (RefusedReason::AlreadyAnswered | RefusedReason::RunEnded),
                message,
            )) => match said_to(&self.runs, run_id, answer).await? {
                Said::Same => {}
                Said::Other(winner) => {
                    return Err(Rejection::Failed {
                        reason: RefusedReason::AlreadyAnswered.as_str(),
                        message: format!("The request was answered before: {winner}."),
                        fact: Some(("winner", winner)),
                    });
                }
                Said::Nothing => {
                    return Err(Rejection::OfRun(run_id, CallError::Refused(reason, message)));
                }
            },
            Err(CallError::Refused(RefusedReason::RequestNotFound, _)) => return Err(not_found(id)),
            Err(error) => return Err(Rejection::OfRun(run_id, error)),
        }
        self.get(&id.to_string(), caller).await
    }
}

impl Inbox {
    /// What the store has of a request that the caller may find.
    async fn stored(&self, id: InputRequestId, caller: &Caller) -> Result<StoredInputRequest, Rejection> {
        let stored = stored(&self.runs, id).await?;
        match caller.require_run(&self.runs, stored.run_id).await {
            Err(Rejection::OfRun(_, CallError::NotFound)) => Err(not_found(id)),
            required => required.map(|()| stored),
        }
    }

    /// The approval of another plan, with what is known of its actions.
    async fn with_another_plan(&self, run_id: RunId, answer: Answer, plan: Plan) -> Result<Input, Rejection> {
        let look = |run: &Run, _: &dyn Blobs| run.state().spec.actions().map(str::to_owned).collect();
        let looked = self.runs.look(run_id, look).await;
        let own_actions = looked.map_err(|error| Rejection::OfRun(run_id, error))?;
        let profiles = profiles(&self.runs, &Arc::new(plan), own_actions).await?;
        Ok(Input::ApproveEdited { answer, profiles })
    }
}

/// There is no such request.
pub(crate) fn not_found(id: InputRequestId) -> Rejection {
    Rejection::NotFound {
        reason: RefusedReason::RequestNotFound.as_str(),
        message: format!("No input request has the id {id}."),
    }
}

/// The kind that a filter lets through.
fn wanted_kind(word: &str, fields: &mut Fields) -> Option<RequestKind> {
    if word.is_empty() {
        return None;
    }
    fields.word("kind", word, &REQUEST_KINDS.map(|kind| (kind.as_str(), kind)))
}

#[tonic::async_trait]
impl InboxService for Inbox {
    async fn list_input_requests(
        &self,
        request: Request<v1::ListInputRequestsRequest>,
    ) -> Result<Response<v1::ListInputRequestsResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.list(request.into_inner(), &caller).await?))
    }

    async fn get_input_request(
        &self,
        request: Request<v1::GetInputRequestRequest>,
    ) -> Result<Response<v1::GetInputRequestResponse>, Status> {
        let caller = Caller::of(&request);
        let id = request.into_inner().input_request_id;
        let input_request = Some(self.get(&id, &caller).await?);
        Ok(Response::new(v1::GetInputRequestResponse { input_request }))
    }

    async fn respond_to_input(
        &self,
        request: Request<v1::RespondToInputRequest>,
    ) -> Result<Response<v1::RespondToInputResponse>, Status> {
        let caller = Caller::of(&request);
        let input_request = Some(self.respond(request.into_inner(), &caller).await?);
        Ok(Response::new(v1::RespondToInputResponse { input_request }))
    }

    type WatchInboxStream = AnswerStream<v1::WatchInboxResponse>;

    async fn watch_inbox(
        &self,
        request: Request<v1::WatchInboxRequest>,
    ) -> Result<Response<Self::WatchInboxStream>, Status> {
        let caller = Caller::of(&request);
        let recipient = Recipient::new(&self.answers, CallClass::Watches, request.extensions());
        let request = request.into_inner();
        let mut fields = Fields::default();
        fields.note("user_id", &request.user_id);
        let kind = wanted_kind(&request.kind, &mut fields);
        fields.number("after_cursor", request.after_cursor, 0..=i64::MAX);
        fields.conclude()?;
        let wanted = watch::Wanted {
            scopes: caller.listed(&request.namespace, &request.user_id)?,
            kind,
        };
        let cursor = u64::try_from(request.after_cursor).unwrap_or(0);
        Ok(Response::new(
            watch::start(self.runs.clone(), wanted, cursor, recipient).await?,
        ))
    }
}

/// Requests that are looked at for one page.
const SEEN_MAX: usize = 1000;
/// Bytes of a subject, or of what was said, in a list.
const LISTED_BYTES_MAX: u64 = 32_768;
