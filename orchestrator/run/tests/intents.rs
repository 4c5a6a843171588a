//! The table of intents.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    unused_crate_dependencies,
    reason = "tests"
)]

use escapement_run::intents::{INTENTS, Intent, classify};

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
    for (row, (query, intent)) in INTENTS.iter().zip(rows) {
        assert_eq!(classify(query).unwrap().name, intent, "{query}");
        assert_eq!((row.name, Intent::named(intent)), (intent, Some(row)));
    }
    assert_eq!(INTENTS.iter().filter(|intent| intent.generates).count(), 5);
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
        assert_eq!(classify(query).map(|intent| intent.name), Some(intent), "{query}");
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
        assert_eq!(classify(query), None);
    }
}
