//! What operators say of actions.

use escapement_run::plan;
use escapement_run::spec::{EffectClass, Risk};
use escapement_runs_shell::catalogue::profiles_of;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::action_service_server::ActionService;
use serde_json::json;
use tonic::{Code, Request, Status};

use crate::world::{World, object, told};

fn profile(action: &str) -> v1::ActionProfile {
    v1::ActionProfile {
        action: action.to_owned(),
        effect: v1::action_profile::Effect::External.into(),
        risk: v1::action_profile::Risk::Safe.into(),
        idempotent: true,
        attempt_ms: 77,
        updated_at: 0,
        skill: "mail".to_owned(),
        ..v1::ActionProfile::default()
    }
}

async fn put(world: &World, profile: v1::ActionProfile) -> Result<v1::ActionProfile, Status> {
    let request = v1::PutActionProfileRequest {
        profile: Some(profile),
    };
    let answer = world.actions.put_action_profile(Request::new(request)).await?;
    Ok(answer.into_inner().profile.unwrap())
}

async fn page(world: &World, page_size: i32, page_token: &str) -> v1::ListActionProfilesResponse {
    let request = v1::ListActionProfilesRequest {
        page_size: Some(page_size),
        page_token: page_token.to_owned(),
    };
    let answer = world.actions.list_action_profiles(Request::new(request)).await;
    answer.unwrap().into_inner()
}

async fn delete(world: &World, action: &str) -> Result<(), Status> {
    let request = v1::DeleteActionProfileRequest {
        action: action.to_owned(),
    };
    world
        .actions
        .delete_action_profile(Request::new(request))
        .await
        .map(|_| ())
}

#[tokio::test]
async fn a_profile_is_put_listed_by_name_and_deleted() {
    let world = World::new();
    for action in ["c", "a", "b", "d"] {
        put(&world, profile(action)).await.unwrap();
    }
    let changed = v1::ActionProfile {
        risk: v1::action_profile::Risk::Destructive.into(),
        not_for_planners: true,
        ..profile("b")
    };
    let changed = put(&world, changed).await.unwrap();
    let world = world.killed();
    for page_size in [1, 2, 3, 4, 9] {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let answer = page(&world, page_size, &token).await;
            found.extend(answer.profiles);
            token = answer.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        let names: Vec<&str> = found.iter().map(|profile| profile.action.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"], "{page_size}");
        assert!(found[1] == changed && changed.not_for_planners);
        let expected = v1::ActionProfile {
            updated_at: found[0].updated_at,
            ..profile("a")
        };
        assert!(found[0] == expected && expected.updated_at > 0);
    }
    delete(&world, "a").await.unwrap();
    let refused = delete(&world, "a").await.unwrap_err();
    assert_eq!(
        (told(&refused).0, told(&refused).1.as_str()),
        (Code::NotFound, "PROFILE_NOT_FOUND")
    );
    assert_eq!(page(&world, 9, "").await.profiles.len(), 3);
}

#[tokio::test]
async fn a_run_gets_the_profiles_of_every_action_of_its_plan() {
    let world = World::new();
    put(&world, profile("said")).await.unwrap();
    let document = object(&json!({
        "schema": "escapement.plan/1", "name": "p", "steps": [
            {"key": "a", "type": "parallel", "config": {"steps": [{"tool_name": "said"}, {"tool_name": "unsaid"}]}}
        ]
    }));
    let plan = plan::read(&document).unwrap();
    let seen = world.runs.seen().clone();
    seen.add("unsaid");
    let read = world
        .runs
        .readers()
        .read(move |reader| profiles_of(reader, &plan, &["llm.chat".to_owned()], &seen));
    let profiles = read.await.unwrap();
    let names: Vec<&str> = profiles.iter().map(|profile| profile.action.as_str()).collect();
    assert_eq!(names, ["llm.chat", "said", "unsaid"]);
    let [llm, said, unsaid] = &profiles[..] else {
        panic!("{profiles:?}");
    };
    assert_eq!(
        (
            said.effect(),
            said.risk(),
            said.idempotent,
            said.attempt_ms,
            said.seen
        ),
        (EffectClass::External, Risk::Safe, true, 77, false)
    );
    for unknown in [llm, unsaid] {
        assert_eq!(
            (unknown.effect(), unknown.risk(), unknown.idempotent),
            (EffectClass::SideEffect, Risk::Unusual, false)
        );
    }
    assert!(unsaid.seen && !llm.seen);
}

// RUN-12.13
#[tokio::test]
async fn the_schema_of_outputs_that_an_operator_gives_is_kept_and_told_to_runs() {
    let world = World::new();
    let schema = json!({"type": "object", "required": ["n"]}).to_string();
    let with = |output_schema: &str| v1::ActionProfile {
        output_schema: output_schema.to_owned(),
        ..profile("said")
    };
    assert_eq!(put(&world, with(&schema)).await.unwrap().output_schema, schema);
    let world = world.killed();
    assert_eq!(page(&world, 9, "").await.profiles[0].output_schema, schema);
    let steps = json!([{"key": "a", "type": "tool_call", "config": {"tool_name": "said"}}]);
    let document = object(&json!({"schema": "escapement.plan/1", "name": "p", "steps": steps}));
    let plan = plan::read(&document).unwrap();
    let seen = world.runs.seen().clone();
    let readers = world.runs.readers();
    let read = readers.read(move |reader| profiles_of(reader, &plan, &[], &seen));
    assert_eq!(read.await.unwrap()[0].output_schema, schema);

    let long = format!("{{\"type\": \"{}\"}}", "x".repeat(16 << 10));
    for wrong in ["{", "[]", "1", long.as_str()] {
        let refused = put(&world, with(wrong)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{wrong:.9}");
        assert!(refused.message().contains("profile.output_schema"), "{refused:?}");
    }
}
