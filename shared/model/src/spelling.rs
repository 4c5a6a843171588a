//! Known names that an unknown name may have meant. Knows nothing of workers.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

/// Looks for names that are spelt alike, with a bound on what it costs for all names of one call together.
#[derive(Debug)]
pub struct Speller<'a> {
    known: Vec<(&'a str, Vec<char>)>,
    /// Comparisons of two letters that are left.
    comparisons_left: usize,
}

impl<'a> Speller<'a> {
    /// Suggests from these names.
    pub fn new(known: &BTreeSet<&'a str>) -> Self {
        Self {
            known: known.iter().map(|name| (*name, folded(name))).collect(),
            comparisons_left: COMPARISONS_MAX,
        }
    }

    /// The known names that are spelt most like this one, the closest first, then in alphabetical order.
    pub fn suggestions(&mut self, name: &str) -> Vec<String> {
        let wanted = folded(name);
        let distance_max = (wanted.len() / 3).max(1);
        let mut close = Vec::new();
        for (known, letters) in &self.known {
            if letters.len().abs_diff(wanted.len()) > distance_max {
                continue;
            }
            let Some(left) = self.comparisons_left.checked_sub(letters.len() * wanted.len()) else {
                break;
            };
            self.comparisons_left = left;
            let distance = distance(&wanted, letters);
            if distance <= distance_max {
                close.push((distance, *known));
            }
        }
        close.sort_unstable();
        close.truncate(SUGGESTIONS_MAX);
        close.into_iter().map(|(_, known)| known.to_owned()).collect()
    }
}

/// In lower case, with one separator in the place of all: `File_Read` and `file.read` are the same.
fn folded(name: &str) -> Vec<char> {
    let letters = name.chars().flat_map(char::to_lowercase);
    letters
        .map(|letter| if SEPARATORS.contains(&letter) { '.' } else { letter })
        .collect()
}

/// How many letters must be put in, left out, replaced or swapped with their neighbour, no place twice ("optimal string alignment").
fn distance(one: &[char], other: &[char]) -> usize {
    // Three rows of the table: two letters ago, one letter ago, this one.
    let mut before_last: Vec<usize> = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    let mut row = before_last.clone();
    for (i, letter) in one.iter().enumerate() {
        row[0] = i + 1;
        for (j, opposite) in other.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != opposite);
            row[j + 1] = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == other[j - 1] && one[i - 1] == *opposite {
                row[j + 1] = row[j + 1].min(before_last[j - 1] + 1);
            }
        }
        mem::swap(&mut before_last, &mut last);
        mem::swap(&mut last, &mut row);
    }
    last[other.len()]
}

/// Suggestions for one name.
const SUGGESTIONS_MAX: usize = 3;

/// What may stand between the words of a name.
const SEPARATORS: [char; 6] = ['.', '_', '-', '/', ':', ' '];

/// Enough for a hundred unknown names among a hundred, and a few milliseconds.
const COMPARISONS_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests {
    //! What counts as spelt alike.

    use super::{COMPARISONS_MAX, Speller, distance, folded};
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    const KNOWN: [&str; 8] = [
        "file.read",
        "file.write",
        "file.reader",
        "http.get",
        "http.put",
        "echo",
        "sleep",
        "Render",
    ];

    fn suggestions(name: &str) -> Vec<String> {
        Speller::new(&BTreeSet::from(KNOWN)).suggestions(name)
    }

    #[test]
    fn misspelt_names_are_recognised_and_the_closest_comes_first() {
        assert_eq!(suggestions("file_read"), ["file.read", "file.reader"]);
        assert_eq!(suggestions("FileRead"), ["file.read"]);
        assert_eq!(suggestions("file.raed"), ["file.read", "file.reader"]);
        assert_eq!(suggestions("http.gte"), ["http.get"]);
        assert_eq!(suggestions("ehco"), ["echo"]);
        assert_eq!(suggestions("render"), ["Render"]);
        assert_eq!(suggestions("sleeps"), ["sleep"]);
    }

    #[test]
    fn other_names_are_not_suggested() {
        for name in ["", "x", "unknown.action", "database.query", "ecto.xyz", "read"] {
            assert!(suggestions(name).is_empty(), "{name}: {:?}", suggestions(name));
        }
    }

    #[test]
    fn a_swap_of_neighbours_is_one_change() {
        let changes = |one: &str, other: &str| distance(&folded(one), &folded(other));
        assert_eq!(changes("ab", "ba"), 1);
        assert_eq!(changes("", "abc"), 3);
        assert_eq!(changes("kitten", "sitting"), 3);
        assert_eq!(changes("ca", "abc"), 3);
        assert_eq!(changes("a_b", "A.B"), 0);
    }

    #[test]
    fn very_many_names_cost_no_more_than_some() {
        let names: Vec<String> = (0..5_000).map(|n| format!("{n:0>100}")).collect();
        let mut speller = Speller::new(&names.iter().map(String::as_str).collect());
        for n in 0..1_024 {
            speller.suggestions(&format!("{n:x>100}"));
        }
        assert!(speller.comparisons_left < 10_000 && COMPARISONS_MAX < 1 << 22);
    }
}
