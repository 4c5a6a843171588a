//! `file.read` and `file.write`.

use super::{closed, context, input, kind, with_root};
use escapement_sdk::StepError;
use escapement_worker::config::Config;
use escapement_worker::handlers::{file_read, file_stat, file_write};
use escapement_worker::sandbox::{Root, Written};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;

async fn read(config: &Arc<Config>, payload: Value) -> Result<file_read::Output, StepError> {
    file_read::run(input(payload), context(), config.clone()).await
}

async fn write(config: &Arc<Config>, payload: Value) -> Result<Written, StepError> {
    file_write::run(input(payload), context(), config.clone()).await
}

#[tokio::test]
async fn without_a_root_there_are_no_files() {
    let config = Arc::new(closed());
    let error = read(&config, json!({ "path": "a" })).await.unwrap_err();
    assert_eq!(kind(&error), "FILE_ACCESS_OFF fatal");
    assert_eq!(
        write(&config, json!({ "path": "a", "content": "" }))
            .await
            .unwrap_err()
            .code(),
        "FILE_ACCESS_OFF"
    );
}

#[tokio::test]
async fn what_is_written_is_read_back_with_its_digest() {
    let (config, _directory) = with_root();
    let config = Arc::new(config);
    let payload = json!({ "path": "deep/er/note.txt", "content": "hello", "create_dirs": true });
    let written = write(&config, payload).await.unwrap();
    let found = read(&config, json!({ "path": "./deep//er/note.txt" }))
        .await
        .unwrap();
    assert_eq!((found.content.as_str(), found.bytes), ("hello", 5));
    assert_eq!(found.sha256, written.sha256);
    assert!(
        written.sha256.starts_with("2cf24dba5fb0a30e"),
        "{}",
        written.sha256
    );
}

#[tokio::test]
async fn binary_content_travels_as_base64() {
    let (config, _directory) = with_root();
    let config = Arc::new(config);
    write(
        &config,
        json!({ "path": "b", "content": "AP+A", "encoding": "base64" }),
    )
    .await
    .unwrap();
    let found = serde_json::to_value(read(&config, json!({ "path": "b" })).await.unwrap()).unwrap();
    assert_eq!(
        (&found["content"], &found["encoding"]),
        (&json!("AP+A"), &json!("base64"))
    );
}

#[tokio::test]
async fn no_path_leads_out_of_the_root() {
    let (config, directory) = with_root();
    let outside = tempfile::TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    symlink(outside.path(), directory.path().join("link")).unwrap();
    symlink(outside.path().join("secret"), directory.path().join("direct")).unwrap();
    symlink(outside.path().join("missing"), directory.path().join("dangling")).unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    let config = Arc::new(config);
    let absolute = outside.path().join("secret").to_str().unwrap().to_owned();
    for path in [
        "link/secret",
        "direct",
        "dangling",
        "../x",
        "sub/../../x",
        absolute.as_str(),
        "..",
        ".",
        "",
    ] {
        let error = read(&config, json!({ "path": path })).await.unwrap_err();
        assert_eq!(
            (error.code(), error.stated_severity().unwrap().as_str()),
            ("FILE_NOT_ALLOWED", "fatal"),
            "{path}"
        );
    }
    for path in ["link/new", "../new", "sub/../../new", absolute.as_str()] {
        let payload = json!({ "path": path, "content": "x", "create_dirs": true });
        assert_eq!(
            write(&config, payload).await.unwrap_err().code(),
            "FILE_NOT_ALLOWED",
            "{path}"
        );
    }
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "s");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_link_in_the_place_of_a_file_is_replaced_and_not_followed() {
    let (config, directory) = with_root();
    let outside = tempfile::NamedTempFile::new().unwrap();
    symlink(outside.path(), directory.path().join("link")).unwrap();
    write(&Arc::new(config), json!({ "path": "link", "content": "new" }))
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(outside.path()).unwrap(), "");
    assert!(
        directory
            .path()
            .join("link")
            .symlink_metadata()
            .unwrap()
            .is_file()
    );
}

#[tokio::test]
async fn a_write_replaces_the_whole_file_and_leaves_nothing_beside_it() {
    let (config, directory) = with_root();
    let path = directory.path().join("a");
    fs::write(&path, "old").unwrap();
    let reader = fs::File::open(&path).unwrap();
    let old_inode = path.metadata().unwrap().ino();
    write(&Arc::new(config), json!({ "path": "a", "content": "new" }))
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    // A reader that had it open still reads the old content to its end: the file was exchanged, not overwritten.
    assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
    assert_ne!(path.metadata().unwrap().ino(), old_inode);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_write_that_fails_leaves_nothing_behind() {
    let (config, directory) = with_root();
    fs::create_dir(directory.path().join("taken")).unwrap();
    let config = Arc::new(config);
    let error = write(&config, json!({ "path": "taken", "content": "x" }))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "FILE_FAILED");
    let missing = write(&config, json!({ "path": "no/dir", "content": "x" }))
        .await
        .unwrap_err();
    assert_eq!(missing.code(), "FILE_NOT_FOUND");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn limits_hold_at_the_limit_and_one_over() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("ten"), "0123456789").unwrap();
    let config = Arc::new(config);
    assert_eq!(
        read(&config, json!({ "path": "ten", "bytes_max": 10 }))
            .await
            .unwrap()
            .bytes,
        10
    );
    let error = read(&config, json!({ "path": "ten", "bytes_max": 9 }))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "FILE_TOO_LARGE");
    let limit = 1 << 20;
    write(&config, json!({ "path": "w", "content": "x".repeat(limit) }))
        .await
        .unwrap();
    let error = write(&config, json!({ "path": "w", "content": "x".repeat(limit + 1) }))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "INVALID_PAYLOAD");
}

#[tokio::test]
async fn a_pipe_is_refused_and_does_not_block() {
    let (config, directory) = with_root();
    let path = directory.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let config = Arc::new(config);
    let error = read(&config, json!({ "path": "pipe" })).await.unwrap_err();
    assert_eq!(error.code(), "FILE_NOT_ALLOWED");
    let error = write(&config, json!({ "path": "pipe", "content": "x" }))
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "FILE_NOT_ALLOWED fatal");
    let kept = fs::symlink_metadata(&path).unwrap().file_type();
    assert!(
        std::os::unix::fs::FileTypeExt::is_fifo(&kept),
        "it is not replaced"
    );
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn an_unknown_field_of_the_input_is_refused() {
    let decoded = serde_json::from_value::<file_read::Input>(json!({ "path": "a", "encodng": "text" }));
    assert!(decoded.unwrap_err().to_string().contains("encodng"));
}

#[tokio::test]
async fn a_binary_file_whose_base64_does_not_fit_into_an_output_is_too_large() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("binary"), vec![0xff; 900_000]).unwrap();
    let payload = json!({ "path": "binary", "bytes_max": 1_000_000 });
    let error = read(&Arc::new(config), payload).await.unwrap_err();
    assert_eq!(kind(&error), "FILE_TOO_LARGE");
}

#[tokio::test]
async fn a_file_is_described_without_its_content() {
    let (config, directory) = with_root();
    let config = Arc::new(config);
    let stat = async |payload: Value| {
        let output = file_stat::run(input(payload), context(), config.clone()).await;
        output.map(|output| serde_json::to_value(output).unwrap())
    };
    let png = [&b"\x89PNG\r\n\x1a\n"[..], &[0; 100]].concat();
    fs::write(directory.path().join("a.bin"), &png).unwrap();
    fs::write(directory.path().join("empty"), b"").unwrap();
    let written = read(&config, json!({ "path": "a.bin" })).await.unwrap();
    assert_eq!(
        stat(json!({ "path": "a.bin" })).await.unwrap(),
        json!({
            "path": "a.bin", "exists": true, "size_bytes": 108, "sha256": written.sha256,
            "magic_hex": "89504e470d0a1a0a0000000000000000", "mime_type": "image/png"
        })
    );
    for hashed_bytes_max in [0, 107] {
        let large = stat(json!({ "path": "a.bin", "hashed_bytes_max": hashed_bytes_max })).await;
        assert_eq!(large.unwrap().get("sha256"), None);
    }
    let whole = stat(json!({ "path": "a.bin", "hashed_bytes_max": 108 }))
        .await
        .unwrap();
    assert_eq!(whole["sha256"], json!(written.sha256));
    let empty = stat(json!({ "path": "empty" })).await.unwrap();
    assert_eq!(
        (&empty["size_bytes"], &empty["magic_hex"]),
        (&json!(0), &json!(""))
    );
    assert!(empty["sha256"].as_str().unwrap().starts_with("e3b0c44298fc1c14"));
    for missing in ["b.bin", "no/such/file"] {
        assert_eq!(
            stat(json!({ "path": missing })).await.unwrap(),
            json!({ "path": missing, "exists": false })
        );
    }
    symlink(directory.path().join("a.bin"), directory.path().join("link")).unwrap();
    for refused in ["../a.bin", "/etc/passwd", "link", "."] {
        let error = stat(json!({ "path": refused })).await.unwrap_err();
        assert_eq!(kind(&error), "FILE_NOT_ALLOWED fatal", "{refused}");
    }
    let error = stat(json!({ "path": "a.bin", "hashed_bytes_max": 1_u64 << 31 })).await;
    assert!(error.unwrap_err().message().contains("hashed_bytes_max"));
    let closed = file_stat::run(input(json!({ "path": "a" })), context(), Arc::new(closed())).await;
    assert_eq!(kind(&closed.unwrap_err()), "FILE_ACCESS_OFF fatal");
}

#[test]
fn a_directory_has_one_id_whoever_looks_first() {
    let directory = tempfile::TempDir::new().unwrap();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let looks = || Root::open(directory.path()).unwrap().id();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(looks)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap().unwrap())
            .collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0] && id.len() == 32), "{ids:?}");
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let other = tempfile::TempDir::new().unwrap();
    assert_ne!(Root::open(other.path()).unwrap().id().unwrap(), ids[0]);
}
