//! The explorations: which plans, on all cores, and what they add up to.

use crate::explore::{Counts, Explorer, Merging};
use crate::plans::{Case, Options, STEPS_MAX, Shape, step_indices};
use crate::seen::{Seen, Signatures};
use crate::table;
use crate::transitions::Transitions;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Attempts of a step where everything is repeated: three, so that the second delay is cut to the longest, and two where
/// that would take too long.
fn attempts_of(n_steps: usize) -> u32 {
    match n_steps {
        1 | 2 => 3,
        3 if is_long() => 3,
        _ => 2,
    }
}

#[test]
fn the_table_of_transitions_is_what_plans_of_up_to_three_steps_do() {
    //
    let seen = Seen::default();
    let cases = (1..=3).flat_map(cases_of);
    let transitions = explore("up to three steps", cases.collect(), Merging::Rest(&seen));
    table::check(&transitions);
}

#[test]
fn states_with_the_same_rest_have_the_same_future() {
    //
    let signatures = Signatures::default();
    let n_steps_max = if is_long() { 3 } else { 2 };
    let cases = (1..=n_steps_max).flat_map(cases_of);
    explore("nothing merged", cases.collect(), Merging::Whole(&signatures));
    println!(
        "{} states of what is left to do, each with one future",
        signatures.len()
    );
}

#[test]
fn plans_of_four_steps_end_as_the_rules_say() {
    //
    let seen = Seen::default();
    let share = if is_long() { 1 } else { 257 };
    let cases = cases_of(4).step_by(share);
    explore("four steps", cases.collect(), Merging::Rest(&seen));
}

fn is_long() -> bool {
    std::env::var_os("ESCAPEMENT_LONG").is_some()
}

fn cases_of(n_steps: usize) -> impl Iterator<Item = Case> {
    let attempts = attempts_of(n_steps);
    let case = |shape, options, context_is_missing| Case {
        shape,
        options,
        context_is_missing,
    };
    let first = Options::all(attempts)[0];
    // An environment that lacks a key ends an execution before its options and its steps' `on_failure` matter.
    let halting = Shape::all_of(n_steps).filter(|shape| shape.on_failure == [0; STEPS_MAX]);
    let without_context = halting.map(move |shape| case(shape, first, true));
    let with_context = Options::all(attempts)
        .into_iter()
        .flat_map(move |options| Shape::all_of(n_steps).map(move |shape| case(shape, options, false)));
    without_context.chain(with_context)
}

/// Explores the plans on all cores.
fn explore(what: &str, cases: Vec<Case>, merging: Merging<'_>) -> Transitions {
    escapement_tests::planted::arm();
    let began = Instant::now();
    let index = step_indices();
    let next = AtomicUsize::new(0);
    let sum = Mutex::new((Counts::default(), Transitions::new()));
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                let _stop = StopAll(&next, cases.len());
                let (mut counts, mut transitions) = (Counts::default(), Transitions::new());
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut explorer = Explorer {
                        case: *case,
                        index: &index,
                        merging,
                        counts: &mut counts,
                        transitions: &mut transitions,
                    };
                    explorer.run_named();
                }
                let mut sum = sum.lock().expect("no holder panics");
                sum.0.add(&counts);
                sum.1.add(&transitions);
            });
        }
    });
    let (counts, transitions) = sum.into_inner().expect("no holder panicked");
    println!("{what}: {counts} in {:.1} s", began.elapsed().as_secs_f32());
    transitions
}

/// Where one walk fails the others need not go on.
struct StopAll<'a>(&'a AtomicUsize, usize);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(self.1, Ordering::Relaxed);
        }
    }
}
