#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Collector, HEADERS_BYTES_MAX, header, read_headers};
use std::path::PathBuf;

fn refused(endpoint: &str, headers: Option<&str>) -> Option<&'static str> {
    let collector = Collector {
        endpoint: endpoint.to_owned(),
        headers_file: headers.map(PathBuf::from),
        ca: None,
        allows_plaintext: false,
    };
    collector.problem().map(|(flag, _)| flag)
}

#[test]
fn what_does_not_go_together_is_refused() {
    assert_eq!(refused("https://collector:4317", None), None);
    assert_eq!(refused("collector:4317", None), Some("--otlp-endpoint"));
    assert_eq!(
        refused("http://collector:4317", Some("headers")),
        Some("--otlp-headers-file"),
        "they would be sent unencrypted"
    );
    assert_eq!(refused("http://127.0.0.1:4317", Some("headers")), None);
    assert_eq!(
        refused("http://collector:4317", None),
        Some("--otlp-endpoint"),
        "names of steps and texts of errors would be read on the way"
    );
}

#[test]
fn headers_are_lines_with_a_name_and_a_value() {
    let (name, value) = header("Authorization: Bearer a:b").unwrap();
    assert_eq!(
        (name.as_str(), value.to_str().unwrap()),
        ("authorization", "Bearer a:b")
    );
    assert!(value.is_sensitive(), "no log shows it");
    for wrong in ["authorization", "a b: c", ": c", "a: \u{1}"] {
        assert!(header(wrong).is_none(), "{wrong:?}");
    }
}

#[test]
fn a_file_of_headers_that_is_too_large_is_refused_and_not_cut() {
    let file = std::env::temp_dir().join(format!("escapement-headers-{}", std::process::id()));
    let line = "a: b\n";
    let fitting = line.repeat(usize::try_from(HEADERS_BYTES_MAX).unwrap() / line.len());
    std::fs::write(&file, &fitting).unwrap();
    let read = read_headers(&file);
    std::fs::write(&file, fitting + line).unwrap();
    let too_large = read_headers(&file);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(read.unwrap().len(), 1);
    assert!(too_large.unwrap_err().contains("65536 bytes"));
}
