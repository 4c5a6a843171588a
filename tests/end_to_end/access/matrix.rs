//! Every call, by everybody: the page `deploy/AUTHORIZATION.md` says what is let in.

use super::credentials::{Token, policy, world_with};
use crate::tls::SecureWorld;
use bytes::{Buf, BufMut};
use escapement_tests::{PrivateDirectory, checkout};
use std::collections::BTreeMap;
use std::time::Duration;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Who calls: a role, and whether its namespace is the one in which everything lies here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Who {
    role: &'static str,
    namespace: &'static str,
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

/// What the page has for a caller.
fn mark<'a>(marks: &'a [String], role: &str) -> &'a str {
    let columns = [
        "anonymous",
        "viewer",
        "submitter",
        "worker",
        "attempt",
        "operator",
        "admin",
    ];
    let column = columns.iter().position(|&column| column == role).unwrap();
    &marks[column]
}

/// Whether the call is let in, as far as the call alone says.
fn is_let_in(mark: &str) -> bool {
    match mark {
        "-" => false,
        // The operator of this policy sees no payloads.
        "p" => false,
        _ => true,
    }
}

/// The reason for which access was refused; `None` if the call came through, whatever became of it.
async fn refusal(channel: Channel, path: &str, token: Option<&Token>) -> Option<String> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let mut request = tonic::Request::new(tokio_stream::once(()));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token.header());
    }
    let path: PathAndQuery = path.parse().unwrap();
    let call = async {
        let mut answer = grpc.streaming(request, path, Empty).await?.into_inner();
        answer.message().await.map(drop)
    };
    // A stream that was let in may stay silent.
    let answer = tokio::time::timeout(SILENCE, call).await.unwrap_or(Ok(()));
    let status = answer.err()?;
    let is_of_access = matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied);
    is_of_access.then(|| status.get_error_details().error_info().unwrap().reason.clone())
}

#[tokio::test]
async fn every_call_is_let_in_or_refused_as_the_page_says() {
    let holders = holders();
    let (world, _file) = world_with(&entries(&holders)).await;
    every_cell(&holders, &world.orchestrator.channel()).await;
}

#[tokio::test]
async fn the_same_over_tls() {
    let holders = holders();
    let directory = PrivateDirectory::new("policy").unwrap();
    let file = directory.join("policy.toml");
    std::fs::write(&file, policy(&entries(&holders))).unwrap();
    let secure = SecureWorld::start_with(|settings| settings.flag("--access-policy", file.display())).await;
    every_cell(&holders, &secure.connect(None).await.unwrap()).await;
}

/// Everybody with a token: each role, at home and elsewhere.
fn holders() -> Vec<(Who, Token)> {
    let roles = ["viewer", "submitter", "worker", "operator", "admin"];
    let who = roles.map(|role| ["default", "other"].map(|namespace| Who { role, namespace }));
    who.into_iter()
        .flatten()
        .map(|who| (who, Token::new(who.role)))
        .collect()
}

/// Their entries in a policy.
fn entries(holders: &[(Who, Token)]) -> Vec<String> {
    holders
        .iter()
        .map(|(Who { role, namespace }, token)| {
            let more = format!("roles = [\"{role}\"]\nnamespaces = [\"{namespace}\"]");
            token.entry(&format!("{role} of {namespace}"), &more)
        })
        .collect()
}

/// Makes every call as everybody, and holds the answers against the page.
async fn every_cell(holders: &[(Who, Token)], channel: &Channel) {
    let stranger = Token::new("stranger");
    let mut n_cells = 0;
    let mut wrong = Vec::new();
    let mut look = |path: &str, who: &str, found: Option<String>, expected: Option<&str>| {
        n_cells += 1;
        if found.as_deref() != expected {
            wrong.push(format!("{path} by {who}: {found:?} instead of {expected:?}"));
        }
    };
    for (path, marks) in table() {
        for (who, token) in holders {
            let found = refusal(channel.clone(), &path, Some(token)).await;
            let is_let_in = is_let_in(mark(&marks, who.role));
            // What a submitter of another namespace hands in is judged by its namespace, once it is read.
            let hands_in = path.ends_with("Plan") && path.starts_with("/escapement.v1.")
                || path.ends_with("/ListExecutions")
                || path.ends_with("/SubscribeEvents");
            let is_elsewhere = who.namespace == "other" && matches!(who.role, "viewer" | "submitter");
            let expected = match is_let_in {
                true if hands_in && is_elsewhere => {
                    Some("NAMESPACE_NOT_PERMITTED").filter(|_| found.is_some())
                }
                true => None,
                false => Some("ROLE_MISSING"),
            };
            look(&path, &format!("{who:?}"), found, expected);
        }
        let found = refusal(channel.clone(), &path, None).await;
        let expected = (mark(&marks, "anonymous") == "-").then_some("CREDENTIALS_MISSING");
        look(&path, "nobody", found, expected);
    }
    assert!(
        wrong.is_empty(),
        "{} of {n_cells} cells:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(n_cells, table().len() * 11);
    let path = "/grpc.health.v1.Health/Check";
    let found = refusal(channel.clone(), path, Some(&stranger)).await;
    assert_eq!(
        found.as_deref(),
        Some("CREDENTIALS_INVALID"),
        "never falls back to nobody"
    );
}

/// In which a refusal comes; a call that was let in is not waited for.
const SILENCE: Duration = Duration::from_millis(300);
