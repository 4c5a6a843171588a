//! Mistakes in the expressions of a plan, seen before it runs: the law does not read them. Evaluates nothing.

use escapement_model::limits::VIOLATIONS_MAX;
use escapement_run::plan::{self, Code, Plan, Violation, Violations};

/// Returns the plan if every expression in it is one, and every field is carried out.
pub(crate) fn checked(plan: Plan) -> Result<Plan, Violations> {
    let plan = plan::carried_out(plan)?;
    let mistakes = plan::expressions(&plan).into_iter().filter_map(|(path, text)| {
        let message = escapement_expressions::check(&text).err()?;
        Some(Violation {
            path,
            code: Code::InvalidField,
            message: format!("The expression cannot be read: {message}."),
        })
    });
    match Violations::new(mistakes.take(VIOLATIONS_MAX).collect()) {
        Some(violations) => Err(violations),
        None => Ok(plan),
    }
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
