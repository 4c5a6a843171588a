//! Reads triggers of callers: everything that is wrong is collected. Stores nothing.

use escapement_expressions::EXPRESSION_BYTES_MAX;
use escapement_model::limits::{ACTION_CHARS_MAX, LABEL_CHARS_MAX, NAME_CHARS_MAX};
use escapement_triggers::{CatchUp, Cron, Overlap, Schedule, Secret, Zone};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use prost::Message;

use super::webhooks::is_source;
use crate::fields::Fields;
use crate::resolution::SESSION_ID_CHARS_MAX;

/// Checks everything of a trigger but what its runs are made from. Gives the trigger with what it did not say filled in.
pub(super) fn checked(mut trigger: v1::Trigger, fields: &mut Fields) -> v1::Trigger {
    fields.text("trigger.name", &trigger.name, 1..=NAME_CHARS_MAX);
    fields.text("trigger.description", &trigger.description, 0..=5000);
    fields.note("trigger.user_id", &trigger.user_id);
    let outputs = [
        ("last_fired_at", trigger.last_fired_at != 0),
        ("next_fire_at", trigger.next_fire_at != 0),
        ("fire_count", trigger.fire_count != 0),
        ("created_at", trigger.created_at != 0),
        ("updated_at", trigger.updated_at != 0),
        ("etag", !trigger.etag.is_empty()),
        ("last_run_id", !trigger.last_run_id.is_empty()),
    ];
    for (field, _) in outputs.into_iter().filter(|(_, is_there)| *is_there) {
        let field = format!("trigger.{field}");
        fields.because(field, "OUTPUT_ONLY", "is set by the orchestrator alone");
    }
    let priority = *trigger.priority.get_or_insert(5);
    fields.number("trigger.priority", priority, 1..=10);
    trigger.enabled.get_or_insert(true);
    if trigger.overlap.is_empty() {
        "skip".clone_into(&mut trigger.overlap);
    }
    fields.word("trigger.overlap", &trigger.overlap, &OVERLAPS);
    // What the orchestrator says may come back as it was shown.
    trigger.namespace.clear();
    trigger.saved_by = None;
    match &mut trigger.config {
        None => fields.wrong(
            "trigger.schedule",
            "is required, or event, condition or webhook instead",
        ),
        Some(Config::Schedule(schedule)) => schedule_checked(schedule, fields),
        Some(Config::Event(filter)) => filter_checked(filter, fields),
        Some(Config::Condition(condition)) => condition_checked(condition, fields),
        Some(Config::Webhook(webhook)) => webhook_checked(webhook, fields),
    }
    match &trigger.run {
        None => fields.wrong("trigger.run", "is required"),
        Some(run) => run_checked(run, fields),
    }
    if trigger.encoded_len() > TRIGGER_BYTES_MAX {
        let message = format!("must have at most {TRIGGER_BYTES_MAX} bytes: save the plan and name it");
        fields.wrong("trigger", message);
    }
    trigger
}

/// Refuses what a firing says about its run.
fn run_checked(run: &v1::CreateRunRequest, fields: &mut Fields) {
    let said = [
        ("user_id", !run.user_id.is_empty()),
        ("namespace", !run.namespace.is_empty()),
        ("request_id", !run.request_id.is_empty()),
        ("trigger_id", !run.trigger_id.is_empty()),
        ("source", !run.source.is_empty()),
        ("source_id", !run.source_id.is_empty()),
        ("parent_execution_id", !run.parent_execution_id.is_empty()),
        ("validate_only", run.validate_only),
    ];
    for (field, _) in said.into_iter().filter(|(_, is_there)| *is_there) {
        fields.wrong(format!("trigger.run.{field}"), "is said by the trigger");
    }
    if run.input.as_ref().is_some_and(|input| input.has_key(INPUT_KEY)) {
        let message = format!("must not have the key {INPUT_KEY}, which is reserved");
        fields.wrong("trigger.run.input", message);
    }
}

fn schedule_checked(schedule: &mut v1::Schedule, fields: &mut Fields) {
    note_schedule("trigger.schedule.", &schedule.cron, &schedule.time_zone, fields);
    if schedule.catch_up.is_empty() {
        "latest".clone_into(&mut schedule.catch_up);
    }
    let most = *schedule.catch_up_max.get_or_insert(10);
    fields.number("trigger.schedule.catch_up_max", most, 1..=60);
    fields.word("trigger.schedule.catch_up", &schedule.catch_up, &catch_ups(0));
}

/// Notes what is wrong with an expression and a zone. `path`: what stands before their names.
pub(super) fn note_schedule(path: &str, cron: &str, zone: &str, fields: &mut Fields) {
    if let Err(why) = Cron::read(cron) {
        fields.because(
            format!("{path}cron"),
            "INVALID_CRON",
            format!("is no schedule: {why}"),
        );
    }
    if let Err(why) = Zone::named(zone) {
        fields.because(format!("{path}time_zone"), "INVALID_TIME_ZONE", why.to_string());
    }
}

fn filter_checked(filter: &mut v1::EventFilter, fields: &mut Fields) {
    fields.text("trigger.event.type", &filter.r#type, 1..=LABEL_CHARS_MAX);
    let equals = filter.equals.clone().unwrap_or_default();
    let any_of = filter.any_of.clone().unwrap_or_default();
    fields.object("trigger.event.equals", &equals, FILTER_BYTES_MAX);
    fields.object("trigger.event.any_of", &any_of, FILTER_BYTES_MAX);
    if fields.are_right()
        && let Err(why) = escapement_triggers::check(&equals, &any_of)
    {
        fields.wrong("trigger.event.equals", why.to_string());
    }
    if !filter.expression.is_empty() {
        expression_checked("trigger.event.expression", &filter.expression, fields);
    }
}

fn condition_checked(condition: &mut v1::Condition, fields: &mut Fields) {
    expression_checked("trigger.condition.expression", &condition.expression, fields);
    let interval = condition.check_interval_ms.unwrap_or(CHECK_INTERVAL_MS);
    fields.number("trigger.condition.check_interval_ms", interval, 1_000..=YEAR_MS);
    let cooldown = condition.cooldown_ms.unwrap_or(COOLDOWN_MS);
    fields.number("trigger.condition.cooldown_ms", cooldown, 0..=YEAR_MS);
    let session_id = &condition.session_id;
    fields.session_id(
        "trigger.condition.session_id",
        session_id,
        0..=SESSION_ID_CHARS_MAX,
    );
    if let Some(probe) = &mut condition.probe {
        fields.text(
            "trigger.condition.probe.action",
            &probe.action,
            1..=ACTION_CHARS_MAX,
        );
        let timeout = *probe.timeout_ms.get_or_insert(PROBE_MS);
        fields.number("trigger.condition.probe.timeout_ms", timeout, 1_000..=3_600_000);
    }
    condition.check_interval_ms = Some(interval);
    condition.cooldown_ms = Some(cooldown);
}

fn expression_checked(field: &str, expression: &str, fields: &mut Fields) {
    if expression.len() > EXPRESSION_BYTES_MAX {
        let message = format!("must have at most {EXPRESSION_BYTES_MAX} bytes");
        fields.wrong(field, message);
    } else if let Err(why) = escapement_expressions::check(expression) {
        fields.wrong(field, format!("cannot be read: {why}"));
    }
}

fn webhook_checked(webhook: &mut v1::Webhook, fields: &mut Fields) {
    if !webhook.secret.is_empty() && Secret::read(&webhook.secret).is_none() {
        let message = "must be whsec_ and 24 to 64 bytes in base64";
        fields.wrong("trigger.webhook.secret", message);
    }
    if webhook.allowed_sources.len() > SOURCES_MAX {
        let message = format!("must have at most {SOURCES_MAX} entries");
        fields.wrong("trigger.webhook.allowed_sources", message);
    }
    for (at, source) in webhook.allowed_sources.iter().enumerate().take(SOURCES_MAX) {
        if !is_source(source) {
            let field = format!("trigger.webhook.allowed_sources[{at}]");
            fields.wrong(
                field,
                "must be an address, or one with the length of a network behind a slash",
            );
        }
    }
}

/// The schedule of a trigger that was checked.
///
/// # Errors
/// A sentence, if the database of time zones has lost its zone since.
pub(super) fn schedule_of(schedule: &v1::Schedule) -> Result<Schedule, String> {
    let cron = Cron::read(&schedule.cron).map_err(|why| why.to_string())?;
    let zone = Zone::named(&schedule.time_zone).map_err(|why| why.to_string())?;
    Ok(Schedule::new(cron, zone))
}

/// What becomes of what was missed.
pub(super) fn catch_up_of(schedule: &v1::Schedule) -> CatchUp {
    let most = u32::try_from(schedule.catch_up_max.unwrap_or(10)).unwrap_or(1);
    let words = catch_ups(most);
    let found = words.iter().find(|(word, _)| *word == schedule.catch_up);
    found.map_or(CatchUp::Latest, |(_, catch_up)| *catch_up)
}

/// What becomes of a firing while a run of the trigger lives.
pub(super) fn overlap_of(trigger: &v1::Trigger) -> Overlap {
    let found = OVERLAPS.iter().find(|(word, _)| *word == trigger.overlap);
    found.map_or(Overlap::Skip, |(_, overlap)| *overlap)
}

fn catch_ups(most: u32) -> [(&'static str, CatchUp); 3] {
    [
        ("latest", CatchUp::Latest),
        ("all", CatchUp::All(most)),
        ("skip", CatchUp::Skip),
    ]
}

const OVERLAPS: [(&str, Overlap); 3] = [
    ("skip", Overlap::Skip),
    ("queue", Overlap::Queue),
    ("allow", Overlap::Allow),
];
/// What runs find their cause under.
pub(super) const INPUT_KEY: &str = "trigger";
/// Pause between two checks of a condition, unless its trigger sets another.
pub(super) const CHECK_INTERVAL_MS: i64 = 300_000;
/// How long a condition does not fire again if its trigger does not say: one hour.
pub(super) const COOLDOWN_MS: i64 = 3_600_000;
/// How long a probe may take if it does not say.
pub(super) const PROBE_MS: i64 = 30_000;
const YEAR_MS: i64 = 31_536_000_000;
/// Bytes of a filter's objects.
const FILTER_BYTES_MAX: usize = 64 << 10;
/// Bytes of a trigger, encoded; the store keeps no larger definitions.
const TRIGGER_BYTES_MAX: usize = 900 << 10;
const SOURCES_MAX: usize = 64;
