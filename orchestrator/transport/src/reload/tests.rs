#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::fs;

/// Returns a folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("escapement-reload-{name}-{}", std::process::id()));
    let _none_before = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// What came of a look, without what it came of.
#[derive(Debug, Eq, PartialEq)]
enum Seen {
    Unchanged,
    Replaced,
    Refused,
}

fn look(reloadable: &mut Reloadable<String>) -> Seen {
    match reloadable.look(&mut |_, replace| replace()).looked {
        Looked::Unchanged { .. } => Seen::Unchanged,
        Looked::Replaced { .. } => Seen::Replaced,
        Looked::Refused { .. } => Seen::Refused,
    }
}

/// Takes any text but `bad`.
fn text_of(path: &Path) -> impl Fn(&Contents) -> Result<String, String> + Send + 'static {
    let path = path.to_owned();
    move |contents| match std::str::from_utf8(contents.of(&path)) {
        Ok("bad") | Err(_) => Err("bad".to_owned()),
        Ok(text) => Ok(text.to_owned()),
    }
}

#[test]
fn a_change_replaces_the_value_and_a_bad_one_leaves_it() {
    let folder = folder("change");
    let file = folder.join("file");
    fs::write(&file, "one").unwrap();
    let mut reloadable = Reloadable::load("test", vec![file.clone()], text_of(&file)).unwrap();
    let current = reloadable.current();
    assert_eq!(look(&mut reloadable), Seen::Unchanged);
    let mut seen = |content: Option<&str>| {
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        (look(&mut reloadable), current.borrow().as_str().to_owned())
    };
    assert_eq!(seen(Some("two")), (Seen::Replaced, "two".to_owned()));
    assert_eq!(seen(Some("bad")), (Seen::Refused, "two".to_owned()));
    assert_eq!(
        seen(None::<&str>.or(Some("bad"))),
        (Seen::Refused, "two".to_owned())
    );
    assert_eq!(seen(None), (Seen::Refused, "two".to_owned()));
    assert_eq!(seen(Some("two")), (Seen::Unchanged, "two".to_owned()));
    assert_eq!(seen(Some("three")), (Seen::Replaced, "three".to_owned()));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_symbolic_link_that_points_elsewhere_is_a_change() {
    let folder = folder("link");
    for version in ["old", "new"] {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("file"), version).unwrap();
    }
    let link = folder.join("now");
    std::os::unix::fs::symlink("old", &link).unwrap();
    let file = link.join("file");
    let mut reloadable = Reloadable::load("test", vec![file.clone()], text_of(&file)).unwrap();
    let next = folder.join("next");
    std::os::unix::fs::symlink("new", &next).unwrap();
    fs::rename(&next, &link).unwrap();
    assert_eq!(look(&mut reloadable), Seen::Replaced);
    assert_eq!(**reloadable.current().borrow(), "new");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_read_at_the_start_is_named() {
    let missing = PathBuf::from("/nowhere/at all");
    let error = Reloadable::load("test", vec![missing.clone()], text_of(&missing)).unwrap_err();
    assert!(error.starts_with("/nowhere/at all: "), "{error}");
}

#[test]
fn two_files_that_change_places_are_a_change() {
    let folder = folder("places");
    let (a, b) = (folder.join("a"), folder.join("b"));
    let write = |first: &str, second: &str| {
        fs::write(&a, first).unwrap();
        fs::write(&b, second).unwrap();
    };
    write("x", "yz");
    let mut reloadable = Reloadable::load("test", vec![a.clone(), b.clone()], text_of(&a)).unwrap();
    write("xy", "z");
    assert_eq!(look(&mut reloadable), Seen::Replaced);
    write("z", "xy");
    assert_eq!(look(&mut reloadable), Seen::Replaced);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_witness_sees_what_is_replaced_before_it_is_in_force() {
    let folder = folder("witness");
    let file = folder.join("file");
    fs::write(&file, "one").unwrap();
    let mut reloadable = Reloadable::load("test", vec![file.clone()], text_of(&file)).unwrap();
    let current = reloadable.current();
    fs::write(&file, "two").unwrap();
    let mut told = Vec::new();
    let report = reloadable.look(&mut |report, replace| {
        let before = current.borrow().as_str().to_owned();
        replace();
        // Once more is not twice.
        replace();
        told.push((report.clone(), before, current.borrow().as_str().to_owned()));
    });
    assert_eq!((report.what, &report.files), ("test", &vec![file]));
    assert_eq!(told, [(report, "one".to_owned(), "two".to_owned())]);
    // What no witness lets through is not in force, and is found again.
    fs::write(folder.join("file"), "three").unwrap();
    drop(reloadable.look(&mut |_, _| {}));
    assert_eq!(current.borrow().as_str(), "two");
    assert_eq!(look(&mut reloadable), Seen::Replaced);
    fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn the_thread_looks_when_it_is_asked() {
    struct Changed(u8);
    impl Reload for Changed {
        fn files(&self) -> Vec<(&'static str, PathBuf, bool)> {
            Vec::new()
        }

        fn look(&mut self, witness: Witness<'_>) -> Report {
            self.0 += 1;
            let report = Report {
                what: "test",
                files: Vec::new(),
                looked: Looked::Replaced { sha256: [self.0; 32] },
            };
            witness(&report, &mut || {});
            report
        }
    }
    let (told, causes) = mpsc::channel();
    let witness = move |cause, _: &Report, replace: &mut dyn FnMut()| {
        told.send(cause).unwrap();
        replace();
    };
    let looks = Looks::start(vec![Box::new(Changed(0))], None, Tally::default(), witness).unwrap();
    looks.hangup();
    assert_eq!(causes.recv(), Ok(Cause::Hangup));
    let reports = looks.look_now().await.unwrap();
    assert_eq!(reports[0].looked, Looked::Replaced { sha256: [2; 32] });
    assert_eq!(causes.recv(), Ok(Cause::Call));
    drop(looks);
    assert!(causes.recv().is_err(), "the thread ends with its handle");
}
