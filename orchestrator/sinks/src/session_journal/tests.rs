#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_engine::{Input, SessionKey};
use std::io::{Error, ErrorKind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The process is 10 ms old.
const START: Moment = Moment {
    monotonic_ms: 10,
    unix_ms: 1_000,
};

fn closed(session: u64) -> Input {
    Input::SessionClosed(SessionKey(session))
}

fn note(journal: &mut SessionJournal, session: u64) {
    journal.note_at(session, Event::Input(&closed(session)));
}

fn closed_line(session: u64) -> String {
    format!("{{\"t\":{session},\"s\":{session},\"dir\":\"shell\",\"m\":\"closed\"}}\n")
}

#[derive(Clone, Default)]
struct Disk(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    content: String,
    /// Results of the next writes, the last first: a limit of bytes, or an error. Writes after them succeed.
    writes: Vec<Result<usize, ErrorKind>>,
}

impl Disk {
    fn content(&self) -> String {
        self.0.lock().unwrap().content.clone()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Written { content, writes } = &mut *self.0.lock().unwrap();
        let n = match writes.pop() {
            None => bytes.len(),
            Some(Ok(n)) => n.min(bytes.len()),
            Some(Err(kind)) => return Err(Error::from(kind)),
        };
        content.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_are_written_in_their_order_with_each_batch() {
    let disk = Disk::default();
    let mut journal = SessionJournal::to(disk.clone(), 1 << 20).unwrap();
    for session in 1..=6 {
        note(&mut journal, session);
        if session % 2 == 0 {
            journal.flush();
        }
    }
    drop(journal);
    assert_eq!(disk.content(), (1..=6).map(closed_line).collect::<String>());
}

#[test]
fn without_a_file_nothing_is_kept() {
    let mut journal = SessionJournal::start(None, BootId::new([1; 16]), START).unwrap();
    note(&mut journal, 1);
    assert!(journal.0.is_none());
}

/// Writes only when it is allowed to.
struct Gate {
    disk: Disk,
    reached: SyncSender<()>,
    opened: Receiver<()>,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // The test may have ended, by failing or because it is done.
        let _gone = self.reached.try_send(());
        let _gone = self.opened.recv();
        self.disk.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_hangs_costs_lines_which_are_counted_and_never_time() {
    let disk = Disk::default();
    let (reached, reached_rx) = sync_channel(1);
    let (open, opened) = sync_channel(1);
    let gate = Gate {
        disk: disk.clone(),
        reached,
        opened,
    };
    let bytes_max = 2 * closed_line(1).len();
    let mut journal = SessionJournal::to(gate, bytes_max).unwrap();
    for session in 1..=5 {
        note(&mut journal, session);
        journal.flush();
    }
    // Lines 1 and 2 wait for the file; 3 to 5 did not fit.
    reached_rx.recv().unwrap();
    drop(open);
    let lines = journal.0.as_ref().unwrap();
    let waiting = Arc::clone(&lines.bytes_waiting);
    while waiting.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    note(&mut journal, 6);
    drop(journal);
    let wanted = [
        closed_line(1),
        closed_line(2),
        "{\"dropped\":3}\n".to_owned(),
        closed_line(6),
    ];
    assert_eq!(disk.content(), wanted.concat());
}

#[test]
fn lines_that_are_missing_at_the_end_are_counted() {
    let disk = Disk::default();
    let mut journal = SessionJournal::to(disk.clone(), 10).unwrap();
    note(&mut journal, 1);
    note(&mut journal, 2);
    drop(journal);
    assert_eq!(disk.content(), "{\"dropped\":2}\n");
}

#[test]
fn a_full_disk_costs_lines_and_leaves_no_two_lines_in_one() {
    let disk = Disk::default();
    // From the end: a part of the first batch, then twice nothing, then the rest.
    disk.0.lock().unwrap().writes = vec![
        Err(ErrorKind::StorageFull),
        Err(ErrorKind::StorageFull),
        Ok(closed_line(1).len() + 5),
        Err(ErrorKind::Interrupted),
    ];
    let (batches, batches_rx) = channel();
    for batch in [[1, 2], [3, 4], [5, 6]] {
        batches.send(batch.map(closed_line).concat()).unwrap();
    }
    drop(batches);
    journal_file::write_all(disk.clone(), &batches_rx, &AtomicUsize::new(1 << 20));
    let wanted = [
        closed_line(1),
        closed_line(2)[..5].to_owned(),
        "\n{\"dropped\":3}\n".to_owned(),
        closed_line(5),
        closed_line(6),
    ];
    assert_eq!(disk.content(), wanted.concat());
}

#[test]
fn a_file_that_ends_within_a_line_is_continued_on_the_next() {
    let path = std::env::temp_dir().join(format!("escapement-journal-{}", std::process::id()));
    std::fs::write(&path, "{\"t\":1,\"s").unwrap();
    let boot = || SessionJournal::start(Some(&path), BootId::new([1; 16]), START).unwrap();
    drop(boot());
    drop(boot());
    let content = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let line = format!(
        "{{\"t\":0,\"s\":0,\"dir\":\"shell\",\"m\":\"boot\",\"boot\":\"{}\",\"unix_ms\":990}}",
        "01".repeat(16)
    );
    let lines: Vec<&str> = content.lines().collect();
    assert_eq!(lines, ["{\"t\":1,\"s", &line, &line]);
}

#[test]
fn a_file_that_cannot_be_appended_to_is_refused_and_named() {
    let directory = std::env::temp_dir();
    let failure = SessionJournal::start(Some(&directory), BootId::new([1; 16]), START).unwrap_err();
    assert!(matches!(failure, CannotStart::Append { .. }), "{failure:?}");
}
