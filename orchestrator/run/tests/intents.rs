//! The table of intents.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unused_crate_dependencies,
    reason = "tests"
)]

use escapement_run::intents::{Intents, SHIPPED};
use serde_json::{Value, json};

fn shipped() -> Intents {
    Intents::read(SHIPPED).unwrap()
}

// RUN-12.11
#[test]
fn the_eight_rows_are_told_by_their_queries() {
    let rows = [
        ("crea una imagen de un gato", "image_generate"),
        ("genera una presentación", "slides_create"),
        ("crea un documento word", "docx_generate"),
        ("genera un excel", "xlsx_create"),
        ("crea un pdf", "pdf_generate"),
        ("busca información sobre X", "web_search"),
        ("analiza estos datos", "data_analyze"),
        ("https://example.com/a?b=c", "browse_url"),
    ];
    let intents = shipped();
    assert_eq!(intents.rows().len(), rows.len());
    for (row, (query, intent)) in intents.rows().iter().zip(rows) {
        assert_eq!(intents.classify(query).unwrap().name, intent, "{query}");
        assert_eq!((row.name.as_str(), intents.named(intent)), (intent, Some(row)));
    }
    assert_eq!(intents.rows().iter().filter(|intent| intent.generates).count(), 5);
}

// RUN-12.11
#[test]
fn an_address_counts_last_and_a_format_first() {
    for (query, intent) in [
        (
            "crea un pdf de https://example.com/crea-una-imagen",
            "pdf_generate",
        ),
        ("busca en https://example.com", "web_search"),
        ("Mira (https://example.com/excel)", "browse_url"),
        ("lee www.example.com", "browse_url"),
        ("crea un documento pdf con una imagen", "pdf_generate"),
        ("Create slides with an image", "slides_create"),
        ("CREATE AN IMAGE for the slides", "image_generate"),
        ("dibuja un gato", "image_generate"),
        ("analiza esta imagen", "data_analyze"),
    ] {
        let found = shipped().classify(query).map(|intent| intent.name.clone());
        assert_eq!(found.as_deref(), Some(intent), "{query}");
    }
}

// RUN-12.11
#[test]
fn what_no_row_fits_has_no_intent() {
    for query in [
        "",
        "   ",
        "hola",
        "https://",
        "una imagen",
        "crea",
        "\u{0}\u{ffff}",
        &"pdf ".repeat(100_000),
    ] {
        assert_eq!(shipped().classify(query), None);
    }
}

// RUN-12.11
#[test]
fn a_table_that_is_wrong_is_refused_with_the_field() {
    let table: Value = serde_json::from_str(SHIPPED).unwrap();
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut table = table.clone();
        change(&mut table);
        Intents::read(&table.to_string()).unwrap_err()
    };
    let row = |at: usize, field: &'static str, value: Value| {
        refused(&move |table| table["intents"][at][field] = value.clone()).path
    };
    assert_eq!(row(0, "name", json!("")), "intents[0].name");
    assert_eq!(row(1, "name", json!("image_generate")), "intents[1].name");
    assert_eq!(row(2, "mime_type", json!("png")), "intents[2].mime_type");
    assert_eq!(row(3, "generates", json!("yes")), "intents[3].generates");
    assert_eq!(row(4, "words", json!("pdf")), "intents[4].words");
    assert_eq!(row(5, "words", json!(["find", "Find"])), "intents[5].words[1]");
    assert_eq!(row(5, "verbs", json!(["look up"])), "intents[5].verbs[0]");
    assert_eq!(row(6, "alternatives", json!([1])), "intents[6].alternatives[0]");
    assert_eq!(row(7, "adresses", json!([])), "intents[7].adresses");
    assert_eq!(
        refused(&|table| table["intents"][7] = json!(1)).path,
        "intents[7]"
    );
    assert_eq!(refused(&|table| table["intents"] = json!([])).path, "intents");
    assert_eq!(refused(&|table| table["makes"] = json!([""])).path, "makes[0]");
    let missing = refused(&|table| {
        table["intents"][0]
            .as_object_mut()
            .unwrap()
            .remove("artifact_type");
    });
    assert_eq!(
        missing.to_string(),
        "intents[0].artifact_type: must be a text that says something"
    );
    for text in ["", "[]", "{\"makes\": [}"] {
        assert_eq!(Intents::read(text).unwrap_err().path, "", "{text}");
    }
}
