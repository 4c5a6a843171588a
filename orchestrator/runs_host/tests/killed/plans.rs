//! What is run, who asks for it, and what handlers and people say. Kills nothing.

use std::sync::Arc;

use bytes::Bytes;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView};
use escapement_model::{Opaque, RunId};
use escapement_run::catalogue::{Catalogue, CatalogueAction};
use escapement_run::journal::{Decision, InputRequest, OutcomeClass, RequestKind};
use escapement_run::outcome::{AttemptOutcome, encoded, value_of_object};
use escapement_run::plan;
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, Planner, Risk, Spec};
use escapement_run::{Input, OverrideWord, RewindScope, Rollback};
use escapement_runs::NewRun;
use escapement_runs_host::Create;
use escapement_store::runs::ClientRequest;

use crate::world::id;

/// Which run is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// One with every type of step.
    EveryType,
    /// One of a goal: the first answer is no plan, the second plan is not what a person wants, the third one fails, and the
    /// fourth one repeats what the third one completed.
    Goal,
    /// One that its caller holds, moves back and overrides by every verb while it waits.
    Verbs,
}

impl Wanted {
    pub(crate) fn create(self) -> Create {
        match self {
            Self::EveryType => create(id(1), &every_type(), None),
            Self::Goal => of_goal(),
            Self::Verbs => create(id(1), &for_verbs(), None),
        }
    }

    /// What the caller asks for, one after another, each while the run asks a question or is paused.
    pub(crate) fn verbs(self) -> Vec<Input> {
        match self {
            Self::EveryType | Self::Goal => Vec::new(),
            Self::Verbs => verbs(),
        }
    }
}

fn step(key: &str, kind: &str, config: StructBuilder) -> StructBuilder {
    StructBuilder::new()
        .text("key", key)
        .text("type", kind)
        .object("config", config.build().as_encoded())
}

fn call(action: &str) -> StructBuilder {
    StructBuilder::new().text("tool_name", action)
}

fn list(items: impl IntoIterator<Item = StructBuilder>) -> ListBuilder {
    items.into_iter().fold(ListBuilder::new(), |list, item| {
        list.object(item.build().as_encoded())
    })
}

const CHILD_PLAN: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01";

fn document(steps: impl IntoIterator<Item = StructBuilder>) -> Opaque {
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", "Killed");
    document.list("steps", list(steps)).build()
}

fn profile(action: &str) -> ActionProfile {
    ActionProfile {
        action: action.to_owned(),
        effect: if action.starts_with("mail") {
            EffectClass::SideEffect
        } else {
            EffectClass::Pure
        }
        .into(),
        risk: Risk::Safe.into(),
        seen: true,
        ..ActionProfile::default()
    }
}

/// Returns every type of step.
fn every_type() -> Opaque {
    let items = list([call("pure.a"), call("mail.b"), call("pure.c")]);
    let choices = ListBuilder::new().text("yes").text("no");
    let steps = [
        step("first", "tool_call", call("mail.send")),
        step(
            "if",
            "condition",
            StructBuilder::new()
                .text("condition", "input.x > 0")
                .text("true_step", "all"),
        ),
        step("never", "tool_call", call("mail.never")),
        step(
            "all",
            "parallel",
            StructBuilder::new()
                .list("steps", items)
                .number("batch_size", 2.0),
        ),
        step("again", "loop", call("mail.loop").number("max_iterations", 3.0)),
        step(
            "decide",
            "llm_decision",
            StructBuilder::new().text("prompt", "?").list("choices", choices),
        ),
        step(
            "ask",
            "user_input",
            StructBuilder::new().text("question", "Go on?"),
        ),
        step(
            "sub",
            "sub_plan",
            StructBuilder::new().text("plan_id", CHILD_PLAN),
        ),
        step(
            "last",
            "tool_call",
            call("mail.last").object(
                "tool_args",
                StructBuilder::new().text("a", "${again:/2}").build().as_encoded(),
            ),
        ),
    ];
    document(steps)
}

/// Two effects around a question, and steps that get an operator's word.
fn for_verbs() -> Opaque {
    let question = StructBuilder::new().text("question", "Go on?");
    let optional = step("failed", "tool_call", call("mail.never")).boolean("required", false);
    document([
        step("first", "tool_call", call("mail.send")),
        step("ask", "user_input", question),
        step("given", "tool_call", call("mail.never")),
        step("skipped", "tool_call", call("mail.never")),
        optional,
        step("last", "tool_call", call("mail.last")),
    ])
}

/// Returns every verb but those that end the run.
fn verbs() -> Vec<Input> {
    let (reason, key) = (|| "somebody said so".to_owned(), |key: &str| key.to_owned());
    let word = |step: &str, word| Input::Override {
        step_key: key(step),
        word,
        reason: reason(),
    };
    let failed = OverrideWord::Fail {
        code: "SAID_SO".to_owned(),
        message: reason(),
    };
    let data = StructBuilder::new().text("at", "the question").build();
    let back = |to| Input::Rollback {
        to,
        allow_repeat_effects: true,
    };
    vec![
        Input::Checkpoint { data },
        Input::Pause { reason: reason() },
        word("given", OverrideWord::Complete(encoded(ValueView::Text("given")))),
        word("skipped", OverrideWord::Skip),
        word("failed", failed.clone()),
        Input::Resume { reason: reason() },
        Input::Rewind {
            step_key: key("first"),
            scope: RewindScope::Later,
            allow_repeat_effects: true,
        },
        back(Rollback::Restore(None)),
        Input::Resume { reason: reason() },
        back(Rollback::Reset),
        word("given", OverrideWord::Skip),
        word(
            "skipped",
            OverrideWord::Complete(encoded(ValueView::Text("given"))),
        ),
        word("failed", failed),
        Input::Resume { reason: reason() },
    ]
}

pub(crate) fn one_call() -> Opaque {
    document([step("only", "tool_call", call("mail.child"))])
}

pub(crate) fn create(run_id: RunId, document: &Opaque, parent: Option<RunId>) -> Create {
    let mut policy = Preset::Autonomous.policy();
    // What was in doubt is told by a person, who looks at what the handlers really did.
    policy.set_ambiguity(escapement_run::spec::InDoubt::Ask);
    let actions = [
        "llm.chat",
        "mail.b",
        "mail.child",
        "mail.last",
        "mail.loop",
        "mail.never",
        "mail.send",
        "pure.a",
        "pure.c",
    ];
    Create {
        run: NewRun {
            run_id,
            spec: Spec {
                limits: Preset::Autonomous.limits(1),
                policy,
                autonomy_level: 4,
                priority: 5,
                user_id: "ada".to_owned(),
                llm_action: "llm.chat".to_owned(),
                parent_run_id: parent
                    .map(|parent| Bytes::copy_from_slice(parent.as_bytes()))
                    .unwrap_or_default(),
                ..Spec::default()
            },
            plan: Arc::new(plan::read(document).unwrap()),
            profiles: actions.map(profile).into(),
        },
        request: parent.is_none().then(|| ClientRequest {
            key: "request 1".to_owned(),
            digest: [1; 32],
        }),
        saved_plan: None,
    }
}

/// Returns a run of a goal, with a person who looks at each plan.
fn of_goal() -> Create {
    let nothing_yet = document([]);
    let mut create = create(id(1), &nothing_yet, None);
    create.run.profiles = Vec::new();
    create.run.spec = Spec {
        goal: "tell everybody".to_owned(),
        planner: Some(Box::new(Planner {
            action: PLANNER.to_owned(),
            limit_ms: 5_000,
            ..Planner::default()
        })),
        autonomy_level: 1,
        ..create.run.spec
    };
    create.run.spec.limits.max_generations = 4;
    create
}

/// What planners may choose from, and what is known of the planner.
pub(crate) fn offered() -> (Catalogue, Vec<ActionProfile>) {
    let actions = ["mail.broken", "mail.last", "mail.send"].map(|action| CatalogueAction {
        profile: profile(action),
        ..CatalogueAction::default()
    });
    let catalogue = Catalogue {
        actions: actions.into(),
        n_left_out: 0,
    };
    (catalogue, vec![profile(PLANNER)])
}

/// What the handler of an attempt answers while this generation is the newest.
pub(crate) fn handled(request: &Bytes, generation: u32) -> AttemptOutcome {
    let names = |action: &str| {
        request
            .windows(action.len())
            .any(|part| part == action.as_bytes())
    };
    let completed = |output: StructBuilder| AttemptOutcome {
        class: OutcomeClass::Completed,
        output: Some(value_of_object(&output.build())),
        code: String::new(),
        message: String::new(),
        pause: false,
        ..AttemptOutcome::default()
    };
    // The request of a planner names every action, so it is looked for first.
    if names(PLANNER) {
        let planned = |second| {
            let steps = [("first", "mail.send"), ("second", second)];
            let steps = steps.map(|(key, action)| step(key, "tool_call", call(action)));
            completed(StructBuilder::new().object("plan", document(steps).as_encoded()))
        };
        return match generation {
            1 => completed(StructBuilder::new().text("content", "I do not know.")),
            2 | 4 => planned("mail.last"),
            _ => planned("mail.broken"),
        };
    }
    match names("mail.broken") {
        true => AttemptOutcome {
            class: OutcomeClass::FailedForGood,
            output: None,
            code: "BROKEN".to_owned(),
            message: "it is broken".to_owned(),
            pause: false,
            ..AttemptOutcome::default()
        },
        false => completed(StructBuilder::new().text("content", "yes")),
    }
}

/// What a person says while this generation is the newest.
pub(crate) fn said(request: &InputRequest, generation: u32) -> (Decision, Bytes) {
    match request.kind() {
        // It was interrupted before a handler had it.
        RequestKind::AmbiguousEffect => (Decision::DidNot, Bytes::new()),
        RequestKind::Approval if generation == 2 => (Decision::Revise, Bytes::new()),
        RequestKind::Approval => (Decision::Approve, Bytes::new()),
        _ => (Decision::Answer, encoded(ValueView::Text("go"))),
    }
}

const PLANNER: &str = "plan.make";
