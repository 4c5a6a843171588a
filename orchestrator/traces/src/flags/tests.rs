#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{HEADERS_BYTES_MAX, ParentRule, TraceFlags, header, parse_ratio, read_headers};
use std::path::PathBuf;

fn flags(endpoint: Option<&str>) -> TraceFlags {
    TraceFlags {
        otlp_endpoint: endpoint.map(str::to_owned),
        otlp_protocol: "grpc".to_owned(),
        otlp_headers_file: None,
        otlp_ca: None,
        otlp_service_name: "s".to_owned(),
        trace_ratio: 0.1,
        trace_parent: ParentRule::Respect,
    }
}

fn refused(flags: &TraceFlags) -> Option<&'static str> {
    flags.problem().map(|(flag, _)| flag)
}

#[test]
fn what_does_not_go_together_is_refused() {
    let with_headers = |flags| TraceFlags {
        otlp_headers_file: Some(PathBuf::from("headers")),
        ..flags
    };
    let over_http = |flags| TraceFlags {
        otlp_protocol: "http/protobuf".to_owned(),
        ..flags
    };
    assert_eq!(refused(&flags(None)), None);
    assert_eq!(refused(&over_http(flags(None))), None, "nothing is exported");
    assert_eq!(refused(&flags(Some("https://collector:4317"))), None);
    assert_eq!(refused(&flags(Some("collector:4317"))), Some("--otlp-endpoint"));
    assert_eq!(
        refused(&over_http(flags(Some("https://c:4318")))),
        Some("--otlp-protocol")
    );
    assert_eq!(refused(&with_headers(flags(None))), Some("--otlp-headers-file"));
    assert_eq!(
        refused(&with_headers(flags(Some("http://collector:4317")))),
        Some("--otlp-headers-file"),
        "they would be sent unencrypted"
    );
    assert_eq!(refused(&with_headers(flags(Some("http://127.0.0.1:4317")))), None);
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

#[test]
fn a_ratio_is_a_part_of_one() {
    for right in ["0", "0.1", "1"] {
        parse_ratio(right).unwrap();
    }
    for wrong in ["", "-0.1", "1.1", "NaN", "inf", "always_on"] {
        parse_ratio(wrong).unwrap_err();
    }
}
