//! The order in which files are written and synced, read from traces: what a power cut could take away is not told yet.
//! A kill proves nothing of this, since the system keeps what a process wrote.

use escapement_tests::fault_layer::Call;

use crate::sweep::traced;

/// What is wrong with the order of these calls of one process.
pub(crate) fn judge(calls: &[Call]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut accuse = |call: &Call, what: &str| wrong.push(format!("{call}: {what}"));
    // Written since the last sync.
    let (mut log, mut database, mut names) = (false, false, false);
    for call in calls {
        let is_log = call.file.ends_with("-wal");
        let is_database = call.file.ends_with(".db");
        match call.kind.as_str() {
            "fsync" | "fdatasync" => match () {
                () if is_log => log = false,
                () if is_database => database = false,
                () if call.file == "store" => names = false,
                () => {}
            },
            "create" => names |= is_log || is_database || call.file.ends_with("store.mark"),
            "write" if is_log => {
                if database && call.bytes == LOG_HEADER_BYTES {
                    accuse(
                        call,
                        "the log begins anew before what was copied from it is synced",
                    );
                }
                log = true;
            }
            "truncate" if is_log && database => {
                accuse(call, "the log is cut before what was copied from it is synced");
            }
            "write" if is_database => {
                if log {
                    accuse(call, "a page is copied from the log before the log is synced");
                }
                database = true;
            }
            "write" if call.file.ends_with("store.mark") => {
                if log {
                    accuse(call, "a commit counts as durable before the log is synced");
                }
                if names && call.thread == "writer" {
                    accuse(
                        call,
                        "a commit counts as durable before the names of the files are synced",
                    );
                }
            }
            _ => {}
        }
    }
    wrong
}

/// The header of a log that begins anew.
const LOG_HEADER_BYTES: u64 = 32;

//
#[tokio::test(flavor = "multi_thread")]
async fn nothing_counts_as_durable_before_it_is_synced() {
    for traced in traced().await {
        let wrong = judge(&traced.calls);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let commits = traced
            .calls
            .iter()
            .filter(|call| call.thread == "writer" && call.file.ends_with("store.mark"));
        assert!(commits.count() >= 2, "each act has commits");
        let dear = |call: &&Call| call.kind == "fsync" && call.file.ends_with("-wal");
        assert_eq!(
            traced.calls.iter().find(dear),
            None,
            "a commit syncs its data alone: `.cargo/config.toml`"
        );
    }
}

#[test]
fn a_missing_sync_is_found() {
    let call = |kind: &str, file: &str, bytes| Call {
        phase: "unit".to_owned(),
        ordinal: 1,
        nth: 1,
        kind: kind.to_owned(),
        bytes,
        thread: "writer".to_owned(),
        file: file.to_owned(),
    };
    let (log, database, mark) = ("store/store.db-wal", "store/store.db", "store/store.mark");
    let commit = [
        call("write", log, 4096),
        call("fsync", log, 0),
        call("write", mark, 28),
    ];
    let copy = [
        call("write", database, 4096),
        call("fsync", database, 0),
        call("write", log, 32),
        call("fsync", log, 0),
    ];
    assert!(judge(&[&commit[..], &copy[..]].concat()).is_empty());
    assert_eq!(judge(&[commit[0].clone(), commit[2].clone()]).len(), 1);
    assert_eq!(judge(&[commit[0].clone(), copy[0].clone()]).len(), 1);
    assert_eq!(judge(&[copy[0].clone(), copy[2].clone()]).len(), 1);
    assert_eq!(judge(&[copy[0].clone(), call("truncate", log, 0)]).len(), 1);
    assert_eq!(judge(&[call("create", log, 0), commit[2].clone()]).len(), 1);
}
