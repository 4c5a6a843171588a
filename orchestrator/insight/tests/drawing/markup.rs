//! Judges SVG as an XML parser would, as far as the drawings use XML. Knows nothing of what is drawn.

/// The texts between the tags, unescaped.
///
/// # Panics
/// The document is not well-formed, or holds what a drawing must not: scripts, events, addresses elsewhere.
pub(crate) fn well_formed(document: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = document.trim_end();
    assert!(rest.starts_with("<svg "));
    while let Some(markup) = rest.strip_prefix('<') {
        let (tag, behind) = markup.split_once('>').expect("a tag ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "tags are closed in turn");
        } else {
            let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let name = attributes(tag);
            if !is_empty {
                open.push(name);
            }
        }
        let end = behind.find('<').unwrap_or(behind.len());
        let text = unescaped(&behind[..end]);
        assert!(
            !open.is_empty() || text.trim().is_empty(),
            "a text stands outside"
        );
        texts.push(text);
        rest = &behind[end..];
    }
    assert!(rest.is_empty() && open.is_empty(), "{open:?} {rest}");
    let is_allowed =
        |c: char| matches!(c, '\n' | '\t' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(document.chars().all(is_allowed));
    texts
}

/// Checks the attributes of a tag and gives its name.
fn attributes(tag: &str) -> &str {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let allowed = [
        "svg", "title", "desc", "style", "defs", "g", "rect", "path", "circle", "text", "use", "pattern",
    ];
    assert!(allowed.contains(&name), "<{name}> has no place in a drawing");
    let mut seen: Vec<&str> = Vec::new();
    while !rest.is_empty() {
        let (attribute, value) = rest
            .split_once("=\"")
            .expect("an attribute has a value in quotes");
        let (value, behind) = value.split_once('"').expect("a value ends");
        assert!(
            attribute.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "{tag}"
        );
        assert!(
            !attribute.starts_with("on") && !seen.contains(&attribute),
            "{tag}"
        );
        let is_elsewhere = value.contains(':') && attribute != "xmlns";
        assert!(
            !is_elsewhere && (attribute != "href" || value.starts_with('#')),
            "{tag}"
        );
        assert!(!value.contains("NaN") && !value.contains("inf"), "{tag}");
        unescaped(value);
        seen.push(attribute);
        rest = behind.strip_prefix(' ').unwrap_or(behind);
    }
    name
}

fn unescaped(text: &str) -> String {
    let mut unescaped = String::new();
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once('&') {
        let (name, behind) = reference.split_once(';').expect("a reference ends");
        unescaped.push_str(before);
        unescaped.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("&{other}; is unknown"),
        });
        rest = behind;
    }
    unescaped.push_str(rest);
    unescaped
}

#[test]
#[should_panic(expected = "tags are closed in turn")]
fn a_tag_that_is_not_closed_is_found() {
    well_formed("<svg a=\"b\"><g></svg>");
}

#[test]
#[should_panic(expected = "a reference ends")]
fn an_ampersand_is_found() {
    well_formed("<svg a=\"b\">this & that</svg>");
}

#[test]
#[should_panic(expected = "<script> has no place in a drawing")]
fn a_script_is_found() {
    well_formed("<svg a=\"b\"><script>1</script></svg>");
}
