//! Finds out what an input is, and makes a scene of it. Reads bytes that the command gives, no files.

use super::answers;
use super::exported;
use super::json::{Problem, answered};
use super::plan;
use super::scene::Scene;
use escapement_codec::archive::file::is_archive;
use escapement_contract::Plan;
use escapement_wire::v1;
use serde_json::Value;

/// Reads an input, with the plan beside it if one is given.
///
/// # Errors
/// [`Problem`]: what was expected, or what is wrong.
pub fn read(input: &[u8], plan: Option<&[u8]>) -> Result<Scene, Problem> {
    if is_archive(input) {
        return exported(input, plan);
    }
    let documents = documents(input)?;
    let first = documents
        .first()
        .ok_or_else(|| Problem(format!("the input is empty; {EXPECTED}")))?;
    if has(first, "data") {
        return exported(&joined(&documents)?, plan);
    }
    let plan = plan.map(plan_beside).transpose()?;
    if has(first, "entries") || has(first, "entry") {
        let plan = plan
            .ok_or_else(|| Problem("a record does not hold its plan: give it with --plan FILE".to_owned()))?;
        return answers::recorded(Scene::of_plan(&plan), &entries(&documents)?);
    }
    if let [_, _, ..] = documents.as_slice() {
        return Err(Problem(format!(
            "the input has more than one document; {EXPECTED}"
        )));
    }
    if has(first, "timeline") || has(first, "audit") || has(first, "result") {
        let answer = answered("escapement.v1.SimulatePlanResponse", "", first)?;
        return answers::simulated(plan.as_ref().map(Scene::of_plan), answer);
    }
    let is_plan = has(first, "steps") || has(first, "plan");
    match plan {
        Some(_) if is_plan => Err(Problem("the input is a plan itself: leave --plan out".to_owned())),
        _ => Ok(Scene::of_plan(&plan_of(first)?)),
    }
}

/// `null` counts as absent.
fn has(document: &Value, name: &str) -> bool {
    document.get(name).is_some_and(|value| !value.is_null())
}

/// A record file.
fn exported(file: &[u8], plan: Option<&[u8]>) -> Result<Scene, Problem> {
    match plan {
        None => exported::scene(file),
        Some(_) => Err(Problem(
            "the record of an export holds its plan: leave --plan out".to_owned(),
        )),
    }
}

/// Joins the record file of which a stream of JSON holds the pieces, as grpcurl prints them.
///
/// # Errors
/// [`Problem`]: what is no such stream.
pub fn exported_file(text: &[u8]) -> Result<Vec<u8>, Problem> {
    joined(&documents(text)?)
}

fn joined(pieces: &[Value]) -> Result<Vec<u8>, Problem> {
    let mut file = Vec::new();
    for piece in pieces {
        let piece: v1::ExportExecutionResponse =
            answered("escapement.v1.ExportExecutionResponse", "", piece)?;
        file.extend_from_slice(&piece.data);
    }
    Ok(file)
}

/// The plan that `--plan` names.
fn plan_beside(input: &[u8]) -> Result<Plan, Problem> {
    let read = || plan_of(&serde_json::from_slice(strip(input)).map_err(no_json)?);
    read().map_err(|Problem(problem)| Problem(format!("--plan: {problem}")))
}

/// A plan document, or a request with one inside.
fn plan_of(document: &Value) -> Result<Plan, Problem> {
    if has(document, "steps") {
        return plan::plan(document);
    }
    match document.get("plan").filter(|plan| !plan.is_null()) {
        Some(document) => plan::plan(document),
        None => Err(Problem(format!(
            "the input is none of what can be drawn; {EXPECTED}"
        ))),
    }
}

/// The entries of a record that may have come in several pages, or one by one.
fn entries(pages: &[Value]) -> Result<Vec<v1::AuditEntry>, Problem> {
    let mut entries = Vec::new();
    for page in pages {
        if let Some(Value::Array(items)) = page.get("entries")
            && items.len() > ENTRIES_MAX
        {
            return Err(Problem(format!("entries has more than {ENTRIES_MAX} items")));
        }
        let list: v1::ListAuditEntriesResponse =
            answered("escapement.v1.ListAuditEntriesResponse", "", page)?;
        entries.extend(list.entries);
        if let Some(entry) = page.get("entry").filter(|entry| !entry.is_null()) {
            entries.push(answered("escapement.v1.AuditEntry", "entry", entry)?);
        }
    }
    Ok(entries)
}

/// One JSON document, or several one after the other, as `grpcurl` writes a stream.
fn documents(input: &[u8]) -> Result<Vec<Value>, Problem> {
    let input = strip(input);
    if !input.trim_ascii_start().starts_with(b"{") {
        return Err(Problem(format!("the input is no JSON object; {EXPECTED}")));
    }
    if n_values_max(input) > VALUES_MAX {
        return Err(Problem(format!("the input has more than {VALUES_MAX} values")));
    }
    serde_json::Deserializer::from_slice(input)
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(no_json)
}

/// An upper bound: signs in texts count too.
fn n_values_max(input: &[u8]) -> usize {
    let begins_one = |byte: &&u8| matches!(**byte, b',' | b'{' | b'[');
    input.iter().filter(begins_one).count()
}

/// Some editors put a byte order mark first.
fn strip(input: &[u8]) -> &[u8] {
    input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input)
}

fn no_json(error: serde_json::Error) -> Problem {
    Problem(format!("the input is no JSON ({error}); {EXPECTED}"))
}

/// Values of a document. The largest answer has fewer, and each takes many times its size in memory.
const VALUES_MAX: usize = 8 << 20;

/// Entries of one page: more than a record can have.
const ENTRIES_MAX: usize = 1 << 20;

const EXPECTED: &str = "expected a plan document, a request with a plan, an exported record (the file or the JSON of \
                        ExportExecution), the JSON of a SimulatePlanResponse, or the JSON of a ListAuditEntriesResponse \
                        with --plan";
