//! Lists of the runs layer whose entries are as large as their makers like: no page is larger than a page may be.

use crate::den::{self, Den};
use crate::large_runs::{approval, document, plan, profile, profile_of_approvals, trigger, yearly};
use escapement_tests::wait_for;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::action_service_client::ActionServiceClient;
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::plan_service_client::PlanServiceClient;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::trigger_service_client::TriggerServiceClient;
use prost::Message;
use serde_json::json;
use tonic::{Response, Status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_list_is_bounded_in_bytes_and_nothing_is_left_out() {
    let den = Den::start().await;
    let channel = den.channel().await;
    let mut triggers = TriggerServiceClient::new(channel.clone()).max_decoding_message_size(LIMIT);
    let mut plans = PlanServiceClient::new(channel.clone()).max_decoding_message_size(LIMIT);
    let mut actions = ActionServiceClient::new(channel.clone()).max_decoding_message_size(LIMIT);
    let mut runs = RunServiceClient::new(channel.clone()).max_decoding_message_size(LIMIT);
    let mut inbox = InboxServiceClient::new(channel).max_decoding_message_size(LIMIT);

    let mut made = Vec::new();
    for n in 0..12 {
        let trigger = Some(trigger(n, yearly()));
        let request = v1::CreateTriggerRequest {
            trigger,
            ..v1::CreateTriggerRequest::default()
        };
        let answer = triggers.create_trigger(request).await.unwrap().into_inner();
        made.push(answer.trigger.unwrap().trigger_id);
    }
    made.reverse();
    let list = async |page_token| {
        let request = v1::ListTriggersRequest {
            page_size: Some(200),
            page_token,
            ..v1::ListTriggersRequest::default()
        };
        let page = sized(triggers.list_triggers(request).await);
        page.map(|page| {
            (
                page.triggers.into_iter().map(|one| one.trigger_id),
                page.next_page_token,
            )
        })
    };
    assert_eq!(all("ListTriggers", list).await, made);

    made.clear();
    for n in 0..80 {
        let request = v1::CreatePlanRequest {
            plan: Some(plan(n)),
            document: Some(document(&json!([]))),
            ..v1::CreatePlanRequest::default()
        };
        let answer = plans.create_plan(request).await.unwrap().into_inner();
        made.push(answer.plan.unwrap().plan_id);
    }
    made.reverse();
    let list = async |page_token| {
        let request = v1::ListPlansRequest {
            page_size: Some(200),
            page_token,
            ..v1::ListPlansRequest::default()
        };
        let page = sized(plans.list_plans(request).await);
        page.map(|page| {
            (
                page.plans.into_iter().map(|one| one.plan_id),
                page.next_page_token,
            )
        })
    };
    assert_eq!(all("ListPlans", list).await, made);

    made.clear();
    for n in 0..250 {
        let profile = Some(profile(n));
        let answer = actions.put_action_profile(v1::PutActionProfileRequest { profile });
        made.push(answer.await.unwrap().into_inner().profile.unwrap().action);
    }
    let list = async |page_token| {
        let request = v1::ListActionProfilesRequest {
            page_size: Some(1_000),
            page_token,
        };
        let page = sized(actions.list_action_profiles(request).await);
        page.map(|page| {
            (
                page.profiles.into_iter().map(|one| one.action),
                page.next_page_token,
            )
        })
    };
    assert_eq!(all("ListActionProfiles", list).await, made);

    made.clear();
    let profile = Some(profile_of_approvals());
    let request = v1::PutActionProfileRequest { profile };
    actions.put_action_profile(request).await.unwrap();
    for n in 0..150 {
        let answer = runs.create_run(approval(n)).await.unwrap().into_inner();
        made.push(answer.run.unwrap().run_id);
    }
    for run_id in &made {
        let asks = async || {
            let request = v1::GetRunRequest {
                run_id: run_id.clone(),
            };
            let run = runs
                .clone()
                .get_run(request)
                .await
                .unwrap()
                .into_inner()
                .run
                .unwrap();
            (run.state() == State::Waiting).then_some(())
        };
        wait_for("the run to ask", den::LIMIT, asks).await.unwrap();
    }
    let list = async |page_token| {
        let request = v1::ListInputRequestsRequest {
            page_size: Some(200),
            page_token,
            ..v1::ListInputRequestsRequest::default()
        };
        let page = sized(inbox.list_input_requests(request).await);
        page.map(|page| {
            (
                page.input_requests.into_iter().map(|one| one.run_id),
                page.next_page_token,
            )
        })
    };
    assert_eq!(all("ListInputRequests", list).await, made);
    made.reverse();
    let list = async |page_token| {
        let request = v1::ListRunsRequest {
            page_size: Some(200),
            page_token,
            ..v1::ListRunsRequest::default()
        };
        let page = sized(runs.list_runs(request).await);
        page.map(|page| (page.runs.into_iter().map(|one| one.run_id), page.next_page_token))
    };
    assert_eq!(all("ListRuns", list).await, made);
    den.finish("lists of large entries", 512).await;
}

/// An answer with its size.
struct Sized<T> {
    bytes: usize,
    answer: T,
}

impl<T> Sized<T> {
    fn map<U>(self, of: impl FnOnce(T) -> U) -> Sized<U> {
        Sized {
            bytes: self.bytes,
            answer: of(self.answer),
        }
    }
}

fn sized<T: Message>(answer: Result<Response<T>, Status>) -> Sized<T> {
    let answer = answer.unwrap().into_inner();
    Sized {
        bytes: answer.encoded_len(),
        answer,
    }
}

/// What all pages name, each of which has no more than it may have. There is more than one.
async fn all<Names: Iterator<Item = String>>(
    what: &str,
    mut page: impl AsyncFnMut(String) -> Sized<(Names, String)>,
) -> Vec<String> {
    let (mut all, mut token, mut n_pages) = (Vec::new(), String::new(), 0);
    loop {
        let Sized {
            bytes,
            answer: (names, next),
        } = page(token).await;
        assert!(bytes <= PAGE_BYTES_MAX, "{what}: a page of {bytes} bytes");
        let before = all.len();
        all.extend(names);
        assert!(all.len() > before, "{what}: an empty page");
        n_pages += 1;
        if next.is_empty() {
            assert!(
                n_pages > 1,
                "{what}: nothing was cut of {} entries of {bytes} bytes",
                all.len()
            );
            return all;
        }
        token = next;
    }
}

/// The bound, and what a list has beside what counts.
const PAGE_BYTES_MAX: usize = (4 << 20) + (256 << 10);
/// More than any page ever had.
const LIMIT: usize = 256 << 20;
