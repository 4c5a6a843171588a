//! Values keep their bytes, and rendering stops at its limits.

use std::cell::Cell;

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{BudgetSpent, ListBuilder, StructBuilder, ValueView, WalkBudget};
use escapement_run::plan::Template;
use escapement_run::template::{Found, Pointer, RenderError, Sources};
use serde_json::{Value, json};

use crate::documents::{encoded, proto_value};
use crate::paying::{render_object, render_text, render_value};
use prost::Message;

/// The same answer to every question, counted.
struct Always<F> {
    found: F,
    n_asked: Cell<usize>,
}

impl<F> Always<F> {
    fn new(found: F) -> Self {
        Self {
            found,
            n_asked: Cell::new(0),
        }
    }
}

impl<F: Fn() -> Found<'static>> Sources for Always<F> {
    fn value(
        &self,
        _source: &str,
        _pointer: &Pointer,
        _budget: &mut WalkBudget,
    ) -> Result<Found<'_>, BudgetSpent> {
        self.n_asked.set(self.n_asked.get() + 1);
        Ok((self.found)())
    }
}

fn leaked(object: &Opaque) -> ValueView<'static> {
    ValueView::Struct(Vec::leak(object.as_encoded().to_vec()))
}

fn template(value: &Value) -> Template {
    Template(proto_value(value).encode_to_vec().into())
}

// Results have the bytes of each output, and so have inputs that are made of them.
#[test]
fn numbers_repeated_keys_and_their_order_stay_as_they_were_sent() {
    let odd = StructBuilder::new()
        .number("z", f64::from_bits(0x7ff8_0000_0000_1234))
        .number("a", -0.0)
        .text("z", "once more")
        .list("l", ListBuilder::new().number(1e300).null())
        .build();
    let sources = Always::new(|| Found::Value(leaked(&odd)));
    let rendered = render_object(&encoded(&json!({"x": "${s}"})), &sources).unwrap();
    let expected = StructBuilder::new().object("x", odd.as_encoded()).build();
    assert_eq!(rendered.as_encoded(), expected.as_encoded());
    let whole = render_object(&encoded(&json!({"$from": "s"})), &sources).unwrap();
    assert_eq!(whole.as_encoded(), odd.as_encoded());
}

#[test]
fn in_text_the_keys_keep_their_order_and_the_last_value_of_a_repeated_one_counts() {
    let odd = StructBuilder::new()
        .number("z", 1.0)
        .number("a", f64::NAN)
        .text("z", "\u{1}\t")
        .build();
    let sources = Always::new(|| Found::Value(leaked(&odd)));
    assert_eq!(
        render_text("${s}", &sources).unwrap(),
        r#"{"a":null,"z":"\u0001\t"}"#
    );
}

#[test]
fn a_template_keeps_the_order_of_its_keys() {
    let ordered = StructBuilder::new()
        .text("z", "${s}")
        .null("a")
        .boolean("m", true)
        .build();
    let sources = Always::new(|| Found::Value(ValueView::Number(1.0)));
    let rendered = render_object(&ordered, &sources).unwrap();
    let expected = StructBuilder::new()
        .number("z", 1.0)
        .null("a")
        .boolean("m", true)
        .build();
    assert_eq!(rendered, expected);
}

#[test]
fn a_result_of_1_mib_is_taken_and_one_byte_more_is_not() {
    let of = |n: usize| {
        let text: &'static str = "x".repeat(n).leak();
        Always::new(move || Found::Value(ValueView::Text(text)))
    };
    let sizes = |n| render_object(&encoded(&json!({"x": "${s}"})), &of(n)).map(|object| object.len());
    let n_around = (1 << 20) - sizes(1 << 19).unwrap() + (1 << 19);
    assert_eq!(sizes(n_around), Ok(1 << 20));
    assert_eq!(sizes(n_around + 1), Err(RenderError::TooLarge));
    assert_eq!(
        render_text("${s}", &of(1 << 20)).map(|text| text.len()),
        Ok(1 << 20)
    );
    assert_eq!(render_text(".${s}", &of(1 << 20)), Err(RenderError::TooLarge));
    assert_eq!(
        render_text("${s}", &of((1 << 20) + 1)),
        Err(RenderError::TooLarge)
    );
}

#[test]
fn many_references_to_a_large_value_stop_at_the_limit() {
    let large: &'static str = "x".repeat((1 << 19) + 1).leak();
    let list: &'static [u8] = ListBuilder::new().text(large).into_encoded().leak();
    let answers: [fn(&'static str, &'static [u8]) -> Found<'static>; 4] = [
        |large, _| Found::Value(ValueView::Text(large)),
        |_, list| Found::Value(ValueView::List(list)),
        |large, _| Found::Text(large.to_owned()),
        |large, _| Found::List(vec![proto_value(&json!(large)).encode_to_vec().into()]),
    ];
    for answer in answers {
        let objects = [
            json!({"x": vec!["${s}"; 1000]}),
            json!({"x": "${s}".repeat(1000)}),
            json!({"x": vec!["a ${s}"; 1000]}),
        ];
        for object in objects {
            let sources = Always::new(|| answer(large, list));
            assert_eq!(
                render_object(&encoded(&object), &sources),
                Err(RenderError::TooLarge)
            );
            assert_eq!(sources.n_asked.get(), 2, "{}", sources.n_asked.get());
            assert_eq!(
                render_value(&template(&object), &sources),
                Err(RenderError::TooLarge)
            );
        }
        let sources = Always::new(|| answer(large, list));
        assert_eq!(
            render_text(&"${s}".repeat(1000), &sources),
            Err(RenderError::TooLarge)
        );
        assert_eq!(sources.n_asked.get(), 2);
    }
    let made = Bytes::from(proto_value(&json!(large)).encode_to_vec());
    let sources = Always::new(|| Found::Encoded(made.clone()));
    assert_eq!(
        render_text("${s} ${s} ${s}", &sources),
        Err(RenderError::TooLarge)
    );
    assert_eq!(sources.n_asked.get(), 2);
}

#[test]
fn a_list_of_many_large_items_stops_at_the_limit() {
    let large: &'static str = "x".repeat((1 << 19) + 1).leak();
    let item = Bytes::from(proto_value(&json!(large)).encode_to_vec());
    let sources = Always::new(|| Found::List(vec![item.clone(); 100_000]));
    assert_eq!(
        render_object(&encoded(&json!({"x": "${s}"})), &sources),
        Err(RenderError::TooLarge)
    );
    assert_eq!(render_text("${s}", &sources), Err(RenderError::TooLarge));
}

#[test]
fn a_value_that_is_too_deep_only_together_with_its_template_is_refused() {
    let deep = |n: usize| {
        (0..n).fold(StructBuilder::new().build(), |inner, _| {
            StructBuilder::new().object("x", inner.as_encoded()).build()
        })
    };
    let nested = |n: usize| (0..n).fold(json!("${s}"), |inner, _| json!({"x": inner}));
    // An object inside another takes three messages; 90 are allowed.
    for (n_template, n_value, is_taken) in [
        (1, 29, true),
        (1, 30, false),
        (15, 15, true),
        (15, 16, false),
        (29, 1, true),
    ] {
        let sources = Always::new(|| Found::Value(leaked(&deep(n_value))));
        let object = nested(n_template);
        let rendered = render_object(&encoded(&object), &sources);
        let value = render_value(&template(&object["x"]), &sources);
        if is_taken {
            assert!(rendered.is_ok() && value.is_ok(), "{n_template} and {n_value}");
            assert_eq!(rendered.unwrap().check(), Ok(()));
        } else {
            assert_eq!(rendered, Err(RenderError::TooDeep), "{n_template} and {n_value}");
            assert_eq!(value, Err(RenderError::TooDeep), "{n_template} and {n_value}");
        }
    }
}
