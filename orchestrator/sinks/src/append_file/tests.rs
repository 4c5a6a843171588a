#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
fn lines_go_to_the_file_of_the_name_and_none_is_cut_by_a_rotation() {
    let path = std::env::temp_dir().join(format!("escapement-append-{}", std::process::id()));
    let rotated = path.with_extension("1");
    let mut file = AppendFile::open(&path).unwrap();
    file.write_all(b"first\nsec").unwrap();
    std::fs::rename(&path, &rotated).unwrap();
    file.write_all(b"ond\n").unwrap();
    file.write_all(b"third\n").unwrap();
    std::fs::remove_file(&path).unwrap();
    file.write_all(b"fourth\n").unwrap();
    let [old, new] = [&rotated, &path].map(|path| std::fs::read_to_string(path).unwrap());
    let mode = std::fs::metadata(&path).unwrap().mode();
    std::fs::remove_file(&rotated).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((old.as_str(), new.as_str()), ("first\nsecond\n", "fourth\n"));
    assert_eq!(mode & 0o777, 0o600);
}
