//! What somebody was told about executions, and the judgement of what is there after a crash.
//! Knows what a client can know, and nothing of the store.

use std::collections::BTreeSet;

use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{Execution, PlanResult, SubmitPlanRequest};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use prost::Message;
use tokio::sync::oneshot;
use tonic::Code;

use crate::caller::{Caller, Gone, No, id_of, request};
use crate::hand::Hand;
use crate::world::{Life, World};

/// Everything that was asked for, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Vec<One>);

/// An execution that was asked for.
#[derive(Clone, Debug)]
struct One {
    request: SubmitPlanRequest,
    /// The answer that it is accepted.
    accepted: Option<Execution>,
    /// The slot that it needs may have been free, so that it may have started.
    may_have_started: bool,
    /// A worker got it.
    started: bool,
    /// Its outcome was reported, or it was settled by a restart, so that it may have a result.
    may_have_settled: bool,
    /// The execution with its result, encoded, as somebody saw it.
    settled: Option<Vec<u8>>,
}

/// Reason why an execution is not as it must be.
pub(crate) type Verdicts = Vec<String>;

impl Told {
    /// Before the request leaves.
    pub(crate) fn ask(&mut self, request: &SubmitPlanRequest) {
        self.0.push(One {
            request: request.clone(),
            accepted: None,
            may_have_started: false,
            started: false,
            may_have_settled: false,
            settled: None,
        });
    }

    /// Its answer came.
    pub(crate) fn accepted(&mut self, execution: Execution) {
        let id = execution.execution_id.clone();
        self.one(&id).accepted = Some(execution);
    }

    /// From now on it may start.
    pub(crate) fn may_start(&mut self, id: &str) {
        self.one(id).may_have_started = true;
    }

    /// A worker got it.
    pub(crate) fn started(&mut self, id: &str) {
        let one = self.one(id);
        assert!(one.may_have_started, "{id} was handed out before it could start");
        assert!(!one.started, "{id} was handed out twice");
        one.started = true;
    }

    /// From now on it may have a result.
    pub(crate) fn may_settle(&mut self, id: &str) {
        self.one(id).may_have_settled = true;
    }

    /// Somebody saw its result.
    pub(crate) fn settled(&mut self, execution: &Execution) {
        self.one(&execution.execution_id).settled = Some(execution.encode_to_vec());
    }

    /// Returns the ids of all that were accepted for certain.
    pub(crate) fn accepted_ids(&self) -> Vec<String> {
        let accepted = self.0.iter().filter(|one| one.accepted.is_some());
        accepted.map(|one| id_of(&one.request)).collect()
    }

    /// How many results somebody saw.
    pub(crate) fn n_settled(&self) -> usize {
        self.0.iter().filter(|one| one.settled.is_some()).count()
    }

    /// Returns true if the execution is as it was told, and not less.
    pub(crate) fn agrees(&self, execution: &Execution) -> bool {
        let one = self
            .0
            .iter()
            .find(|one| id_of(&one.request) == execution.execution_id);
        one.is_some_and(|one| match execution.accepted_at {
            // Its request is damaged.
            0 => one.ended_as(execution),
            _ => one.at_once(Some(execution)).is_empty(),
        })
    }

    /// What is told here, each time with one thing wrong; the last one asked for must wait in the queue.
    pub(crate) fn lies(&self) -> Vec<(&'static str, Told)> {
        let with = |change: fn(&mut Vec<One>)| {
            let mut lie = self.clone();
            change(&mut lie.0);
            lie
        };
        vec![
            (
                "an accepted execution is gone",
                with(|all| {
                    let mut accepted = all[0].clone();
                    accepted.request = request(1);
                    all.push(accepted);
                }),
            ),
            (
                "a result changed",
                with(|all| {
                    let settled = all[0].settled.as_mut().expect("the first one was settled");
                    *settled.last_mut().expect("a result has bytes") ^= 1;
                }),
            ),
            (
                "a deadline changed",
                with(|all| {
                    let accepted = all[1].accepted.as_mut().expect("the second one was accepted");
                    accepted.deadline_ms += 1;
                }),
            ),
            (
                "what had started ran again",
                with(|all| {
                    let last = all.last_mut().expect("something was asked for");
                    (last.may_have_started, last.started) = (true, true);
                }),
            ),
            (
                "what nobody asked for is there",
                with(|all| {
                    all.pop();
                }),
            ),
        ]
    }

    /// Returns the ids of all that were accepted for certain, with those of their plans.
    pub(crate) fn ids_and_plans(&self) -> Vec<(String, String)> {
        let accepted = self.0.iter().filter_map(|one| one.accepted.as_ref());
        accepted
            .map(|execution| (execution.execution_id.clone(), execution.plan_id.clone()))
            .collect()
    }

    fn one(&mut self, id: &str) -> &mut One {
        let found = self.0.iter_mut().find(|one| id_of(&one.request) == id);
        found.expect("nothing is told about what was not asked for")
    }

    /// Starts an orchestrator that nothing disturbs on what a crash left behind, lets everything run to its end, and
    /// says what is not as it must be.
    pub(crate) async fn judge(&self, world: &mut World) -> Verdicts {
        world.kill();
        let life = world.start_undisturbed().await;
        match self.judge_life(&life).await {
            Ok(verdicts) => verdicts,
            Err(no) => vec![format!("the restarted orchestrator does not answer: {no:?}")],
        }
    }

    async fn judge_life(&self, life: &Life) -> Result<Verdicts, No> {
        let mut verdicts = Vec::new();
        let mut found = Vec::new();
        for one in &self.0 {
            let now = life.caller.execution(&id_of(&one.request)).await?;
            verdicts.extend(one.at_once(now.as_ref()));
            found.push(now.is_some());
        }
        let (done, is_done) = oneshot::channel::<()>();
        let hands = tokio::spawn(complete_everything(life.url.clone(), is_done));
        let mut ends = Vec::new();
        for (one, _) in self.0.iter().zip(&found).filter(|(_, found)| **found) {
            ends.push((one, life.caller.settled(&id_of(&one.request)).await?));
        }
        // Some may not be there; then the same request is as new, and its ids are free.
        for (one, _) in self.0.iter().zip(&found).filter(|(_, found)| !**found) {
            match life.caller.submit(&one.request).await {
                Ok(_) => {
                    let end = life.caller.settled(&id_of(&one.request)).await?;
                    if status_of(&end) != Status::Success {
                        verdicts.push(format!(
                            "what was never accepted does not run when asked again: {end:?}"
                        ));
                    }
                }
                Err(no) => verdicts.push(format!(
                    "what was never accepted is refused when asked again: {no:?}"
                )),
            }
        }
        // The worker has done everything by now; it only has to say what that was.
        let _ = done.send(());
        let handed_out = hands.await.expect("the worker does not panic");
        let listed = life.caller.list().await?;
        if listed.len() != self.0.len() {
            verdicts.push(format!("the list shows {} of {}", listed.len(), self.0.len()));
        }
        for (one, end) in &ends {
            verdicts.extend(one.at_the_end(end, &handed_out));
            verdicts.extend(
                one.on_every_surface(end, listed.get(&id_of(&one.request)), &life.caller)
                    .await?,
            );
        }
        for one in &self.0 {
            verdicts.extend(one.is_single_use(&life.caller).await?);
        }
        Ok(verdicts)
    }
}

impl One {
    /// How it ended, and nothing of what was accepted.
    fn ended_as(&self, now: &Execution) -> bool {
        let told = self.settled.as_ref().map(|settled| Execution {
            plan_name: String::new(),
            priority: 0,
            accepted_at: 0,
            deadline_ms: 0,
            parent_execution_id: None,
            user_id: None,
            request_id: None,
            tags: Vec::new(),
            certificate: None,
            namespace: String::new(),
            accepted_by: None,
            ..Execution::decode(&settled[..]).expect("it was encoded here")
        });
        told.as_ref() == Some(now)
    }

    /// Right after the restart: nothing that was told is missing.
    fn at_once(&self, now: Option<&Execution>) -> Verdicts {
        let id = id_of(&self.request);
        let Some(now) = now else {
            return self
                .accepted
                .iter()
                .map(|_| format!("{id} was accepted and is gone"))
                .collect();
        };
        let mut verdicts = Vec::new();
        if let Some(accepted) = &self.accepted {
            let kept = (now.accepted_at, now.deadline_ms, &now.plan_id)
                == (accepted.accepted_at, accepted.deadline_ms, &accepted.plan_id);
            if !kept {
                verdicts.push(format!("{id} was accepted as {accepted:?} and is {now:?}"));
            }
        }
        if let Some(settled) = &self.settled
            && *settled != now.encode_to_vec()
        {
            verdicts.push(format!("{id} was settled in another way than {now:?}"));
        }
        verdicts
    }

    /// When all have ended.
    fn at_the_end(&self, end: &Execution, handed_out: &BTreeSet<String>) -> Verdicts {
        let id = id_of(&self.request);
        let is_handed_out = handed_out.contains(&id);
        let (success, cut_off) = (status_of(end) == Status::Success, is_cut_off(end));
        let holds = match self {
            One {
                settled: Some(settled),
                ..
            } => *settled == end.encode_to_vec() && !is_handed_out,
            One {
                may_have_settled: true,
                ..
            } => (success || cut_off) && !is_handed_out,
            One { started: true, .. } => cut_off && !is_handed_out,
            One {
                may_have_started: true,
                ..
            } => (success && is_handed_out) || (cut_off && !is_handed_out),
            _ => success && is_handed_out,
        };
        let verdict =
            format!("{id} ended wrongly (handed out after the crash: {is_handed_out}): {self:?}: {end:?}");
        if holds { Vec::new() } else { vec![verdict] }
    }

    async fn on_every_surface(
        &self,
        end: &Execution,
        listed: Option<&Execution>,
        caller: &Caller,
    ) -> Result<Verdicts, No> {
        let id = id_of(&self.request);
        let mut verdicts = Vec::new();
        let again = caller.execution(&id).await?;
        if again.as_ref() != Some(end) {
            verdicts.push(format!("{id} changed: {end:?}, {again:?}"));
        }
        let listed = listed.map(|listed| (listed.state(), listed.status(), listed.settled_at));
        if listed != Some((State::Settled, status_of(end), end.settled_at)) {
            verdicts.push(format!("the list shows {id} as {listed:?}, and it is {end:?}"));
        }
        let record = caller.record(&id).await?;
        let is_gapless = record.iter().zip(1..).all(|(entry, n)| entry.sequence == n);
        let ends = matches!(
            record.last().and_then(|entry| entry.event.as_ref()),
            Some(Event::Settled(_))
        );
        if !is_gapless || !ends {
            verdicts.push(format!("the record of {id} is not whole: {record:?}"));
        }
        if caller.watched(&id).await? != record {
            verdicts.push(format!("a watcher of {id} sees another record"));
        }
        Ok(verdicts)
    }

    /// whatever happened to it.
    async fn is_single_use(&self, caller: &Caller) -> Result<Verdicts, No> {
        let id = id_of(&self.request);
        let mut verdicts = Vec::new();
        let attached = caller.submit(&self.request).await;
        if !matches!(&attached, Ok(execution) if execution.state() == State::Settled) {
            verdicts.push(format!(
                "the same request again does not attach to {id}: {attached:?}"
            ));
        }
        let same_id = SubmitPlanRequest {
            execution_id: Some(id.clone()),
            ..request(1)
        };
        let same_plan = SubmitPlanRequest {
            execution_id: request(1).execution_id,
            ..self.request.clone()
        };
        for (other, expected) in [
            (same_id, Code::AlreadyExists),
            (same_plan, Code::FailedPrecondition),
        ] {
            match caller.submit(&other).await {
                Err(No::Refused(code, _)) if code == expected => {}
                answer => verdicts.push(format!("an id of {id} is used twice: {answer:?}")),
            }
        }
        Ok(verdicts)
    }
}

/// Returns a worker that completes what it gets until it is told that it is enough, and says what that was.
async fn complete_everything(url: String, mut is_enough: oneshot::Receiver<()>) -> BTreeSet<String> {
    let mut handed_out = BTreeSet::new();
    let Ok(mut hand) = Hand::open(&url, 8).await else {
        return handed_out;
    };
    loop {
        // Biased: the end is said once and must not be missed.
        let assignment = tokio::select! {
            biased;
            _ = &mut is_enough => return handed_out,
            next = hand.started() => match next {
                Ok(assignment) => assignment,
                Err(Gone) => return handed_out,
            },
        };
        handed_out.insert(assignment.execution_id.clone());
        if hand.complete(&assignment).await != Ok(Verdict::Accepted) {
            return handed_out;
        }
    }
}

fn status_of(execution: &Execution) -> Status {
    execution
        .result
        .as_ref()
        .map_or(Status::Unspecified, PlanResult::status)
}

/// Returns true for what had started when the orchestrator went down.
fn is_cut_off(execution: &Execution) -> bool {
    let error = execution.result.as_ref().and_then(|result| result.error.as_ref());
    error.is_some_and(|error| {
        let context = error.context.as_ref().map(escapement_wire::json::from_opaque);
        let reason = context
            .and_then(Result::ok)
            .and_then(|context| context.get("reason").cloned());
        error.error_code == "UNKNOWN_ERROR" && reason == Some("orchestrator_restarted".into())
    })
}
