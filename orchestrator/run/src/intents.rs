//! What a request in plain words is after: eight intents, as data. Asks no model, and reads nothing but the words.

use alloc::string::String;
use alloc::vec::Vec;

/// What somebody may be after, and what a run for it should come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its name.
    pub name: &'static str,
    /// The type of the artifact or the answer.
    pub artifact_type: &'static str,
    /// Its media type.
    pub mime_type: &'static str,
    /// What may be made instead, the best first.
    pub alternatives: &'static [&'static str],
    /// True if an artifact is to be made: a plan for it needs a step that produces one.
    pub generates: bool,
    /// Words that name what is to be made, as a format.
    formats: &'static [&'static str],
    /// Words that name it otherwise, or that ask for it.
    words: &'static [&'static str],
}

/// All of them, the one that goes first if nothing else decides before the others.
pub const INTENTS: [Intent; 8] = [
    Intent {
        name: "image_generate",
        artifact_type: "image",
        mime_type: "image/png",
        alternatives: &["text", "pdf"],
        generates: true,
        formats: &["png", "jpg", "jpeg"],
        words: &[
            "imagen",
            "imágenes",
            "imagenes",
            "dibujo",
            "ilustración",
            "ilustracion",
            "foto",
            "logo",
            "image",
            "images",
            "picture",
            "drawing",
            "illustration",
            "photo",
        ],
    },
    Intent {
        name: "slides_create",
        artifact_type: "presentation",
        mime_type: "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        alternatives: &["docx", "pdf", "text"],
        generates: true,
        formats: &["pptx", "powerpoint"],
        words: &[
            "presentación",
            "presentacion",
            "diapositivas",
            "presentation",
            "slides",
            "deck",
        ],
    },
    Intent {
        name: "docx_generate",
        artifact_type: "document",
        mime_type: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        alternatives: &["pdf", "text"],
        generates: true,
        formats: &["docx", "word"],
        words: &["documento", "informe", "carta", "document", "letter"],
    },
    Intent {
        name: "xlsx_create",
        artifact_type: "spreadsheet",
        mime_type: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        alternatives: &["data_analyze", "text"],
        generates: true,
        formats: &["xlsx", "excel"],
        words: &["hoja", "planilla", "spreadsheet", "workbook"],
    },
    Intent {
        name: "pdf_generate",
        artifact_type: "pdf",
        mime_type: "application/pdf",
        alternatives: &["docx", "text"],
        generates: true,
        formats: &["pdf"],
        words: &[],
    },
    Intent {
        name: "web_search",
        artifact_type: "search_results",
        mime_type: "application/json",
        alternatives: &["text"],
        generates: false,
        formats: &[],
        words: &[
            "busca",
            "buscar",
            "búscame",
            "investiga",
            "search",
            "find",
            "google",
        ],
    },
    Intent {
        name: "data_analyze",
        artifact_type: "statistics",
        mime_type: "application/json",
        alternatives: &["text"],
        generates: false,
        formats: &[],
        words: &[
            "analiza",
            "analizar",
            "estadísticas",
            "estadisticas",
            "analyze",
            "analyse",
            "statistics",
        ],
    },
    Intent {
        name: "browse_url",
        artifact_type: "page",
        mime_type: "text/html",
        alternatives: &["web_search", "text"],
        generates: false,
        formats: &[],
        words: &[],
    },
];

impl Intent {
    /// The intent of that name.
    pub fn named(name: &str) -> Option<&'static Intent> {
        INTENTS.iter().find(|intent| intent.name == name)
    }
}

// RUN-12.11
/// What a request in plain words is after; `None` if no row of the table fits. Costs time linear in its length.
///
/// To make something takes a word such as `crea` or `create`, and a word for what is made: a format before any other, and
/// among equals the first in the text. Words of an address do not count, and an address counts only if nothing else does.
pub fn classify(query: &str) -> Option<&'static Intent> {
    let is_address = |word: &&str| {
        let lower = word.to_lowercase();
        let lower = lower.trim_start_matches(['(', '<', '"', '\'', '[']);
        ADDRESSES
            .iter()
            .any(|start| lower.starts_with(start) && lower.len() > start.len())
    };
    let lower: String = query
        .split_whitespace()
        .filter(|word| !is_address(word))
        .flat_map(|word| [word, " "])
        .collect::<String>()
        .to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let first = |wanted: &dyn Fn(&Intent, &str) -> bool| {
        let mut found = words
            .iter()
            .filter_map(|word| INTENTS.iter().find(|intent| wanted(intent, word)));
        found.next()
    };
    if words.iter().any(|word| MAKES.contains(word)) {
        let format = first(&|intent, word| intent.generates && intent.formats.contains(&word));
        let made = format.or_else(|| first(&|intent, word| intent.generates && intent.words.contains(&word)));
        if made.is_some() {
            return made;
        }
    }
    if words.iter().any(|word| DRAWS.contains(word)) {
        return Intent::named("image_generate");
    }
    let asked = first(&|intent, word| !intent.generates && intent.words.contains(&word));
    let has_address = query.split_whitespace().any(|word| is_address(&word));
    asked.or_else(|| Intent::named("browse_url").filter(|_| has_address))
}

/// Words that ask for something to be made.
const MAKES: [&str; 22] = [
    "crea", "crear", "créame", "creame", "genera", "generar", "haz", "hazme", "hacer", "diseña", "elabora",
    "prepara", "escribe", "create", "generate", "make", "design", "produce", "prepare", "write", "build",
    "draft",
];
/// Words that ask for an image.
const DRAWS: [&str; 6] = ["dibuja", "dibújame", "pinta", "ilustra", "draw", "paint"];
/// Beginnings of addresses.
const ADDRESSES: [&str; 3] = ["http://", "https://", "www."];
