//! Free-form objects compared with the official types, value by value. Decides nothing.

use escapement_model::Opaque;
use escapement_model::opaque::{Entries, ValueView, entries, items};
use prost_types::value::Kind;
use std::collections::BTreeMap;

/// Both read the same; an object that we take is one that others take.
pub(crate) fn assert_same(ours: &Opaque, official: &Result<prost_types::Struct, prost::DecodeError>) {
    let official = official
        .as_ref()
        .expect("what we take, the official decoder takes");
    assert!(
        same_object(ours.entries(), official),
        "read differently: {:02x?} is officially {official:?}",
        ours.as_encoded().as_ref()
    );
}

fn same_object(ours: Entries<'_>, official: &prost_types::Struct) -> bool {
    // Of a repeated key the last value counts.
    let ours: BTreeMap<&str, ValueView<'_>> = ours.map(|entry| entry.expect("it was checked")).collect();
    ours.len() == official.fields.len()
        && ours
            .iter()
            .zip(&official.fields)
            .all(|((key, value), (name, official))| key == name && same_value(value, official))
}

fn same_value(ours: &ValueView<'_>, official: &prost_types::Value) -> bool {
    match (ours, &official.kind) {
        (ValueView::Null, None | Some(Kind::NullValue(_))) => true,
        (ValueView::Number(ours), Some(Kind::NumberValue(official))) => ours.to_bits() == official.to_bits(),
        (ValueView::Text(ours), Some(Kind::StringValue(official))) => ours == official,
        (ValueView::Bool(ours), Some(Kind::BoolValue(official))) => ours == official,
        (ValueView::Struct(ours), Some(Kind::StructValue(official))) => same_object(entries(ours), official),
        (ValueView::List(ours), Some(Kind::ListValue(official))) => {
            let ours: Vec<_> = items(ours).map(|item| item.expect("it was checked")).collect();
            ours.len() == official.values.len()
                && ours
                    .iter()
                    .zip(&official.values)
                    .all(|(ours, official)| same_value(ours, official))
        }
        _ => false,
    }
}
