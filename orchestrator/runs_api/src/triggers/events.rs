//! Events: those that callers publish, and what was noted of runs and goals. Stores none.

use escapement_expressions::{EVALUATION_WORK_MAX, evaluate_within};
use escapement_model::opaque::{BudgetSpent, StructBuilder, WalkBudget};
use escapement_model::{Namespace, Opaque, RunId};
use escapement_run::journal::Responder;
use escapement_run::{Blobs, Run};
use escapement_runs_host::{EventKind, RunsHost};
use escapement_runs_shell::{CallError, WorkOwner};
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind, RunReader};
use escapement_triggers::{Cause, matches};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use tracing::warn;

use super::Triggers;
use super::clockwork::PAGE;
use super::firing::{Found, now_ms};
use super::looks::bindings;
use super::probes::PROBE;
use super::record::{CompletedGoal, Fired, Kept, Listener};
use crate::errors::Rejection;
use crate::header::Header;
use crate::views::state_of;

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Where it happened: triggers of other namespaces do not hear of it.
    pub(super) namespace: Namespace,
    /// What happened.
    pub(super) kind: String,
    /// Which one of its kind.
    pub(super) id: String,
    /// More of it.
    pub(super) data: Opaque,
    /// Triggers in a row that led to it.
    pub(super) depth: u32,
    /// The trigger that started the run that it is about; empty for none.
    pub(super) started_by: String,
    /// Whose triggers hear of it, of those of the namespace.
    pub(super) heard: Heard,
    /// Publisher of the event, or the responder that its run or its goal has; `None` if that is not known.
    pub(super) fired_by: Option<Box<Responder>>,
}

/// Whose triggers hear of an event.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    /// Everybody's.
    ByAll,
    /// Those of that user.
    ByUser(String),
    /// Those of that user, whom it is about, and of everybody who finds the things of all.
    AsFound(String),
}

impl Heard {
    // TRIG-3.4
    fn by(&self, listener: &Listener) -> bool {
        match self {
            Heard::ByAll => true,
            Heard::ByUser(user_id) => listener.user_id == *user_id,
            Heard::AsFound(user_id) => !listener.is_held || listener.user_id == *user_id,
        }
    }
}

/// The run that an event is about, and the one above all that wait for it.
struct About {
    state: &'static str,
    user_id: String,
    header: Header,
    root: Header,
    fired_by: Option<Box<Responder>>,
}

impl Triggers {
    // TRIG-3.1
    /// Fires every trigger that an event matches. No trigger is read that does not hear of it.
    ///
    /// # Errors
    /// [`Rejection`], once all others have fired: some have not; the same event again fires these alone.
    pub(super) async fn tell(&self, event: &Event) -> Result<Vec<Fired>, Rejection> {
        self.loaded().await?;
        let listeners = self.index().listeners(&event.namespace, &event.kind);
        let hearing = listeners
            .into_iter()
            .filter(|(_, listener)| event.heard.by(listener));
        let (mut all, mut failed) = (Vec::new(), None);
        for (trigger_id, _) in hearing {
            match self.tell_one(&trigger_id, event).await {
                Ok(fired) => all.extend(fired),
                Err(rejection @ Rejection::Call(CallError::Stopping)) => return Err(rejection),
                // A trigger that cannot fire now does not block the others. Damage is permanent, but a later
                // failure may be transient and is returned instead.
                Err(rejection) => match &failed {
                    Some(known) if !Rejection::is_of_damage(known) => {}
                    _ => failed = Some(rejection),
                },
            }
        }
        failed.map_or(Ok(all), Err)
    }

    async fn tell_one(&self, trigger_id: &str, event: &Event) -> Result<Option<Fired>, Rejection> {
        // TRIG-3.3
        if event.started_by == trigger_id {
            return Ok(None);
        }
        let is_too_costly = match self.is_match(trigger_id, event).await? {
            Ok(true) => false,
            Ok(false) => return Ok(None),
            Err(BudgetSpent) => true,
        };
        let cause = Cause::Event {
            kind: event.kind.clone(),
            id: event.id.clone(),
        };
        let found = Found {
            depth: event.depth + 1,
            fired_by: event.fired_by.clone(),
            is_too_costly,
            ..Found::new(cause, now_ms(), event.data.clone())
        };
        self.fire(trigger_id, found).await
    }

    /// Returns true if the trigger listens to the event, unless the budget is exceeded.
    async fn is_match(
        &self,
        trigger_id: &str,
        event: &Event,
    ) -> Result<Result<bool, BudgetSpent>, Rejection> {
        let kept = match self.stored(trigger_id).await {
            Ok(kept) => kept,
            // A damaged trigger does not keep the others from firing.
            Err(CallError::Damaged(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let is_heard = |(definition, kept): &(Definition, Kept)| {
            definition.namespace == event.namespace && event.heard.by(&Listener::of(kept))
        };
        let kept = kept.filter(is_heard);
        let Some((_, kept)) = kept else {
            return Ok(Ok(false));
        };
        let owner = WorkOwner::new(event.namespace.as_str(), &kept.trigger.user_id);
        let Some(Config::Event(filter)) = kept.trigger.config else {
            return Ok(Ok(false));
        };
        if filter.r#type != event.kind {
            return Ok(Ok(false));
        }
        let data = event.data.clone();
        let evaluator = self.0.maker.handle().evaluator();
        Ok(evaluator
            .evaluate(owner, move || listens_to(&filter, &data))
            .await?)
    }

    // TRIG-3.2
    /// Fires for the stored events, and removes each once what it started is durable.
    pub(super) async fn tell_noted(&self) -> Result<(), Rejection> {
        loop {
            let read = self.0.maker.handle().readers();
            let noted = read
                .read(|reader| reader.definitions(DefinitionKind::Event, None, None, PAGE))
                .await?
                .definitions;
            if noted.is_empty() {
                return Ok(());
            }
            for event in noted.iter().rev() {
                match self.tell_of(event).await {
                    // It is not told again: that would end the same way, and what comes behind it would never be told.
                    Err(rejection) if rejection.is_of_damage() => {
                        let why = tonic::Status::from(rejection);
                        warn!(event = event.name, why = why.message(), "event meets damage");
                    }
                    told => told?,
                }
            }
            let change = move |host: &mut RunsHost, _| {
                for event in &noted {
                    host.define(DefinitionKind::Event, &event.name, DefinitionChange::Delete);
                }
                Ok(())
            };
            self.0.maker.handle().change(0, change).await?;
        }
    }

    async fn tell_of(&self, noted: &Definition) -> Result<(), Rejection> {
        if let Some(event) = self.event_of(noted).await? {
            self.tell(&event).await?;
        }
        Ok(())
    }

    /// `None` if what it is about is gone.
    async fn event_of(&self, noted: &Definition) -> Result<Option<Event>, Rejection> {
        let Some((kind, id)) = noted.name.split_once(' ') else {
            return Ok(None);
        };
        if self.index().listeners(&noted.namespace, kind).is_empty() {
            return Ok(None);
        }
        if kind == EventKind::GoalCompleted.as_str() {
            return self.event_of_goal(noted, id).await.map(Some);
        }
        let about = String::from_utf8_lossy(&noted.record).into_owned();
        let Ok(run_id) = about.parse::<RunId>() else {
            return Ok(None);
        };
        let Some(found) = self.about(run_id).await? else {
            return Ok(None);
        };
        let mut data = StructBuilder::new()
            .text("run_id", &about)
            .text("trigger_id", &found.header.trigger_id)
            .text("goal_id", &found.header.goal_id)
            .text("plan_id", &found.header.plan_id)
            .text("user_id", &found.user_id)
            .text("state", found.state);
        if kind == "input_requested" {
            data = data.text("input_request_id", id);
        }
        let is_started = found.root.trigger_depth > 0;
        // TRIG-4.3
        if is_started && found.root.source == PROBE {
            return Ok(None);
        }
        Ok(Some(Event {
            namespace: noted.namespace.clone(),
            kind: kind.to_owned(),
            id: id.to_owned(),
            data: data.build(),
            depth: found.root.trigger_depth,
            started_by: if is_started {
                found.root.trigger_id
            } else {
                String::new()
            },
            heard: Heard::AsFound(found.user_id),
            fired_by: found.fired_by,
        }))
    }

    async fn event_of_goal(&self, noted: &Definition, id: &str) -> Result<Event, Rejection> {
        let CompletedGoal { goal_id, fired_by } = CompletedGoal::of(&noted.record);
        let owner = self.owner_of_goal(&goal_id).await?;
        Ok(Event {
            namespace: noted.namespace.clone(),
            kind: EventKind::GoalCompleted.as_str().to_owned(),
            id: id.to_owned(),
            data: StructBuilder::new().text("goal_id", &goal_id).build(),
            depth: 0,
            started_by: String::new(),
            heard: Heard::AsFound(owner),
            fired_by,
        })
    }

    /// Whose goal it is; empty if it is gone or damaged.
    async fn owner_of_goal(&self, goal_id: &str) -> Result<String, Rejection> {
        let goal_id = goal_id.to_owned();
        let read = move |reader: &dyn RunReader| reader.definition(DefinitionKind::Goal, &goal_id);
        let goal = match self.0.maker.handle().readers().read(read).await {
            Err(CallError::Damaged(_)) => None,
            goal => goal?,
        };
        Ok(goal.and_then(|goal| goal.owner).unwrap_or_default())
    }

    async fn about(&self, run_id: RunId) -> Result<Option<About>, Rejection> {
        let root = self
            .0
            .maker
            .handle()
            .readers()
            .read(move |reader| root_of(reader, run_id));
        let header = |run: &Run, _: &dyn Blobs| {
            let spec = &run.state().spec;
            (
                state_of(run.shown()).as_str_name(),
                spec.user_id.clone(),
                Header::of(spec),
                spec.fires().map(Box::new),
            )
        };
        let Some(root) = root.await? else {
            return Ok(None);
        };
        let runs = self.0.maker.handle();
        let looked = async {
            let (state, user_id, header, fired_by) = runs.look(run_id, header).await?;
            let root = match root == run_id {
                true => header.clone(),
                false => runs.look(root, |run, _| Header::of(&run.state().spec)).await?,
            };
            Ok(About {
                state,
                user_id,
                header,
                root,
                fired_by,
            })
        };
        match looked.await {
            Ok(about) => Ok(Some(about)),
            Err(CallError::NotFound | CallError::Removed(_) | CallError::Damaged(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

// TRIG-3.5
/// Returns true if a filter matches an event with this data. An expression without a value matches nothing.
fn listens_to(filter: &v1::EventFilter, data: &Opaque) -> Result<bool, BudgetSpent> {
    let none = Opaque::default();
    let equals = filter.equals.as_ref().unwrap_or(&none);
    let any_of = filter.any_of.as_ref().unwrap_or(&none);
    let mut budget = WalkBudget::new(EVALUATION_WORK_MAX);
    if !matches(equals, any_of, data, &mut budget)? {
        return Ok(false);
    }
    if filter.expression.is_empty() {
        return Ok(true);
    }
    let evaluated = evaluate_within(&filter.expression, &bindings(data.as_encoded()), &mut budget);
    match evaluated {
        Err(_) if budget.left() == 0 => Err(BudgetSpent),
        evaluated => Ok(evaluated.unwrap_or(false)),
    }
}

/// The run above all that wait for a run.
fn root_of(reader: &dyn RunReader, run_id: RunId) -> Result<Option<RunId>, StoreFault> {
    let mut root = run_id;
    for _ in 0..LEVELS_MAX {
        match reader.summary(root) {
            Ok(Some(summary)) => match summary.created.parent {
                Some(parent) => root = parent,
                None => return Ok(Some(root)),
            },
            Ok(None) | Err(StoreFault::CorruptRun { .. }) => return Ok(None),
            Err(fault) => return Err(fault),
        }
    }
    Ok(None)
}

/// An event of a caller.
pub(super) fn published(
    namespace: Namespace,
    heard: Heard,
    fired_by: Option<Box<Responder>>,
    request: v1::PublishEventRequest,
) -> Event {
    Event {
        namespace,
        kind: request.r#type,
        id: request.id,
        data: request.data.unwrap_or_default(),
        depth: 0,
        started_by: String::new(),
        heard,
        fired_by,
    }
}

/// Levels of runs that wait for one another, and one more.
const LEVELS_MAX: usize = 16;
