//! The names of events, every one of them, as a page.

use escapement_run::journal::{Decision, Entry, Event, InputRequest, RequestAnswer, RequestKind};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use std::collections::{BTreeMap, BTreeSet};

/// An event of each kind that a journal can hold, and of each that is shown under several names.
fn every_event() -> Vec<Event> {
    let mut events: Vec<Event> = (1..=NUMBER_MAX).filter_map(empty).collect();
    let kinds = (0..=i32::from(u8::MAX)).filter_map(|kind| RequestKind::try_from(kind).ok());
    events.extend(kinds.map(|kind| {
        Event::InputRequested(InputRequest {
            kind: kind.into(),
            ..InputRequest::default()
        })
    }));
    let decisions = (0..=i32::from(u8::MAX)).filter_map(|decision| Decision::try_from(decision).ok());
    events.extend(decisions.map(|decision| {
        Event::InputReceived(RequestAnswer {
            decision: decision.into(),
            ..RequestAnswer::default()
        })
    }));
    events
}

/// The event with this field number in an entry, without content; `None` if the number is no event's.
fn empty(number: u32) -> Option<Event> {
    let mut entry = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut entry);
    encode_varint(0, &mut entry);
    Entry::decode(&entry[..]).ok()?.event
}

/// Each name with what else it is called.
fn names() -> BTreeMap<&'static str, &'static [&'static str]> {
    let events = every_event();
    let names: BTreeMap<_, _> = events
        .iter()
        .map(|event| (event.name(), event.aliases()))
        .collect();
    for event in &events {
        assert_eq!(
            names[event.name()],
            event.aliases(),
            "{} has its aliases",
            event.name()
        );
    }
    names
}

fn page() -> String {
    let mut page = "# Events of runs\n\n\
        Every name under which an entry of a journal is shown, and the older names that filters accept and that are shown beside it.\n\
        A name is never changed, and never used for something else.\n\n\
        | event | also called |\n|---|---|\n"
        .to_owned();
    for (name, aliases) in names() {
        let aliases: Vec<String> = aliases.iter().map(|alias| format!("`{alias}`")).collect();
        page += &format!("| `{name}` | {} |\n", aliases.join(", "));
    }
    page
}

// RUN-9.7
#[test]
fn the_page_has_every_name_of_an_event_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/EVENTS.md");
    let page = page();
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert_eq!(written, page, "ESCAPEMENT_WRITE=1 writes it anew");
}

// RUN-9.7
#[test]
fn a_name_means_one_event() {
    let names = names();
    assert!(names.len() > 50, "every event is looked at: {}", names.len());
    let mut known: BTreeSet<&str> = names.keys().copied().collect();
    for alias in names.values().copied().flatten() {
        assert!(known.insert(alias), "{alias} means two events");
    }
}

/// Field numbers of events are below.
const NUMBER_MAX: u32 = 1000;
