//! Workers that mean harm: they register in volume, lie in their first message, flood with every kind of message.
//! What they cost is processor time of the engine's thread and memory, and a worker that means no harm goes on.

use crate::den::{Den, LIMIT, scale, submission};
use crate::messages::{DEAR, Dear, greeting, token};
use crate::shares::Shares;
use escapement_tests::raw_session::RawSession;
use escapement_tests::{ScriptedWorker, let_pass};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::{AttemptOutcome, Failure, Heartbeat, Hello, Outcomes};
use rustix::process::setpriority_process;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tonic::transport::Endpoint;

/// How a flood ended.
#[derive(Debug, Default)]
struct Flooded {
    n_sent: u64,
    n_acknowledged: u64,
    /// What the session was ended with, unless that was lost with the connection.
    code: Option<Code>,
    is_over: bool,
}

/// Sends up to `n_max` messages as fast as the orchestrator takes them and reads its answers, until the session is over or
/// the time is `end`.
async fn flood(
    session: &mut RawSession,
    message: impl Fn(u64) -> Message,
    n_max: u64,
    end: Instant,
) -> Flooded {
    let mut flooded = Flooded::default();
    while flooded.n_sent < n_max && Instant::now() < end && !flooded.is_over {
        let sent = timeout(LIMIT, session.send(message(flooded.n_sent + 1))).await;
        flooded.is_over = sent.expect("what a worker sends is taken or refused").is_err();
        flooded.n_sent += u64::from(!flooded.is_over);
        read(session, &mut flooded, Duration::ZERO).await;
    }
    read(session, &mut flooded, SILENCE).await;
    flooded
}

/// Reads what is there, until nothing comes for so long.
async fn read(session: &mut RawSession, flooded: &mut Flooded, silence: Duration) {
    while let Ok(next) = timeout(silence, session.next()).await {
        let Ok(Some(next)) = next else {
            flooded.is_over = true;
            return;
        };
        match next.message {
            Some(Answer::SessionError(error)) => flooded.code = Some(error.code()),
            Some(Answer::HeartbeatAck(_)) => flooded.n_acknowledged += 1,
            _ => {}
        }
    }
}

async fn greeted(address: SocketAddr, hello: Hello) -> RawSession {
    let greeted = RawSession::greeted(address, Message::Hello(hello));
    timeout(LIMIT, greeted).await.unwrap().unwrap()
}

/// A session has a burst of 2,000 messages and gains 200 in each second, so the burst is ten seconds of them.
/// What the engine spends on a flood until the session is cut, by these ten seconds and the time of the flood, is therefore
/// the share of a core that the session can have for ever.
/// A flood that is not cut is one of messages that cost 1 each: the share is what 200 of them take in a second.
/// One of large messages comes no faster than the connection carries it: the share is of the time that it took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kind_of_message_buys_more_than_a_tenth_of_the_engine() {
    let mut den = Den::start_alone(|settings| settings).await;
    den.stop_canary().await;
    let process = den.orchestrator.process.id();
    let mut dear = Vec::new();
    for (number, Dear { name, worst, message }) in DEAR.iter().enumerate() {
        let before = den.measure();
        let spent = Shares::of(process);
        let begin = Instant::now();
        let mut session = RawSession::open(den.address()).await.unwrap();
        // A first message is one in a session: the flood is one of sessions.
        if *name != DEAR[0].name {
            let hello = greeting(number as u64);
            session.send(Message::Hello(hello)).await.unwrap();
        }
        let is_large = message(1).encoded_len() > 1 << 20;
        let n_max = if is_large { N_LARGE } else { N_BURST + N_BURST / 2 };
        let flooded = flood(&mut session, message, n_max, begin + LIMIT).await;
        drop(session);
        let spent = Shares::since(spent, process).await.engine;
        let share = match flooded.is_over {
            true => spent.as_secs_f64() / (begin.elapsed() + BURST).as_secs_f64(),
            false if is_large => spent.as_secs_f64() / begin.elapsed().as_secs_f64(),
            false => spent.as_secs_f64() * N_SECOND / flooded.n_sent as f64,
        };
        let grown = den.size().peak_mib.saturating_sub(before.resident_mib);
        eprintln!(
            "{name}, {worst}: {} sent in {:.1?}, {:?}; engine {spent:.1?}, a share of {share:.3}; {grown} MiB",
            flooded.n_sent,
            begin.elapsed(),
            flooded.code,
        );
        // The reason may be lost with the connection.
        let is_fair = flooded.code.is_none_or(|code| CUT.contains(&code));
        assert!(is_fair, "{name}, {worst}: {flooded:?}");
        if share > SHARE_MAX || grown > SESSION_MIB_MAX {
            dear.push(format!("{name}, {worst}: a share of {share:.3}, {grown} MiB"));
        }
    }
    assert!(dear.is_empty(), "{dear:#?}");
    den.finish("floods of every message", SESSION_MIB_MAX).await;
}

/// What a worker says that it has entitles it to nothing, unless it was given that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_attempts_entitle_to_no_message() {
    let den = Den::start().await;
    let Message::Hello(hello) = (DEAR[0].message)(1) else {
        unreachable!("the first is a hello")
    };
    let mut session = greeted(den.address(), hello).await;
    let begin = Instant::now();
    let heartbeat = |n| {
        Message::Heartbeat(Heartbeat {
            n,
            ..Heartbeat::default()
        })
    };
    let flooded = flood(&mut session, heartbeat, u64::MAX, begin + LIMIT).await;
    let allowed = N_BURST + 200 * (begin.elapsed().as_secs() + 1);
    assert!(
        flooded.is_over && flooded.n_acknowledged <= allowed,
        "{allowed} are allowed: {flooded:?}"
    );
    den.finish("invented attempts", 64).await;
}

/// What a session says costs memory while it is read. A session at rest holds what it is called and what it offers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_at_rest_holds_nothing_of_its_large_messages() {
    let den = Den::start().await;
    let before = den.size();
    let mut sessions = Vec::new();
    for n in 0..N_AT_REST {
        let mut session = greeted(den.address(), greeting(n)).await;
        // Of an attempt that nobody handed out: it is answered and not kept.
        let failure = Failure {
            message: "m".repeat(LARGE_BYTES),
            ..Failure::default()
        };
        let outcome = AttemptOutcome {
            attempt_token: token(n, 1),
            outcome: Some(Outcome::Failure(failure)),
            ..AttemptOutcome::default()
        };
        let items = vec![outcome];
        session.send(Message::Outcomes(Outcomes { items })).await.unwrap();
        // What a session says next, as it does every few seconds, takes the place of what was large.
        let heartbeat = Heartbeat {
            n: 1,
            ..Heartbeat::default()
        };
        session.send(Message::Heartbeat(heartbeat)).await.unwrap();
        let mut flooded = Flooded::default();
        while flooded.n_acknowledged == 0 && !flooded.is_over {
            read(&mut session, &mut flooded, SILENCE).await;
        }
        assert!(!flooded.is_over, "{flooded:?}");
        sessions.push(session);
    }
    let held = den.size().resident_mib.saturating_sub(before.resident_mib);
    eprintln!("{N_AT_REST} sessions at rest hold {held} MiB");
    assert!(
        held < 2 * N_AT_REST,
        "{N_AT_REST} sessions at rest hold {held} MiB"
    );
    drop(sessions);
    den.finish("large messages of many workers", 128).await;
}

/// A worker with a plan of its own every so often, on a thread of its own. Gives how long each took.
struct Neighbour {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Neighbour {
    fn start(url: String) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(Self::work(&url, &until)));
        Self { is_over, thread }
    }

    async fn work(url: &str, is_over: &AtomicBool) -> Vec<Duration> {
        let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["quiet"]), 4);
        let (mut worker, _) = ScriptedWorker::open(url, hello).await;
        worker.keep_alive(Duration::from_secs(2));
        let channel = Endpoint::from_shared(url.to_owned()).unwrap();
        let mut plans = PlanExecutionServiceClient::new(channel.connect().await.unwrap());
        let mut took = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let begin = Instant::now();
            plans.submit_plan(submission("quiet")).await.unwrap();
            worker.complete_next(json!({})).await;
            took.push(begin.elapsed());
            let_pass(PACE.saturating_sub(begin.elapsed())).await;
        }
        worker.goodbye().await;
        took
    }

    /// Sorted, the shortest first.
    fn stop(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut took = self.thread.join().expect("the neighbour works to the end");
        took.sort();
        took
    }
}

/// Many sessions that flood at the same time, each with another kind of message, and come back as often as they are cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_worker_goes_on_beside_floods_of_every_message() {
    let mut den = Den::start_alone(|settings| settings).await;
    den.stop_canary().await;
    let neighbour = Neighbour::start(den.orchestrator.url());
    let (address, end) = (den.address(), Instant::now() + Duration::from_secs(scale(3, 60)));
    // Attackers have machines of their own: here they give way.
    let elsewhere = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(|| setpriority_process(None, LOWEST_PRIORITY).unwrap())
        .enable_all()
        .build()
        .unwrap();
    let began = Instant::now();
    let attackers: Vec<_> = (0..N_ATTACKERS)
        .map(|n| {
            elsewhere.spawn(async move {
                let Dear { name, message, .. } = &DEAR[n % DEAR.len()];
                let mut n_sessions = 0;
                while Instant::now() < end {
                    n_sessions += 1;
                    let Ok(mut session) = RawSession::open(address).await else {
                        continue;
                    };
                    let number = (n_sessions << 16) + n as u64;
                    if *name != DEAR[0].name && session.send(Message::Hello(greeting(number))).await.is_err()
                    {
                        continue;
                    }
                    flood(&mut session, |k| message(number + (k << 32)), u64::MAX, end).await;
                }
                n_sessions
            })
        })
        .collect();
    let mut n_sessions = 0;
    for attacker in attackers {
        n_sessions += attacker.await.unwrap();
    }
    elsewhere.shutdown_background();
    let took = neighbour.stop();
    let most = *took.last().expect("it did something");
    eprintln!(
        "{n_sessions} sessions of attackers in {:.1?}; {} plans of the neighbour, median {:.1?}, most {most:.1?}",
        began.elapsed(),
        took.len(),
        took[took.len() / 2],
    );
    assert!(most < Duration::from_secs(2), "the quiet worker waited {most:?}");
    let due = began.elapsed().as_secs_f64() / PACE.as_secs_f64();
    assert!(
        took.len() as f64 > due * PACE_KEPT_MIN,
        "{} plans of {due:.0}",
        took.len()
    );
    den.finish("floods of many workers", scale(256, 512)).await;
}

/// The burst of a session in the time in which it is given again.
const BURST: Duration = Duration::from_secs(10);
/// How a session of too many messages ends; one of a second hello ends by that.
const CUT: [Code; 2] = [Code::LimitExceeded, Code::ProtocolViolation];
/// Messages of one unit that a session may send at once, and in each second.
const N_BURST: u64 = 2_000;
const N_SECOND: f64 = 200.0;
/// Large messages of one flood: far more than a burst has room for if their cost grows with their bytes.
const N_LARGE: u64 = 64;
/// Of one core.
const SHARE_MAX: f64 = 0.1;
/// Memory that one session may take: what waits for the engine and for the worker, and what it offers.
const SESSION_MIB_MAX: u64 = 96;
/// Sessions, and bytes of what each says: nearly as many as a message may have.
const N_AT_REST: u64 = 24;
const LARGE_BYTES: usize = 3_900 << 10;
const SILENCE: Duration = Duration::from_millis(50);
/// Plans of the quiet worker begin so far from each other.
const PACE: Duration = Duration::from_millis(50);
/// The part of its pace that it keeps, while attackers and orchestrator share a machine that does other things as well.
const PACE_KEPT_MIN: f64 = 1.0 / 3.0;
const N_ATTACKERS: usize = 2 * DEAR.len();
/// The nicest of all, in the kernel's terms.
const LOWEST_PRIORITY: i32 = 19;
