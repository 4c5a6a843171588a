//! Every call, by everybody: the page `deploy/AUTHORIZATION.md` says what is let in.

use super::attempts::{self, shows};
use super::credentials::{Token, policy, world_with};
use crate::plans::{RequestWords, plan, request, step};
use crate::tls::SecureWorld;
use crate::world::LIMIT;
use bytes::{Buf, BufMut};
use escapement_tests::authority::replace;
use escapement_tests::{PrivateDirectory, ScriptedWorker, TokenIssuer, checkout};
use escapement_wire::v1::WhoAmIRequest;
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Who calls: a column of the page, and whether its namespace is the one in which everything lies here.
#[derive(Clone, Copy, Debug)]
struct Who {
    column: &'static str,
    namespace: &'static str,
}

/// How somebody calls.
struct Caller {
    who: Who,
    /// By what it is known.
    kind: &'static str,
    channel: Channel,
    bearer: Option<String>,
}

/// Messages without a field, in either direction.
#[derive(Default)]
struct Empty;

impl Codec for Empty {
    type Encode = ();
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Empty {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&[]);
        Ok(())
    }
}

impl Decoder for Empty {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        buffer.advance(buffer.remaining());
        Ok(Some(()))
    }
}

/// The marks of each call, by its path, in the order of the page's columns.
pub(super) fn table() -> BTreeMap<String, Vec<String>> {
    let page = std::fs::read_to_string(checkout::root().join("deploy/AUTHORIZATION.md")).unwrap();
    let table = page.split_once("<!-- table -->\n").unwrap().1;
    let table = table.split_once("<!-- end of table -->").unwrap().0;
    let mut rows = BTreeMap::new();
    for line in table.lines().skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (service, methods) = cells[0].split_once(": ").unwrap();
        for method in methods.split(", ") {
            let path = format!("/{}/{}", service.trim_matches('`'), method.trim_matches('`'));
            rows.insert(path, cells[1..].iter().map(|&mark| mark.to_owned()).collect());
        }
    }
    rows
}

/// What the page has for a column.
fn mark<'a>(marks: &'a [String], column: &str) -> &'a str {
    let columns = [
        "anonymous",
        "viewer",
        "submitter",
        "worker",
        "attempt",
        "operator",
        "admin",
    ];
    let column = columns.iter().position(|&known| known == column).unwrap();
    &marks[column]
}

/// The reason for which access was refused; `None` if the call came through, whatever became of it, or is silent for so long.
async fn refusal(channel: Channel, path: &str, bearer: Option<String>, limit: Duration) -> Option<String> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let once = tokio_stream::once(());
    let request = match bearer {
        Some(bearer) => shows(&bearer, once),
        None => tonic::Request::new(once),
    };
    let path: PathAndQuery = path.parse().unwrap();
    let call = async {
        let mut answer = grpc.streaming(request, path, Empty).await?.into_inner();
        answer.message().await.map(drop)
    };
    let answer = tokio::time::timeout(limit, call).await.unwrap_or(Ok(()));
    let status = answer.err()?;
    let is_of_access = matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied);
    is_of_access.then(|| status.get_error_details().error_info().unwrap().reason.clone())
}

/// What the caller may be told of the call: `None` stands for anything but a refusal of access.
fn expected(path: &str, mark: &str, caller: &Caller) -> Vec<Option<&'static str>> {
    let is_let_in = match mark {
        "-" => false,
        // The operator of this policy sees no payloads.
        "p" => false,
        _ => true,
    };
    // What is handed in is judged by its namespace and its parent, once it is read.
    let hands_in = path.ends_with("Plan") && path.starts_with("/escapement.v1.");
    let is_bound = hands_in
        || path.ends_with("/ListExecutions")
        || path.ends_with("/SubscribeEvents")
        || path.ends_with("/ReadEvents");
    let is_elsewhere = caller.who.namespace == "other" && matches!(caller.who.column, "viewer" | "submitter");
    match caller.who.column {
        "anonymous" if !is_let_in => vec![Some("CREDENTIALS_MISSING")],
        _ if !is_let_in => vec![Some("ROLE_MISSING")],
        "attempt" if hands_in => vec![None, Some("PARENT_NOT_PERMITTED")],
        _ if is_bound && is_elsewhere => vec![None, Some("NAMESPACE_NOT_PERMITTED")],
        _ => vec![None],
    }
}

#[tokio::test]
async fn every_call_is_let_in_or_refused_as_the_page_says() {
    let cast = Cast::new().await;
    let (world, _file) = world_with(&cast.entries()).await;
    every_cell(&cast, &world.orchestrator.channel(), Vec::new()).await;
}

#[tokio::test]
async fn the_same_over_tls_and_by_certificates() {
    let cast = Cast::new().await;
    let file = cast.directory.join("policy.toml");
    std::fs::write(&file, policy(&cast.entries())).unwrap();
    let secure = SecureWorld::start_with(|settings| settings.flag("--access-policy", file.display())).await;
    let mut certified = Vec::new();
    for who in everybody() {
        let shown = secure.clients.issue(&[&dns_name(who)]).unwrap();
        certified.push(Caller {
            who,
            kind: "certificate",
            channel: secure.connect(Some(&shown)).await.unwrap(),
            bearer: None,
        });
    }
    every_cell(&cast, &secure.connect(None).await.unwrap(), certified).await;
}

/// Each role, at home and elsewhere.
fn everybody() -> Vec<Who> {
    let roles = ["viewer", "submitter", "worker", "operator", "admin"];
    let who = roles.map(|column| ["default", "other"].map(|namespace| Who { column, namespace }));
    who.into_iter().flatten().collect()
}

fn dns_name(Who { column, namespace }: Who) -> String {
    format!("{column}.{namespace}.example")
}

fn grant(Who { column, namespace }: Who) -> String {
    format!("roles = [\"{column}\"]\nnamespaces = [\"{namespace}\"]")
}

/// Everybody by each kind of credential, a worker and who gives it a step.
struct Cast {
    tokens: Vec<(Who, Token)>,
    planner: Token,
    worker: Token,
    issuer: TokenIssuer,
    directory: PrivateDirectory,
}

impl Cast {
    async fn new() -> Self {
        let directory = PrivateDirectory::new("matrix").unwrap();
        let issuer = TokenIssuer::start("one").await.unwrap();
        replace(&directory.join("keys.json"), &issuer.key_set()).unwrap();
        let tokens = everybody().into_iter().map(|who| (who, Token::new(who.column)));
        Self {
            tokens: tokens.collect(),
            planner: Token::new("planner"),
            worker: Token::new("worker"),
            issuer,
            directory,
        }
    }

    /// What a policy says of them.
    fn entries(&self) -> Vec<String> {
        let own = [
            self.planner.entry("planner", "roles = [\"submitter\"]"),
            self.worker.entry("worker", "roles = [\"worker\"]"),
        ];
        let tokens = self.tokens.iter();
        let tokens =
            tokens.map(|(who, token)| token.entry(&format!("{who:?}").replace('"', ""), &grant(*who)));
        let certificates = everybody().into_iter().map(|who| {
            let (name, grant) = (dns_name(who), grant(who));
            format!("[[certificate]]\ndns = \"{name}\"\n{grant}\n")
        });
        let keys = self.directory.join("keys.json");
        let issuer = format!(
            "[[jwt]]\nissuer = \"{ISSUER}\"\naudience = \"escapement\"\njwks_file = \"{}\"\n",
            keys.display()
        );
        let grants = everybody().into_iter().map(|who| {
            let (sub, grant) = (dns_name(who), grant(who));
            format!("[[jwt.grant]]\nwhen = {{ sub = \"{sub}\" }}\n{grant}\n")
        });
        let entries = own.into_iter().chain(tokens).chain(certificates);
        entries.chain([issuer]).chain(grants).collect()
    }

    /// An attempt that is under way, and its worker.
    async fn attempt(&self, channel: &Channel) -> (ScriptedWorker, String) {
        let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["work"]), 1);
        let opened = ScriptedWorker::open_over(channel.clone(), hello, &self.worker.secret);
        let mut worker = opened.await.0;
        worker.keep_alive(Duration::from_secs(1));
        let submission = request(plan([step(0, "work")])).as_submission();
        let mut plans = PlanExecutionServiceClient::new(channel.clone());
        plans.submit_plan(self.planner.shows(submission)).await.unwrap();
        let bearer = attempts::of(&worker.started().await);
        (worker, bearer)
    }

    /// Everybody who needs no certificate.
    fn callers(&self, channel: &Channel, attempt: &str) -> Vec<Caller> {
        let caller = |who, kind, bearer| Caller {
            who,
            kind,
            channel: channel.clone(),
            bearer,
        };
        let alone = |column| Who {
            column,
            namespace: "default",
        };
        let tokens = self.tokens.iter();
        let tokens = tokens.map(|(who, token)| caller(*who, "token", Some(token.secret.clone())));
        let of_issuer = everybody().into_iter().map(|who| {
            let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3_600;
            let claims = json!({"iss": ISSUER, "aud": "escapement", "sub": dns_name(who), "exp": exp});
            caller(who, "jwt", Some(self.issuer.token(&claims)))
        });
        let others = [
            caller(alone("anonymous"), "nothing", None),
            caller(alone("attempt"), "attempt", Some(attempt.to_owned())),
        ];
        tokens.chain(of_issuer).chain(others).collect()
    }
}

/// Makes every call as everybody, and holds the answers against the page.
async fn every_cell(cast: &Cast, channel: &Channel, more: Vec<Caller>) {
    let (_worker, attempt) = cast.attempt(channel).await;
    let mut callers = cast.callers(channel, &attempt);
    callers.extend(more);
    let mut n_cells = 0;
    let mut wrong = Vec::new();
    for (path, marks) in table() {
        // All of them at a time: who waits for a silent stream waits together with the others.
        let calls = callers.iter().map(|caller| {
            let expected = expected(&path, mark(&marks, caller.who.column), caller);
            // A stream that is let in may stay silent; a refusal is waited for.
            let limit = if expected.contains(&None) { SILENCE } else { LIMIT };
            let (channel, path, bearer) = (caller.channel.clone(), path.clone(), caller.bearer.clone());
            let call = tokio::spawn(async move { refusal(channel, &path, bearer, limit).await });
            (caller, expected, call)
        });
        let calls: Vec<_> = calls.collect();
        for (caller, expected, call) in calls {
            let found = call.await.unwrap();
            n_cells += 1;
            if !expected.contains(&found.as_deref()) {
                let Caller { who, kind, .. } = caller;
                wrong.push(format!(
                    "{path} by {who:?}, {kind}: {found:?}, not of {expected:?}"
                ));
            }
        }
    }
    let wrong = (wrong.len(), wrong.join("\n"));
    assert!(wrong.0 == 0, "{} of {n_cells} cells:\n{}", wrong.0, wrong.1);
    let mut access = AccessServiceClient::new(channel.clone());
    let told = access.who_am_i(shows(&attempt, WhoAmIRequest {})).await.unwrap();
    let told = told.into_inner().principal.unwrap();
    assert!(told.attempt_rights.is_some(), "it is still under way: {told:?}");
    let stranger = Some(Token::new("stranger").secret);
    let found = refusal(channel.clone(), "/grpc.health.v1.Health/Check", stranger, LIMIT).await;
    assert_eq!(
        found.as_deref(),
        Some("CREDENTIALS_INVALID"),
        "never falls back to nobody"
    );
}

/// In which a refusal comes; a call that was let in is not waited for.
const SILENCE: Duration = Duration::from_secs(1);
const ISSUER: &str = "https://issuer.example";
