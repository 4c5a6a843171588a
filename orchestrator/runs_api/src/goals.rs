//! `GoalService`: what somebody wants, and how far its saved plans are. A goal starts nothing.

mod progress;
mod record;
mod service;

use bytes::Bytes;
use escapement_model::limits::NAME_CHARS_MAX;
use escapement_model::{Namespace, PlanId};
use escapement_runs_host::{Deciding, EventKind, RunsHost, event};
use escapement_runs_shell::saved::SavedPlan;
use escapement_runs_shell::{CallError, Decided, RunsHandle};
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKey, DefinitionKind, Listing, Scope};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::goal::State;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::caller::{Caller, scope};
use crate::canonical::Repeatable;
use crate::errors::{Rejection, refused};
use crate::fields::Fields;
use crate::paging::{key_of, next_token, place_and_total};
use crate::totals::{size, total, total_of_records};
use crate::triggers::saving::{clear_links, id_of, random_id, version_of};
use crate::triggers::{CompletedGoal, is_of};
use progress::{PAGE, progress};
use record::{Kept, put, read, rewrite, view};

/// The service.
#[derive(Clone, Debug)]
pub struct Goals {
    runs: RunsHandle,
}

impl Goals {
    /// Keeps goals with these runs.
    pub fn new(runs: RunsHandle) -> Self {
        Self { runs }
    }

    async fn create(&self, request: v1::CreateGoalRequest, caller: &Caller) -> Result<v1::Goal, Rejection> {
        let digest = Sha256::digest(request.encode_meaning());
        let Some(goal) = request.goal else {
            return Err(Rejection::field("goal", "INVALID_ARGUMENT", "is required"));
        };
        let mut fields = Fields::default();
        fields.note("request_id", &request.request_id);
        described(&goal.title, &goal.description, "goal.", &mut fields);
        fields.note("goal.user_id", &goal.user_id);
        no_outputs(&goal, &mut fields);
        let state = State::try_from(goal.state).unwrap_or_else(|_| {
            fields.wrong("goal.state", "must be a known state");
            State::Active
        });
        let parent_id = parent("goal.parent_id", &goal.parent_id, &mut fields);
        fields.conclude()?;
        let made = caller.made(&request.namespace, "goal.user_id", &goal.user_id)?;
        self.require_parent(&parent_id, caller).await?;
        let (namespace, user_id) = (made.origin.namespace, made.user_id);
        let is_named = !request.request_id.is_empty();
        let goal_id = match is_named {
            true => id_of("goal", &scope(&namespace, &user_id), &request.request_id),
            false => random_id()?,
        };
        let kept = Kept {
            title: goal.title,
            description: goal.description,
            state: if state == State::Unspecified {
                State::Active
            } else {
                state
            }
            .into(),
            parent_id,
            request_digest: if is_named {
                digest.to_vec().into()
            } else {
                Bytes::new()
            },
            n_completed: 0,
            author: made.origin.author,
        };
        let id = goal_id.clone();
        let decide = move |deciding: &Deciding<'_>| {
            if let Some(before) = deciding.definition(DefinitionKind::Goal, &id)? {
                let before = read(&before)?;
                return Ok(Decided::Answer(
                    match before.request_digest == kept.request_digest {
                        true => Ok(()),
                        false => Err(CallError::RequestIdReused.into()),
                    },
                ));
            }
            if let Err(rejection) = check_parents(deciding, &namespace, &id, &kept.parent_id)? {
                return Ok(Decided::Answer(Err(rejection)));
            }
            let (id, kept) = (id.clone(), kept.clone());
            let (namespace, owner) = (namespace.clone(), Some(user_id.clone()));
            Ok(Decided::write(
                kept.encoded_len(),
                move |host: &mut RunsHost, now| {
                    host.define(DefinitionKind::Goal, &id, put(namespace, owner, now, &kept));
                    Ok::<(), Rejection>(())
                },
            ))
        };
        self.runs.decide(None, decide).await??;
        self.get(goal_id, String::new()).await
    }

    async fn get(&self, goal_id: String, user_id: String) -> Result<v1::Goal, Rejection> {
        let id = goal_id.clone();
        let read = self.runs.readers().read(move |reader| {
            let found = reader.definition(DefinitionKind::Goal, &id)?;
            let Some(found) = found.filter(|found| is_of(found, &user_id)) else {
                return Ok(None);
            };
            let progress = progress(reader, [&found])?;
            Ok(Some(view(&found, &read(&found)?, &progress)))
        });
        read.await?.ok_or_else(|| not_found(&goal_id))
    }

    async fn list(
        &self,
        request: v1::ListGoalsRequest,
        caller: &Caller,
    ) -> Result<v1::ListGoalsResponse, Rejection> {
        let mut fields = Fields::default();
        let page_size = fields.page_size(request.page_size, 20, 200);
        fields.note("user_id", &request.user_id);
        let parent_id = parent("parent_id", &request.parent_id, &mut fields);
        let state = State::try_from(request.state).unwrap_or_else(|_| {
            fields.wrong("state", "must be a known state");
            State::Unspecified
        });
        fields.conclude()?;
        let filters = (
            "goals",
            request.user_id.clone(),
            request.state,
            parent_id.clone(),
            request.namespace.clone(),
        );
        let (before, known) = place_and_total(&request.page_token, &filters)?;
        let scopes = caller.listed(&request.namespace, &request.user_id)?;
        let read = self.runs.readers().read(move |reader| {
            let (kind, scopes) = (DefinitionKind::Goal, scopes.as_deref());
            let page = reader.definitions(kind, scopes, before.map(key_of), page_size)?;
            // Lists leave out what is damaged.
            let goals = page
                .definitions
                .iter()
                .filter_map(|found| Some((found, read(found).ok()?)));
            let is_wanted = |kept: &Kept| {
                let is_state = state == State::Unspecified || kept.state == i32::from(state);
                is_state && (parent_id.is_empty() || kept.parent_id == parent_id)
            };
            let wanted: Vec<_> = goals.filter(|(_, kept)| is_wanted(kept)).collect();
            let total = match state == State::Unspecified && parent_id.is_empty() {
                true => total(reader, known, Listing::Definitions { kind, scopes })?,
                false => total_of_records(reader, known, kind, scopes, |found| {
                    Ok(read(found).is_ok_and(|kept| is_wanted(&kept)))
                })?,
            };
            let progress = progress(reader, wanted.iter().map(|(found, _)| *found))?;
            let goals: Vec<v1::Goal> = wanted
                .iter()
                .map(|(found, kept)| view(found, kept, &progress))
                .collect();
            Ok((goals, next_token(&page, total, &filters), total))
        });
        let (goals, next_page_token, total) = read.await?;
        Ok(v1::ListGoalsResponse {
            goals,
            next_page_token,
            total_size: size(total),
            total_is_at_least: total.is_at_least,
        })
    }

    /// Refuses a goal above that the caller may not find, in the words for one that is not there.
    async fn require_parent(&self, parent_id: &str, caller: &Caller) -> Result<(), Rejection> {
        if parent_id.is_empty() {
            return Ok(());
        }
        let no_goal = |_: &str| no_parent();
        caller
            .require_definition(&self.runs, DefinitionKind::Goal, parent_id, no_goal)
            .await
    }

    async fn update(&self, request: v1::UpdateGoalRequest, caller: &Caller) -> Result<v1::Goal, Rejection> {
        let mut fields = Fields::default();
        let goal_id = fields.id::<PlanId>("goal_id", &request.goal_id);
        let version = version_of(&request.etag, &mut fields);
        let (title, description) = (request.title.as_deref(), request.description.as_deref());
        described(
            title.unwrap_or("as it is"),
            description.unwrap_or_default(),
            "",
            &mut fields,
        );
        let parent_id = request
            .parent_id
            .as_deref()
            .map(|id| parent("parent_id", id, &mut fields));
        let state = State::try_from(request.state).unwrap_or_else(|_| {
            fields.wrong("state", "must be a known state");
            State::Unspecified
        });
        fields.note("user_id", &request.user_id);
        fields.conclude()?;
        self.require_parent(parent_id.as_deref().unwrap_or_default(), caller)
            .await?;
        let goal_id = goal_id.map_or_else(String::new, |id| id.to_string());
        let (id, by) = (goal_id.clone(), caller.clone());
        let decide = move |deciding: &Deciding<'_>| {
            let found = deciding.definition(DefinitionKind::Goal, &id)?;
            let Some(found) = found.filter(|found| is_of(found, &request.user_id)) else {
                return refused(not_found(&id));
            };
            if version.is_some_and(|version| version != found.version) {
                return refused(CallError::EtagMismatch);
            }
            let mut kept = read(&found)?;
            kept.title = request.title.clone().unwrap_or(kept.title);
            kept.description = request.description.clone().unwrap_or(kept.description);
            if let Some(parent_id) = &parent_id {
                if let Err(rejection) = check_parents(deciding, &found.namespace, &id, parent_id)? {
                    return refused(rejection);
                }
                kept.parent_id.clone_from(parent_id);
            }
            let before = State::try_from(kept.state).unwrap_or(State::Active);
            if !becomes(before, state) {
                let (before, state) = (before.as_str_name(), state.as_str_name());
                let message = format!("The goal is {before} and does not become {state}.");
                return refused(Rejection::failed("GOAL_STATE", message));
            }
            let is_reached = state == State::Completed && before != State::Completed;
            kept.n_completed += u64::from(is_reached);
            if state != State::Unspecified {
                kept.state = state.into();
            }
            let by = is_reached.then(|| by.clone());
            Ok(Decided::write(
                kept.encoded_len(),
                move |host: &mut RunsHost, now| {
                    if let Some(by) = by {
                        note_completed(host, &found, kept.n_completed, &by, now);
                    }
                    rewrite(host, found, &kept, now);
                    Ok(())
                },
            ))
        };
        self.runs.decide(None, decide).await??;
        self.get(goal_id, String::new()).await
    }

    async fn delete(&self, request: v1::DeleteGoalRequest) -> Result<(), Rejection> {
        let mut fields = Fields::default();
        let goal_id = fields.id::<PlanId>("goal_id", &request.goal_id);
        let version = version_of(&request.etag, &mut fields);
        fields.note("user_id", &request.user_id);
        fields.conclude()?;
        let goal_id = goal_id.map_or_else(String::new, |id| id.to_string());
        let below = self.children(goal_id.clone()).await?;
        let id = goal_id.clone();
        let decide = move |deciding: &Deciding<'_>| {
            let namespaces = match deciding.definition(DefinitionKind::Goal, &id) {
                // What is damaged can be deleted, and nothing else can be done with it. Plans of every namespace may name it.
                Err(StoreFault::CorruptDefinition { .. }) => None,
                found => {
                    let Some(found) = found?.filter(|found| is_of(found, &request.user_id)) else {
                        return refused(not_found(&id));
                    };
                    if version.is_some_and(|version| version != found.version) {
                        return refused(CallError::EtagMismatch);
                    }
                    Some(vec![found.namespace])
                }
            };
            let mut orphans = Vec::new();
            for child in &below {
                if let Some(found) = deciding.definition(DefinitionKind::Goal, child)? {
                    let kept = read(&found)?;
                    orphans.push((found, kept));
                }
            }
            let (id, bytes) = (
                id.clone(),
                orphans.iter().map(|(_, kept)| kept.encoded_len()).sum(),
            );
            Ok(Decided::write(bytes, move |host: &mut RunsHost, now| {
                for (found, mut kept) in orphans {
                    kept.parent_id.clear();
                    rewrite(host, found, &kept, now);
                }
                host.define(DefinitionKind::Goal, &id, DefinitionChange::Delete);
                Ok(namespaces)
            }))
        };
        let namespaces = self.runs.decide(None, decide).await??;
        let clear = move |saved: &mut SavedPlan| {
            let is_it = saved.goal_id == goal_id;
            if is_it {
                saved.goal_id.clear();
            }
            is_it
        };
        clear_links(&self.runs, namespaces, clear).await
    }

    /// The goals right below one, which are of its namespace; of any if it is damaged.
    async fn children(&self, goal_id: String) -> Result<Vec<String>, Rejection> {
        let read = self.runs.readers().read(move |reader| {
            let scopes = match reader.definition(DefinitionKind::Goal, &goal_id) {
                Err(StoreFault::CorruptDefinition { .. }) => None,
                found => match found? {
                    None => return Ok(Vec::new()),
                    Some(goal) => Scope::each(None, Some(&[goal.namespace])),
                },
            };
            let mut below = Vec::new();
            let mut before: Option<DefinitionKey> = None;
            loop {
                let page = reader.definitions(DefinitionKind::Goal, scopes.as_deref(), before, PAGE)?;
                let is_below = |found: &&Definition| read(found).is_ok_and(|kept| kept.parent_id == goal_id);
                let found = page.definitions.iter().filter(is_below);
                below.extend(found.map(|found| found.name.clone()));
                before = page.next();
                if before.is_none() {
                    return Ok(below);
                }
            }
        });
        Ok(read.await?)
    }
}

/// Writes the event of the goal that the caller has completed.
fn note_completed(host: &mut RunsHost, goal: &Definition, n_completed: u64, by: &Caller, now: i64) {
    // The same goal may be reached again after it was taken up again.
    let name = format!(
        "{} {}:{n_completed}",
        EventKind::GoalCompleted.as_str(),
        goal.name
    );
    let completed = CompletedGoal {
        goal_id: goal.name.clone(),
        fired_by: by.fires(&goal.namespace),
    };
    let event = event(&goal.namespace, &completed.encode_to_vec(), now);
    host.note(EventKind::GoalCompleted, &name, event);
}

/// Notes what only the orchestrator sets.
fn no_outputs(goal: &v1::Goal, fields: &mut Fields) {
    for (field, is_there) in [
        ("goal_id", !goal.goal_id.is_empty()),
        ("progress", goal.progress != 0.0),
        ("n_plans", goal.n_plans != 0),
        ("created_at", goal.created_at != 0),
        ("updated_at", goal.updated_at != 0),
        ("etag", !goal.etag.is_empty()),
        ("namespace", !goal.namespace.is_empty()),
        ("created_by", goal.created_by.is_some()),
    ] {
        if is_there {
            let field = format!("goal.{field}");
            fields.because(field, "OUTPUT_ONLY", "is set by the orchestrator alone");
        }
    }
}

/// Whether a goal in one state may be put into another one.
fn becomes(before: State, after: State) -> bool {
    match (before, after) {
        (_, State::Unspecified) => true,
        (before, after) if before == after => true,
        (State::Active | State::Paused | State::Unspecified, _) => true,
        (State::Completed | State::Abandoned, after) => after == State::Active,
    }
}

/// Refuses a goal above that is not there, or that stands below.
fn check_parents(
    deciding: &Deciding<'_>,
    namespace: &Namespace,
    goal_id: &str,
    parent_id: &str,
) -> Result<Result<(), Rejection>, StoreFault> {
    let mut above = parent_id.to_owned();
    let wrong = |reason, message: &str| Ok(Err(Rejection::field("parent_id", reason, message)));
    for level in 0..LEVELS_MAX {
        if above.is_empty() {
            return Ok(Ok(()));
        }
        if above == goal_id {
            return wrong("CYCLIC_DEPENDENCY", "stands below the goal");
        }
        let found = deciding.definition(DefinitionKind::Goal, &above)?;
        above = match found.filter(|found| found.namespace == *namespace) {
            Some(found) => read(&found)?.parent_id,
            None if level == 0 => return Ok(Err(no_parent())),
            None => return Ok(Ok(())),
        };
    }
    wrong("NESTED_TOO_DEEP", "has too many goals above it")
}

fn described(title: &str, description: &str, path: &str, fields: &mut Fields) {
    fields.text(&format!("{path}title"), title, 1..=NAME_CHARS_MAX);
    fields.text(&format!("{path}description"), description, 0..=5000);
}

/// The id of a goal above, in lower case; empty for none.
fn parent(field: &str, text: &str, fields: &mut Fields) -> String {
    if text.is_empty() {
        return String::new();
    }
    let id = fields.id::<PlanId>(field, text);
    id.map_or_else(String::new, |id| id.to_string())
}

/// There is no such goal above, or it is somebody else's.
fn no_parent() -> Rejection {
    Rejection::field("parent_id", "GOAL_NOT_FOUND", "names no goal")
}

pub(super) fn not_found(goal_id: &str) -> Rejection {
    Rejection::NotFound {
        reason: "GOAL_NOT_FOUND",
        message: format!("No goal has the id {goal_id}."),
    }
}

/// Goals above one another.
const LEVELS_MAX: usize = 64;
