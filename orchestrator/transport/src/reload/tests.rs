#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::fs;

/// A folder of its own for each test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("escapement-reload-{name}-{}", std::process::id()));
    let _none_before = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
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
    assert_eq!(reloadable.look(), Looked::Unchanged);
    let mut seen = |content: Option<&str>| {
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        (reloadable.look(), current.borrow().as_str().to_owned())
    };
    assert_eq!(seen(Some("two")), (Looked::Replaced, "two".to_owned()));
    assert_eq!(seen(Some("bad")), (Looked::Refused, "two".to_owned()));
    assert_eq!(
        seen(None::<&str>.or(Some("bad"))),
        (Looked::Refused, "two".to_owned())
    );
    assert_eq!(seen(None), (Looked::Refused, "two".to_owned()));
    assert_eq!(seen(Some("two")), (Looked::Unchanged, "two".to_owned()));
    assert_eq!(seen(Some("three")), (Looked::Replaced, "three".to_owned()));
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
    assert_eq!(reloadable.look(), Looked::Replaced);
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
    assert_eq!(reloadable.look(), Looked::Replaced);
    write("z", "xy");
    assert_eq!(reloadable.look(), Looked::Replaced);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_thread_looks_when_it_is_asked() {
    struct Told(mpsc::Sender<()>);
    impl Reload for Told {
        fn look(&mut self) -> Looked {
            self.0.send(()).unwrap();
            Looked::Unchanged
        }
    }
    let (told, looks) = mpsc::channel();
    let thread = ReloadThread::start(vec![Box::new(Told(told))], None).unwrap();
    thread.look_now();
    looks.recv().unwrap();
    drop(thread);
    assert!(looks.recv().is_err(), "the thread ends with its handle");
}
