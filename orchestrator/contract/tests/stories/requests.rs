//! Section 1: what a request is.

use crate::story::{ALLOWANCE, CONCURRENCY_MAX, Spec, plan, step_id};
use bytes::Bytes;
use escapement_contract::{Finding, RetryPolicyDraft, Violations, validate_request};
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;

fn findings(spec: Spec) -> Vec<Finding> {
    validate_request(spec.0, CONCURRENCY_MAX).map_or_else(|all| all.iter().cloned().collect(), |_| Vec::new())
}

/// The paths and codes of all violations.
#[track_caller]
fn check(spec: Spec, expected: &[&str]) {
    let found: Vec<String> = findings(spec)
        .iter()
        .map(|finding| match finding.code {
            "INVALID_PAYLOAD" => finding.field.clone(),
            code => format!("{} {code}", finding.field),
        })
        .collect();
    assert_eq!(found, expected);
}

fn with(change: impl FnOnce(&mut Spec)) -> Spec {
    let mut spec = plan().step("a").step("b").after(&["a"]);
    change(&mut spec);
    spec
}

//
#[test]
fn every_violation_is_named_at_once_in_document_order() {
    let spec = with(|spec| {
        spec.0.user_id = Some("u".repeat(256));
        spec.0.max_concurrent_steps = Some(0);
        let plan = spec.plan();
        plan.id = "nonsense".into();
        plan.version = 2;
        plan.created_at = 0;
        plan.name = String::new();
        plan.steps[0].payload = None;
        plan.steps[0].depends_on = vec![step_id("zz").to_string()];
        plan.steps[1].on_failure = 3;
        plan.steps[1].timeout_ms = Some(0);
        plan.context_requirements.clear();
        plan.timeout_ms = Some(-1);
        plan.retry_policy = Some(RetryPolicyDraft {
            max_attempts: Some(0),
            ..RetryPolicyDraft::default()
        });
        plan.tags = vec![String::new()];
    });
    check(
        spec,
        &[
            "plan.id",
            "plan.version",
            "plan.created_at",
            "plan.steps[0].payload",
            "plan.steps[0].depends_on[0] DEPENDENCY_UNRESOLVED",
            "plan.steps[1].on_failure",
            "plan.steps[1].timeout_ms",
            "plan.name",
            "plan.context_requirements",
            "plan.timeout_ms",
            "plan.retry_policy.max_attempts",
            "plan.tags[0]",
            "user_id",
            "options.max_concurrent_steps",
        ],
    );
}

//
#[test]
fn a_request_without_a_plan_is_refused() {
    let mut spec = plan();
    spec.0.plan = None;
    check(spec, &["plan"]);
}

//
#[test]
fn a_refusal_names_at_most_a_thousand_violations() {
    let spec = with(|spec| {
        for step in &mut spec.plan().steps {
            step.depends_on = (0..5000).map(|n| format!("nobody {n}")).collect();
        }
    });
    let all = findings(spec);
    assert_eq!(all.len(), 1000);
    assert_eq!(all[0].field, "plan.steps[0].depends_on[0]");
}

//
#[test]
fn only_canonical_ids_of_version_four_are_ids() {
    let good = step_id("a").to_string();
    let bad = [
        String::new(),
        good.replace('-', ""),
        format!("{{{good}}}"),
        format!("urn:uuid:{good}"),
        "00000000-0000-0000-0000-000000000000".into(),
        good.replacen("-4", "-1", 1),
        format!("{good} "),
    ];
    for id in bad {
        let spec = with(|spec| {
            spec.0.execution_id = Some(id.clone());
            spec.0.parent_execution_id = Some(id.clone());
            spec.plan().id = id.clone();
        });
        check(spec, &["plan.id", "execution_id", "parent_execution_id"]);
    }
    let upper = validate_request(with(|spec| spec.0.execution_id = Some(good.to_uppercase())).0, 1).unwrap();
    assert_eq!(upper.execution_id().unwrap().to_string(), good);
}

//
#[test]
fn a_step_id_that_differs_in_case_only_is_a_repeated_one() {
    let spec = with(|spec| {
        let upper = spec.plan().steps[0].id.to_uppercase();
        spec.plan().steps[1].id = upper;
        spec.plan().steps[1].depends_on.clear();
    });
    check(spec.clone(), &["plan.steps[1].id"]);
    let message = &findings(spec)[0].message;
    assert!(
        message.contains("steps[1]") && message.contains("steps[0]"),
        "{message}"
    );
}

//
#[test]
fn only_version_one_is_known() {
    for version in [-1, 0, 2, 3] {
        check(with(|spec| spec.plan().version = version), &["plan.version"]);
    }
    let later = findings(with(|spec| spec.plan().version = 2));
    assert!(later[0].message.contains("not supported"));
}

//
#[test]
fn numbers_out_of_range_are_named_one_by_one() {
    let spec = with(|spec| {
        let plan = spec.plan();
        plan.created_at = -5;
        plan.timeout_ms = Some(0);
        plan.estimated_duration_ms = Some(-1);
        plan.retry_policy = Some(RetryPolicyDraft {
            max_attempts: Some(-3),
            backoff_ms: Some(-1),
            backoff_multiplier: Some(0.99),
            max_backoff_ms: Some(-1),
            retryable_error_codes: vec!["A".repeat(51)],
        });
    });
    check(
        spec,
        &[
            "plan.created_at",
            "plan.timeout_ms",
            "plan.retry_policy.max_attempts",
            "plan.retry_policy.backoff_ms",
            "plan.retry_policy.backoff_multiplier",
            "plan.retry_policy.max_backoff_ms",
            "plan.retry_policy.retryable_error_codes[0]",
            "plan.estimated_duration_ms",
        ],
    );
    for multiplier in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let policy = RetryPolicyDraft {
            backoff_multiplier: Some(multiplier),
            ..RetryPolicyDraft::default()
        };
        check(
            with(|spec| spec.plan().retry_policy = Some(policy)),
            &["plan.retry_policy.backoff_multiplier"],
        );
    }
}

//
#[test]
fn a_step_limit_above_that_of_the_plan_is_legal() {
    check(with(|spec| spec.plan().steps[0].timeout_ms = Some(i64::MAX)), &[]);
}

//
#[test]
fn a_plan_has_between_one_and_1024_steps() {
    check(plan(), &["plan.steps"]);
    let many = |n_steps: usize| (0..n_steps).fold(plan(), |spec, n| spec.step(&format!("s{n}")));
    check(many(1024), &[]);
    check(many(1025), &["plan.steps"]);
}

//
#[test]
fn lengths_count_code_points() {
    check(with(|spec| spec.plan().name = "ü".repeat(255)), &[]);
    check(with(|spec| spec.plan().name = "ü".repeat(256)), &["plan.name"]);
    check(with(|spec| spec.plan().steps[0].action = "界".repeat(100)), &[]);
    check(
        with(|spec| spec.plan().steps[0].action = "界".repeat(101)),
        &["plan.steps[0].action"],
    );
    check(
        with(|spec| spec.plan().steps[0].action.clear()),
        &["plan.steps[0].action"],
    );
    check(
        with(|spec| spec.plan().tags = vec!["t".into(); 65]),
        &["plan.tags"],
    );
}

//
#[test]
fn a_context_requirement_is_neither_missing_nor_empty() {
    check(
        with(|spec| spec.plan().context_requirements.clear()),
        &["plan.context_requirements"],
    );
    let spec = with(|spec| spec.plan().context_requirements = vec!["a".into(), String::new()]);
    check(spec, &["plan.context_requirements[1]"]);
}

//
#[test]
fn objects_are_required_well_formed_and_bounded() {
    let broken = Opaque::from_encoded(Bytes::from_static(&[0xff, 0xff]));
    let spec = with(|spec| {
        spec.plan().steps[0].payload = Some(broken.clone());
        spec.plan().steps[1].payload = None;
        spec.plan().metadata = Some(broken.clone());
        spec.0.environment = Some(broken);
    });
    check(
        spec,
        &[
            "plan.steps[0].payload",
            "plan.steps[1].payload",
            "plan.metadata",
            "environment",
        ],
    );
    check(
        with(|spec| spec.plan().steps[0].payload = Some(Opaque::default())),
        &[],
    );
    let deep = |n_objects| {
        (0..n_objects).fold(Opaque::default(), |inner, _| {
            StructBuilder::new().object("o", inner.as_encoded()).build()
        })
    };
    // Each object inside of another costs 3 of 90 nested messages.
    let spec = with(|spec| {
        spec.plan().steps[0].payload = Some(deep(30));
        spec.plan().metadata = Some(deep(30));
        spec.0.environment = Some(deep(30));
    });
    check(spec, &[]);
    let spec = with(|spec| {
        spec.plan().steps[0].payload = Some(deep(31));
        spec.plan().metadata = Some(deep(31));
        spec.0.environment = Some(deep(31));
    });
    check(spec, &["plan.steps[0].payload", "plan.metadata", "environment"]);
    let large = StructBuilder::new().text("t", &"x".repeat(1 << 20)).build();
    check(
        with(|spec| spec.plan().steps[1].payload = Some(large.clone())),
        &["plan.steps[1].payload"],
    );
    check(with(|spec| spec.0.environment = Some(large)), &["environment"]);
}

//
#[test]
fn on_failure_is_halt_unless_said_otherwise() {
    let request = validate_request(with(|_| ()).0, 1).unwrap();
    assert_eq!(request.plan().steps()[0].on_failure().as_str(), "halt");
    check(
        with(|spec| spec.plan().steps[0].on_failure = -1),
        &["plan.steps[0].on_failure"],
    );
}

//
#[test]
fn forward_references_are_legal_and_repeated_ones_count_once() {
    let spec = plan().step("a").after(&["b", "b"]).step("b");
    let request = validate_request(spec.0, 1).unwrap();
    assert_eq!(request.plan().steps()[0].depends_on().len(), 1);
    assert_eq!(request.plan().canonical_order()[0].as_usize(), 1);
}

//
#[test]
fn a_reference_to_nobody_or_to_itself_is_unresolved() {
    let spec = plan().step("a").after(&["a", "x"]).step("b").after(&["a"]);
    check(
        spec,
        &[
            "plan.steps[0].depends_on[0] DEPENDENCY_UNRESOLVED",
            "plan.steps[0].depends_on[1] DEPENDENCY_UNRESOLVED",
        ],
    );
}

//
#[test]
fn a_reference_to_a_step_with_a_broken_id_is_not_reported_again() {
    let spec = with(|spec| {
        spec.plan().steps[0].id = "broken".into();
        spec.plan().steps[1].depends_on = vec!["broken".into()];
    });
    check(spec, &["plan.steps[0].id"]);
}

//
#[test]
fn each_cycle_is_reported_once_with_its_path() {
    let spec = plan()
        .step("a")
        .after(&["c"])
        .step("b")
        .after(&["a"])
        .step("c")
        .after(&["b"])
        .step("d")
        .step("e")
        .after(&["d", "f"])
        .step("f")
        .after(&["e"]);
    check(
        spec.clone(),
        &[
            "plan.steps[1].depends_on[0] DEPENDENCY_UNRESOLVED",
            "plan.steps[5].depends_on[0] DEPENDENCY_UNRESOLVED",
        ],
    );
    let [a, b, c] = ["a", "b", "c"].map(|name| step_id(name).to_string());
    let message = &findings(spec)[0].message;
    assert!(
        message.ends_with(&format!("cycle: {a} -> {c} -> {b} -> {a}.")),
        "{message}"
    );
}

//
#[test]
fn the_message_of_a_long_cycle_stays_short() {
    let spec = (0..1024).fold(plan(), |spec, n| {
        spec.step(&format!("s{n}"))
            .after(&[&format!("s{}", (n + 1) % 1024)])
    });
    let all = findings(spec);
    assert_eq!(all.len(), 1);
    assert!(
        all[0].message.contains("(1012 more)") && all[0].message.len() < 700,
        "{}",
        all[0].message
    );
}

//
#[test]
fn the_callers_labels_are_bounded() {
    let spec = with(|spec| {
        spec.0.request_id = Some("é".repeat(256));
        spec.0.correlation_context.insert(String::new(), "v".into());
        spec.0.correlation_context.insert("k".into(), "v".repeat(4097));
    });
    check(
        spec,
        &[
            "request_id",
            "correlation_context[\"\"]",
            "correlation_context[\"k\"]",
        ],
    );
    let spec = with(|spec| {
        let entries = (0..65).map(|n| (format!("k{n}"), String::new()));
        spec.0.correlation_context = entries.collect();
    });
    check(spec, &["correlation_context"]);
}

//
#[test]
fn concurrency_lies_between_one_and_the_servers_limit() {
    for (asked, valid) in [
        (None, true),
        (Some(-1), false),
        (Some(0), false),
        (Some(256), true),
        (Some(257), false),
    ] {
        let spec = with(|spec| spec.0.max_concurrent_steps = asked);
        check(
            spec,
            if valid {
                &[]
            } else {
                &["options.max_concurrent_steps"]
            },
        );
    }
    assert_eq!(
        validate_request(with(|_| ()).0, 8)
            .unwrap()
            .max_concurrent_steps(),
        1
    );
}

//
#[test]
fn a_plan_above_four_mebibytes_is_refused() {
    let payload = |n: usize| Some(StructBuilder::new().text("t", &"x".repeat(n)).build());
    let spec = |n_last: usize| {
        let mut spec = plan().step("a").step("b").step("c").step("d").step("e");
        for (step, n) in spec
            .plan()
            .steps
            .iter_mut()
            .zip([1_040_000, 1_040_000, 1_040_000, 1_040_000, n_last])
        {
            step.payload = payload(n);
        }
        spec
    };
    check(spec(1000), &[]);
    check(spec(40_000), &["plan"]);
}

//
#[test]
fn the_digest_knows_defaults_case_and_order_but_no_execution_id() {
    let digest = |spec: Spec| *validate_request(spec.0, CONCURRENCY_MAX).unwrap().digest();
    let plain = digest(with(|_| ()));
    let spelled_out = with(|spec| {
        spec.0.max_concurrent_steps = Some(1);
        spec.0.execution_id = Some(step_id("x").to_string());
        let plan = spec.plan();
        plan.id = plan.id.to_uppercase();
        plan.steps[1].depends_on[0] = plan.steps[1].depends_on[0].to_uppercase();
        plan.priority = Some(0);
        plan.metadata = Some(Opaque::default());
        plan.retry_policy = Some(RetryPolicyDraft {
            max_attempts: Some(1),
            backoff_ms: Some(0),
            backoff_multiplier: Some(1.0),
            max_backoff_ms: Some(60_000),
            retryable_error_codes: Vec::new(),
        });
    });
    assert_eq!(digest(spelled_out), plain);
    let one = StructBuilder::new()
        .text("region", "n")
        .number("n", 1.0)
        .null("z");
    let other = StructBuilder::new()
        .null("z")
        .number("n", 2.0)
        .number("n", 1.0)
        .text("region", "n");
    let environment = |object: StructBuilder| digest(with(|spec| spec.0.environment = Some(object.build())));
    assert_eq!(environment(one), environment(other));
    let changes: [fn(&mut Spec); 8] = [
        |spec| spec.plan().id = step_id("other").to_string(),
        |spec| spec.0.user_id = Some(String::new()),
        |spec| spec.0.deadline_ms = Some(1),
        |spec| spec.0.max_concurrent_steps = Some(2),
        |spec| spec.0.environment = Some(StructBuilder::new().text("region", "south").build()),
        |spec| spec.plan().priority = Some(1),
        |spec| spec.plan().steps[1].depends_on.clear(),
        |spec| spec.plan().steps.swap(0, 1),
    ];
    for change in changes {
        assert_ne!(digest(with(change)), plain);
    }
}

//
#[test]
fn a_deadline_that_nobody_gave_allows_for_the_queue() {
    let request = validate_request(with(|_| ()).0, 1).unwrap();
    assert_eq!(
        escapement_contract::default_deadline(5, request.plan(), ALLOWANCE),
        5 + 1000 + 500
    );
    assert_eq!(
        escapement_contract::default_deadline(5, request.plan(), u64::MAX),
        i64::MAX
    );
}

//
#[test]
fn the_first_findings_are_told_whether_they_are_about_fields_or_about_the_graph() {
    let mut spec = (0..1_024).fold(plan(), |spec, n| spec.step(&format!("{n}")));
    let ids: Vec<String> = spec.plan().steps.iter().map(|step| step.id.clone()).collect();
    for (index, step) in spec.plan().steps.iter_mut().enumerate() {
        // Two fields that are wrong, and a cycle through all of them.
        (step.on_failure, step.timeout_ms) = (9, Some(0));
        step.depends_on = vec![ids[(index + 1) % 1_024].clone()];
    }
    spec.plan().steps[0]
        .depends_on
        .push(step_id("nobody").to_string());
    spec.plan().steps[500].depends_on.push(ids[0].clone());
    let refusal = validate_request(spec.0, 1).unwrap_err();
    let fields: Vec<&str> = refusal.iter().map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields.len(), 1_000);
    assert_eq!(
        fields[..4],
        [
            "plan.steps[0].depends_on[1]",
            "plan.steps[0].on_failure",
            "plan.steps[0].timeout_ms",
            "plan.steps[1].on_failure",
        ]
    );
    assert_eq!(fields[999], "plan.steps[499].on_failure");
}

//
#[test]
fn a_refusal_reads_as_a_sentence() {
    let refusal: Violations = validate_request(plan().0, 1).unwrap_err();
    assert_eq!(refusal.to_string(), "plan.steps: At least one step is required.");
    assert_eq!(refusal.first().code, "INVALID_PAYLOAD");
}
