#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says where its assumption broke"
)]

use super::{Event, Hex, Journal, Uuid, What};

const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
const ID: &str = "01234567-89ab-4cde-8fed-ba9876543210";

fn events(text: &str) -> Vec<Event> {
    Journal::of_text(text).map(Result::unwrap).collect()
}

fn error(text: &str) -> String {
    let outcome: Result<Vec<Event>, _> = Journal::of_text(&format!("{text}\n")).collect();
    outcome.unwrap_err().to_string()
}

#[test]
fn every_line_of_the_specification_is_read() {
    let lines = include_str!("specified.jsonl");
    let text = lines.replace("TOKEN", TOKEN).replace("UUID", ID);
    let events = events(&text);
    assert_eq!(events.len(), lines.lines().count());
    assert_eq!(events.last().unwrap().line, events.len());
    assert_eq!(
        (events[2].t, events[2].session, &events[2].what),
        (0, 1, &What::Opened)
    );
}

#[test]
fn a_line_that_is_not_in_the_specification_is_an_error_with_its_number() {
    let wrong = [
        (r#"{"t":1,"s":1,"dir":"in","seq":1,"m":"hi"}"#, "hi"),
        (r#"{"t":1,"s":1,"dir":"in","m":"drain"}"#, "`seq` is missing"),
        (r#"{"t":1,"dir":"in","seq":1,"m":"drain"}"#, "`s` is missing"),
        (r#"{"s":1,"dir":"in","seq":1,"m":"drain"}"#, "`t` is missing"),
        (
            r#"{"t":-1,"s":1,"dir":"in","seq":1,"m":"drain"}"#,
            "`t` is no whole number",
        ),
        (r#"{"t":1,"s":1,"seq":1,"m":"drain"}"#, "`dir` is missing"),
        (r#"{"t":1,"s":1,"dir":"up","seq":1,"m":"drain"}"#, "`dir` is `up`"),
        (r#"{"t":1,"s":1,"dir":"in","seq":1}"#, "`m`"),
        (
            r#"{"t":1,"s":1,"dir":"in","seq":1,"m":"heartbeat","n":1}"#,
            "hash",
        ),
        (
            r#"{"t":1,"s":1,"dir":"out","seq":1,"m":"cancels","items":[["00","tired"]]}"#,
            "tired",
        ),
        (
            r#"{"t":1,"s":1,"dir":"out","seq":1,"m":"cancels","items":[["0x","superseded"]]}"#,
            "hex",
        ),
        (
            r#"{"t":0,"s":0,"dir":"call","m":"drain_worker","instance":null}"#,
            "worker",
        ),
        ("{", "EOF"),
    ];
    for (text, says) in wrong {
        let error = error(&format!("\n{text}"));
        assert!(
            error.starts_with("line 2: ") && error.contains(says),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_line_that_was_cut_off_by_a_crash_is_passed_over() {
    let whole = r#"{"t":0,"s":1,"dir":"shell","m":"opened"}"#;
    let (cut, boot) = (
        &whole[..20],
        r#"{"t":0,"s":0,"dir":"shell","m":"boot","boot":"00"}"#,
    );
    assert_eq!(events(&format!("{whole}\n{cut}")).len(), 1);
    assert_eq!(events(&format!("{whole}\n{cut}\n{boot}\n")).len(), 2);
    assert_eq!(events(&format!("{whole}\n{cut}{boot}\n")).len(), 2);
    assert!(error(&format!("{whole}\n{cut}\n{whole}")).starts_with("line 2: "));
}

#[test]
fn identifiers_print_as_they_were_read() {
    assert_eq!(Uuid::parse(ID).unwrap().to_string(), ID);
    assert!(Uuid::parse(&ID.replace('-', "")).is_err());
    for text in ["00", TOKEN, "ffffffffffffffffffffffffffffffff"] {
        assert_eq!(
            serde_json::from_str::<Hex>(&format!("\"{text}\""))
                .unwrap()
                .to_string(),
            text
        );
    }
    let long = Hex::of_bytes(&[7; 17]);
    assert_ne!(long, Hex::of_bytes(&[7; 18]));
    assert_ne!(Hex::of_bytes(&[0]), Hex::of_bytes(&[0, 0]));
}
