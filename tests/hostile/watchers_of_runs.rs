//! Answers about runs that one tenant leaves unread, of streams and of single calls, while another tenant is served.

use crate::den::{Den, LIMIT, scale};
use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, frame, headers, setting};
use crate::large_runs::creation;
use crate::registrations::token;
use crate::wire::{Flood, Wire};
use escapement_tests::plans::object;
use escapement_tests::raw_session::framed;
use escapement_tests::{PrivateDirectory, wait_for};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::watch_run_response::Told;
use prost::Message as _;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};

/// Questions of one run, each of which shows so many options of so many characters.
const N_QUESTIONS: usize = 20;
const N_OPTIONS: usize = 45;
const OPTION_CHARS: usize = 1_000;
/// Calls of another tenant while one opens its streams.
const CALLS_MIN: usize = 200;
/// Streams of one connection.
const PER_CONNECTION: u32 = 500;

/// Caller with a namespace.
struct Tenant {
    secret: String,
    channel: Channel,
}

impl Tenant {
    fn showing<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let shown = format!("Bearer {}", self.secret).parse().unwrap();
        request.metadata_mut().insert("authorization", shown);
        request
    }

    fn runs(&self) -> RunServiceClient<Channel> {
        RunServiceClient::new(self.channel.clone())
    }

    /// Starts a run that asks all its questions at once.
    async fn asks(&self) -> String {
        let options: Vec<String> = (0..N_OPTIONS)
            .map(|n| format!("{n:02}{}", "x".repeat(OPTION_CHARS - 2)))
            .collect();
        let step = |n| {
            let config = json!({"question": "Which?", "input_type": "choice", "options": options});
            json!({"key": format!("ask{n}"), "type": "user_input", "async": true, "config": config})
        };
        let steps: Vec<Value> = (0..N_QUESTIONS).map(step).collect();
        let document = object(
            json!({"schema": "escapement.plan/1", "name": "many questions", "parallel": true, "steps": steps}),
        );
        let request = creation(document);
        let ask = async || admitted(self.runs().create_run(self.showing(request.clone())).await);
        let made = wait_for("the run", LIMIT, ask).await.unwrap();
        made.run.unwrap().run_id
    }

    /// Returns the bytes of the list of its questions; `None` if it was refused for its size.
    async fn lists(&self) -> Option<usize> {
        let mut inbox = InboxServiceClient::new(self.channel.clone());
        let request = self.showing(v1::ListInputRequestsRequest::default());
        match inbox.list_input_requests(request).await {
            Ok(listed) => Some(listed.get_ref().encoded_len()),
            Err(refused) if refused.code() == Code::ResourceExhausted => None,
            Err(failed) => panic!("{failed:?}"),
        }
    }

    async fn watch(&self, run_id: &str) -> Streaming<v1::WatchRunResponse> {
        let request = v1::WatchRunRequest {
            run_id: run_id.to_owned(),
            from_sequence: 1,
        };
        let watch = async || admitted(self.runs().watch_run(self.showing(request.clone())).await);
        wait_for("the watch", LIMIT, watch).await.unwrap()
    }

    async fn cancel(&self, run_id: &str) {
        let request = v1::CancelRunRequest {
            run_id: run_id.to_owned(),
            ..v1::CancelRunRequest::default()
        };
        let cancel = async || admitted(self.runs().cancel_run(self.showing(request.clone())).await);
        wait_for("the end of the run", LIMIT, cancel).await.unwrap();
    }
}

/// Returns the answer of a call; `None` if it was refused, as calls are while very many streams start.
fn admitted<T>(answer: Result<Response<T>, Status>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer.into_inner()),
        Err(refused) if refused.code() == Code::ResourceExhausted => None,
        Err(failed) => panic!("{failed:?}"),
    }
}

/// Reads until the run has asked so many questions; returns the bytes of the events.
async fn read_questions(stream: &mut Streaming<v1::WatchRunResponse>) -> usize {
    let read = async {
        let (mut n_questions, mut bytes, mut next) = (0, 0, 1);
        while n_questions < N_QUESTIONS {
            let Some(Told::Event(event)) = stream.message().await.unwrap().unwrap().told else {
                continue;
            };
            assert_eq!(event.sequence, next, "nothing is missing");
            next += 1;
            bytes += event.encoded_len();
            n_questions += usize::from(event.event_type == "input_requested");
        }
        bytes
    };
    timeout(LIMIT, read).await.expect("all questions in time")
}

/// Returns calls of streams, each on a stream of its own.
fn deaf_calls(secret: &str, run_id: &str) -> Vec<u8> {
    let questions = [
        (
            "/escapement.runs.v1.RunService/WatchRun",
            v1::WatchRunRequest {
                run_id: run_id.to_owned(),
                from_sequence: 1,
            }
            .encode_to_vec(),
        ),
        ("/escapement.runs.v1.InboxService/WatchInbox", Vec::new()),
        ("/escapement.runs.v1.RunService/WatchNotices", Vec::new()),
        ("/escapement.runs.v1.RunService/ReadEvents", Vec::new()),
    ];
    let shown = format!("Bearer {secret}");
    let call = |n: u32| {
        // Mostly of the kinds with large answers.
        let (path, question) = &questions[[0, 0, 1, 0, 1, 2, 0, 3][n as usize % 8]];
        let (stream, head) = (2 * n + 1, headers(path, &[("authorization", &shown)]));
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &head);
        bytes.extend(frame(DATA, END_STREAM, stream, &framed(question)));
        bytes
    };
    (0..PER_CONNECTION).flat_map(call).collect()
}

/// Starts an orchestrator with two tenants. Returns the directory of their policy, too.
async fn tenants() -> (Den, Tenant, Tenant, PrivateDirectory) {
    let [(deaf, of_deaf), (other, of_other)] = [token(), token()];
    let directory = PrivateDirectory::new("deaf").unwrap();
    let policy = directory.join("policy.toml");
    let entry = |name: &str, sha256: &str| {
        format!(
            "[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\nroles = [\"submitter\"]\nnamespaces = [\"{name}\"]\n\
             [[namespace]]\nname = \"{name}\"\n"
        )
    };
    let text = format!(
        "version = 1\n[anonymous]\nroles = [\"admin\", \"submitter\"]\n{}{}",
        entry("deaf", &of_deaf),
        entry("other", &of_other)
    );
    std::fs::write(&policy, text).unwrap();
    let den = Den::start_with(|settings| settings.flag("--access-policy", policy.display())).await;
    let tenant = async |secret: &str| Tenant {
        secret: secret.to_owned(),
        channel: den.channel().await,
    };
    let (deaf, other) = (tenant(&deaf).await, tenant(&other).await);
    (den, deaf, other, directory)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_unread_streams_has_only_its_share() {
    let (den, deaf, other, _directory) = tenants().await;
    let run_id = deaf.asks().await;
    let bytes = read_questions(&mut deaf.watch(&run_id).await).await;
    assert!(bytes > N_QUESTIONS * N_OPTIONS * OPTION_CHARS);
    let before = den.measure();

    let calls = deaf_calls(&deaf.secret, &run_id);
    let mut wires = Vec::new();
    // More than half of what all may open.
    for n in 0..scale(6, 24) {
        let window = [0, 1][n % 2];
        let mut wire = Wire::with_settings(den.address(), &setting(INITIAL_WINDOW_SIZE, window)).await;
        assert_eq!(wire.flood_deaf(&calls).await, Flood::Sent);
        wires.push(wire);
    }
    // The tenant has its whole share: a further stream of it waits for bytes, or is refused.
    let mut waiting = InboxServiceClient::new(deaf.channel.clone());
    let waiting = waiting.watch_inbox(deaf.showing(v1::WatchInboxRequest::default()));
    let is_full = async || (den.size().peak_mib > before.resident_mib + 32).then_some(());
    wait_for("the deaf to take their share", LIMIT, is_full)
        .await
        .unwrap();

    // Another tenant sees a run from its beginning to its end.
    for _ in 0..5 {
        let run_id = other.asks().await;
        let mut seen = other.watch(&run_id).await;
        assert_eq!(read_questions(&mut seen).await / 1_000, bytes / 1_000);
        other.cancel(&run_id).await;
        let ended = async {
            while let Some(answer) = seen.message().await.unwrap() {
                if let Some(Told::Event(event)) = answer.told
                    && event.event_type == "run_cancelled"
                {
                    return;
                }
            }
            panic!("the end was not told");
        };
        timeout(LIMIT, ended).await.expect("the end in time");
    }
    let after = den.size();
    eprintln!(
        "{} deaf watchers: {} MiB before, {} at most",
        wires.len() * PER_CONNECTION as usize,
        before.resident_mib,
        after.peak_mib
    );
    drop((wires, deaf, other, waiting));
    den.finish("deaf watchers of runs", scale(400, 1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_opens_many_streams_has_no_call_of_another_refused() {
    let (den, deaf, other, _directory) = tenants().await;
    let run_id = deaf.asks().await;
    read_questions(&mut deaf.watch(&run_id).await).await;
    let own = other.asks().await;
    let calls = deaf_calls(&deaf.secret, &run_id);
    let opened = AtomicBool::new(false);
    let open = async {
        let mut wires = Vec::new();
        for _ in 0..scale(6, 24) {
            let mut wire = Wire::with_settings(den.address(), &setting(INITIAL_WINDOW_SIZE, 0)).await;
            assert_eq!(wire.flood_deaf(&calls).await, Flood::Sent);
            wires.push(wire);
        }
        opened.store(true, Ordering::Relaxed);
        wires
    };
    let ask = async {
        let (mut n_calls, mut n_refused) = (0, 0);
        // The last streams begin while these calls are made.
        while !opened.load(Ordering::Relaxed) || n_calls < CALLS_MIN {
            let request = v1::GetRunRequest { run_id: own.clone() };
            n_refused += usize::from(admitted(other.runs().get_run(other.showing(request)).await).is_none());
            let lists = v1::ListRunsRequest::default();
            n_refused += usize::from(admitted(other.runs().list_runs(other.showing(lists)).await).is_none());
            n_calls += 2;
        }
        (n_calls, n_refused)
    };
    let (wires, (n_calls, n_refused)) = tokio::join!(open, ask);
    assert_eq!(n_refused, 0, "of {n_calls} calls of the other tenant");
    drop((wires, deaf, other));
    den.finish("streams that one tenant opens", scale(400, 1_000))
        .await;
}

/// Returns calls for lists, each on a stream of its own.
fn deaf_lists(secret: &str) -> Vec<u8> {
    let shown = format!("Bearer {secret}");
    let call = |n: u32| {
        let (path, stream) = ("/escapement.runs.v1.InboxService/ListInputRequests", 2 * n + 1);
        let head = headers(path, &[("authorization", &shown)]);
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &head);
        bytes.extend(frame(DATA, END_STREAM, stream, &framed(&[])));
        bytes
    };
    (0..PER_CONNECTION).flat_map(call).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_unread_lists_has_only_its_share() {
    let (den, deaf, other, _directory) = tenants().await;
    for tenant in [&deaf, &other] {
        let run_id = tenant.asks().await;
        read_questions(&mut tenant.watch(&run_id).await).await;
    }
    let bytes = deaf.lists().await.unwrap();
    assert!(bytes * PER_CONNECTION as usize > 128 << 20, "{bytes} bytes each");

    let mut wire = Wire::with_settings(den.address(), &setting(INITIAL_WINDOW_SIZE, 0)).await;
    assert_eq!(wire.flood_deaf(&deaf_lists(&deaf.secret)).await, Flood::Sent);
    let is_refused = async || deaf.lists().await.is_none().then_some(());
    wait_for("the deaf to be refused a further answer", LIMIT, is_refused)
        .await
        .unwrap();
    assert!(other.lists().await.is_some(), "the other tenant is answered");

    drop(wire);
    let is_answered = async || deaf.lists().await;
    wait_for("the room to be given back", LIMIT, is_answered)
        .await
        .unwrap();
    drop((deaf, other));
    den.finish("unread answers of runs", scale(400, 1_000)).await;
}
