//! Sizes of entries: each type of the journal has a bound, and no story writes a larger one.
//! The largest entries of types that grow are written, read and folded.

use std::collections::BTreeMap;

use bytes::Bytes;
use escapement_model::limits::{ACTION_CHARS_MAX, ERROR_CODE_CHARS_MAX, LABEL_CHARS_MAX, MESSAGE_CHARS_MAX};
use escapement_run::INLINE_BYTES_MAX;
use escapement_run::bounds::{CARRIED_MAX, ENTRY_BYTES_MAX, PROFILES_BYTES_MAX, SPEC_BYTES_MAX};
use escapement_run::catalogue::Catalogue;
use escapement_run::journal::{Decision, Entry, Event, OutcomeClass, RefusedPart};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::presets::Preset;
use escapement_run::session::{Health, SKILLS_MAX, SkillHealth};
use escapement_run::spec::{ActionProfile, Fallback, FallbackKind, Spec};
use escapement_run::{Input, OverrideWord, Rollback, SessionNews};
use prost::Message;
use serde_json::{Value, json};

use crate::planning::{document, of_goal, planned, planner, profile};
use crate::world::{
    World, call, call_after, completed, encoded, event_name, failed, opaque, rollback, spec, tool,
};

/// Checks an entry that was written.
pub(crate) fn check(entry: &Entry) {
    let event = entry.event.as_ref().unwrap();
    let (n_bytes, bound) = (entry.encoded_len(), bytes_max(event));
    assert!(
        n_bytes <= bound,
        "{}: {n_bytes} bytes, and not {bound} at most",
        event_name(event)
    );
}

/// Returns the most bytes of an entry of this type.
fn bytes_max(event: &Event) -> usize {
    let of_event = match event {
        Event::RunCreated(_) => SPEC_BYTES_MAX + 2 * STORED,
        // What does not fit fails the run.
        Event::PlanCreated(_) => ENTRY_BYTES_MAX - OTHERS,
        Event::ActionsKnown(_) | Event::CatalogueGiven(_) => PROFILES_BYTES_MAX + (256 << 10),
        // The results of more units than one are stored by their hashes.
        Event::StepMemoized(_) => STORED + 1_000 * SMALL,
        Event::ToolsAsked(_) => 16 * (STORED + FAILURE + text(ACTION_CHARS_MAX)) + SMALL,
        Event::ReplanTriggered(_) => (1 << 20) + 64 * (FAILURE + (1 << 10)),
        Event::ChildRunEnded(_) => CARRIED_MAX * DOUBT + STORED + FAILURE,
        Event::SessionRead(_) => STORED + SKILLS_MAX * (text(ACTION_CHARS_MAX) + SMALL),
        Event::GenerationEnded(_) => PARTS + FAILURE + SMALL,
        Event::ToolOutput(_) => STORED + FAILURE + PARTS + SMALL,
        Event::PlanSummary(_) => 65 * text(LABEL_CHARS_MAX),
        Event::RunVerifying(_) => 256 * text(LABEL_CHARS_MAX),
        Event::InputRequested(_) => 64 << 10,
        Event::DecisionRecorded(_) | Event::InputReceived(_) => STORED + 65 * text(LABEL_CHARS_MAX) + WORDS,
        Event::StatePatched(_) => 2 * STORED,
        Event::ArtifactCreated(_) => STORED + 3 * text(LABEL_CHARS_MAX) + (4 << 10),
        Event::EvaluationRequested(_) => 64 << 10,
        Event::ToolCalled(_) => STORED + 2 * text(LABEL_CHARS_MAX) + SMALL,
        Event::CheckpointCreated(_)
        | Event::RunRolledBack(_)
        | Event::ChildRunStarted(_)
        | Event::RunCompleted(_)
        | Event::FallbackUsed(_) => STORED,
        Event::StepCompleted(_) | Event::RunFailed(_) | Event::UnitMemoized(_) => STORED + WORDS + SMALL,
        Event::StepRetrying(_) | Event::UnitFailed(_) | Event::StepFailed(_) | Event::RevisionFailing(_) => {
            FAILURE + SMALL
        }
        Event::Evaluated(_)
        | Event::StepSkipped(_)
        | Event::PauseRequested(_)
        | Event::RunResumed(_)
        | Event::RunCancelled(_)
        | Event::ArtifactVerified(_)
        | Event::SkillHealthChanged(_) => WORDS + SMALL,
        // Numbers and ids.
        Event::RunStarted(_)
        | Event::StepStarted(_)
        | Event::StepBlocked(_)
        | Event::StepReset(_)
        | Event::InputExpired(_)
        | Event::InputClosed(_)
        | Event::RunPaused(_)
        | Event::RunRecovered(_)
        | Event::RunStalled(_)
        | Event::TimeoutError(_)
        | Event::GenerationStarted(_)
        | Event::BudgetWarning(_)
        | Event::BudgetAwaited(_) => SMALL,
    };
    of_event + others(event)
}

/// Returns the bytes of the parts of an entry in addition to its event.
fn others(event: &Event) -> usize {
    match event.is_end() || matches!(event, Event::ChildRunEnded(_)) {
        true => OTHERS,
        false => SMALL,
    }
}

/// Returns the bytes of a text of that many characters of four bytes.
const fn text(chars_max: usize) -> usize {
    4 * chars_max + 8
}

/// Numbers, ids and hashes.
const SMALL: usize = 192;
/// Inline bytes, or a hash.
const STORED: usize = INLINE_BYTES_MAX + SMALL;
const WORDS: usize = text(MESSAGE_CHARS_MAX);
const FAILURE: usize = WORDS + text(ERROR_CODE_CHARS_MAX) + 16;
const PARTS: usize = 20 * 3 * text(300) + 20 * 8;
const DOUBT: usize = 64;
/// Usage, doubts and children, with the end of a run.
const OTHERS: usize = 256 << 10;

/// Returns one event of each type that the journal declares, without content.
fn declared() -> Vec<Event> {
    let of_tag = |tag: u32| {
        let mut bytes = Vec::new();
        prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, &mut bytes);
        bytes.push(0);
        Entry::decode(&bytes[..]).ok()?.event
    };
    // Tags below are those of other fields of an entry.
    (10..1_000).filter_map(of_tag).collect()
}

// RUN-9.6
#[test]
fn each_type_of_entry_has_a_bound_that_the_store_holds() {
    let declared = declared();
    assert!(declared.len() > 50, "{}", declared.len());
    for event in declared {
        assert!(bytes_max(&event) <= ENTRY_BYTES_MAX, "{}", event_name(&event));
    }
}

/// Returns a text of characters of four bytes, longer than any field may be.
fn fat() -> String {
    "\u{10348}".repeat(20_000)
}

fn fat_name(prefix: &str, chars: usize) -> String {
    let n = chars - prefix.len();
    format!("{prefix}{}", "\u{10348}".repeat(n))
}

fn fat_object() -> Value {
    json!({"text": "x".repeat(32_700)})
}

/// Runs a step that fails as often and with as much as it may.
fn failing() -> World {
    let fallback = Fallback {
        kind: Some(FallbackKind::Output(opaque(&fat_object()))),
    };
    let spec = Spec {
        fallback: Some(fallback),
        header: Bytes::from(vec![7; SPEC_BYTES_MAX - (64 << 10)]),
        ..spec(Preset::Standard)
    };
    let name = fat_name("pure.", ACTION_CHARS_MAX);
    let step = json!({"key": "a", "type": "tool_call", "config": {"tool_name": name, "tool_args": {"text": "x".repeat(30_000)}},
        "retry": {"max_retries": 1}, "on_failure": "drain"});
    let mut world = World::with(json!([step]), spec);
    for class in [OutcomeClass::Failed, OutcomeClass::FailedForGood] {
        let execution_id = world.live("a");
        let outcome = AttemptOutcome {
            code: fat(),
            message: fat(),
            ..failed(class)
        };
        world.settle(execution_id, outcome).pass(60_000);
    }
    world
}

fn evaluating() -> World {
    let text = format!("input.city == \"{}\"", "x".repeat(3_000));
    let condition =
        json!({"key": "if", "type": "condition", "config": {"condition": text, "true_step": "yes"}});
    let mut world = World::of(json!([condition, call("yes")]));
    let (evaluation, result) = (1, Err(fat()));
    world.input(Input::Evaluated { evaluation, result });
    world
}

/// Callers and operators who say as much as they may.
fn intervening() -> Vec<World> {
    let steps = || json!([call("a"), call_after("b", &["a"]), call_after("c", &["b"])]);
    let data = || opaque(&fat_object());
    let mut restored = World::of(steps());
    restored
        .input(Input::Checkpoint { data: data() })
        .input(Input::Pause { reason: fat() })
        .complete("a", fat_object())
        .input(rollback(Rollback::Restore(Some(1))))
        .input(Input::Cancel { reason: fat() });
    let mut overridden = World::of(steps());
    overridden
        .input(Input::Pause { reason: fat() })
        .complete("a", fat_object());
    for (step_key, word) in [
        ("b", OverrideWord::Complete(encoded(&fat_object()))),
        ("c", OverrideWord::Skip),
    ] {
        overridden.input(Input::Override {
            step_key: step_key.to_owned(),
            word,
            reason: fat(),
        });
    }
    overridden.input(Input::Resume { reason: fat() });
    vec![restored, overridden]
}

/// Runs a step that patches a session with as many skills as it may have, and as much as an entry holds inline.
fn sharing() -> World {
    let spec = Spec {
        session_id: "shared".to_owned(),
        ..spec(Preset::Standard)
    };
    let name = fat_name("pure.", ACTION_CHARS_MAX);
    let mut world = World::with(json!([tool("a", &name, &[]), call("b")]), spec);
    let skills = (0..SKILLS_MAX).map(|n| SkillHealth {
        skill: fat_name(&format!("{n:04}"), ACTION_CHARS_MAX),
        health: Health::TemporaryFailure.into(),
        failures: u32::MAX,
    });
    world.input(Input::Session(SessionNews {
        state: Some((1, opaque(&fat_object()))),
        health: Some((1, skills.collect())),
    }));
    let patch = json!({"$state_patch": {"text": "x".repeat(32_600)}});
    world
        .fail("a", OutcomeClass::TimedOut)
        .pass(10_000)
        .complete("a", patch);
    world
}

/// Returns an answer with the most users, and the longest comment.
fn at_length(world: &World, who: &str, decision: Decision, value: Value) -> Input {
    let mut answer = world.answer_of(&world.asked(), who, decision, value);
    answer.responder.id = fat_name(who, LABEL_CHARS_MAX);
    answer.responder.users = (0..64)
        .map(|n| fat_name(&format!("{who}{n}"), LABEL_CHARS_MAX))
        .collect();
    answer.comment = fat();
    Input::Answer(answer)
}

/// Asks the longest question and for the largest approvals, of which one needs two people.
fn asking() -> Vec<World> {
    let text = "x".repeat(32_700);
    let question = json!({"key": "q", "type": "user_input", "config": {"question": "${a:/x}"}});
    let mut asked = World::of(json!([call("a"), question]));
    asked.complete("a", json!({"x": "\u{10348}".repeat(12 << 10)}));
    asked.input(at_length(&asked, "bob", Decision::Answer, json!(text)));
    let mut two = Spec {
        autonomy_level: 2,
        ..spec(Preset::Standard)
    };
    two.policy.quorum = 2;
    let name = fat_name("mail.", ACTION_CHARS_MAX);
    let step =
        json!([{"key": "a", "type": "tool_call", "config": {"tool_name": name, "tool_args": fat_object()}}]);
    let mut approved = World::with(step.clone(), two);
    approved.input(at_length(&approved, "bob", Decision::Approve, Value::Null));
    approved.input(at_length(&approved, "eve", Decision::Approve, Value::Null));
    let mut of_handler = World::of(step);
    let execution_id = of_handler.live("a");
    let outcome = AttemptOutcome {
        code: fat(),
        message: fat(),
        output: Some(encoded(&fat_object())),
        ..failed(OutcomeClass::ApprovalRequired)
    };
    of_handler.settle(execution_id, outcome);
    let edited = at_length(&of_handler, "bob", Decision::ApproveWithEdits, fat_object());
    of_handler.input(edited);
    vec![asked, approved, of_handler]
}

/// Asks a planner that answers with as many mistakes as are kept.
fn planning() -> World {
    let mut world = of_goal(planned(Preset::Standard));
    let own = |n: usize| ActionProfile {
        produces: vec![fat_name("", LABEL_CHARS_MAX); 16],
        alternatives: vec![fat_name("", ACTION_CHARS_MAX); 16],
        description: "x".repeat(64 << 10),
        input_schema: "x".repeat(64 << 10),
        ..profile(&format!("own.{n}"))
    };
    world.input(Input::Catalogue {
        generation: 1,
        catalogue: Catalogue::default(),
        own: (0..16).map(own).collect(),
    });
    let mistake = RefusedPart {
        path: fat(),
        code: fat(),
        message: fat(),
    };
    let outcome = AttemptOutcome {
        mistakes: vec![mistake; 50],
        ..completed(json!({"plan": document(json!([call("a")]))}))
    };
    planner(&mut world, outcome);
    world
}

// RUN-9.6
#[test]
fn the_largest_entries_are_written_read_and_folded() {
    let mut worlds = intervening();
    worlds.extend(asking());
    worlds.extend([failing(), evaluating(), sharing(), planning()]);
    let mut largest = BTreeMap::new();
    for entry in worlds.iter().flat_map(|world| &world.journal) {
        let event = entry.event.as_ref().unwrap();
        let (n_bytes, of_type) = (entry.encoded_len(), largest.entry(event_name(event)).or_insert(0));
        *of_type = n_bytes.max(*of_type);
        // What other fields an entry of its type may have is in no story of this file.
        let is_large = 2 * n_bytes > bytes_max(event) - others(event);
        if is_large {
            largest.insert(format!("{} is large", event_name(event)), n_bytes);
        }
    }
    let is_small = |name: &&&str| !largest.contains_key(&format!("{name} is large"));
    let small: Vec<_> = GROWING
        .iter()
        .filter(is_small)
        .map(|name| (name, largest.get(*name)))
        .collect();
    assert!(small.is_empty(), "{small:?}");
}

/// Types whose largest entries others make: callers, workers, models and people.
const GROWING: &[&str] = &[
    "RunCreated",
    "CatalogueGiven",
    "GenerationEnded",
    "ToolCalled",
    "ToolOutput",
    "StepRetrying",
    "UnitFailed",
    "StepFailed",
    "RevisionFailing",
    "FallbackUsed",
    "RunFailed",
    "Evaluated",
    "PauseRequested",
    "RunResumed",
    "RunCancelled",
    "CheckpointCreated",
    "RunRolledBack",
    "StepCompleted",
    "StepSkipped",
    "SessionRead",
    "StatePatched",
    "InputRequested",
    "InputReceived",
    "DecisionRecorded",
];
