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

use super::{sort, sort_object, sort_value};

/// A request that may be repeated. Its objects may come with their keys in another order each time.
pub(crate) trait Repeatable: Message + Clone {
    /// Puts the keys of all its objects in order.
    fn sort_keys(&mut self);

    /// The request, encoded with the keys of its objects in order.
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
    fn sort_keys(&mut self) {
        sort(&mut self.document);
    }
}

impl Repeatable for v1::CreateTriggerRequest {
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
