//! Media types as data: how their files begin, and which types of artifacts they are of.

/// True for a media type: `type/subtype`, at most 127 bytes, without parameters.
pub(super) fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !part.is_empty() && part.bytes().all(is_known)
    };
    let parts = text.split_once('/');
    text.len() <= 127 && parts.is_some_and(|(one, other)| is_token(one) && is_token(other))
}

// RUN-12.9
/// True if a file of that media type begins with these bytes, or nothing is known of the media type.
pub(super) fn begins_as(mime_type: &str, magic: &[u8]) -> bool {
    let mut rows = BEGINNINGS
        .iter()
        .filter(|(known, ..)| *known == mime_type)
        .peekable();
    if rows.peek().is_none() {
        // A text has no byte 0.
        let is_text = mime_type.starts_with("text/") || mime_type == "application/json";
        return !is_text || !magic.contains(&0);
    }
    rows.any(|(_, at, bytes)| magic.get(*at..*at + bytes.len()) == Some(bytes))
}

// RUN-12.9
/// True if such a file is an artifact of that type, or nothing is known of the type.
pub(super) fn is_of_type(mime_type: &str, artifact_type: &str) -> bool {
    let mut rows = TYPES.iter().filter(|(known, _)| *known == artifact_type);
    rows.next().is_none_or(|(_, kinds)| {
        let is_of = |kind: &&str| match kind.ends_with('/') {
            true => mime_type.starts_with(kind),
            false => mime_type == *kind,
        };
        kinds.iter().any(is_of)
    })
}

const PPTX: &str = "application/vnd.openxmlformats-officedocument.presentationml.presentation";
const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
const PDF: &str = "application/pdf";
const ZIP: &[u8] = b"PK\x03\x04";

/// A media type, and the bytes that its files have at a place. One row is enough.
const BEGINNINGS: [(&str, usize, &[u8]); 17] = [
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/gif", 0, b"GIF8"),
    ("image/webp", 8, b"WEBP"),
    ("image/bmp", 0, b"BM"),
    (PDF, 0, b"%PDF-"),
    (PPTX, 0, ZIP),
    (DOCX, 0, ZIP),
    (XLSX, 0, ZIP),
    ("application/zip", 0, ZIP),
    ("application/gzip", 0, b"\x1f\x8b"),
    ("audio/mpeg", 0, b"ID3"),
    ("audio/mpeg", 0, b"\xff\xfb"),
    ("audio/wav", 8, b"WAVE"),
    ("audio/ogg", 0, b"OggS"),
    ("video/mp4", 4, b"ftyp"),
    ("video/webm", 0, b"\x1aE\xdf\xa3"),
];

/// A type of artifacts and its media types; one that ends in `/` stands for all that begin with it.
const TYPES: [(&str, &[&str]); 11] = [
    ("image", &["image/"]),
    ("presentation", &[PPTX]),
    ("document", &[DOCX, PDF, "text/"]),
    ("spreadsheet", &[XLSX, "text/csv"]),
    ("pdf", &[PDF]),
    ("text", &["text/"]),
    ("page", &["text/html"]),
    ("search_results", &["application/json"]),
    ("statistics", &["application/json"]),
    ("audio", &["audio/"]),
    ("video", &["video/"]),
];
