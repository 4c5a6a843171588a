//! What is wrong with a request, rule by rule.
//! Looks at one field after the other and remembers nothing but findings.

use escapement_contract::{PlanDraft, RequestDraft, RetryPolicyDraft, StepDraft};
use escapement_model::codes::{DEPENDENCY_UNRESOLVED, INVALID_PAYLOAD};
use escapement_tests::planted::{SELF_EDGE, misreads};
use escapement_tests::reference::objects::is_object;
use std::collections::{BTreeMap, BTreeSet};

/// Field paths with their codes.
pub(crate) type Findings = BTreeSet<(String, &'static str)>;

/// Returns everything that forbids the request. Does not measure the plan as a whole and names more than
/// 1000.
pub(crate) fn findings(draft: &RequestDraft, concurrency_limit: u32) -> Findings {
    let mut found = Findings::new();
    let mut invalid = |wrong: bool, field: &str| {
        if wrong {
            found.insert((field.to_owned(), INVALID_PAYLOAD));
        }
    };
    //
    invalid(
        draft
            .execution_id
            .as_deref()
            .is_some_and(|id| normal_id(id).is_none()),
        "execution_id",
    );
    invalid(
        draft
            .parent_execution_id
            .as_deref()
            .is_some_and(|id| normal_id(id).is_none()),
        "parent_execution_id",
    );
    //
    invalid(
        draft
            .environment
            .as_ref()
            .is_some_and(|object| !is_object(object, Some(1 << 20))),
        "environment",
    );
    invalid(
        draft.user_id.as_deref().is_some_and(|text| length(text) > 255),
        "user_id",
    );
    invalid(
        draft.request_id.as_deref().is_some_and(|text| length(text) > 255),
        "request_id",
    );
    invalid(draft.correlation_context.len() > 64, "correlation_context");
    for (key, value) in &draft.correlation_context {
        let wrong = !(1..=255).contains(&length(key)) || length(value) > 4096;
        // A path shows 64 code points of a key.
        let key: String = key.chars().take(64).collect();
        invalid(wrong, &format!("correlation_context[\"{key}\"]"));
    }
    //
    let concurrency_is_wrong = draft
        .max_concurrent_steps
        .is_some_and(|n| n < 1 || i64::from(n) > i64::from(concurrency_limit));
    invalid(concurrency_is_wrong, "options.max_concurrent_steps");
    match &draft.plan {
        None => invalid(true, "plan"),
        Some(plan) => found.extend(of_plan(plan)),
    }
    found
}

fn of_plan(plan: &PlanDraft) -> Findings {
    let mut found = Findings::new();
    let mut invalid = |wrong: bool, field: &str| {
        if wrong {
            found.insert((format!("plan.{field}"), INVALID_PAYLOAD));
        }
    };
    invalid(normal_id(&plan.id).is_none(), "id");
    invalid(plan.version != 1, "version");
    invalid(plan.created_at < 1, "created_at");
    invalid(!(1..=1024).contains(&plan.steps.len()), "steps");
    invalid(!(1..=255).contains(&length(&plan.name)), "name");
    invalid(
        !(1..=1024).contains(&plan.context_requirements.len()),
        "context_requirements",
    );
    for (n, text) in plan.context_requirements.iter().enumerate() {
        invalid(
            !(1..=255).contains(&length(text)),
            &format!("context_requirements[{n}]"),
        );
    }
    invalid(plan.tags.len() > 64, "tags");
    for (n, text) in plan.tags.iter().enumerate() {
        invalid(!(1..=255).contains(&length(text)), &format!("tags[{n}]"));
    }
    invalid(
        plan.metadata
            .as_ref()
            .is_some_and(|object| !is_object(object, None)),
        "metadata",
    );
    //
    invalid(plan.timeout_ms.is_some_and(|ms| ms < 1), "timeout_ms");
    invalid(
        plan.estimated_duration_ms.is_some_and(|ms| ms < 0),
        "estimated_duration_ms",
    );
    if let Some(policy) = &plan.retry_policy {
        let RetryPolicyDraft {
            max_attempts,
            backoff_ms,
            backoff_multiplier,
            max_backoff_ms,
            retryable_error_codes,
        } = policy;
        invalid(max_attempts.is_some_and(|n| n < 1), "retry_policy.max_attempts");
        invalid(backoff_ms.is_some_and(|ms| ms < 0), "retry_policy.backoff_ms");
        invalid(
            max_backoff_ms.is_some_and(|ms| ms < 0),
            "retry_policy.max_backoff_ms",
        );
        let multiplier = backoff_multiplier.unwrap_or(1.0);
        invalid(
            !(1.0..f64::INFINITY).contains(&multiplier),
            "retry_policy.backoff_multiplier",
        );
        invalid(
            retryable_error_codes.len() > 256,
            "retry_policy.retryable_error_codes",
        );
        for (n, text) in retryable_error_codes.iter().enumerate() {
            invalid(
                !(1..=50).contains(&length(text)),
                &format!("retry_policy.retryable_error_codes[{n}]"),
            );
        }
    }
    for (n, step) in plan.steps.iter().enumerate() {
        let id = normal_id(&step.id);
        //
        let is_repeated = id.is_some() && plan.steps[..n].iter().any(|earlier| normal_id(&earlier.id) == id);
        invalid(id.is_none() || is_repeated, &format!("steps[{n}].id"));
        for (field, wrong) in of_step(step) {
            invalid(wrong, &format!("steps[{n}].{field}"));
        }
    }
    found.extend(of_references(plan));
    found
}

fn of_step(step: &StepDraft) -> [(&'static str, bool); 4] {
    let StepDraft {
        // These two are judged with the others of the plan.
        id: _,
        depends_on: _,
        action,
        payload,
        on_failure,
        timeout_ms,
    } = step;
    [
        ("action", !(1..=100).contains(&length(action))),
        (
            "payload",
            !payload
                .as_ref()
                .is_some_and(|object| is_object(object, Some(1 << 20))),
        ),
        ("on_failure", !(0..=2).contains(on_failure)),
        ("timeout_ms", timeout_ms.is_some_and(|ms| ms < 1)),
    ]
}

/// A reference: the step that makes it, and its place in that step's list.
type Reference = (usize, usize);

//
fn of_references(plan: &PlanDraft) -> Findings {
    let mut at_fault: BTreeSet<Reference> = BTreeSet::new();
    for (step, item, target) in references(plan) {
        if target.is_none_or(|target| target == step && !misreads(SELF_EDGE)) {
            at_fault.insert((step, item));
        }
    }
    at_fault.extend(closing_references(plan));
    at_fault
        .into_iter()
        .map(|(step, item)| {
            (
                format!("plan.steps[{step}].depends_on[{item}]"),
                DEPENDENCY_UNRESOLVED,
            )
        })
        .collect()
}

/// Returns every reference with the step that it leads to; of those that say the same in one list the first alone.
fn references(plan: &PlanDraft) -> Vec<(usize, usize, Option<usize>)> {
    let mut references = Vec::new();
    for (step, draft) in plan.steps.iter().enumerate() {
        for (item, text) in draft.depends_on.iter().enumerate() {
            let says = |text: &String| normal_id(text).unwrap_or_else(|| text.clone());
            if draft.depends_on[..item]
                .iter()
                .any(|earlier| says(earlier) == says(text))
            {
                continue;
            }
            let id = normal_id(text);
            // A step whose id is none is known by that text.
            let target = plan.steps.iter().position(|other| match &id {
                Some(_) => normal_id(&other.id) == id,
                None => other.id == *text,
            });
            references.push((step, item, target));
        }
    }
    references
}

/// References that lead back to a step that is being walked; steps and references are walked in list order.
fn closing_references(plan: &PlanDraft) -> BTreeSet<Reference> {
    let mut outgoing: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (step, item, target) in references(plan) {
        if let Some(target) = target.filter(|target| *target != step) {
            outgoing.entry(step).or_default().push((item, target));
        }
    }
    let mut walk = Walk {
        outgoing,
        path: Vec::new(),
        done: BTreeSet::new(),
        closing: BTreeSet::new(),
    };
    for step in 0..plan.steps.len() {
        walk.from(step);
    }
    walk.closing
}

struct Walk {
    outgoing: BTreeMap<usize, Vec<(usize, usize)>>,
    path: Vec<usize>,
    done: BTreeSet<usize>,
    closing: BTreeSet<Reference>,
}

impl Walk {
    fn from(&mut self, step: usize) {
        if self.done.contains(&step) {
            return;
        }
        self.path.push(step);
        for (item, target) in self.outgoing.get(&step).cloned().unwrap_or_default() {
            if self.path.contains(&target) {
                self.closing.insert((step, item));
            } else {
                self.from(target);
            }
        }
        self.path.pop();
        self.done.insert(step);
    }
}

/// Returns the steps from which references lead back to themselves, by definition: over one step or over several.
pub(crate) fn steps_on_cycles(plan: &PlanDraft, without: &BTreeSet<Reference>) -> BTreeSet<usize> {
    let n = plan.steps.len();
    let mut leads_to = vec![vec![false; n]; n];
    for (step, item, target) in references(plan) {
        if let Some(target) = target.filter(|_| !without.contains(&(step, item))) {
            leads_to[step][target] = true;
        }
    }
    for over in 0..n {
        for from in 0..n {
            for to in 0..n {
                leads_to[from][to] |= leads_to[from][over] && leads_to[over][to];
            }
        }
    }
    (0..n).filter(|step| leads_to[*step][*step]).collect()
}

/// Returns the id in lower case, or `None` if it is no canonical UUID v4.
pub(crate) fn normal_id(text: &str) -> Option<String> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_uuid_v4 = lengths == [8, 4, 4, 4, 12]
        && groups
            .iter()
            .all(|group| group.chars().all(|digit| digit.is_ascii_hexdigit()))
        && groups[2].starts_with('4')
        && groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    is_uuid_v4.then(|| text.to_ascii_lowercase())
}

fn length(text: &str) -> usize {
    text.chars().count()
}
