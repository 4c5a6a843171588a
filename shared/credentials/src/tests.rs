#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::path::Path;

#[test]
fn a_token_is_never_sent_unencrypted_to_another_machine() {
    let with_token = [
        Credentials::new().token("secret"),
        Credentials::new().token_file("/nowhere"),
        Credentials::new().token_with(|| Ok("secret".to_owned())),
    ];
    for credentials in with_token {
        for near in [
            "http://127.0.0.1:7400",
            "http://127.8.0.1:1",
            "http://[::1]:7400",
            "http://LocalHost:7400",
        ] {
            assert_eq!(credentials.problem(near), None, "{near}");
        }
        assert_eq!(credentials.problem("https://example.com:7400"), None);
        for far in [
            "http://10.0.0.1:7400",
            "http://example.com",
            "http://localhost.example.com",
            "http://[::2]:1",
        ] {
            let problem = credentials.problem(far).unwrap();
            assert!(problem.contains("not sent unencrypted"), "{problem}");
            assert!(credentials.endpoint(far).is_err(), "peers are held to it, too");
            assert_eq!(credentials.clone().allow_plaintext().problem(far), None, "{far}");
        }
    }
    assert_eq!(
        Credentials::new().problem("http://10.0.0.1:7400"),
        None,
        "nothing is shown"
    );
}

#[test]
fn an_address_keeps_secrets_if_it_is_encrypted_or_of_this_machine() {
    let keeps = |text: &str| keeps_secrets(&text.parse().unwrap());
    for near in [
        "https://example.com/v1",
        "tls://nats.example.com:4222",
        "http://127.0.0.1:1/?a=localhost",
        "http://[::1]/",
        "nats://localhost:4222",
    ] {
        assert!(keeps(near), "{near}");
    }
    for far in [
        "http://example.com/",
        "http://localhost@example.com/",
        "http://example.com/?https://",
        "http://0.0.0.0:1/",
        "http://[::ffff:10.0.0.1]/",
        "http://127.0.0.1.example.com/",
        "nats://10.0.0.1:4222",
        "/path",
    ] {
        assert!(!keeps(far), "{far}");
    }
}

#[test]
fn the_token_is_read_at_each_call_and_never_printed() {
    let folder = std::env::temp_dir().join(format!("escapement-token-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("token");
    let credentials = Credentials::new().token_file(&file);
    let shown = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut metadata = MetadataMap::new();
        credentials.authorize(&mut metadata)?;
        let value = metadata.get("authorization").unwrap();
        assert!(value.is_sensitive());
        Ok::<_, String>(value.to_str().unwrap().to_owned())
    };
    assert_eq!(shown("one\n"), Ok("Bearer one".to_owned()));
    assert_eq!(shown(" two "), Ok("Bearer two".to_owned()));
    for wrong in ["", "\n", "a b", "ä"] {
        let problem = shown(wrong).unwrap_err();
        assert!(
            problem.ends_with("does not consist of visible ASCII characters"),
            "{problem}"
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        credentials
            .check("http://127.0.0.1:1")
            .unwrap_err()
            .contains("No such file")
    );
    let debug = format!("{:?}", Credentials::new().token("hush"));
    assert!(!debug.contains("hush"), "{debug}");
}

#[test]
fn files_of_tls_are_named_when_they_cannot_be_used() {
    let missing = Path::new("/nowhere/ca.pem");
    for tls in [
        ClientTls::new().ca_file(missing),
        ClientTls::new()
            .ca_file("/dev/null")
            .identity_files(missing, "/dev/null"),
        ClientTls::new()
            .ca_file("/dev/null")
            .identity_files("/dev/null", missing),
    ] {
        let credentials = Credentials::new().tls(tls);
        let problem = credentials.check("https://127.0.0.1:1").unwrap_err();
        assert!(problem.starts_with("/nowhere/ca.pem: "), "{problem}");
        assert_eq!(
            credentials.check("http://127.0.0.1:1"),
            Ok(()),
            "nothing is read for plaintext"
        );
    }
}

#[test]
fn an_address_is_an_http_url() {
    for wrong in ["", "127.0.0.1:7400", "ftp://a:1", "http://", "https:// a"] {
        assert!(Credentials::new().problem(wrong).is_some(), "{wrong:?}");
    }
}
