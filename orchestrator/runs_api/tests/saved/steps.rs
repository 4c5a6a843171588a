//! Steps and documents of saved plans.

use escapement_wire::json::from_opaque;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::add_plan_step_request::Form;
use escapement_wire::runs::v1::plan_service_server::PlanService;
use serde_json::{Value, json};
use tonic::{Code, Request};

use crate::calls::{add, create, document, flat, get, named, put};
use crate::world::{World, object, told};

#[tokio::test]
async fn steps_of_every_type_are_added_flat_and_counted() {
    let world = World::new();
    let plan_id = create(&world, named("One")).await.unwrap().plan_id;
    let other = create(&world, named("Other")).await.unwrap().plan_id;
    let forms = [
        flat("tool_call", |step| {
            step.tool_name = "file.read".to_owned();
            step.tool_args = Some(object(&json!({"path": "x"})));
            step.max_retries = Some(2);
            step.on_failure = "abort".to_owned();
        }),
        flat("llm_decision", |step| {
            step.prompt = "Which?".to_owned();
            step.choices = vec!["a".to_owned(), "b".to_owned()];
            step.max_iterations = Some(2);
            step.dependencies = vec!["step_1".to_owned()];
        }),
        flat("user_input", |step| {
            step.question = "Really?".to_owned();
            step.input_type = "choice".to_owned();
            step.options = vec!["yes".to_owned(), "no".to_owned()];
        }),
        flat("condition", |step| {
            step.order = Some(2);
            step.condition = "result:step_1".to_owned();
        }),
        flat("parallel", |step| {
            step.parallel_steps = vec![
                object(&json!({"tool_name": "a"})),
                object(&json!({"tool_name": "b"})),
            ];
        }),
        flat("loop", |step| {
            step.tool_name = "poll".to_owned();
            step.max_iterations = Some(3);
        }),
        flat("sub_plan", |step| step.sub_plan_id = other.clone()),
    ];
    for (n, form) in (1..).zip(forms) {
        let added = add(&world, &plan_id, form).await.unwrap();
        assert_eq!((added.step_key, added.total_steps), (format!("step_{n}"), n));
    }
    let typed = Form::Step(object(&json!({
        "key": "typed", "type": "tool_call", "config": {"tool_name": "x"}, "depends_on": ["step_2"]
    })));
    let added = add(&world, &plan_id, typed).await.unwrap();
    assert_eq!((added.step_key.as_str(), added.total_steps), ("typed", 8));
    let plan = get(&world, &plan_id, "").await.unwrap();
    assert_eq!(
        (plan.total_steps, plan.revision_number, plan.steps.len()),
        (8, 9, 8)
    );
    let first = Value::Object(from_opaque(&plan.steps[0]).unwrap());
    let expected = json!({
        "key": "step_1", "order": 1, "type": "tool_call", "name": "tool_call", "on_failure": "abort",
        "config": {"tool_name": "file.read", "tool_args": {"path": "x"}}, "retry": {"max_retries": 2}
    });
    assert_eq!(object(&first), object(&expected), "{first}");
}

#[tokio::test]
async fn everything_that_an_empty_flat_step_lacks_is_named() {
    let world = World::new();
    let plan_id = create(&world, named("One")).await.unwrap().plan_id;
    let nothing = Form::Flat(v1::FlatStep::default());
    let refused = add(&world, &plan_id, nothing).await.unwrap_err();
    let (code, _, fields) = told(&refused);
    assert_eq!(
        (code, fields),
        (
            Code::InvalidArgument,
            vec![
                "flat.order".to_owned(),
                "flat.name".to_owned(),
                "flat.type".to_owned()
            ]
        )
    );
}

#[tokio::test]
async fn a_step_is_added_once_for_a_request() {
    let world = World::new();
    let plan_id = create(&world, named("One")).await.unwrap().plan_id;
    let request = v1::AddPlanStepRequest {
        plan_id: plan_id.clone(),
        form: Some(flat("tool_call", |step| step.tool_name = "x".to_owned())),
        request_id: "add".to_owned(),
        ..v1::AddPlanStepRequest::default()
    };
    for _ in 0..2 {
        let answer = world
            .plans
            .add_plan_step(Request::new(request.clone()))
            .await
            .unwrap();
        let answer = answer.into_inner();
        assert_eq!((answer.step_key.as_str(), answer.total_steps), ("step_1", 1));
    }
}

#[tokio::test]
async fn a_cycle_is_told_with_its_path_and_nothing_changes() {
    let world = World::new();
    let plan_id = create(&world, named("One")).await.unwrap().plan_id;
    let steps = json!([
        {"key": "a", "type": "tool_call", "config": {"tool_name": "x"}},
        {"key": "b", "type": "tool_call", "config": {"tool_name": "x"}, "depends_on": ["a"]}
    ]);
    let plan = put(&world, &plan_id, &document(&steps)).await.unwrap();
    let update = v1::UpdatePlanStepRequest {
        plan_id: plan_id.clone(),
        step_key: "a".to_owned(),
        step: Some(object(
            &json!({"type": "tool_call", "config": {"tool_name": "y"}, "depends_on": ["b"]}),
        )),
        ..v1::UpdatePlanStepRequest::default()
    };
    let refused = world
        .plans
        .update_plan_step(Request::new(update))
        .await
        .unwrap_err();
    let (code, reason, fields) = told(&refused);
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "PLAN_INVALID"));
    assert!(
        !fields.is_empty() && refused.message().contains("a"),
        "{refused:?}"
    );
    let itself = flat("tool_call", |step| {
        step.key = "c".to_owned();
        step.tool_name = "x".to_owned();
        step.dependencies = vec!["c".to_owned()];
    });
    let refused = add(&world, &plan_id, itself).await.unwrap_err();
    assert!(refused.message().contains("(new step)"), "{refused:?}");
    assert_eq!(told(&refused).2, ["flat.dependencies[0]"]);
    assert_eq!(get(&world, &plan_id, "").await.unwrap(), plan);
}

#[tokio::test]
async fn steps_are_replaced_and_taken_out() {
    let world = World::new();
    let plan_id = create(&world, named("One")).await.unwrap().plan_id;
    let steps = json!([
        {"key": "a", "type": "tool_call", "config": {"tool_name": "x"}},
        {"key": "b", "type": "tool_call", "config": {"tool_name": "x"}, "depends_on": ["a"]}
    ]);
    put(&world, &plan_id, &document(&steps)).await.unwrap();
    let update = v1::UpdatePlanStepRequest {
        plan_id: plan_id.clone(),
        step_key: "b".to_owned(),
        step: Some(object(
            &json!({"type": "tool_call", "config": {"tool_name": "y"}}),
        )),
        ..v1::UpdatePlanStepRequest::default()
    };
    let answer = world.plans.update_plan_step(Request::new(update)).await.unwrap();
    assert_eq!(answer.into_inner().plan.unwrap().revision_number, 3);
    let delete = |step_key: &str| v1::DeletePlanStepRequest {
        plan_id: plan_id.clone(),
        step_key: step_key.to_owned(),
        ..v1::DeletePlanStepRequest::default()
    };
    let answer = world
        .plans
        .delete_plan_step(Request::new(delete("a")))
        .await
        .unwrap();
    assert_eq!(answer.into_inner().plan.unwrap().total_steps, 1);
    let refused = world
        .plans
        .delete_plan_step(Request::new(delete("a")))
        .await
        .unwrap_err();
    let (code, reason, fields) = told(&refused);
    assert_eq!((code, reason.as_str()), (Code::InvalidArgument, "UNKNOWN_STEP"));
    assert_eq!(fields, ["step_key"]);
    assert!(refused.message().contains("must be one of b"), "{refused:?}");
}

#[tokio::test]
async fn a_plan_that_contains_itself_is_refused() {
    let world = World::new();
    let mut plans = Vec::new();
    for name in ["one", "two", "three"] {
        plans.push(create(&world, named(name)).await.unwrap());
    }
    let runs = |config: Value| document(&json!([{"key": "sub", "type": "sub_plan", "config": config}]));
    let [one, two, three] = [0, 1, 2].map(|n: usize| plans[n].plan_id.clone());
    let refused = put(&world, &one, &runs(json!({"plan_id": one})))
        .await
        .unwrap_err();
    assert_eq!(told(&refused).1, "PLAN_INVALID");
    assert_eq!(told(&refused).2, ["document.steps[0].config"]);

    put(&world, &one, &runs(json!({"plan_id": two}))).await.unwrap();
    let second = put(&world, &two, &runs(json!({"plan_id": three}))).await.unwrap();
    let refused = put(&world, &three, &runs(json!({"plan_id": one})))
        .await
        .unwrap_err();
    assert!(
        refused.message().contains("itself over Document, Document"),
        "{refused:?}"
    );
    // Over a revision as well.
    let digest = json!({"revision_digest": second.revision_digest});
    let refused = put(&world, &three, &runs(digest.clone())).await.unwrap_err();
    assert_eq!(told(&refused).1, "PLAN_INVALID");
    let fourth = create(&world, named("four")).await.unwrap().plan_id;
    put(&world, &fourth, &runs(digest)).await.unwrap();
    assert_eq!(
        get(&world, &three, "").await.unwrap(),
        plans[2],
        "nothing was stored"
    );
}
