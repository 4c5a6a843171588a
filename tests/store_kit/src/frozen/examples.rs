//! Messages that together have every field set, each with a value of its own.

use prost::encoding::WireType;

use super::codec::{Codec, Field, fields};
use super::fields::{self as known, Kind, Known};

/// Returns examples of a message. The first has all fields that exclude no other. Each of the others has a choice that the first
/// had to leave out, at any depth.
pub(super) fn of(codec: &Codec<'_>) -> Vec<Vec<u8>> {
    Maker::default().message(codec)
}

#[derive(Default)]
struct Maker {
    /// Tags that lead to the field, which its value follows from: a new field leaves the examples without it as they are.
    path: Vec<u32>,
    /// The fields of the messages around the one that is made.
    around: Vec<Vec<Known>>,
}

impl Maker {
    fn message(&mut self, codec: &Codec<'_>) -> Vec<Vec<u8>> {
        let mut known = known::of(codec);
        if self.around.contains(&known) {
            // A message that holds its own kind has no end.
            known.retain(|known| known.kind != Kind::Message);
        }
        self.around.push(known.clone());
        let mut first: Vec<Field> = Vec::new();
        let mut more: Vec<Field> = Vec::new();
        for Known { tag, kind } in known {
            let mut values = self.values(codec, tag, kind).into_iter();
            first.extend(values.next());
            more.extend(values);
        }
        self.around.pop();
        let whole = encoded(codec, &first);
        let has = fields(&whole);
        let is_in = |field: &Field| has.iter().any(|other| other.tag == field.tag);
        let (held, others): (Vec<Field>, Vec<Field>) = first.into_iter().partition(is_in);
        let mut examples = vec![encoded(codec, &held)];
        for field in others.into_iter().chain(more) {
            // Numbers of the same message, unless they exclude each other.
            let beside: Vec<Field> = held
                .iter()
                .filter(|other| other.wire != WireType::LengthDelimited && stays(codec, other, &field))
                .cloned()
                .chain([field.clone()])
                .collect();
            examples.push(encoded(codec, &beside));
        }
        examples
    }

    fn values(&mut self, codec: &Codec<'_>, tag: u32, kind: Kind) -> Vec<Field> {
        self.path.push(tag);
        let values = match kind {
            Kind::Message => {
                let examples = codec.within(tag, |codec| self.message(codec));
                let examples = examples.into_iter();
                examples.map(|bytes| Field::delimited(tag, &bytes)).collect()
            }
            _ => vec![self.value(tag, kind)],
        };
        self.path.pop();
        values
    }

    /// Creates the value of a field other than a message.
    fn value(&self, tag: u32, kind: Kind) -> Field {
        let n = number(&self.path);
        let text = self.path.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
        match kind {
            Kind::Bool => Field::varint(tag, 1),
            // Most of them are words, and every set of words has a second one.
            Kind::Small { is_signed: true } => Field::varint(tag, 1),
            Kind::Small { is_signed: false } => Field::varint(tag, u64::from(n)),
            Kind::Large => Field::varint(tag, (1 << 40) + u64::from(n)),
            Kind::Fixed32 => Field::fixed(tag, WireType::ThirtyTwoBit, &(n as f32).to_le_bytes()),
            Kind::Fixed64 => Field::fixed(tag, WireType::SixtyFourBit, &f64::from(n).to_le_bytes()),
            Kind::Text | Kind::Bytes => Field::delimited(tag, text.as_bytes()),
            Kind::Object => Field::delimited(tag, &object(&text)),
            Kind::Message => unreachable!("a message has values of its own"),
        }
    }
}

/// Computes a number below 2^24 from a path (FNV-1a), which few others have and a float holds.
fn number(path: &[u32]) -> u32 {
    let hash = path.iter().fold(0x811c_9dc5_u32, |hash, tag| {
        (hash ^ tag).wrapping_mul(0x0100_0193)
    });
    hash >> 8 | 1
}

/// Returns true if the message keeps the first field where the second follows.
fn stays(codec: &Codec<'_>, one: &Field, other: &Field) -> bool {
    let out = encoded(codec, &[one.clone(), other.clone()]);
    fields(&out).iter().any(|field| field.tag == one.tag)
}

fn encoded(codec: &Codec<'_>, fields: &[Field]) -> Vec<u8> {
    let bytes: Vec<u8> = fields.iter().flat_map(Field::encoded).collect();
    codec.again(&bytes).expect("every field was tried")
}

/// Returns `{ text: true }` as an encoded object.
fn object(text: &str) -> Vec<u8> {
    let value = Field::varint(4, 1).encoded();
    let entry = [Field::delimited(1, text.as_bytes()), Field::delimited(2, &value)];
    Field::delimited(1, &entry.iter().flat_map(Field::encoded).collect::<Vec<u8>>()).encoded()
}
