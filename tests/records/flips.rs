//! Every bit of a record file counts: both readers find each one that is turned over, and each length at which the file is cut off.
//! Where the bit stands in an entry, that entry is named as the first that is wrong.

use crate::corpus;
use crate::readers::{self, Said};
use bytes::Bytes;
use escapement_tests::Dice;
use escapement_tests::chain::{self, Frame, Kind};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::{json, v1};
use prost::Message;

/// A reader by what it is called.
type Reader = (&'static str, fn(&Bytes) -> Said);

const ORCHESTRATOR: Reader = ("the orchestrator", readers::orchestrator);
const SECOND: Reader = ("the second reader", readers::second);

/// What may be turned over in an entry without a change of what it says.
#[derive(Debug, Default)]
struct Tally {
    n_bits: u32,
    n_named: u32,
    /// The entry says the same, in another spelling.
    n_same: u32,
}

/// Turns one bit over and asks the reader.
fn flip(name: &str, reader: Reader, file: &Bytes, frames: &[Frame<'_>], bit: usize, tally: &mut Tally) {
    let mut bent = file.to_vec();
    bent[bit / 8] ^= 1 << (bit % 8);
    let bent = Bytes::from(bent);
    let said = reader.1(&bent);
    let at = || {
        format!(
            "{name}, byte {}, bit {}: {} says {said:#?}",
            bit / 8,
            bit % 8,
            reader.0
        )
    };
    assert!(!said.is_good(), "{}", at());
    let frame = frames
        .iter()
        .position(|frame| (frame.from..frame.to).contains(&(bit / 8)));
    let Some(frame) = frame.filter(|frame| frames[*frame].kind == Kind::Entry) else {
        return;
    };
    tally.n_bits += 1;
    // The header and the request come before.
    let sequence = frame as u64 - 1;
    match said.entry {
        Some(entry) => {
            assert_eq!(entry, sequence, "{}", at());
            tally.n_named += 1;
        }
        None => {
            let before = meaning(frames[frame].content);
            let content_at = frames[frame].to - frames[frame].content.len();
            assert!(bit / 8 >= content_at, "{}", at());
            let after = meaning(&bent[content_at..frames[frame].to]);
            assert!(before.is_some() && before == after, "{}", at());
            tally.n_same += 1;
        }
    }
}

/// An entry without what its hash does not cover: the spelling, and what follows from the severity.
fn meaning(content: &[u8]) -> Option<String> {
    let mut entry = v1::AuditEntry::decode(content).ok()?;
    match entry.event.as_mut()? {
        Event::AttemptFailed(event) => forget(event.error.as_mut()),
        Event::StepNotCompleted(event) => forget(event.error.as_mut()),
        Event::StepCompleted(event) => event
            .warnings
            .iter_mut()
            .for_each(|warning| forget(Some(warning))),
        _ => {}
    }
    Some(format!("{entry:?}"))
}

fn forget(error: Option<&mut v1::ExecutionError>) {
    let mut next = error;
    let mut is_cause = false;
    while let Some(error) = next {
        error.recoverable = false;
        // None is `{}`; and all in the one spelling that this project writes itself.
        let context = error.context.take().unwrap_or_default();
        let plain = json::from_opaque(&context).map(|object| json::to_opaque(&object));
        // That of a cause stands in another entry.
        error.context = if is_cause { None } else { plain.ok() };
        is_cause = true;
        next = error.cause.as_deref_mut();
    }
}

fn every_bit(name: &str, reader: Reader) {
    let file = &corpus::all()[name];
    let (frames, _) = chain::frames(file);
    let mut tally = Tally::default();
    for bit in 0..8 * file.len() {
        flip(name, reader, file, &frames, bit, &mut tally);
    }
    assert!(tally.n_same * 50 < tally.n_bits, "{name}: {tally:?}");
}

/// One bit of each byte, or of one in `step` bytes.
fn some_bits(name: &str, reader: Reader, step: usize) {
    let mut dice = Dice::new(step as u64);
    let file = &corpus::all()[name];
    let (frames, _) = chain::frames(file);
    let mut tally = Tally::default();
    for byte in (0..file.len()).step_by(step) {
        let bit = 8 * byte + dice.roll(8) as usize;
        flip(name, reader, file, &frames, bit, &mut tally);
    }
    assert!(tally.n_same * 50 < tally.n_bits, "{name}: {tally:?}");
}

fn every_length(name: &str, reader: Reader, step: usize) {
    let file = &corpus::all()[name];
    for length in (0..file.len()).step_by(step) {
        let said = reader.1(&file.slice(..length));
        assert!(
            !said.is_good(),
            "{name} cut off after {length} bytes, for {}",
            reader.0
        );
    }
}

//
#[test]
fn the_orchestrator_finds_every_bit_of_a_small_record() {
    every_bit("success", ORCHESTRATOR);
}

//
#[test]
fn the_second_reader_finds_every_bit_of_a_small_record() {
    every_bit("success", SECOND);
}

//
#[test]
fn both_find_bits_anywhere_in_every_kind() {
    for name in corpus::all().keys() {
        some_bits(name, SECOND, 7);
        some_bits(name, ORCHESTRATOR, 41);
    }
    some_bits("failure-by-fatal-error", SECOND, 1);
    some_bits("failure-by-fatal-error", ORCHESTRATOR, 3);
}

//
#[test]
fn both_find_every_length_at_which_a_file_is_cut_off() {
    every_length("success", ORCHESTRATOR, 1);
    every_length("success", SECOND, 1);
    for name in corpus::all().keys() {
        every_length(name, SECOND, 13);
    }
}
