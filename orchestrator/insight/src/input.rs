//! Finds out what an input is, and makes a scene of it. Reads bytes that the command gives, no files.

use super::answers;
use super::exported;
use super::json::{Object, Problem};
use super::plan;
use super::scene::Scene;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use escapement_codec::archive::file::is_archive;
use escapement_contract::Plan;
use serde_json::Value;

/// Reads an input, with the plan beside it where one is given.
///
/// # Errors
/// [`Problem`]: what was expected, or what is wrong.
pub fn read(input: &[u8], plan: Option<&[u8]>) -> Result<Scene, Problem> {
    if is_archive(input) {
        return exported(input, plan);
    }
    let plan_beside = || plan.map(plan_beside).transpose();
    let documents = documents(input)?;
    let objects: Vec<Object<'_>> = documents
        .iter()
        .map(|document| Object::new(document, ""))
        .collect::<Result<_, _>>()?;
    let first = objects
        .first()
        .ok_or_else(|| Problem(format!("the input is empty; {EXPECTED}")))?;
    if first.has("data") {
        return exported(&joined(&objects)?, plan);
    }
    let plan = plan_beside()?;
    if first.has("entries") || first.has("entry") {
        let plan = plan
            .ok_or_else(|| Problem("a record does not hold its plan: give it with --plan FILE".to_owned()))?;
        return answers::recorded(Scene::of_plan(&plan), &entries(&objects)?);
    }
    if let [_, _, ..] = objects.as_slice() {
        return Err(Problem(format!(
            "the input has more than one document; {EXPECTED}"
        )));
    }
    if first.has("timeline") || first.has("audit") || first.has("result") {
        return answers::simulated(plan.as_ref().map(Scene::of_plan), first);
    }
    let is_plan = first.has("steps") || first.has("plan");
    match plan {
        Some(_) if is_plan => Err(Problem("the input is a plan itself: leave --plan out".to_owned())),
        _ => Ok(Scene::of_plan(&plan_of(first)?)),
    }
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

/// The file of which a stream holds the pieces, in Base64.
fn joined(pieces: &[Object<'_>]) -> Result<Vec<u8>, Problem> {
    let mut file = Vec::new();
    for piece in pieces {
        let decoded = STANDARD.decode_vec(piece.text("data")?, &mut file);
        decoded.map_err(|error| Problem(format!("data is no Base64: {error}")))?;
    }
    Ok(file)
}

/// The plan that `--plan` names.
fn plan_beside(input: &[u8]) -> Result<Plan, Problem> {
    let read = || {
        let document = serde_json::from_slice(strip(input)).map_err(no_json)?;
        plan_of(&Object::new(&document, "")?)
    };
    read().map_err(|Problem(problem)| Problem(format!("--plan: {problem}")))
}

/// A plan document, or a request with one inside.
fn plan_of(document: &Object<'_>) -> Result<Plan, Problem> {
    if document.has("steps") {
        return plan::plan(document);
    }
    match document.object("plan")? {
        Some(document) => plan::plan(&document),
        None => Err(Problem(format!(
            "the input is none of what can be drawn; {EXPECTED}"
        ))),
    }
}

/// The entries of a record that may have come in several pages, or one by one.
fn entries<'a>(pages: &[Object<'a>]) -> Result<Vec<Object<'a>>, Problem> {
    let mut entries = Vec::new();
    for page in pages {
        entries.extend(page.objects("entries")?);
        entries.extend(page.object("entry")?);
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

const EXPECTED: &str = "expected a plan document, a request with a plan, an exported record (the file or the JSON of \
                        ExportExecution), the JSON of a SimulatePlanResponse, or the JSON of a ListAuditEntriesResponse \
                        with --plan";
