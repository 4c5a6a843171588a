//! Which objects each request that may be repeated has.

use escapement_wire::runs::v1;
use escapement_wire::runs::v1::add_plan_step_request::Form;
use escapement_wire::runs::v1::ambiguous_effect::Known;
use escapement_wire::runs::v1::approval::Decision;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::fallback::Kind;
use escapement_wire::runs::v1::override_step_request::Word;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::trigger::Config;
use prost::Message;

use super::{lower, mean, sort, sort_object, sort_value, without_empty};

/// A request that may be repeated, each time in another encoding.
pub(crate) trait Repeatable: Message + Clone {
    /// Puts the keys of all its objects in order.
    fn sort_keys(&mut self);

    /// Replaces documents and ids by their meaning.
    fn reduce(&mut self) {}

    /// Encodes the meaning of the request.
    fn encode_meaning(&self) -> Vec<u8> {
        let mut request = self.clone();
        request.reduce();
        request.sort_keys();
        request.encode_to_vec()
    }

    /// Encodes the request with the keys of its objects in order, as earlier versions compared it.
    fn encode_in_order(&self) -> Vec<u8> {
        let mut request = self.clone();
        request.sort_keys();
        request.encode_to_vec()
    }
}

macro_rules! without_objects {
    ($($request:ident),+ $(,)?) => {
        $(impl Repeatable for v1::$request {
            fn sort_keys(&mut self) {}
        })+
    };
}

without_objects!(
    CancelRunRequest,
    CreateGoalRequest,
    DeletePlanStepRequest,
    DiscardRunRequest,
    PauseRunRequest,
    ResumeRunRequest,
    RetryRunRequest,
    RewindRunRequest,
    RollbackRunRequest,
);

impl Repeatable for v1::CreateRunRequest {
    fn reduce(&mut self) {
        match &mut self.what {
            // Only its importer knows the meaning of a document of another format.
            Some(What::Document(document)) if self.format.is_empty() => mean(document),
            Some(What::PlanId(plan_id)) => lower(plan_id),
            _ => {}
        }
        without_empty(&mut self.input);
        without_empty(&mut self.environment);
        without_empty(&mut self.metadata);
        lower(&mut self.goal_id);
        lower(&mut self.trigger_id);
        self.limits = self
            .limits
            .take()
            .filter(|limits| *limits != v1::Limits::default());
        self.policy = self
            .policy
            .take()
            .filter(|policy| *policy != v1::Policy::default());
    }

    fn sort_keys(&mut self) {
        if let Some(What::Document(document)) = &mut self.what {
            sort_object(document);
        }
        sort(&mut self.input);
        sort(&mut self.environment);
        sort(&mut self.metadata);
        if let Some(planner) = &mut self.planner {
            sort(&mut planner.parameters);
        }
        match self.fallback.as_mut().and_then(|fallback| fallback.kind.as_mut()) {
            Some(Kind::Output(output)) => sort_object(output),
            Some(Kind::Action(action)) => sort(&mut action.payload),
            Some(Kind::Templates(_)) | None => {}
        }
    }
}

impl Repeatable for v1::ForkRunRequest {
    fn reduce(&mut self) {
        lower(&mut self.run_id);
        self.document.iter_mut().for_each(mean);
    }

    fn sort_keys(&mut self) {
        sort(&mut self.document);
    }
}

impl Repeatable for v1::CreateTriggerRequest {
    fn reduce(&mut self) {
        if let Some(run) = self.trigger.as_mut().and_then(|trigger| trigger.run.as_mut()) {
            run.reduce();
        }
    }

    fn sort_keys(&mut self) {
        let Some(trigger) = &mut self.trigger else {
            return;
        };
        match &mut trigger.config {
            Some(Config::Event(filter)) => {
                sort(&mut filter.equals);
                sort(&mut filter.any_of);
            }
            Some(Config::Condition(v1::Condition {
                probe: Some(probe), ..
            })) => sort(&mut probe.payload),
            _ => {}
        }
        if let Some(run) = &mut trigger.run {
            run.sort_keys();
        }
    }
}

impl Repeatable for v1::OverrideStepRequest {
    fn sort_keys(&mut self) {
        if let Some(Word::Complete(complete)) = &mut self.word {
            sort_value(&mut complete.output);
        }
    }
}

impl Repeatable for v1::CreateCheckpointRequest {
    fn sort_keys(&mut self) {
        sort(&mut self.data);
    }
}

impl Repeatable for v1::CreatePlanRequest {
    fn reduce(&mut self) {
        self.document.iter_mut().for_each(mean);
    }

    fn sort_keys(&mut self) {
        sort(&mut self.document);
    }
}

impl Repeatable for v1::UpdatePlanRequest {
    fn sort_keys(&mut self) {
        sort(&mut self.metadata);
        sort(&mut self.checkpoint);
    }
}

impl Repeatable for v1::AddPlanStepRequest {
    fn sort_keys(&mut self) {
        match &mut self.form {
            Some(Form::Step(step)) => sort_object(step),
            Some(Form::Flat(flat)) => {
                sort(&mut flat.tool_args);
                flat.parallel_steps.iter_mut().for_each(sort_object);
            }
            None => {}
        }
    }
}

impl Repeatable for v1::UpdatePlanStepRequest {
    fn sort_keys(&mut self) {
        sort(&mut self.step);
    }
}

impl Repeatable for v1::PutPlanDocumentRequest {
    fn reduce(&mut self) {
        lower(&mut self.plan_id);
        self.document.iter_mut().for_each(mean);
    }

    fn sort_keys(&mut self) {
        sort(&mut self.document);
    }
}

impl Repeatable for v1::ImportPlanRequest {
    fn sort_keys(&mut self) {
        sort(&mut self.source_document);
    }
}

impl Repeatable for v1::RespondToInputRequest {
    fn reduce(&mut self) {
        lower(&mut self.input_request_id);
        if let Some(Answer::Approval(approval)) = &mut self.answer
            && let Some(Decision::ApproveWithEdits(edits)) = &mut approval.decision
        {
            edits.document.iter_mut().for_each(mean);
        }
    }

    fn sort_keys(&mut self) {
        match &mut self.answer {
            Some(Answer::Form(form)) => sort_object(form),
            Some(Answer::Approval(approval)) => {
                if let Some(Decision::ApproveWithEdits(edits)) = &mut approval.decision {
                    sort(&mut edits.payload);
                    sort(&mut edits.document);
                }
            }
            Some(Answer::Effect(effect)) => {
                if let Some(Known::Happened(happened)) = &mut effect.known {
                    sort_value(&mut happened.output);
                }
            }
            Some(Answer::Text(_) | Answer::Choice(_) | Answer::Confirm(_) | Answer::Extend(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Repeatable;
    use escapement_model::opaque::{StructBuilder, ValueView};
    use escapement_model::{Opaque, OpaqueValue};
    use escapement_wire::runs::v1;

    fn object(one: &str, other: &str) -> Opaque {
        StructBuilder::new().text(one, "x").text(other, "x").build()
    }

    #[test]
    fn a_repeated_answer_is_the_same_whatever_the_order_of_its_keys() {
        let answer = |output: &Opaque| {
            let happened = v1::ambiguous_effect::Happened {
                output: Some(OpaqueValue::from_view(ValueView::Struct(output.as_encoded()))),
            };
            let known = Some(v1::ambiguous_effect::Known::Happened(happened));
            v1::RespondToInputRequest {
                answer: Some(v1::respond_to_input_request::Answer::Effect(
                    v1::AmbiguousEffect { known },
                )),
                ..v1::RespondToInputRequest::default()
            }
        };
        let [one, same, other] =
            [("a", "b"), ("b", "a"), ("a", "c")].map(|(one, two)| answer(&object(one, two)));
        assert_eq!(one.encode_in_order(), same.encode_in_order());
        assert_ne!(one.encode_in_order(), other.encode_in_order());
    }

    // RUN-1.2
    #[test]
    fn a_repeated_request_is_the_same_if_it_means_the_same() {
        use escapement_wire::json::to_opaque;
        use serde_json::json;
        let step = json!({"key": "a", "type": "tool_call", "config": {"tool_name": "echo"}});
        let short = json!({"schema": "escapement.plan/1", "name": "n", "steps": [step]});
        let mut spelled = short.clone();
        (spelled["parallel"], spelled["goal"]) = (json!(false), json!(""));
        let mut other = short.clone();
        other["name"] = json!("m");
        let [short, spelled, other] =
            [short, spelled, other].map(|document| to_opaque(document.as_object().unwrap()));
        let create = |document: &Opaque, input: Option<Opaque>| v1::CreateRunRequest {
            what: Some(v1::create_run_request::What::Document(document.clone())),
            input,
            ..v1::CreateRunRequest::default()
        };
        let one = create(&short, None);
        let same = create(&spelled, Some(Opaque::default()));
        assert_eq!(one.encode_meaning(), same.encode_meaning());
        assert_ne!(one.encode_in_order(), same.encode_in_order());
        assert_ne!(one.encode_meaning(), create(&other, None).encode_meaning());
        let trigger = |run: v1::CreateRunRequest| v1::CreateTriggerRequest {
            trigger: Some(v1::Trigger {
                run: Some(run),
                ..v1::Trigger::default()
            }),
            ..v1::CreateTriggerRequest::default()
        };
        assert_eq!(
            trigger(one).encode_meaning(),
            trigger(same).encode_meaning(),
            "of a trigger"
        );
        let fork = |document: &Opaque, run_id: &str| v1::ForkRunRequest {
            run_id: run_id.to_owned(),
            document: Some(document.clone()),
            ..v1::ForkRunRequest::default()
        };
        let (lower, upper) = (
            "6b1fd5a2-4b8f-4f43-9d4e-0d9a7a3b1c2d",
            "6B1FD5A2-4B8F-4F43-9D4E-0D9A7A3B1C2D",
        );
        assert_eq!(
            fork(&short, lower).encode_meaning(),
            fork(&spelled, upper).encode_meaning()
        );
        let save = |document: &Opaque| v1::CreatePlanRequest {
            document: Some(document.clone()),
            ..v1::CreatePlanRequest::default()
        };
        assert_eq!(save(&short).encode_meaning(), save(&spelled).encode_meaning());
        assert_ne!(save(&short).encode_meaning(), save(&other).encode_meaning());
    }

    #[test]
    fn a_repeated_change_of_a_plan_is_the_same_whatever_the_order_of_its_keys() {
        let add = |step: Opaque| v1::AddPlanStepRequest {
            form: Some(v1::add_plan_step_request::Form::Flat(v1::FlatStep {
                parallel_steps: vec![step.clone()],
                tool_args: Some(step),
                ..v1::FlatStep::default()
            })),
            ..v1::AddPlanStepRequest::default()
        };
        assert_eq!(
            add(object("a", "b")).encode_in_order(),
            add(object("b", "a")).encode_in_order()
        );
        assert_ne!(
            add(object("a", "b")).encode_in_order(),
            add(object("a", "c")).encode_in_order()
        );
    }
}
