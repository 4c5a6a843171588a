//! Requests with every field as large as it may be, and larger: each is durable, or refused with what is wrong; the thread of
//! runs and its store go on. The messages come from their descriptors, so that a new method fails here until it has a request.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

mod calls;
mod fields;
#[path = "../../../../tests/src/raw_codec.rs"]
mod raw_codec;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use escapement_access::{Grant, NamespaceScope, Principal, PrincipalKind, Role, UserScope};
use escapement_wire::DESCRIPTORS;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use serde_json::{Value, json};
use tonic::Code;

use crate::calls::World;
use crate::fields::{Field, fields_of, fitting, grown};
use crate::requests::{REQUESTS, Wanted, request_of};

fn methods() -> Vec<MethodDescriptor> {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let services = pool
        .services()
        .filter(|service| service.package_name() == "escapement.runs.v1");
    let methods: Vec<_> = services
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .collect();
    assert!(methods.len() > 60, "{}", methods.len());
    methods
}

#[test]
fn every_method_has_a_request() {
    for method in methods() {
        let mut of_method = REQUESTS.iter().filter(|wanted| wanted.method == method.name());
        assert!(of_method.next().is_some(), "{} has no request", method.name());
    }
}

// RUN-9.6, RUN-9.13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_field_as_large_as_it_may_be_is_durable_or_refused_with_its_path() {
    let mut n_done = 0;
    for (method, wanted) in pairs() {
        let mut world = World::new().await;
        let request = request_of(&method, wanted, &world);
        let told = world.call(&method, &request).await;
        told.is_an_answer(method.name(), "nothing is large");
        n_done += usize::from(told.code == Code::Ok);
    }
    assert!(n_done > 25, "{n_done} requests are done as they are");
    for (method, wanted) in pairs() {
        largest(&method, wanted).await;
    }
}

/// Returns each method with each of its requests.
fn pairs() -> Vec<(MethodDescriptor, &'static Wanted)> {
    let of = |method: MethodDescriptor| {
        let wanted = REQUESTS.iter().filter(|wanted| wanted.method == method.name());
        wanted.map(|wanted| (method.clone(), wanted)).collect::<Vec<_>>()
    };
    methods().into_iter().flat_map(of).collect()
}

/// Tries the fields of one request, alone and together.
async fn largest(method: &MethodDescriptor, wanted: &Wanted) {
    let mut world = World::new().await;
    let base = request_of(method, wanted, &world);
    let mut together: BTreeMap<String, (Field, usize)> = BTreeMap::new();
    for field in fields_of(&base, wanted.kept) {
        for (n, size) in field.sizes().into_iter().enumerate() {
            let request = grown(&request_of(method, wanted, &world), &field, size);
            let told = world.call(method, &request).await;
            told.is_an_answer(method.name(), &field.path);
            let is_taken = told.code == Code::Ok || told.code != Code::InvalidArgument;
            if is_taken || n + 1 == field.sizes().len() {
                if is_taken {
                    together.insert(field.path.clone(), (field, size));
                }
                break;
            }
        }
    }
    // All of them, and then with fewer and fewer of the largest.
    let mut fields: Vec<_> = together.into_values().collect();
    fields.sort_by_key(|(field, size)| std::cmp::Reverse(field.n_bytes(*size)));
    for n in 0..=fields.len().min(4) {
        let mut request = request_of(method, wanted, &world);
        for (field, size) in &fields[n..] {
            request = fitting(request, field, *size);
        }
        let told = world.call(method, &request).await;
        told.is_an_answer(method.name(), "all fields together");
        if told.code == Code::Ok {
            break;
        }
    }
    world.goes_on_after_a_kill(method.name()).await;
}

// RUN-9.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_name_of_a_certificate_is_refused_as_a_user() {
    let roles = [Role::Submitter, Role::Operator].into_iter().collect();
    let own = Grant {
        user: UserScope::Own,
        ..Grant::new(roles, NamespaceScope::All)
    };
    let name = format!("spiffe://example.org/{}", "n".repeat(2_048 - 21));
    let principal = Arc::new(Principal {
        name: name.into(),
        kind: PrincipalKind::Certificate,
        ..Principal::anonymous(vec![own])
    });
    let mut world = World::new().await;
    world.principal = Some(principal);
    let is_unary = |method: &MethodDescriptor| !method.is_server_streaming() && !method.is_client_streaming();
    for (method, wanted) in pairs().into_iter().filter(|(method, _)| is_unary(method)) {
        let request = request_of(&method, wanted, &world);
        let told = world.call(&method, &request).await;
        told.is_an_answer(method.name(), "the name of the caller is large");
    }
    world.goes_on_after_a_kill("the largest name").await;
}

/// Checks that a run with everything at its limit is refused with its largest parts, and created without
/// them.
// RUN-9.6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_every_text_at_its_limit_is_refused_with_the_largest_parts() {
    let mut world = World::new().await;
    let wide = |n: usize| "\u{10348}".repeat(n);
    let names = |n: usize, chars: usize| -> Vec<String> {
        (0..n).map(|n| format!("{n:03}{}", wide(chars - 3))).collect()
    };
    let labels: serde_json::Map<String, Value> = (0..64)
        .map(|n| (format!("{n:02}{}", wide(253)), json!(wide(1024))))
        .collect();
    let mut request = json!({
        "document": {"schema": "escapement.plan/1", "name": "n", "steps": []},
        "labels": labels,
        "fallback": {"templates": {"texts": vec![wide(5_000); 64]}},
        "constraints": {"allowed_actions": names(256, 100), "forbidden_actions": names(256, 100)},
        "planner": {"catalogue": names(256, 100), "instructions": wide(20_000)},
        "policy": {"approvers": names(64, 255)},
    });
    let method = methods()
        .into_iter()
        .find(|method| method.name() == "CreateRun")
        .unwrap();
    let read = |request: &Value| DynamicMessage::deserialize(method.input(), request.clone()).unwrap();
    let told = world.call(&method, &read(&request)).await;
    assert_eq!(
        (told.code, told.reason.as_str()),
        (Code::InvalidArgument, "REQUEST_TOO_LARGE")
    );
    assert_eq!(told.fields[0], "fallback");
    assert!(told.fields.contains(&"labels".to_owned()), "{told:?}");
    request["fallback"] = Value::Null;
    let told = world.call(&method, &read(&request)).await;
    assert_eq!(told.code, Code::Ok, "{told:?}");
    world.goes_on_after_a_kill("CreateRun").await;
}
