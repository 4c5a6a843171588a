#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::grpc::testing::Stage;
use escapement_access::{Access as AccessRules, Credentials, Principal};
use escapement_runs_shell::{Ending, Setup};
use escapement_store::Removal;
use escapement_store_kit::runs::MemoryRunsDisk;
use escapement_transport::call_class::class_of;
use hyper::body::{Body as HttpBody, Frame};
use prost::Message;
use prost_types::{FileDescriptorSet, MethodDescriptorProto};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Returns every call by its path.
fn calls() -> Vec<(String, MethodDescriptorProto)> {
    let sets = [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut calls = Vec::new();
    for set in sets {
        for file in FileDescriptorSet::decode(set).unwrap().file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    calls.push((path, method.clone()));
                }
            }
        }
    }
    calls
}

#[test]
fn exactly_the_calls_that_stream_requests_without_end_may_take_as_long_as_they_like() {
    let mut n_calls = [0, 0];
    for (path, method) in calls() {
        let is_unlimited = class_of(&path).row().budget.is_none();
        // An upload comes in pieces, and to an end.
        let is_endless = method.client_streaming() && method.name() != "Upload";
        assert_eq!(is_unlimited, is_endless, "{path}");
        n_calls[usize::from(is_endless)] += 1;
    }
    assert!(n_calls[0] > 10 && n_calls[1] == 3, "{n_calls:?}");
}

/// The body of a request, which is empty and records whether it was read.
struct Watched(Arc<AtomicBool>);

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.store(true, Ordering::Relaxed);
        Poll::Ready(None)
    }
}

/// Makes a call. Returns its answer, if it is a refusal, and whether its body was read.
async fn call(routes: &Routes, path: &str, principal: Option<&Arc<Principal>>) -> (Option<Status>, bool) {
    let is_read = Arc::new(AtomicBool::new(false));
    let mut request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .body(Body::new(Watched(Arc::clone(&is_read))))
        .unwrap();
    if let Some(principal) = principal {
        request.extensions_mut().insert(Arc::clone(principal));
    }
    let answer = routes.clone().call(request).await.unwrap();
    (
        Status::from_header_map(answer.headers()),
        is_read.load(Ordering::Relaxed),
    )
}

/// Services treat such a call as one of the process itself, which may do everything.
#[tokio::test]
async fn a_call_without_a_principal_is_refused_before_its_body_is_read() {
    let stage = Stage::start(Removal::default());
    let (outgoing, _outgoing) = tokio::sync::mpsc::unbounded_channel();
    let config = escapement_runs::Config {
        max_live_runs: 1,
        max_runs: 1,
    };
    let never = Box::new(|why: Ending<'_>| panic!("the thread of runs has ended: {why:?}"));
    let setup = Setup::new(MemoryRunsDisk::new().open(), config.clone(), outgoing, never);
    let (handle, thread) = escapement_runs_shell::start(setup).unwrap();
    let runs = escapement_runs_api::Runs::new(handle.clone(), config, stage.edge.answers.clone());
    let setup = RunsSetup {
        handle: handle.clone(),
        triggers: Triggers::new(runs.clone()),
        runs,
    };
    let (routes, _health) = build(&stage.edge, Some(setup)).await;
    let anyone = AccessRules::without_policy();
    let anyone = anyone.authenticate(Credentials::default(), 0).unwrap();
    let calls = calls();
    assert!(calls.len() > 80, "{}", calls.len());
    for (path, _) in calls {
        let (refused, is_read) = call(&routes, &path, None).await;
        let refused = refused.unwrap_or_else(|| panic!("{path} is served"));
        assert_eq!(refused.code(), Code::Unauthenticated, "{path}");
        let details = refused.get_error_details();
        assert_eq!(
            details.error_info().unwrap().reason,
            "CREDENTIALS_MISSING",
            "{path}"
        );
        assert!(!is_read, "{path}: its body was read");
        // With a principal the same call is served, so that the path is one.
        let (answered, _) = call(&routes, &path, Some(&anyone)).await;
        let is_served = answered.is_none_or(|status| status.code() != Code::Unimplemented);
        assert!(is_served, "{path} is served by nobody");
    }
    handle.stop();
    assert!(thread.join().is_ok());
}
