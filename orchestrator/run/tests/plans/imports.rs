//! Documents of other formats: what they become, and what is wrong with them, under their own paths.

use escapement_run::plan::import::{Format, Imported, import};
use escapement_run::plan::{self, Expression, OnFailure, Plan, StepKind, Violations};
use serde_json::{Value, json};

use crate::documents::{decoded, encoded};

fn imported(format: Format, document: &Value) -> (Imported, Plan) {
    let imported = import(format, &encoded(document)).unwrap_or_else(|violations| panic!("{violations}"));
    let plan = plan::read(&imported.document).unwrap();
    (imported, plan)
}

fn keys(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.key.as_str()).collect()
}

/// Numbers as doubles, which all numbers of documents are.
fn doubles(value: &Value) -> Value {
    decoded(&encoded(value))
}

fn narrative() -> Value {
    json!({
        "requestId": "1b4e28ba-2fa1-4d1e-a7f2-000c0de00001",
        "narrative": "You roll the dice.",
        "tools": [
            {"toolId": "A", "toolPath": "skills/dice/roll", "input": {"sides": 20, "say": "${A}"}},
            {"toolId": "B", "toolPath": "skills/story/tell", "dependencies": ["A"], "required": false, "async": true},
            {"toolId": "C", "toolPath": "skills/map/draw", "dependencies": ["A"],
                "retryPolicy": {"maxRetries": 0, "backoffMs": 250}},
            {"toolId": "D", "toolPath": "skills/save", "dependencies": ["B", "C"], "retryPolicy": {}},
        ],
        "parallel": true,
        "disabledSkills": ["weather"],
        "metadata": {"generationAttempt": 2, "parentPlanId": null},
    })
}

#[test]
fn a_narrative_becomes_calls_with_the_defaults_of_its_format() {
    let (imported, plan) = imported(Format::Narrative, &narrative());
    assert_eq!(
        imported.external_id.as_deref(),
        Some("1b4e28ba-2fa1-4d1e-a7f2-000c0de00001")
    );
    assert_eq!(
        decoded(&imported.attributes),
        doubles(&json!({"disabled_skills": ["weather"], "generation_attempt": 2}))
    );
    assert_eq!(keys(&plan), ["A", "B", "C", "D"]);
    let retry = |max_retries, backoff_ms| json!({"max_retries": max_retries, "backoff_ms": backoff_ms, "multiplier": 2});
    let expected = json!({
        "schema": "escapement.plan/1", "name": "1b4e28ba-2fa1-4d1e-a7f2-000c0de00001",
        "narrative": "You roll the dice.", "parallel": true,
        "steps": [
            {"key": "A", "type": "tool_call", "required": true, "retry": retry(3, 100),
                "config": {"tool_name": "skills/dice/roll", "tool_args": {"sides": 20, "say": "$${A}"}}},
            {"key": "B", "type": "tool_call", "required": false, "async": true, "retry": retry(3, 100),
                "config": {"tool_name": "skills/story/tell"}, "depends_on": ["A"]},
            {"key": "C", "type": "tool_call", "required": true, "retry": retry(0, 250),
                "config": {"tool_name": "skills/map/draw"}, "depends_on": ["A"]},
            {"key": "D", "type": "tool_call", "required": true, "retry": retry(3, 100),
                "config": {"tool_name": "skills/save"}, "depends_on": ["B", "C"]},
        ],
    });
    assert_eq!(decoded(&imported.document), doubles(&expected));
}

#[test]
fn a_narrative_may_have_no_tools() {
    let document = json!({"requestId": "r", "narrative": "Nothing to do.", "tools": []});
    let (_, plan) = imported(Format::Narrative, &document);
    assert!(plan.steps.is_empty());
    assert_eq!(plan.narrative.as_deref(), Some("Nothing to do."));
}

fn decomposition() -> Value {
    json!({
        "goal": "Compare two files",
        "steps": [
            {"id": "read_a", "description": "Read README.md", "tools": ["file_read"]},
            {"id": "read_b", "description": "Read ${HOME}/README.md", "tools": ["file_read"], "depends_on": []},
            {"id": "synth", "description": "Compare them", "depends_on": ["read_a", "read_b"]},
        ],
    })
}

#[test]
fn a_decomposition_becomes_narrow_questions() {
    let (imported, plan) = imported(Format::Decomposition, &decomposition());
    assert_eq!(imported.external_id, None);
    assert!(imported.attributes.is_empty());
    assert_eq!(keys(&plan), ["read_a", "read_b", "synth"]);
    assert_eq!(plan.steps[2].depends_on, [0, 1]);
    let step = |key, description, prompt| {
        json!({"key": key, "type": "llm_decision", "description": description,
            "config": {"prompt": prompt, "context": "dependencies"}})
    };
    let mut steps = [
        step("read_a", "Read README.md", "Read README.md"),
        step("read_b", "Read ${HOME}/README.md", "Read $${HOME}/README.md"),
        step("synth", "Compare them", "Compare them"),
    ];
    steps[0]["config"]["tools"] = json!(["file_read"]);
    steps[1]["config"]["tools"] = json!(["file_read"]);
    steps[1]["depends_on"] = json!([]);
    steps[2]["depends_on"] = json!(["read_a", "read_b"]);
    let expected = json!({"schema": "escapement.plan/1", "name": "Compare two files", "goal": "Compare two files", "steps": steps});
    assert_eq!(decoded(&imported.document), expected);
}

fn autonomous() -> Value {
    json!({
        "id": "plan_1706000000_abc123", "name": "Weekly Report Generation", "goal": "Generate and send a weekly summary report",
        "description": "Automated weekly report with metrics", "priority": 7, "source": "agent", "sourceId": "agent_123",
        "triggerId": "trigger_456", "goalId": "goal_789", "autonomyLevel": 2, "maxRetries": 3, "timeoutMs": 300_000,
        "metadata": {"category": "reporting"}, "status": "running", "progress": 66.7, "userId": "default", "checkpoint": null,
        "steps": [
            {"id": "step_123", "orderNum": 1, "type": "tool_call", "name": "Fetch active goals",
                "description": "Get all active goals with their progress",
                "config": {"toolName": "list_goals", "toolArgs": {"status": "active", "limit": 20}},
                "dependencies": [], "maxRetries": 3, "timeoutMs": 30_000, "onSuccess": null, "onFailure": "abort",
                "metadata": {}, "status": "completed", "result": {"goals": 3}},
            {"orderNum": 2, "type": "llm_decision", "name": "Analyze", "config": {
                "prompt": "Based on the goal data, identify goals that need attention.",
                "choices": ["goals_healthy", "needs_attention", "critical_intervention"]}},
            {"id": "ask", "orderNum": 3, "type": "user_input", "name": "Ask", "onFailure": "step_789", "config": {
                "question": "Would you like to adjust goal priorities?", "inputType": "choice",
                "options": ["Adjust priorities", "Extend deadlines", "Keep as is"], "timeout": 86_400_000}},
            {"id": "if", "orderNum": 4, "type": "condition", "name": "If",
                "config": {"condition": "result:step_123", "trueStep": "step_456", "falseStep": "step_789"}},
            {"id": "step_456", "orderNum": 5, "type": "parallel", "name": "Both", "config": {"waitAll": true, "steps": [
                {"toolName": "list_goals", "toolArgs": {"status": "active"}}, "list_tasks"]}},
            {"id": "step_789", "orderNum": 6, "type": "loop", "name": "Poll", "onFailure": "skip", "config": {
                "toolName": "check_status", "toolArgs": {"target": "deployment"}, "maxIterations": 10,
                "loopCondition": "last.state != 'done'"}},
            {"orderNum": 7, "type": "loop", "name": "Again", "config": {"loopStep": "step_123"}},
            {"orderNum": 8, "type": "sub_plan", "name": "Nested",
                "config": {"subPlanId": "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10"}},
        ],
    })
}

#[test]
fn an_autonomous_plan_keeps_every_field_and_begins_anew() {
    let (imported, plan) = imported(Format::Autonomous, &autonomous());
    assert_eq!(imported.external_id.as_deref(), Some("plan_1706000000_abc123"));
    let attributes = json!({"priority": 7, "source": "agent", "source_id": "agent_123", "trigger_id": "trigger_456",
        "goal_id": "goal_789", "autonomy_level": 2, "max_retries": 3, "timeout_ms": 300_000, "metadata": {"category": "reporting"}});
    assert_eq!(decoded(&imported.attributes), doubles(&attributes));
    assert_eq!(
        keys(&plan),
        [
            "step_123", "step_2", "ask", "if", "step_456", "step_789", "step_7", "step_8"
        ]
    );
    let expected = json!({
        "schema": "escapement.plan/1", "name": "Weekly Report Generation",
        "goal": "Generate and send a weekly summary report", "description": "Automated weekly report with metrics",
        "steps": [
            {"key": "step_123", "order": 1, "type": "tool_call", "name": "Fetch active goals",
                "description": "Get all active goals with their progress",
                "config": {"tool_name": "list_goals", "tool_args": {"status": "active", "limit": 20}},
                "depends_on": [], "retry": {"max_retries": 3}, "timeout_ms": 30_000, "on_failure": "abort", "metadata": {}},
            {"key": "step_2", "order": 2, "type": "llm_decision", "name": "Analyze", "retry": {}, "config": {
                "prompt": "Based on the goal data, identify goals that need attention.",
                "choices": ["goals_healthy", "needs_attention", "critical_intervention"]}},
            {"key": "ask", "order": 3, "type": "user_input", "name": "Ask", "retry": {}, "on_failure": "step_789", "config": {
                "question": "Would you like to adjust goal priorities?", "input_type": "choice",
                "options": ["Adjust priorities", "Extend deadlines", "Keep as is"], "timeout_ms": 86_400_000}},
            {"key": "if", "order": 4, "type": "condition", "name": "If", "retry": {},
                "config": {"condition": "result:step_123", "true_step": "step_456", "false_step": "step_789"}},
            {"key": "step_456", "order": 5, "type": "parallel", "name": "Both", "retry": {}, "config": {"wait_all": true, "steps": [
                {"tool_name": "list_goals", "tool_args": {"status": "active"}}, "list_tasks"]}},
            {"key": "step_789", "order": 6, "type": "loop", "name": "Poll", "retry": {}, "on_failure": "skip", "config": {
                "tool_name": "check_status", "tool_args": {"target": "deployment"}, "max_iterations": 10,
                "loop_condition": "last.state != 'done'"}},
            {"key": "step_7", "order": 7, "type": "loop", "name": "Again", "retry": {}, "config": {"loop_step": "step_123"}},
            {"key": "step_8", "order": 8, "type": "sub_plan", "name": "Nested", "retry": {},
                "config": {"plan_id": "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10"}},
        ],
    });
    assert_eq!(decoded(&imported.document), doubles(&expected));
    let StepKind::Condition(condition) = &plan.steps[3].kind else {
        panic!("{plan:?}");
    };
    assert_eq!(condition.condition, Expression::ResultOf(0));
    assert_eq!(plan.steps[2].on_failure, Some(OnFailure::Jump(5)));
}

fn core() -> Value {
    json!({
        "goal": "Ship it", "status": "in_progress", "currentStep": 1,
        "steps": [
            {"id": 2, "description": "Is it good?", "dependsOn": [1], "status": "pending"},
            {"id": 1, "description": "Run the tests", "toolName": "shell", "toolArgs": {"command": "make ${TARGET}"},
                "dependsOn": [], "status": "completed", "result": "ok"},
        ],
    })
}

#[test]
fn a_core_plan_has_calls_and_questions() {
    let (imported, plan) = imported(Format::Core, &core());
    assert_eq!(keys(&plan), ["step_1", "step_2"]);
    let expected = json!({
        "schema": "escapement.plan/1", "name": "Ship it", "goal": "Ship it",
        "steps": [
            {"key": "step_2", "type": "llm_decision", "description": "Is it good?", "config": {"prompt": "Is it good?"},
                "depends_on": ["step_1"]},
            {"key": "step_1", "type": "tool_call", "description": "Run the tests", "depends_on": [],
                "config": {"tool_name": "shell", "tool_args": {"command": "make $${TARGET}"}}},
        ],
    });
    assert_eq!(decoded(&imported.document), expected);
}

fn protocol() -> Value {
    json!({
        "objective": "crea una imagen de un gato",
        "steps": [
            {"stepIndex": 1, "toolName": "image_generate", "description": "Draw", "input": {"prompt": "un gato"},
                "isGenerator": true, "dependencies": [0]},
            {"stepIndex": 0, "toolName": "web_search", "description": "Search", "input": {}, "isGenerator": false, "dependencies": []},
        ],
        "requiresArtifact": true, "expectedArtifactType": "image",
    })
}

#[test]
fn a_protocol_plan_must_produce_its_artifact() {
    let (imported, plan) = imported(Format::Protocol, &protocol());
    assert_eq!(keys(&plan), ["step_0", "step_1"]);
    assert_eq!(plan.constraints.must_produce, ["image"]);
    let expected = json!({
        "schema": "escapement.plan/1", "name": "crea una imagen de un gato", "goal": "crea una imagen de un gato",
        "constraints": {"must_produce": ["image"], "expected_artifact_type": "image"},
        "steps": [
            {"key": "step_1", "order": 1, "type": "tool_call", "description": "Draw", "metadata": {"is_generator": true},
                "config": {"tool_name": "image_generate", "tool_args": {"prompt": "un gato"}}, "depends_on": ["step_0"]},
            {"key": "step_0", "order": 0, "type": "tool_call", "description": "Search",
                "config": {"tool_name": "web_search", "tool_args": {}}, "depends_on": []},
        ],
    });
    assert_eq!(decoded(&imported.document), doubles(&expected));
    let (_, plan) = self::imported(
        Format::Protocol,
        &json!({"objective": "Look", "steps": [{"stepIndex": 0, "toolName": "look"}]}),
    );
    assert!(plan.constraints.must_produce.is_empty());
}

#[test]
fn formats_are_spelled_as_they_are_found() {
    for format in Format::ALL {
        assert_eq!(Format::spelled(format.as_str()), Some(format));
    }
    assert_eq!(Format::spelled("escapement.plan/1"), None);
    let presets: Vec<&str> = Format::ALL.into_iter().map(Format::preset).collect();
    assert_eq!(
        presets,
        ["execution", "plan_mode", "autonomous", "autonomous", "protocol"]
    );
}

/// Where a document is changed, what it says there as JSON (`-` removes it), and the path and code of the violation.
type Row = (Format, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (Format::Narrative, "/requestId", "-", "requestId INVALID_FIELD"),
    (Format::Narrative, "/requestId", "7", "requestId INVALID_FIELD"),
    (Format::Narrative, "/tools", "-", "tools INVALID_FIELD"),
    (Format::Narrative, "/tools", "{}", "tools INVALID_FIELD"),
    (Format::Narrative, "/tools/3", "1", "tools[3] INVALID_FIELD"),
    (Format::Narrative, "/tools/3/toolId", "-", "tools[3].toolId INVALID_FIELD"),
    (Format::Narrative, "/tools/3/toolId", r#""a b""#, "tools[3].toolId INVALID_FIELD"),
    (Format::Narrative, "/tools/3/toolId", r#""A""#, "tools[3].toolId DUPLICATE_KEY"),
    (Format::Narrative, "/tools/3/toolPath", "-", "tools[3].toolPath INVALID_FIELD"),
    (Format::Narrative, "/tools/3/toolPath", "[]", "tools[3].toolPath INVALID_FIELD"),
    (Format::Narrative, "/tools/3/toolPath", r#""skills/weather/now""#, "tools[3].toolPath CONSTRAINT_VIOLATED"),
    (Format::Narrative, "/tools/3/input", "[]", "tools[3].input INVALID_FIELD"),
    (Format::Narrative, "/tools/3/input", r#"{"x": [{"$from": "A"}]}"#, "tools[3].input.x[0].$from REFERENCE_UNRESOLVED"),
    (Format::Narrative, "/tools/3/dependencies", r#"["B", "nobody"]"#, "tools[3].dependencies[1] UNKNOWN_REFERENCE"),
    (Format::Narrative, "/tools/0/dependencies", r#"["A"]"#, "tools[0].dependencies[0] CYCLIC_DEPENDENCY"),
    (Format::Narrative, "/tools/0/required", "1", "tools[0].required INVALID_FIELD"),
    (Format::Narrative, "/tools/0/async", "1", "tools[0].async INVALID_FIELD"),
    (Format::Narrative, "/tools/0/extra", "1", "tools[0].extra UNKNOWN_FIELD"),
    (Format::Narrative, "/tools/2/retryPolicy", "3", "tools[2].retryPolicy INVALID_FIELD"),
    (Format::Narrative, "/tools/2/retryPolicy/maxRetries", "11", "tools[2].retryPolicy.maxRetries INVALID_FIELD"),
    (Format::Narrative, "/tools/2/retryPolicy/backoffMs", "-1", "tools[2].retryPolicy.backoffMs INVALID_FIELD"),
    (Format::Narrative, "/tools/2/retryPolicy/multiplier", "2", "tools[2].retryPolicy.multiplier UNKNOWN_FIELD"),
    (Format::Narrative, "/parallel", r#""yes""#, "parallel INVALID_FIELD"),
    (Format::Narrative, "/disabledSkills", r#""weather""#, "disabledSkills INVALID_FIELD"),
    (Format::Narrative, "/metadata/generationAttempt", "0", "metadata.generationAttempt INVALID_FIELD"),
    (Format::Narrative, "/metadata/parentPlanId", "1", "metadata.parentPlanId INVALID_FIELD"),
    (Format::Narrative, "/metadata/extra", "1", "metadata.extra UNKNOWN_FIELD"),
    (Format::Narrative, "/steps", "[]", "steps UNKNOWN_FIELD"),
    (Format::Decomposition, "/goal", "-", "goal INVALID_FIELD"),
    (Format::Decomposition, "/goal", "1", "goal INVALID_FIELD"),
    (Format::Decomposition, "/goal", r#""""#, "goal INVALID_FIELD"),
    (Format::Decomposition, "/plan_id", "1", "plan_id INVALID_FIELD"),
    (Format::Decomposition, "/steps", "-", "steps INVALID_FIELD"),
    (Format::Decomposition, "/steps/2/id", "-", "steps[2].id INVALID_FIELD"),
    (Format::Decomposition, "/steps/2/id", r#""read_a""#, "steps[2].id DUPLICATE_KEY"),
    (Format::Decomposition, "/steps/2/description", "-", "steps[2].description INVALID_FIELD"),
    (Format::Decomposition, "/steps/2/description", "1", "steps[2].description INVALID_FIELD"),
    (Format::Decomposition, "/steps/2/tools", r#"[""]"#, "steps[2].tools[0] INVALID_FIELD"),
    (Format::Decomposition, "/steps/2/depends_on/0", r#""nobody""#, "steps[2].depends_on[0] UNKNOWN_REFERENCE"),
    (Format::Decomposition, "/steps/2/depends_on/0", r#""synth""#, "steps[2].depends_on[0] CYCLIC_DEPENDENCY"),
    (Format::Decomposition, "/steps/2/prompt", r#""x""#, "steps[2].prompt UNKNOWN_FIELD"),
    (Format::Decomposition, "/extra", "1", "extra UNKNOWN_FIELD"),
    (Format::Autonomous, "/name", "-", "name INVALID_FIELD"),
    (Format::Autonomous, "/goal", "-", "goal INVALID_FIELD"),
    (Format::Autonomous, "/id", "1", "id INVALID_FIELD"),
    (Format::Autonomous, "/extra", "1", "extra UNKNOWN_FIELD"),
    (Format::Autonomous, "/steps/0/orderNum", "-", "steps[0].orderNum INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/orderNum", "1.5", "steps[0].orderNum INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/name", "-", "steps[0].name INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/type", r#""tool""#, "steps[0].type UNKNOWN_STEP_TYPE"),
    (Format::Autonomous, "/steps/0/config", "[]", "steps[0].config INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/config/toolName", "-", "steps[0].config.toolName INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/config/toolArgs", "[]", "steps[0].config.toolArgs INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/config/prompt", r#""x""#, "steps[0].config.prompt UNKNOWN_FIELD"),
    (Format::Autonomous, "/steps/0/config/tool_name", r#""x""#, "steps[0].config.tool_name UNKNOWN_FIELD"),
    (Format::Autonomous, "/steps/0/maxRetries", "101", "steps[0].maxRetries INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/timeoutMs", "0", "steps[0].timeoutMs INVALID_FIELD"),
    (Format::Autonomous, "/steps/0/dependencies", r#"["nobody"]"#, "steps[0].dependencies[0] UNKNOWN_REFERENCE"),
    (Format::Autonomous, "/steps/2/config/timeout", "0", "steps[2].config.timeout INVALID_FIELD"),
    (Format::Autonomous, "/steps/2/config/inputType", r#""form2""#, "steps[2].config.inputType INVALID_FIELD"),
    (Format::Autonomous, "/steps/2/onFailure", r#""step_123""#, "steps[2].onFailure BACKWARD_JUMP"),
    (Format::Autonomous, "/steps/2/onSuccess", r#""nobody""#, "steps[2].onSuccess UNKNOWN_REFERENCE"),
    (Format::Autonomous, "/steps/3/config/trueStep", r#""apply_changes""#, "steps[3].config.trueStep UNKNOWN_REFERENCE"),
    (Format::Autonomous, "/steps/3/config/falseStep", r#""ask""#, "steps[3].config.falseStep BACKWARD_JUMP"),
    (Format::Autonomous, "/steps/4/config/steps/0/toolName", "1", "steps[4].config.steps[0].toolName INVALID_FIELD"),
    (Format::Autonomous, "/steps/4/config/steps/1", "1", "steps[4].config.steps[1] INVALID_FIELD"),
    (Format::Autonomous, "/steps/4/config/waitAll", "1", "steps[4].config.waitAll INVALID_FIELD"),
    (Format::Autonomous, "/steps/5/config/maxIterations", "1001", "steps[5].config.maxIterations INVALID_FIELD"),
    (Format::Autonomous, "/steps/5/config/loopCondition", "1", "steps[5].config.loopCondition INVALID_FIELD"),
    (Format::Autonomous, "/steps/6/config/loopStep", r#""ask""#, "steps[6].config.loopStep INVALID_FIELD"),
    (Format::Autonomous, "/steps/7/config/subPlanId", r#""plan_1706000000_abc""#, "steps[7].config.subPlanId INVALID_FIELD"),
    (Format::Core, "/goal", "-", "goal INVALID_FIELD"),
    (Format::Core, "/steps/0/id", "-", "steps[0].id INVALID_FIELD"),
    (Format::Core, "/steps/0/id", r#""2""#, "steps[0].id INVALID_FIELD"),
    (Format::Core, "/steps/0/id", "1", "steps[1].id DUPLICATE_KEY"),
    (Format::Core, "/steps/0/description", "-", "steps[0].description INVALID_FIELD"),
    (Format::Core, "/steps/1/toolName", "-", "steps[1].toolName INVALID_FIELD"),
    (Format::Core, "/steps/1/toolArgs", "1", "steps[1].toolArgs INVALID_FIELD"),
    (Format::Core, "/steps/1/dependsOn", "[2]", "steps[1].dependsOn[0] CYCLIC_DEPENDENCY"),
    (Format::Core, "/steps/1/dependsOn", "[7]", "steps[1].dependsOn[0] UNKNOWN_REFERENCE"),
    (Format::Core, "/steps/1/dependsOn", "7", "steps[1].dependsOn INVALID_FIELD"),
    (Format::Core, "/steps/1/extra", "7", "steps[1].extra UNKNOWN_FIELD"),
    (Format::Protocol, "/objective", "-", "objective INVALID_FIELD"),
    (Format::Protocol, "/steps/0/stepIndex", "-1", "steps[0].stepIndex INVALID_FIELD"),
    (Format::Protocol, "/steps/0/stepIndex", "0", "steps[1].stepIndex DUPLICATE_KEY"),
    (Format::Protocol, "/steps/0/toolName", "-", "steps[0].toolName INVALID_FIELD"),
    (Format::Protocol, "/steps/0/input", "1", "steps[0].input INVALID_FIELD"),
    (Format::Protocol, "/steps/0/isGenerator", "1", "steps[0].isGenerator INVALID_FIELD"),
    (Format::Protocol, "/steps/0/isGenerator", "false", "steps CONSTRAINT_VIOLATED"),
    (Format::Protocol, "/steps/0/dependencies/0", "9", "steps[0].dependencies[0] UNKNOWN_REFERENCE"),
    (Format::Protocol, "/requiresArtifact", r#""yes""#, "requiresArtifact INVALID_FIELD"),
    (Format::Protocol, "/expectedArtifactType", "-", "expectedArtifactType CONSTRAINT_VIOLATED"),
    (Format::Protocol, "/expectedArtifactType", "1", "expectedArtifactType INVALID_FIELD"),
    (Format::Protocol, "/intent", r#""x""#, "intent UNKNOWN_FIELD"),
];

fn fixture(format: Format) -> Value {
    match format {
        Format::Narrative => narrative(),
        Format::Decomposition => decomposition(),
        Format::Autonomous => autonomous(),
        Format::Core => core(),
        Format::Protocol => protocol(),
    }
}

fn changed(mut document: Value, pointer: &str, what: &str) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Object(object) if what == "-" => {
            object.remove(field);
        }
        Value::Object(object) => {
            object.insert(field.to_owned(), serde_json::from_str(what).unwrap());
        }
        other => *other.pointer_mut(&format!("/{field}")).unwrap() = serde_json::from_str(what).unwrap(),
    }
    document
}

fn found(violations: &Violations) -> Vec<String> {
    violations
        .iter()
        .map(|one| format!("{} {}", one.path, one.code))
        .collect()
}

#[test]
fn what_is_wrong_is_told_with_its_path_in_its_own_format() {
    let mut wrong = String::new();
    for (format, pointer, what, expected) in ROWS {
        let document = changed(fixture(*format), pointer, what);
        let found = match import(*format, &encoded(&document)) {
            Ok(_) => Vec::new(),
            Err(violations) => found(&violations),
        };
        // More follows from a field that is missing, and from a step that others name.
        let is_alone = found.len() == 1
            || ["INVALID_FIELD", "DUPLICATE_KEY"]
                .iter()
                .any(|code| expected.ends_with(code));
        if !is_alone || !found.iter().any(|line| line == expected) {
            wrong.push_str(&format!(
                "{format:?} {pointer} as {what}\n  expected {expected}\n  found {found:?}\n"
            ));
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn what_is_wrong_there_and_what_is_wrong_here_is_told_at_once() {
    let document = json!({"requestId": "r", "extra": 1, "tools": [{"toolId": "a", "dependencies": ["b"], "input": {"$from": 1}}]});
    let violations = import(Format::Narrative, &encoded(&document)).unwrap_err();
    assert_eq!(
        found(&violations),
        [
            "tools[0].input.$from REFERENCE_UNRESOLVED",
            "extra UNKNOWN_FIELD",
            "tools[0].toolPath INVALID_FIELD",
            "tools[0].dependencies[0] UNKNOWN_REFERENCE",
        ]
    );
}

#[test]
fn a_document_that_is_too_large_is_refused_as_a_whole() {
    let mut document = core();
    document["steps"][0]["result"] = json!("x".repeat(1 << 20));
    let violations = import(Format::Core, &encoded(&document)).unwrap_err();
    assert_eq!(found(&violations), ["document PLAN_SIZE"]);
}
