//! Mistakes in the expressions of a plan, seen before it runs: the law does not read them. Evaluates nothing.

use escapement_model::limits::VIOLATIONS_MAX;
use escapement_run::plan::{Code, Expression, Plan, Step, StepKind, Violation, Violations};

/// Returns the plan if every expression in it is one.
pub(crate) fn checked(plan: Plan) -> Result<Plan, Violations> {
    let mut steps: Vec<&Step> = plan.steps.iter().collect();
    steps.sort_by_key(|step| step.place);
    let mistakes = steps.into_iter().filter_map(mistake).take(VIOLATIONS_MAX);
    match Violations::new(mistakes.collect()) {
        Some(violations) => Err(violations),
        None => Ok(plan),
    }
}

fn mistake(step: &Step) -> Option<Violation> {
    let (field, expression) = match &step.kind {
        StepKind::Condition(condition) => ("condition", Some(&condition.condition)),
        StepKind::Loop(repeated) => ("loop_condition", repeated.loop_condition.as_ref()),
        _ => return None,
    };
    let Expression::Text(text) = expression? else {
        return None;
    };
    let message = escapement_expressions::check(text).err()?;
    Some(Violation {
        path: format!("steps[{}].config.{field}", step.place),
        code: Code::InvalidField,
        message: format!("The expression cannot be read: {message}."),
    })
}

#[cfg(test)]
mod tests {
    use super::checked;
    use escapement_model::opaque::{ListBuilder, StructBuilder};
    use escapement_run::plan::{self, Plan};

    fn asking(condition: &str) -> Plan {
        let config = StructBuilder::new().text("condition", condition).build();
        let step = StructBuilder::new()
            .text("key", "c")
            .text("type", "condition")
            .object("config", config.as_encoded())
            .build();
        let document = StructBuilder::new()
            .text("schema", "escapement.plan/1")
            .text("name", "Asks")
            .list("steps", ListBuilder::new().object(step.as_encoded()))
            .build();
        plan::read(&document).unwrap()
    }

    #[test]
    fn a_mistake_in_an_expression_is_a_violation_with_its_path() {
        for sound in ["true", "input.n > 2", "size(results) == 0"] {
            assert!(checked(asking(sound)).is_ok(), "{sound}");
        }
        let violations = checked(asking("input.n >")).unwrap_err();
        assert_eq!(violations.first().path, "steps[0].config.condition");
        let message = &violations.first().message;
        assert!(
            message.contains("at character 10: a value is missing"),
            "{message}"
        );
        assert!(
            checked(asking("urgentCount > 0")).is_err(),
            "there is no such name"
        );
    }
}
