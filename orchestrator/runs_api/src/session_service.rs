//! `SessionService`: what runs of a session share. Every change has its turn among the runs, and is written with them.

use std::borrow::Cow;

use escapement_model::limits::{ACTION_CHARS_MAX, LABEL_CHARS_MAX};
use escapement_model::{Namespace, Opaque};
use escapement_run::journal::Responder;
use escapement_run::session::{STATE_BYTES_MAX, Session};
use escapement_run::spec::{SEPARATOR, session_key};
use escapement_runs_host::{RunsHost, SessionDeleted};
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::StoreFault;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::session_service_server::SessionService;
use tonic::{Request, Response, Status};

use crate::caller::{Caller, shown_author};
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::resolution::SESSION_ID_CHARS_MAX;
use crate::views::{skill_view, uuid_text};

/// The service.
#[derive(Clone, Debug)]
pub struct Sessions {
    runs: RunsHandle,
}

/// Which session, and what must be so.
struct Named {
    namespace: Namespace,
    session_id: String,
    user_id: String,
    etag: String,
    /// Caller, if it is known.
    by: Option<Box<Responder>>,
}

impl Sessions {
    /// Keeps sessions with these runs.
    pub fn new(runs: RunsHandle) -> Self {
        Self { runs }
    }

    async fn create(
        &self,
        request: v1::CreateSessionRequest,
        caller: &Caller,
    ) -> Result<v1::Session, Rejection> {
        let made = caller.made(&request.namespace, "user_id", &request.user_id)?;
        let state = request.state.unwrap_or_default();
        let mut fields = Fields::default();
        fields.session_id("session_id", &request.session_id, 0..=SESSION_ID_CHARS_MAX);
        fields.note("user_id", &request.user_id);
        fields.object("state", &state, STATE_BYTES_MAX);
        fields.conclude()?;
        // As a patch of nothing, the state has its limits and no member without a value.
        let mut session = Session::new(&made.user_id, Opaque::default());
        session.author = made.origin.author;
        session.patch(&state).map_err(|why| too_large("state", why))?;
        let session_id = match request.session_id.is_empty() {
            true => fresh_id()?,
            false => request.session_id,
        };
        let bytes = state.len();
        let namespace = made.origin.namespace;
        let by = caller.fires(&namespace);
        let change = move |host: &mut RunsHost, now| {
            let key = session_key(namespace.as_str(), &session_id);
            match host.session(&key) {
                Ok(None) => {}
                Ok(Some(_)) | Err(StoreFault::CorruptDefinition { .. }) => {
                    return Ok(Err(Rejection::AlreadyThere {
                        reason: "SESSION_EXISTS",
                        message: format!("session_id: there is a session {session_id:?} already."),
                    }));
                }
                Err(_) => return Err(CallError::Store),
            }
            if !session.state.is_empty() {
                session.record_change(by.as_deref(), now);
            }
            let view = view(&namespace, &session_id, &session, 0);
            host.put_session(&key, session);
            Ok(Ok(view))
        };
        self.runs.change(bytes, change).await?
    }

    /// Changes a session; what the change gives is told with the session as it is afterwards.
    async fn change(
        &self,
        named: Named,
        bytes: usize,
        change: impl FnOnce(&mut Session) -> Result<bool, Rejection> + Send + 'static,
    ) -> Result<v1::Session, Rejection> {
        named.check()?;
        let perform = move |host: &mut RunsHost, now| {
            let session = match named.find(host)? {
                Ok(session) => session,
                Err(rejection) => return Ok(Err(rejection)),
            };
            if !named.etag.is_empty() && named.etag != session.version().to_string() {
                return Ok(Err(Rejection::EtagMismatch));
            }
            let version_before = session.state_version;
            let mut changed = session;
            match change(&mut changed) {
                Err(rejection) => return Ok(Err(rejection)),
                Ok(false) => {}
                Ok(true) => {
                    if changed.state_version != version_before {
                        changed.record_change(named.by.as_deref(), now);
                    }
                    host.put_session(&named.key(), changed.clone());
                }
            }
            let n_runs = host.runs().sessions().n_runs(&named.key());
            Ok(Ok(view(&named.namespace, &named.session_id, &changed, n_runs)))
        };
        self.runs.change(bytes, perform).await?
    }

    async fn health(&self, named: Named) -> Result<Vec<v1::SkillHealth>, Rejection> {
        named.check()?;
        let look = move |host: &mut RunsHost, _now| {
            let found = named.find(host)?;
            Ok(found.map(|session| session.skills.iter().map(skill_view).collect()))
        };
        self.runs.change(0, look).await?
    }

    async fn delete(&self, named: Named) -> Result<(), Rejection> {
        named.check()?;
        let change = move |host: &mut RunsHost, _now| {
            match named.find(host)? {
                // A damaged one is deleted, too.
                Ok(_) | Err(Rejection::Damaged { .. }) => {}
                Err(rejection) => return Ok(Err(rejection)),
            }
            match host.delete_session(&named.key()) {
                Ok(SessionDeleted::Done) => Ok(Ok(())),
                Ok(SessionDeleted::NotFound) => Ok(Err(named.missing())),
                Ok(SessionDeleted::InUse) => Ok(Err(Rejection::failed(
                    "SESSION_IN_USE",
                    format!("Session {:?}: runs of it have not ended.", named.session_id),
                ))),
                Err(_) => Err(CallError::Store),
            }
        };
        self.runs.change(0, change).await?
    }
}

impl Named {
    fn new(caller: &Caller, namespace: &str, session_id: String, user_id: &str) -> Result<Self, Rejection> {
        let namespace = caller.namespace(namespace)?;
        Ok(Self {
            user_id: caller.listed_user(&namespace, user_id)?.unwrap_or_default(),
            by: caller.fires(&namespace),
            namespace,
            session_id,
            etag: String::new(),
        })
    }

    /// What it is kept as.
    fn key(&self) -> Cow<'_, str> {
        session_key(self.namespace.as_str(), &self.session_id)
    }

    fn check(&self) -> Result<(), Rejection> {
        let mut fields = Fields::default();
        fields.session_id("session_id", &self.session_id, 1..=SESSION_ID_CHARS_MAX);
        fields.note("user_id", &self.user_id);
        fields.note("etag", &self.etag);
        fields.conclude()
    }

    fn find(&self, host: &RunsHost) -> Result<Result<Session, Rejection>, CallError> {
        find(host, &self.namespace, &self.session_id, &self.user_id)
    }

    fn missing(&self) -> Rejection {
        missing(&self.session_id)
    }
}

/// The session of the namespace, if it is that user's; anybody's if none is named. An id with [`SEPARATOR`] is none: it would name
/// a session of another namespace.
pub(crate) fn find(
    host: &RunsHost,
    namespace: &Namespace,
    session_id: &str,
    user_id: &str,
) -> Result<Result<Session, Rejection>, CallError> {
    if session_id.contains(SEPARATOR) {
        return Ok(Err(missing(session_id)));
    }
    match host.session(&session_key(namespace.as_str(), session_id)) {
        Ok(Some(session)) if user_id.is_empty() || session.user_id == user_id => Ok(Ok(session)),
        Ok(_) => Ok(Err(missing(session_id))),
        Err(StoreFault::CorruptDefinition { .. }) => Ok(Err(Rejection::Damaged {
            reason: "SESSION_DAMAGED",
            message: format!("Session {session_id:?} cannot be read; delete it and create it again."),
        })),
        Err(_) => Err(CallError::Store),
    }
}

/// There is no such session, or it is somebody else's.
pub(crate) fn missing(session_id: &str) -> Rejection {
    Rejection::NotFound {
        reason: "SESSION_NOT_FOUND",
        message: format!("session_id: there is no session {session_id:?}."),
    }
}

fn too_large(field: &str, why: String) -> Rejection {
    Rejection::field(field, "STATE_TOO_LARGE", why)
}

fn fresh_id() -> Result<String, Rejection> {
    let id = crate::run_service::new_run_id()?;
    Ok(uuid_text(id.as_bytes()))
}

fn view(namespace: &Namespace, session_id: &str, session: &Session, n_runs: usize) -> v1::Session {
    v1::Session {
        namespace: namespace.to_string(),
        created_by: shown_author(session.author.as_deref()),
        session_id: session_id.to_owned(),
        user_id: session.user_id.clone(),
        state: Some(session.state.clone()),
        etag: session.version().to_string(),
        restarts: i32::try_from(session.restarts).unwrap_or(i32::MAX),
        live_runs: i32::try_from(n_runs).unwrap_or(i32::MAX),
    }
}

#[tonic::async_trait]
impl SessionService for Sessions {
    async fn create_session(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        let caller = Caller::of(&request);
        let session = Some(self.create(request.into_inner(), &caller).await?);
        Ok(Response::new(v1::CreateSessionResponse { session }))
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let named = Named::new(&caller, &request.namespace, request.session_id, &request.user_id)?;
        let session = Some(self.change(named, 0, |_| Ok(false)).await?);
        Ok(Response::new(v1::GetSessionResponse { session }))
    }

    async fn merge_session_state(
        &self,
        request: Request<v1::MergeSessionStateRequest>,
    ) -> Result<Response<v1::MergeSessionStateResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let mut fields = Fields::default();
        let patch = request.patch.unwrap_or_else(|| {
            fields.wrong("patch", "is required");
            Opaque::default()
        });
        fields.object("patch", &patch, STATE_BYTES_MAX);
        fields.conclude()?;
        let named = Named {
            etag: request.etag,
            ..Named::new(&caller, &request.namespace, request.session_id, &request.user_id)?
        };
        let bytes = patch.len();
        let merge = move |session: &mut Session| session.patch(&patch).map_err(|why| too_large("patch", why));
        let session = Some(self.change(named, bytes, merge).await?);
        Ok(Response::new(v1::MergeSessionStateResponse { session }))
    }

    async fn restart_session(
        &self,
        request: Request<v1::RestartSessionRequest>,
    ) -> Result<Response<v1::RestartSessionResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let named = Named {
            etag: request.etag,
            ..Named::new(&caller, &request.namespace, request.session_id, &request.user_id)?
        };
        let restart = move |session: &mut Session| {
            session.forget_health(None);
            if request.clear_state && !session.state.is_empty() {
                session.state = Opaque::default();
                session.state_version += 1;
            }
            session.restarts += 1;
            Ok(true)
        };
        let session = Some(self.change(named, 0, restart).await?);
        Ok(Response::new(v1::RestartSessionResponse { session }))
    }

    async fn list_skill_health(
        &self,
        request: Request<v1::ListSkillHealthRequest>,
    ) -> Result<Response<v1::ListSkillHealthResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let named = Named::new(&caller, &request.namespace, request.session_id, &request.user_id)?;
        let skills = self.health(named).await?;
        Ok(Response::new(v1::ListSkillHealthResponse { skills }))
    }

    async fn reset_skill_health(
        &self,
        request: Request<v1::ResetSkillHealthRequest>,
    ) -> Result<Response<v1::ResetSkillHealthResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let mut fields = Fields::default();
        fields.text("skill", &request.skill, 1..=ACTION_CHARS_MAX.max(LABEL_CHARS_MAX));
        fields.conclude()?;
        let named = Named::new(&caller, &request.namespace, request.session_id, &request.user_id)?;
        let forget = move |session: &mut Session| Ok(session.forget_health(Some(&request.skill)));
        self.change(named, 0, forget).await?;
        Ok(Response::new(v1::ResetSkillHealthResponse {}))
    }

    async fn delete_session(
        &self,
        request: Request<v1::DeleteSessionRequest>,
    ) -> Result<Response<v1::DeleteSessionResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let named = Named::new(&caller, &request.namespace, request.session_id, &request.user_id)?;
        self.delete(named).await?;
        Ok(Response::new(v1::DeleteSessionResponse {}))
    }
}
