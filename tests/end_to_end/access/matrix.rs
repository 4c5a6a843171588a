//! Every call, by everybody: the page `deploy/AUTHORIZATION.md` says what is let in.

use super::attempts::{self, shows};
use super::credentials::{Token, policy, world_with};
use super::tenants::calls::calls;
use super::tenants::contract_calls::contract_calls;
use super::tenants::wire::{Call, Elsewhere, Use, asked};
use super::tenants::{Secrets, Things, execution, is_elsewhere, is_through, things};
use crate::plans::{RequestWords, plan, request, step};
use crate::tls::SecureWorld;
use crate::world::World;
use bytes::Bytes;
use escapement_tests::authority::replace;
use escapement_tests::{PrivateDirectory, ScriptedWorker, TokenIssuer, checkout};
use escapement_wire::v1::WhoAmIRequest;
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::StatusExt;

/// Who calls: a column of the page, and in which namespaces; everything here lies in `other`.
#[derive(Clone, Copy)]
struct Who {
    column: &'static str,
    namespaces: &'static [&'static str],
    /// What its operators may besides.
    payloads: bool,
}

impl Who {
    /// In the name of which it calls.
    fn name(self) -> String {
        let payloads = if self.payloads { ".payloads" } else { "" };
        format!("{}.{}{payloads}.example", self.column, self.namespaces.join("-"))
    }

    fn grant(self) -> String {
        let Self {
            column,
            namespaces,
            payloads,
        } = self;
        format!("roles = [\"{column}\"]\nnamespaces = {namespaces:?}\npayloads = {payloads}")
    }

    /// Returns true if its role holds where everything lies.
    fn is_here(self) -> bool {
        !matches!(self.column, "viewer" | "submitter") || self.namespaces.contains(&"other")
    }
}

/// How somebody calls.
struct Caller {
    who: Who,
    /// By what it is known.
    kind: &'static str,
    channel: Channel,
    bearer: Option<String>,
}

/// Returns the marks of each call, by its path, in the order of the page's columns.
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
pub(super) fn mark<'a>(marks: &'a [String], column: &str) -> &'a str {
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

/// What becomes of a call.
#[derive(Debug)]
enum Expected {
    /// It is refused for this reason, before it is read.
    Refused(&'static str),
    /// It is let in, and is about nothing that the caller may know of.
    Elsewhere,
    /// It is let in, and finds what it is about.
    Through,
}

fn expected(mark: &str, who: Who) -> Expected {
    let is_let_in = match mark {
        "-" => false,
        "p" => who.payloads,
        _ => true,
    };
    match who.column {
        "anonymous" if !is_let_in => Expected::Refused("CREDENTIALS_MISSING"),
        _ if !is_let_in => Expected::Refused("ROLE_MISSING"),
        _ if who.is_here() => Expected::Through,
        _ => Expected::Elsewhere,
    }
}

/// Returns the reason of a refusal.
fn reason_of(found: &Result<Bytes, Status>) -> Option<String> {
    let status = found.as_ref().err()?;
    let details = status.get_error_details();
    Some(details.error_info()?.reason.clone())
}

#[tokio::test]
async fn every_call_is_let_in_or_refused_as_the_page_says() {
    let cast = Cast::new().await;
    let (world, _file) = world_with(&cast.entries()).await;
    every_cell(&cast, &world, &world.orchestrator.channel(), Vec::new()).await;
}

#[tokio::test]
async fn the_same_over_tls_and_by_certificates() {
    let cast = Cast::new().await;
    let file = cast.directory.join("policy.toml");
    std::fs::write(&file, policy(&cast.entries())).unwrap();
    let secure = SecureWorld::start_with(|settings| settings.flag("--access-policy", file.display())).await;
    let mut certified = Vec::new();
    for who in everybody() {
        let shown = secure.clients.issue(&[&who.name()]).unwrap();
        certified.push(Caller {
            who,
            kind: "certificate",
            channel: secure.connect(Some(&shown)).await.unwrap(),
            bearer: None,
        });
    }
    let channel = secure.connect(None).await.unwrap();
    every_cell(&cast, &secure.world, &channel, certified).await;
}

/// Returns each role: where everything lies, elsewhere, and in both places.
fn everybody() -> Vec<Who> {
    let who = |column, namespaces, payloads| Who {
        column,
        namespaces,
        payloads,
    };
    let mut everybody = Vec::new();
    for column in ["viewer", "submitter", "worker", "operator", "admin"] {
        for namespaces in [&["other"][..], &["default"], &["default", "other"]] {
            everybody.push(who(column, namespaces, false));
        }
    }
    everybody.push(who("operator", &["default"], true));
    everybody
}

/// Everybody by each kind of credential, those who have what there is, and a worker.
struct Cast {
    tokens: Vec<(Who, Token)>,
    owner: Token,
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
            owner: Token::new("owner"),
            planner: Token::new("planner"),
            worker: Token::new("worker"),
            issuer,
            directory,
        }
    }

    /// What a policy says of them.
    fn entries(&self) -> Vec<String> {
        let own = [
            self.owner
                .entry("owner", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
            self.planner.entry("planner", "roles = [\"submitter\"]"),
            self.worker.entry("worker", "roles = [\"worker\"]"),
        ];
        let tokens = self.tokens.iter();
        let tokens = tokens.map(|(who, token)| token.entry(&who.name(), &who.grant()));
        let certificates = everybody().into_iter().map(|who| {
            let (name, grant) = (who.name(), who.grant());
            format!("[[certificate]]\ndns = \"{name}\"\n{grant}\n")
        });
        let keys = self.directory.join("keys.json");
        let issuer = format!(
            "[[jwt]]\nissuer = \"{ISSUER}\"\naudience = \"escapement\"\njwks_file = \"{}\"\n",
            keys.display()
        );
        let grants = everybody().into_iter().map(|who| {
            let (sub, grant) = (who.name(), who.grant());
            format!("[[jwt.grant]]\nwhen = {{ sub = \"{sub}\" }}\n{grant}\n")
        });
        let entries = own.into_iter().chain(tokens).chain(certificates);
        entries.chain([issuer]).chain(grants).collect()
    }

    async fn open(&self, channel: &Channel) -> ScriptedWorker {
        let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["work"]), 2);
        let opened = ScriptedWorker::open_over(channel.clone(), hello, &self.worker.secret);
        let mut worker = opened.await.0;
        worker.keep_alive(Duration::from_secs(1));
        worker
    }

    /// Returns an attempt that is under way in the namespace in which nothing else lies: its execution and its credential.
    async fn attempt(&self, channel: &Channel, worker: &mut ScriptedWorker) -> (String, String) {
        let submission = request(plan([step(0, "work")])).as_submission();
        let mut plans = PlanExecutionServiceClient::new(channel.clone());
        let accepted = plans.submit_plan(self.planner.shows(submission)).await.unwrap();
        let execution_id = accepted.into_inner().execution.unwrap().execution_id;
        (execution_id, attempts::of(&worker.started().await))
    }

    /// Everybody who needs no certificate.
    fn callers(&self, channel: &Channel) -> Vec<Caller> {
        let caller = |who, kind, bearer| Caller {
            who,
            kind,
            channel: channel.clone(),
            bearer,
        };
        let tokens = self.tokens.iter();
        let tokens = tokens.map(|(who, token)| caller(*who, "token", Some(token.secret.clone())));
        let of_issuer = everybody().into_iter().map(|who| {
            let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3_600;
            let claims = json!({"iss": ISSUER, "aud": "escapement", "sub": who.name(), "exp": exp});
            caller(who, "jwt", Some(self.issuer.token(&claims)))
        });
        let nobody = caller(NOBODY, "nothing", None);
        tokens.chain(of_issuer).chain([nobody]).collect()
    }
}

/// Returns every call of the page: those that are about what lies in a namespace are about what there is, the others say nothing.
fn every_call(things: &Things, execution_id: &str) -> Vec<Call> {
    let known = calls(things).into_iter();
    let known = known.chain(contract_calls(execution_id, None));
    let mut known: BTreeMap<String, Call> = known.map(|call| (call.path.clone(), call)).collect();
    let all = table().into_keys().map(|path| {
        known.remove(&path).unwrap_or_else(|| {
            let is_namespaced = NAMESPACED.iter().any(|prefix| path.starts_with(prefix));
            assert!(!is_namespaced, "{path} has no message here");
            Call {
                path,
                message: Bytes::new(),
                permitted: Bytes::new(),
                elsewhere: Elsewhere::Same,
                kind: Use::Other,
            }
        })
    });
    let all = all.collect();
    assert!(known.is_empty(), "the page does not have {:?}", known.keys());
    all
}

/// Makes every call as everybody, and holds the answers against the page.
async fn every_cell(cast: &Cast, world: &World, channel: &Channel, more: Vec<Caller>) {
    let things = things(world, &cast.owner).await;
    let mut worker = cast.open(channel).await;
    let execution_id = execution(world, &cast.owner, &mut worker).await;
    let (own, attempt) = cast.attempt(channel, &mut worker).await;
    let secrets = Secrets {
        things: &things,
        execution_id: &execution_id,
    };
    let callers: Vec<Caller> = cast.callers(channel).into_iter().chain(more).collect();
    let table = table();
    let mut n_cells = 0;
    let mut wrong = Vec::new();
    for call in every_call(&things, &execution_id) {
        // All of them at a time: who waits for a silent stream waits together with the others.
        let made = callers.iter().map(|caller| {
            let expected = expected(mark(&table[&call.path], caller.who.column), caller.who);
            let made = match expected {
                Expected::Through => call.by_permitted(),
                Expected::Elsewhere | Expected::Refused(_) => call.clone(),
            };
            let (channel, bearer) = (caller.channel.clone(), caller.bearer.clone());
            let found = tokio::spawn(async move { asked(channel, &made, bearer.as_deref()).await });
            (caller, expected, found)
        });
        let made: Vec<_> = made.collect();
        for (caller, expected, found) in made {
            let found = found.await.unwrap();
            let is_right = match expected {
                Expected::Refused(reason) => reason_of(&found).as_deref() == Some(reason),
                Expected::Elsewhere => is_elsewhere(&secrets, &call, &found),
                Expected::Through => is_through(&secrets, &call, &found),
            };
            n_cells += 1;
            if !is_right {
                let (path, name, kind) = (&call.path, caller.who.name(), caller.kind);
                wrong.push(format!("{path} by {name}, {kind}: {found:?}, not {expected:?}"));
            }
        }
    }
    let n_wrong = wrong.len();
    assert!(
        n_wrong == 0,
        "{n_wrong} of {n_cells} cells:\n{}",
        wrong.join("\n")
    );
    by_the_attempt(&secrets, channel, &own, &attempt).await;
    let health = Call {
        path: "/grpc.health.v1.Health/Check".to_owned(),
        ..every_call(&things, &execution_id).remove(0)
    };
    let found = asked(channel.clone(), &health, Some(&Token::new("stranger").secret)).await;
    let reason = reason_of(&found);
    assert_eq!(
        reason.as_deref(),
        Some("CREDENTIALS_INVALID"),
        "never falls back to nobody"
    );
}

/// Makes every call as an attempt that is under way: about its own execution, and about another one.
async fn by_the_attempt(secrets: &Secrets<'_>, channel: &Channel, own: &str, attempt: &str) {
    let table = table();
    let of_own = contract_calls(own, Some(own)).into_iter();
    let of_own: BTreeMap<String, Call> = of_own
        .map(|call| (call.path.clone(), call.by_permitted()))
        .collect();
    let mut wrong = Vec::new();
    for call in every_call(secrets.things, secrets.execution_id) {
        let mark = mark(&table[&call.path], "attempt");
        let found = asked(channel.clone(), &call, Some(attempt)).await;
        let is_right = match (mark, call.elsewhere) {
            ("-", _) => reason_of(&found).as_deref() == Some("ROLE_MISSING"),
            ("c", Elsewhere::NotHere) => matches!(
                reason_of(&found).as_deref(),
                Some("PARENT_NOT_PERMITTED" | "NAMESPACE_NOT_PERMITTED")
            ),
            _ => is_elsewhere(secrets, &call, &found),
        };
        if !is_right {
            wrong.push(format!("{} by the attempt: {found:?}", call.path));
        }
        if let Some(own) = of_own.get(&call.path).filter(|_| mark != "-") {
            let found = asked(channel.clone(), own, Some(attempt)).await;
            if !is_through(secrets, own, &found) {
                wrong.push(format!("{} by the attempt, of its own: {found:?}", call.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut access = AccessServiceClient::new(channel.clone());
    let told = access.who_am_i(shows(attempt, WhoAmIRequest {})).await.unwrap();
    let told = told.into_inner().principal.unwrap();
    assert!(told.attempt_rights.is_some(), "it is still under way: {told:?}");
}

const NOBODY: Who = Who {
    column: "anonymous",
    namespaces: &[],
    payloads: false,
};
/// The services whose things lie in namespaces.
const NAMESPACED: [&str; 3] = [
    "/escapement.runs.",
    "/escapement.v1.PlanExecutionService/",
    "/escapement.v1.EventService/",
];
const ISSUER: &str = "https://issuer.example";
