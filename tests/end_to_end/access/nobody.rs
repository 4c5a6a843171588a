//! Calls without credentials to every method that the server serves: refused for their headers, before their messages are read.

use super::credentials::world_with;
use super::matrix::{mark, table};
use crate::never::served_calls;
use crate::world::LIMIT;
use bytes::Bytes;
use escapement_tests::raw_session::RawSession;
use std::net::SocketAddr;
use tokio::time::timeout;
use tonic::{Code, Status};
use tonic_types::StatusExt;

#[tokio::test]
async fn a_call_without_credentials_is_refused_before_its_message_comes() {
    let (world, _file) = world_with(&[]).await;
    let table = table();
    let served = served_calls(&world).await;
    let unknown: Vec<&String> = served.iter().filter(|path| !table.contains_key(*path)).collect();
    assert!(unknown.is_empty(), "served, and not on the page: {unknown:?}");
    let others: Vec<&String> = table.keys().filter(|path| !served.contains(*path)).collect();
    assert_eq!(
        others,
        [NOT_SERVED, REFLECTION_ALPHA],
        "on the page, and not served"
    );

    // Each version of reflection describes itself alone.
    let all = served.iter().map(String::as_str).chain([REFLECTION_ALPHA]);
    let (open, closed): (Vec<&str>, Vec<&str>) =
        all.partition(|path| mark(&table[*path], "anonymous") == "●");
    assert!(
        open.len() >= 5 && closed.len() > 80,
        "{} and {}",
        open.len(),
        closed.len()
    );
    let address = world.orchestrator.address();
    for path in closed {
        let mut call = announced(address, path).await;
        let refused = ended(&mut call, path).await;
        assert_eq!(refused.code(), Code::Unauthenticated, "{path}: {refused:?}");
        let reason = refused
            .get_error_details()
            .error_info()
            .map(|info| info.reason.clone());
        assert_eq!(reason.as_deref(), Some("CREDENTIALS_MISSING"), "{path}");
        is_listened_to_no_longer(&mut call, path).await;
    }
    // A message of a call that is open to all is small, so the announcement alone ends the call; reflection ends it without an error.
    for path in open {
        let mut call = announced(address, path).await;
        call.send_bytes(head_of_message()).await.unwrap();
        let refused = ended(&mut call, path).await;
        let is_reflection = path.ends_with("/ServerReflectionInfo");
        let code = if is_reflection {
            Code::Ok
        } else {
            Code::ResourceExhausted
        };
        assert_eq!(refused.code(), code, "{path}: {refused:?}");
        is_listened_to_no_longer(&mut call, path).await;
    }
}

/// Opens a call that has announced a large message in its headers, and has sent nothing else.
async fn announced(address: SocketAddr, path: &str) -> RawSession {
    let length = ANNOUNCED_BYTES.to_string();
    let opened = RawSession::open_with(address, path, &[("content-length", &length)]).await;
    opened.unwrap()
}

async fn ended(call: &mut RawSession, path: &str) -> Status {
    let ended = timeout(LIMIT, call.detailed_status()).await;
    ended
        .unwrap_or_else(|_| panic!("{path}: no answer before the message"))
        .unwrap()
}

/// Sends half of the message, which is more than is discarded and more than a window holds. Then the stream is reset.
async fn is_listened_to_no_longer(call: &mut RawSession, path: &str) {
    let rest = Bytes::from(vec![0; ANNOUNCED_BYTES / 2]);
    let sent = timeout(LIMIT, call.send_bytes(rest)).await;
    let sent = sent.unwrap_or_else(|_| panic!("{path}: neither taken nor reset"));
    assert!(sent.is_err(), "{path}: the message was read after the refusal");
}

/// Returns the head of the message that the headers announced.
fn head_of_message() -> Bytes {
    let length = u32::try_from(ANNOUNCED_BYTES - 5).expect("it is below 4 GiB");
    [&[0][..], &length.to_be_bytes()].concat().into()
}

/// Bytes of a message that is announced: as large as a plan may be.
const ANNOUNCED_BYTES: usize = 4 << 20;
/// A call that newer versions of the health service have.
const NOT_SERVED: &str = "/grpc.health.v1.Health/List";
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
