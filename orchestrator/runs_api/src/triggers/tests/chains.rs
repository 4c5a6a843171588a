//! Four eyes along chains: a starter of a run does not approve the runs that follow from it.

use escapement_transport::response_budget::ResponseBudget;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use escapement_access::{Grant, NamespaceScope, Principal, PrincipalKind, Role, UserScope};
use escapement_triggers::{Secret, sign};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::approval::{Approve, Decision};
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::goal_service_server::GoalService;
use escapement_wire::runs::v1::inbox_service_server::InboxService;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::run_service_server::RunService;
use escapement_wire::runs::v1::session_service_server::SessionService;
use escapement_wire::runs::v1::trigger::Config as Kind;
use escapement_wire::runs::v1::trigger_service_server::TriggerService;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::Request;
use tonic_types::StatusExt;

use super::fired::by;
use super::world::{PATIENCE, World, creation, nothing, object, on_event, question, steps};
use crate::triggers::firing::now_ms;
use crate::{Delivered, Delivery, Goals, Inbox, Sessions};

/// Triggers that hear of events, and runs whose plans wait for an approval under four eyes.
struct Chains {
    world: World,
    serving: JoinHandle<()>,
}

impl Drop for Chains {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Chains {
    fn new() -> Self {
        let world = World::new();
        world.maker.handle().seen().add("mail.send");
        let serving = tokio::spawn(world.triggers.clone().serve());
        Self { world, serving }
    }

    /// Saves a trigger by that caller; returns its id.
    async fn saved(&self, who: &str, config: Kind, run: What) -> String {
        let made = self.world.triggers.create_trigger(by(who, asking(config, run)));
        made.await.unwrap().into_inner().trigger.unwrap().trigger_id
    }

    /// Makes a run by that caller, in the name of that user; returns its id.
    async fn started(&self, who: &str, user_id: &str, run: What) -> String {
        let request = v1::CreateRunRequest {
            what: Some(run),
            user_id: user_id.to_owned(),
            autonomy_level: Some(4),
            ..v1::CreateRunRequest::default()
        };
        let request = match who {
            "" => Request::new(request),
            who => in_any_name(who, request),
        };
        let made = self.world.maker.create_run(request).await;
        made.unwrap().into_inner().run.unwrap().run_id
    }

    /// Delivers something to a webhook; returns its run.
    async fn delivered(&self, trigger_id: &str) -> String {
        let timestamp = (now_ms() / 1_000).to_string();
        let secret = Secret::read(&secret()).unwrap();
        let delivery = Delivery {
            trigger_id: trigger_id.to_owned(),
            id: "1".to_owned(),
            signature: sign(&secret, "1", &timestamp, b"{}"),
            timestamp,
            source: IpAddr::V4(Ipv4Addr::LOCALHOST),
            body: "{}".into(),
        };
        let read = |_: &[u8]| Some(object(&json!({})));
        match self.world.triggers.deliver(delivery, read).await {
            Delivered::Fired { run_id, .. } => run_id,
            other => panic!("{other:?}"),
        }
    }

    /// Creates the session `s` of `ben` as that caller.
    async fn session(&self, who: &str) {
        let request = v1::CreateSessionRequest {
            session_id: "s".to_owned(),
            user_id: "ben".to_owned(),
            state: Some(object(&json!({"armed": false, "on": false}))),
            ..v1::CreateSessionRequest::default()
        };
        let sessions = Sessions::new(self.world.maker.handle().clone());
        sessions.create_session(in_any_name(who, request)).await.unwrap();
    }

    /// Patches the session `s` as that caller, then checks the condition of the trigger.
    async fn patched(&self, who: &str, patch: Value, trigger_id: &str) {
        let request = v1::MergeSessionStateRequest {
            session_id: "s".to_owned(),
            patch: Some(object(&patch)),
            ..v1::MergeSessionStateRequest::default()
        };
        let sessions = Sessions::new(self.world.maker.handle().clone());
        sessions.merge_session_state(by(who, request)).await.unwrap();
        self.world.triggers.handle_due(trigger_id).await.unwrap();
    }

    /// Approves what the run asks, and returns the reason of the refusal if it is refused.
    async fn approved(&self, run_id: &str, who: &str) -> Result<(), String> {
        let inbox = Inbox::new(self.world.maker.handle().clone(), ResponseBudget::default());
        let asked = async {
            loop {
                let list = v1::ListInputRequestsRequest {
                    run_id: run_id.to_owned(),
                    ..v1::ListInputRequestsRequest::default()
                };
                let listed = inbox.list_input_requests(Request::new(list)).await.unwrap();
                if let Some(asked) = listed.into_inner().input_requests.pop() {
                    return asked;
                }
            }
        };
        let asked = timeout(PATIENCE, asked).await.expect("the run asks");
        let answer = v1::RespondToInputRequest {
            input_request_id: asked.input_request_id,
            subject_digest: asked.subject_digest,
            answer: Some(Answer::Approval(v1::Approval {
                decision: Some(Decision::Approve(Approve {})),
            })),
            ..v1::RespondToInputRequest::default()
        };
        let answered = inbox.respond_to_input(by(who, answer)).await;
        match answered {
            Ok(_) => Ok(()),
            Err(status) => Err(status.get_details_error_info().unwrap().reason),
        }
    }

    /// Checks that these callers do not approve the run, and that `dan` does.
    async fn only_dan_approves(&self, run_id: &str, refused: &[&str]) {
        for who in refused {
            let answered = self.approved(run_id, who).await;
            assert_eq!(answered, Err("SELF_APPROVAL".to_owned()), "{who}");
        }
        assert_eq!(self.approved(run_id, "dan").await, Ok(()));
    }
}

/// Creates a request of a caller that acts for every user.
fn in_any_name<T>(who: &str, message: T) -> Request<T> {
    let mut grant = Grant::new([Role::Submitter].into_iter().collect(), NamespaceScope::All);
    grant.user = UserScope::Any;
    let mut principal = Principal::anonymous(vec![grant]);
    (principal.name, principal.kind) = (who.into(), PrincipalKind::Token);
    let mut request = Request::new(message);
    request.extensions_mut().insert(Arc::new(principal));
    request
}

/// Creates the request for a trigger whose runs wait for an approval of their plan.
fn asking(config: Kind, run: What) -> v1::CreateTriggerRequest {
    let mut request = creation(config, run, "allow");
    let run = request.trigger.as_mut().unwrap().run.as_mut().unwrap();
    run.autonomy_level = Some(1);
    run.policy = Some(v1::Policy {
        four_eyes: Some(true),
        ..v1::Policy::default()
    });
    request
}

/// Creates a run that needs an approval.
fn mail() -> What {
    steps(&json!([{"key": "send", "type": "tool_call", "config": {"tool_name": "mail.send"}}]))
}

/// Creates a condition that is true while both `armed` and `on` are set in the session `s`.
fn on_session() -> Kind {
    Kind::Condition(v1::Condition {
        expression: "input.session.armed && input.session.on".to_owned(),
        session_id: "s".to_owned(),
        cooldown_ms: Some(0),
        ..v1::Condition::default()
    })
}

fn secret() -> String {
    Secret::new(&[7; 32]).unwrap().text()
}

fn on_delivery() -> Kind {
    Kind::Webhook(v1::Webhook {
        secret: secret(),
        ..v1::Webhook::default()
    })
}

/// Creates the filter for events of runs of that trigger, or of none.
fn on_run(kind: &str, trigger_id: &str) -> Kind {
    Kind::Event(v1::EventFilter {
        r#type: kind.to_owned(),
        equals: Some(object(&json!({"trigger_id": trigger_id}))),
        ..v1::EventFilter::default()
    })
}

// RUN-6.8
#[tokio::test]
async fn the_last_saver_of_a_webhook_does_not_approve_its_run() {
    let chains = Chains::new();
    let trigger = chains.saved("ann", on_delivery(), mail()).await;
    let update = v1::UpdateTriggerRequest {
        trigger: asking(on_delivery(), mail()).trigger.map(|saved| v1::Trigger {
            trigger_id: trigger.clone(),
            user_id: "ann".to_owned(),
            ..saved
        }),
        ..v1::UpdateTriggerRequest::default()
    };
    chains
        .world
        .triggers
        .update_trigger(by("ben", update))
        .await
        .unwrap();
    let run_id = chains.delivered(&trigger).await;
    chains.only_dan_approves(&run_id, &["ann", "ben"]).await;
}

// RUN-6.8
#[tokio::test]
async fn the_starter_of_a_run_does_not_approve_what_follows_from_it() {
    for (kind, run) in [("run_completed", nothing()), ("input_requested", question())] {
        let chains = Chains::new();
        let second = chains.saved("ben", on_run(kind, ""), mail()).await;
        chains.started("ann", "", run).await;
        let firing = chains.world.fires(&second).await;
        assert_eq!(firing.fired_by, "ann");
        chains.only_dan_approves(&firing.run_id, &["ann", "ben"]).await;
    }
}

// RUN-6.8
#[tokio::test]
async fn the_user_of_a_run_does_not_approve_what_follows_from_it() {
    for who in ["eve", ""] {
        let chains = Chains::new();
        let second = chains.saved("ben", on_run("run_completed", ""), mail()).await;
        chains.started(who, "ann", nothing()).await;
        let firing = chains.world.fires(&second).await;
        assert_eq!(firing.fired_by, if who.is_empty() { "ann" } else { who });
        let started = ["ann", "ben", who];
        let started: Vec<&str> = started.into_iter().filter(|who| !who.is_empty()).collect();
        chains.only_dan_approves(&firing.run_id, &started).await;
    }
}

// RUN-6.8
#[tokio::test]
async fn a_chain_of_triggers_keeps_all_its_starters_from_approving() {
    let chains = Chains::new();
    let first = chains.saved("ann", on_event("e"), nothing()).await;
    let second = on_run("run_completed", &first);
    let second = chains.saved("ben", second, nothing()).await;
    let third = on_run("run_completed", &second);
    let third = chains.saved("cyd", third, mail()).await;
    let event = v1::PublishEventRequest {
        r#type: "e".to_owned(),
        ..v1::PublishEventRequest::default()
    };
    chains
        .world
        .triggers
        .publish_event(by("eve", event))
        .await
        .unwrap();
    let firing = chains.world.fires(&third).await;
    assert_eq!(firing.fired_by, "eve");
    let chain = ["eve", "ann", "ben", "cyd"];
    chains.only_dan_approves(&firing.run_id, &chain).await;
}

// RUN-6.8
#[tokio::test]
async fn the_saver_of_a_webhook_does_not_approve_what_follows_from_its_run() {
    let chains = Chains::new();
    let first = chains.saved("ann", on_delivery(), nothing()).await;
    let second = on_run("run_completed", &first);
    let second = chains.saved("ben", second, mail()).await;
    chains.delivered(&first).await;
    let firing = chains.world.fires(&second).await;
    chains.only_dan_approves(&firing.run_id, &["ann", "ben"]).await;
}

// RUN-6.8
#[tokio::test]
async fn the_completer_of_a_goal_does_not_approve_what_follows_from_it() {
    let chains = Chains::new();
    let trigger = chains.saved("ben", on_event("goal_completed"), mail()).await;
    let goals = Goals::new(chains.world.maker.handle().clone());
    let request = v1::CreateGoalRequest {
        goal: Some(v1::Goal {
            title: "A goal".to_owned(),
            ..v1::Goal::default()
        }),
        ..v1::CreateGoalRequest::default()
    };
    let made = goals.create_goal(by("cyd", request)).await.unwrap();
    let request = v1::UpdateGoalRequest {
        goal_id: made.into_inner().goal.unwrap().goal_id,
        state: v1::goal::State::Completed.into(),
        ..v1::UpdateGoalRequest::default()
    };
    goals.update_goal(by("ann", request)).await.unwrap();
    let firing = chains.world.fires(&trigger).await;
    assert_eq!(firing.fired_by, "ann");
    chains.only_dan_approves(&firing.run_id, &["ann", "ben"]).await;
}

// RUN-6.8
#[tokio::test]
async fn a_changer_of_a_session_does_not_approve_what_its_change_starts() {
    let chains = Chains::new();
    chains.session("fay").await;
    let trigger = chains.saved("ben", on_session(), mail()).await;
    chains.patched("ann", json!({"armed": true}), &trigger).await;
    chains.patched("cyd", json!({"on": true}), &trigger).await;
    let firing = chains.world.fires(&trigger).await;
    assert_eq!(firing.fired_by, "cyd");
    let changers = ["ann", "ben", "cyd", "fay"];
    chains.only_dan_approves(&firing.run_id, &changers).await;
}

// RUN-6.8
#[tokio::test]
async fn changes_of_a_session_before_its_condition_was_false_again_do_not_count() {
    let chains = Chains::new();
    chains.session("fay").await;
    let trigger = chains.saved("ben", on_session(), mail()).await;
    let on = json!({"armed": true, "on": true});
    chains.patched("dan", on, &trigger).await;
    chains.patched("dan", json!({"on": false}), &trigger).await;
    chains.patched("ann", json!({"on": true}), &trigger).await;
    let firings = chains.world.firings(&trigger).await;
    let fired: Vec<&str> = firings.iter().map(|firing| &*firing.fired_by).collect();
    assert_eq!(fired, ["ann", "dan"]);
    let latest = &firings[0].run_id;
    chains.only_dan_approves(latest, &["ann", "ben"]).await;
}
