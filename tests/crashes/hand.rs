//! A worker for orchestrators that die: it takes attempts and reports them when told, and hears that the session is over.
//! Runs no handler, and never panics because an orchestrator went away.

use std::collections::VecDeque;
use std::time::Duration;

use escapement_tests::ScriptedWorker;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::{Assignment, AttemptAcks, AttemptOutcome, Outcomes, Success};
use serde_json::json;

use crate::caller::Gone;
use crate::world::LIMIT;

/// The action that it offers.
pub(crate) const WORK: &str = "work";

/// A session that may end at any moment.
pub(crate) struct Hand {
    worker: ScriptedWorker,
    assignments: VecDeque<Assignment>,
    verdicts: VecDeque<(bytes::Bytes, Verdict)>,
    is_told_to_reconnect: bool,
}

impl Hand {
    /// Opens a session for [`WORK`].
    pub(crate) async fn open(url: &str, max_in_flight: u32) -> Result<Self, Gone> {
        let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&[WORK]), max_in_flight);
        let (mut worker, _) = ScriptedWorker::try_open(url, hello).await.map_err(|_| Gone)?;
        worker.keep_alive(HEARTBEATS);
        Ok(Self {
            worker,
            assignments: VecDeque::new(),
            verdicts: VecDeque::new(),
            is_told_to_reconnect: false,
        })
    }

    /// Returns the next attempt, whose handler runs from now on.
    pub(crate) async fn started(&mut self) -> Result<Assignment, Gone> {
        let assignment = loop {
            match self.assignments.pop_front() {
                Some(assignment) => break assignment,
                None => self.read().await?,
            }
        };
        let started = vec![assignment.attempt_token.clone()];
        self.worker
            .send(ToOrchestrator::AttemptAcks(AttemptAcks {
                started,
                ..AttemptAcks::default()
            }))
            .await;
        Ok(assignment)
    }

    /// Reports a success and waits for the verdict.
    pub(crate) async fn complete(&mut self, assignment: &Assignment) -> Result<Verdict, Gone> {
        let output = json!({ "of": assignment.execution_id });
        let output = output.as_object().expect("an output is an object");
        let item = AttemptOutcome {
            attempt_token: assignment.attempt_token.clone(),
            run_time_ms: 1,
            outcome: Some(Outcome::Success(Success {
                output: Some(escapement_wire::json::to_opaque(output)),
                warnings: Vec::new(),
            })),
        };
        self.worker
            .send(ToOrchestrator::Outcomes(Outcomes { items: vec![item] }))
            .await;
        loop {
            let found = self
                .verdicts
                .iter()
                .position(|(token, _)| *token == assignment.attempt_token);
            match found.and_then(|at| self.verdicts.remove(at)) {
                Some((_, verdict)) => return Ok(verdict),
                None => self.read().await?,
            }
        }
    }

    /// Waits until the orchestrator says that it is about to stop.
    pub(crate) async fn told_to_reconnect(&mut self) -> Result<(), Gone> {
        while !self.is_told_to_reconnect {
            self.read().await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Gone> {
        let next = tokio::time::timeout(LIMIT, self.worker.next()).await;
        let next = next.expect("the orchestrator says nothing and does not die");
        let Some(Ok(response)) = next else {
            return Err(Gone);
        };
        match response.message {
            Some(FromOrchestrator::Assignments(assignments)) => self.assignments.extend(assignments.items),
            Some(FromOrchestrator::OutcomeAcks(acks)) => {
                let verdicts = acks.items.into_iter();
                self.verdicts
                    .extend(verdicts.map(|ack| (ack.attempt_token.clone(), ack.verdict())));
            }
            Some(FromOrchestrator::Reconnect(_)) => self.is_told_to_reconnect = true,
            Some(FromOrchestrator::SessionError(_)) => return Err(Gone),
            _ => {}
        }
        Ok(())
    }
}

const HEARTBEATS: Duration = Duration::from_millis(1_000);
