//! The workload whose calls are swept: three acts, each from a known store, in phases that the fault layer numbers by.
//!
//! It is strictly sequential: nothing is asked before the answer to what came before is there, so each commit holds one
//! write and a call has the same place in every run: its phase and its number in the phase.
//! Plays on until the orchestrator dies.

use std::time::Duration;

use escapement_tests::let_pass;
use escapement_wire::v1::{Execution, SubmitPlanRequest};
use escapement_wire::worker::v1::outcome_ack::Verdict;

use crate::caller::{Caller, Gone, No, id_of, request};
use crate::hand::Hand;
use crate::told::Told;
use crate::world::World;

/// Where the orchestrator is when it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// From an empty directory to a clean stop: start, accept, queue, settle with the start mark of the next, stop.
    First,
    /// The restart after the clean stop, with one in the queue, and one more accept.
    Restart,
    /// The restart after a kill, with one that ran and one in the queue, and on to a clean stop.
    Recover,
}

/// All of them, in order: each begins with the store that the one before leaves.
pub(crate) const ACTS: [Act; 3] = [Act::First, Act::Restart, Act::Recover];

/// What an act begins with.
pub(crate) struct Scene {
    pub(crate) act: Act,
    pub(crate) world: World,
    pub(crate) told: Told,
}

impl Scene {
    /// The same again, on a copy of the store.
    pub(crate) fn copy(&self) -> Self {
        Self {
            act: self.act,
            world: World::copy_of(&self.world),
            told: self.told.clone(),
        }
    }

    /// Returns the beginning of the first act.
    pub(crate) fn first() -> Self {
        Self {
            act: Act::First,
            // What is remembered of actions is written at moments of its own, which no two runs share.
            world: World::new()
                .flag("--max-running-executions", 1)
                .flag("--registration-memory-ms", 0),
            told: Told::default(),
        }
    }

    /// Plays until the end of the act, or until the orchestrator is gone.
    pub(crate) async fn play(&mut self) -> Result<(), Gone> {
        match self.act {
            Act::First => self.first_act().await,
            Act::Restart => self.restart().await,
            Act::Recover => self.recover().await,
        }
    }

    async fn first_act(&mut self) -> Result<(), Gone> {
        let Self { world, told, .. } = self;
        world.layer.phase("start").unwrap();
        let life = world.start().await?;
        let mut hand = Hand::open(&life.url, 4).await?;

        world.layer.phase("accept").unwrap();
        let one = request(100);
        told.ask(&one);
        told.may_start(&id_of(&one));
        told.accepted(accepted(&life.caller, &one).await?);
        let first = hand.started().await?;
        told.started(&first.execution_id);

        // The first of these is larger than a page.
        world.layer.phase("queue").unwrap();
        let waiting = [request(10_000), request(100)];
        for one in &waiting {
            told.ask(one);
            told.accepted(accepted(&life.caller, one).await?);
        }

        world.layer.phase("settle").unwrap();
        told.may_settle(&first.execution_id);
        told.may_start(&id_of(&waiting[0]));
        assert_eq!(hand.complete(&first).await?, Verdict::Accepted);
        told.settled(&settled(&life.caller, &first.execution_id).await?);
        let second = hand.started().await?;
        told.started(&second.execution_id);

        world.layer.phase("stop").unwrap();
        let waits = life.caller.clone();
        let id = second.execution_id.clone();
        let waiting = tokio::spawn(async move { waits.settled(&id).await });
        world.ask_to_stop();
        hand.told_to_reconnect().await?;
        told.may_settle(&second.execution_id);
        assert_eq!(hand.complete(&second).await?, Verdict::Accepted);
        if let Ok(execution) = waiting.await.expect("a call does not panic") {
            told.settled(&execution);
        }
        clean(world.ended().await)
    }

    async fn restart(&mut self) -> Result<(), Gone> {
        let Self { world, told, .. } = self;
        world.layer.phase("restart").unwrap();
        let third = told
            .accepted_ids()
            .pop()
            .expect("the first act leaves one behind");
        told.may_start(&third);
        let life = world.start().await?;
        let mut hand = Hand::open(&life.url, 4).await?;
        told.started(&hand.started().await?.execution_id);

        world.layer.phase("queue-again").unwrap();
        let fourth = request(100);
        told.ask(&fourth);
        told.accepted(accepted(&life.caller, &fourth).await?);
        Ok(())
    }

    async fn recover(&mut self) -> Result<(), Gone> {
        let Self { world, told, .. } = self;
        world.layer.phase("recover").unwrap();
        let [.., third, fourth] = &told.accepted_ids()[..] else {
            panic!("the second act leaves two behind")
        };
        told.may_settle(third);
        told.may_start(fourth);
        let life = world.start().await?;
        told.settled(&settled(&life.caller, third).await?);
        let mut hand = Hand::open(&life.url, 4).await?;
        let assignment = hand.started().await?;
        told.started(&assignment.execution_id);

        world.layer.phase("settle-last").unwrap();
        told.may_settle(fourth);
        assert_eq!(hand.complete(&assignment).await?, Verdict::Accepted);
        told.settled(&settled(&life.caller, fourth).await?);

        world.layer.phase("stop-idle").unwrap();
        world.ask_to_stop();
        clean(world.ended().await)
    }
}

/// Asks until the request is accepted.
async fn accepted(caller: &Caller, request: &SubmitPlanRequest) -> Result<Execution, Gone> {
    loop {
        if let Some(execution) = answered(caller.submit(request).await)? {
            return Ok(execution);
        }
        let_pass(PAUSE).await;
    }
}

/// Asks until the result is told.
async fn settled(caller: &Caller, id: &str) -> Result<Execution, Gone> {
    loop {
        if let Some(execution) = answered(caller.settled(id).await)? {
            return Ok(execution);
        }
        let_pass(PAUSE).await;
    }
}

/// In these acts nothing is refused but because the store cannot take it now; then there is no answer yet.
fn answered<T>(answer: Result<T, No>) -> Result<Option<T>, Gone> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(No::Gone) => Err(Gone),
        Err(no) if matches!(no.reason(), "STORE_FAILED" | "STORE_FULL") => Ok(None),
        Err(no) => panic!("refused for another reason than the store: {no:?}"),
    }
}

fn clean(status: std::process::ExitStatus) -> Result<(), Gone> {
    if status.success() { Ok(()) } else { Err(Gone) }
}

/// Before the same is asked again.
const PAUSE: Duration = Duration::from_millis(5);
