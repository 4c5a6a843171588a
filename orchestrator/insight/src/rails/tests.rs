//! Rails are read again, sign by sign, as a person would: what they say is what the steps depend on.

use super::super::graph::Graph;
use super::super::samples::{closure, graphs, scene};
use super::{Row, rows};
use std::collections::BTreeMap;

/// Follows the rails down and finds what each step hangs on.
fn read(rows: &[Row]) -> Vec<Vec<usize>> {
    let mut rails: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    rows.iter()
        .enumerate()
        .map(|(step, row)| {
            let signs: Vec<char> = format!("{}*{}", row.before, row.after).chars().collect();
            let own = signs.iter().position(|sign| *sign == '*').unwrap();
            assert_eq!(own % 2, 0, "a step stands on a rail: {row:?}");
            let mut hangs_on = row.in_words.clone();
            hangs_on.extend(rails.remove(&own).unwrap_or_default());
            let mut fed = None;
            for way in [-1_isize, 1] {
                let mut at = own;
                let mut is_fed = false;
                while let Some(next) = at.checked_add_signed(way) {
                    at = next;
                    match (signs.get(at).copied().unwrap_or(' '), at % 2) {
                        (' ', _) => break,
                        ('→' | '←', 1) => is_fed = true,
                        ('│' | '─', _) => {}
                        // The arrow is about the next rail only.
                        (_, 0) if is_fed => (fed, is_fed) = (Some(at), false),
                        (_, 0) => hangs_on.extend(
                            rails
                                .get(&at)
                                .unwrap_or_else(|| panic!("no rail at {at}: {row:?}")),
                        ),
                        (sign, _) => panic!("{sign} stands between rails: {row:?}"),
                    }
                }
            }
            let goes_on = |at: usize| matches!(signs.get(at), Some('│' | '├' | '┤' | '┼' | '╮' | '╭' | '┬'));
            rails.retain(|at, _| goes_on(*at));
            if let Some(fed) = fed {
                rails.entry(fed).or_default().push(step);
            }
            let below = rows
                .get(step + 1)
                .map(|row| format!("{}*{}", row.before, row.after));
            let is_below =
                |sign: Option<char>| matches!(sign, Some('│' | '├' | '┤' | '┼' | '╰' | '╯' | '┴' | '*'));
            if is_below(below.and_then(|below| below.chars().nth(own))) {
                rails.insert(own, vec![step]);
            }
            hangs_on.sort_unstable();
            hangs_on.dedup();
            hangs_on
        })
        .collect()
}

#[test]
fn what_the_rails_say_is_what_the_steps_depend_on() {
    for dependencies in graphs() {
        for n_bundled_min in [2, 5, 100] {
            let graph = Graph::of(&scene(&dependencies), n_bundled_min);
            for n_rails_max in [0, 1, 2, 5, 40] {
                let rows = rows(&graph, n_rails_max);
                assert_eq!(
                    closure(&read(&rows)),
                    closure(&dependencies),
                    "{n_rails_max} rails, bundles of {n_bundled_min}: {dependencies:?}\n{rows:#?}"
                );
            }
        }
    }
}

#[test]
fn no_row_is_wider_than_its_rails_and_two_places_beside_them() {
    for dependencies in graphs() {
        let graph = Graph::of(&scene(&dependencies), 5);
        for n_rails_max in [0, 3, 40] {
            let widest = rows(&graph, n_rails_max)
                .iter()
                .map(Row::columns)
                .max()
                .unwrap_or(0);
            assert!(widest <= 2 * (n_rails_max + 2), "{widest} for {n_rails_max}");
        }
    }
}

#[test]
fn with_rails_enough_nothing_is_said_in_words() {
    for dependencies in graphs() {
        let rows = rows(&Graph::of(&scene(&dependencies), 5), 100);
        assert!(rows.iter().all(|row| row.in_words.is_empty()), "{rows:#?}");
    }
}
