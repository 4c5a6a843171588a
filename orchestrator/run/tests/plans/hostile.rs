//! Bytes that no encoder of ours writes: whatever they are, they are read or refused.

use escapement_model::Opaque;
use escapement_model::opaque::{BudgetSpent, PaidView, StructBuilder, ValueView, WalkBudget, entries};
use escapement_run::plan;
use escapement_run::plan::import::{Format, import};
use escapement_run::template::{Found, Pointer, Sources};
use proptest::prelude::*;
use serde_json::json;

use crate::documents::{encoded, full};
use crate::paying::{BUDGET, render_object};

struct Nothing;

impl Sources for Nothing {
    fn value(
        &self,
        _source: &str,
        _pointer: &Pointer,
        _budget: &mut WalkBudget,
    ) -> Result<Found<'_>, BudgetSpent> {
        Ok(Found::Value(ValueView::Null))
    }
}

fn find(object: &[u8], key: &str) -> Option<ValueView<'static>> {
    let escaped = key.replace('~', "~0").replace('/', "~1");
    let pointer = Pointer::parse(&format!("/{escaped}")).unwrap();
    let object = PaidView::of(ValueView::Struct(Vec::leak(object.to_vec())));
    let found = pointer.find(object, &mut WalkBudget::new(BUDGET)).unwrap();
    found.map(PaidView::unpaid)
}

#[test]
fn a_key_is_found_however_its_entry_is_written() {
    let value = [0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
    let value_first = [&[0x0a, 14, 0x12, 9], &value[..], &[0x0a, 1, b'k']].concat();
    let key_twice = [&[0x0a, 17, 0x0a, 1, b'x', 0x12, 9], &value[..], &[0x0a, 1, b'k']].concat();
    let with_unknown_field = [&[0x0a, 16, 0x0a, 1, b'k', 0x18, 7, 0x12, 9], &value[..]].concat();
    for bytes in [value_first, key_twice, with_unknown_field] {
        assert_eq!(Opaque::from_encoded(bytes.clone().into()).check(), Ok(()));
        assert_eq!(find(&bytes, "k"), Some(ValueView::Number(1.0)));
        assert_eq!(find(&bytes, "x"), None);
    }
    // A key without a value is there, and says null; so is a value without a key.
    assert_eq!(find(&[0x0a, 3, 0x0a, 1, b'k'], "k"), Some(ValueView::Null));
    assert_eq!(find(&[0x0a, 0], ""), Some(ValueView::Null));
    let repeated = StructBuilder::new()
        .number("k", 1.0)
        .number("x", 2.0)
        .number("k", 3.0)
        .build();
    assert_eq!(find(repeated.as_encoded(), "k"), Some(ValueView::Number(3.0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_bytes_are_read_or_refused(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = encoded(&full()).as_encoded().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let document = Opaque::from_encoded(bytes.into());
        // Each answers; what it answers is judged elsewhere.
        let _ = plan::read(&document).is_ok();
        for format in Format::ALL {
            let _ = import(format, &document).is_ok();
        }
        if document.check().is_ok() {
            let _ = render_object(&document, &Nothing).is_ok();
            let all: Vec<(&str, ValueView<'_>)> = entries(document.as_encoded()).map(Result::unwrap).collect();
            for (key, _) in &all {
                let last = all.iter().rev().find(|(other, _)| other == key).map(|(_, value)| format!("{value:?}"));
                let found = find(document.as_encoded(), key).map(|value| format!("{value:?}"));
                prop_assert_eq!(found, last);
            }
        }
    }

    #[test]
    fn any_text_is_a_template_or_refused(text in "[$${}:/~a. ]{0,12}") {
        let template = json!({"x": text, "y": {"$from": text, "path": text}});
        let document = json!({"schema": "escapement.plan/1", "name": "P", "output": template, "steps": []});
        let is_right = plan::read(&encoded(&document)).is_ok();
        let template = json!({"x": text});
        let document = json!({"schema": "escapement.plan/1", "name": "P", "output": template, "steps": []});
        let read = plan::read(&encoded(&document));
        // What is accepted renders, unless its source is nobody; what is malformed does not.
        if read.is_ok() {
            prop_assert!(render_object(&encoded(&template), &Nothing).is_ok());
        } else {
            prop_assert!(!is_right);
        }
    }
}
