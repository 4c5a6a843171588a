//! A check's own world: a stage, and a worker process that dials it. Decides nothing; the checks do.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{Assignment, AttemptOutcome, AttemptVerdict, Hello, Welcome};
use tokio::time::Instant;

use crate::audit::{self, Books};
use crate::log::Log;
use crate::messages::{assignments, fresh_bytes, verdict, welcome};
use crate::scene::Scene;
use crate::session::Session;
use crate::stage::Stage;
use crate::subject::Subject;

/// A stage with a worker in front of it. At its end everything that was said is audited.
pub(crate) struct Play {
    /// Where the worker dials in.
    pub(crate) stage: Stage,
    /// The worker.
    pub(crate) worker: Arc<Subject>,
    /// That of every welcome.
    pub(crate) boot_id: Bytes,
    scene: Scene,
    books: Books,
}

impl Play {
    /// Opens a stage and starts a worker.
    pub(crate) async fn start(scene: &Scene) -> Result<Self, Fault> {
        Self::start_on(Stage::open().await?, scene)
    }

    /// Starts a worker on a stage that is prepared.
    pub(crate) fn start_on(stage: Stage, scene: &Scene) -> Result<Self, Fault> {
        let worker = Subject::start(scene.command(), &stage.url(), TOKEN, &scene.output());
        let worker = Arc::new(worker.inspect_err(|fault| scene.never_started(fault.to_string()))?);
        tokio::spawn(watch_start(
            Arc::downgrade(&worker),
            stage.was_called(),
            scene.clone(),
        ));
        Ok(Self {
            stage,
            worker,
            boot_id: fresh_bytes(),
            scene: scene.clone(),
            books: Books::Compared,
        })
    }

    /// The same, welcomed already.
    pub(crate) async fn begin(scene: &Scene) -> Result<(Self, Session), Fault> {
        let mut play = Self::start(scene).await?;
        let session = play.welcomed().await?;
        Ok((play, session))
    }

    /// The check takes time or the lease away, so that what the worker counts cannot be told from outside.
    pub(crate) fn leave_books_alone(&mut self) {
        self.books = Books::LeftAlone;
    }

    /// Returns the next stream, with its `Hello`.
    pub(crate) async fn greeted(&mut self) -> Result<(Session, Hello), Fault> {
        self.greeted_within(START_LIMIT).await
    }

    /// The same with a limit of its own.
    pub(crate) async fn greeted_within(&mut self, limit: Duration) -> Result<(Session, Hello), Fault> {
        let session = self.stage.stream(limit).await?;
        let hello = session.expect("`Hello` within 5 s", HELLO_LIMIT, |log| log.hello().cloned());
        let hello = hello.await?;
        Ok((session, hello))
    }

    /// Waits whether the process of this `Hello` calls again, and gives its new `Hello`, or what it did in place of one.
    /// Another process may come as well: one of another test, which still dials the port that was its orchestrator's.
    pub(crate) async fn back_within(&mut self, limit: Duration, before: &Hello) -> Option<String> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let session = self.stage.stream(left).await.ok()?;
            let hello = session.expect("`Hello` within 5 s", HELLO_LIMIT, |log| log.hello().cloned());
            match hello.await {
                Ok(hello) if hello.instance_id != before.instance_id => {}
                came => return Some(format!("{came:?}")),
            }
        }
    }

    /// Returns the next stream, welcomed; whatever the worker still has shall go on.
    pub(crate) async fn welcomed(&mut self) -> Result<Session, Fault> {
        let (session, hello) = self.greeted().await?;
        session.send(ToWorker::Welcome(self.welcome_for(&hello, Verdict::Keep)));
        Ok(session)
    }

    /// Returns a welcome with the same verdict for all that the worker still has.
    pub(crate) fn welcome_for(&self, hello: &Hello, of_all: Verdict) -> Welcome {
        let verdicts = hello
            .in_flight
            .iter()
            .map(|entry| verdict(&entry.attempt_token, of_all));
        Welcome {
            verdicts: verdicts.collect::<Vec<AttemptVerdict>>(),
            ..welcome(&self.boot_id)
        }
    }

    /// Proves that the worker still takes work, on the stream that it has or on a new one.
    pub(crate) async fn must_still_work(&mut self, session: &Session) -> Result<(), Fault> {
        self.worker.must_live()?;
        let mut session = session.clone();
        loop {
            let ping = crate::messages::assignment("echo", serde_json::json!({ "still": "there" }));
            match outcome_of(&session, &ping, STILL_LIMIT).await {
                Ok(item) => {
                    let output = crate::messages::output(&item)?;
                    return demand(output["still"] == "there", || {
                        format!("expected the payload, got {output}")
                    });
                }
                Err(_) if session.log().end.is_some() => session = self.welcomed().await?,
                Err(fault) => return Err(fault),
            }
        }
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        let logs: Vec<Log> = self
            .stage
            .sessions()
            .iter()
            .map(|session| session.log().clone())
            .collect();
        self.scene.report(logs.len(), audit::judge(&logs, self.books));
    }
}

/// Tells the scene where the process ends by itself before it has called `Session` for the first time.
async fn watch_start(worker: Weak<Subject>, was_called: impl Fn() -> bool, scene: Scene) {
    loop {
        if was_called() {
            return scene.called();
        }
        // Gone where the check is over.
        let Some(exited) = worker.upgrade().map(|worker| worker.exited()) else {
            return;
        };
        if let Ok(Some(status)) = exited {
            // A call that was made right before the end may still be on its way.
            pass(Duration::from_millis(200)).await;
            if was_called() {
                return scene.called();
            }
            return scene.never_started(format!("the process ended before it called `Session`: {status}"));
        }
        pass(Duration::from_millis(20)).await;
    }
}

/// Hands one attempt out and waits for its outcome.
pub(crate) async fn outcome_of(
    session: &Session,
    assignment: &Assignment,
    limit: Duration,
) -> Result<AttemptOutcome, Fault> {
    session.send(assignments([assignment.clone()]));
    let token = &assignment.attempt_token;
    let what = format!("the outcome of `{}` within {limit:?}", assignment.action);
    session
        .expect(&what, limit, |log| {
            log.outcomes_of(token).next().map(|(_, item)| item.clone())
        })
        .await
}

/// Waits until every one of these is started.
pub(crate) async fn all_started(session: &Session, tokens: &[Bytes]) -> Result<(), Fault> {
    let what = format!("`started` for {} attempts within {ANSWER_LIMIT:?}", tokens.len());
    let all = |log: &Log| {
        tokens
            .iter()
            .all(|token| log.started(token).is_some())
            .then_some(())
    };
    session.expect(&what, ANSWER_LIMIT, all).await
}

/// Fails with what came where the demand is not met.
pub(crate) fn demand(met: bool, told: impl FnOnce() -> String) -> Result<(), Fault> {
    if met { Ok(()) } else { Err(told().into()) }
}

/// What the worker is to authenticate with.
pub(crate) const TOKEN: &str = "kit-0f2d4c7be1a94d53";
/// From the start of a process, or from a break, to a stream.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(30);
/// The protocol's 5 s.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// The second in which an assignment or a cancel is answered, and what a busy machine adds.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_millis(2_000);
const STILL_LIMIT: Duration = Duration::from_secs(5);

/// Lets time pass in which something must not happen: `broken` gives what happened instead.
pub(crate) async fn quiet(duration: Duration, broken: impl Fn() -> Option<String>) -> Result<(), Fault> {
    let end = Instant::now() + duration;
    loop {
        if let Some(text) = broken() {
            return Err(text.into());
        }
        if Instant::now() >= end {
            return Ok(());
        }
        pass(Duration::from_millis(20)).await;
    }
}

/// Lets time pass.
pub(crate) async fn pass(duration: Duration) {
    // It ends at its limit, which is all that is wanted of it.
    let _ = wait_for("nothing", duration, async || None::<()>).await;
}

/// Waits until a heartbeat that is sent from now on counts so many attempts.
pub(crate) async fn counts(session: &Session, n: u32, limit: Duration) -> Result<(), Fault> {
    let from = Instant::now();
    let what = format!("a heartbeat that counts {n} in flight within {limit:?}");
    let counted = session.expect(&what, limit, |log| {
        let mut later = log.heartbeats().filter(|(at, _)| *at > from);
        later.any(|(_, heartbeat)| heartbeat.in_flight == n).then_some(())
    });
    counted.await.map_err(|fault| {
        let last = session
            .log()
            .heartbeats()
            .last()
            .map(|(_, heartbeat)| heartbeat.in_flight);
        format!("{fault}; the last one counts {last:?}").into()
    })
}

/// Hands one attempt out and waits until it is started.
pub(crate) async fn start_one(session: &Session, assignment: &Assignment) -> Result<(), Fault> {
    session.send(assignments([assignment.clone()]));
    all_started(session, std::slice::from_ref(&assignment.attempt_token)).await
}

/// How many `delay`s the worker takes at a time.
pub(crate) fn room(hello: &Hello) -> u32 {
    let own = hello
        .actions
        .iter()
        .find(|action| action.name == "delay")
        .map(|action| action.max_in_flight);
    own.filter(|own| *own > 0)
        .unwrap_or(u32::MAX)
        .min(hello.max_in_flight)
}
