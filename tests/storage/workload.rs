//! Lives of a store: batches, each life closed and opened again. Runs them; breaks nothing.

use escapement_store::Write;
use escapement_store_kit::conformance::Sample;

use crate::dice::Dice;
use crate::truth::Truth;

/// The batches of one process life.
pub(crate) type Life = Vec<Vec<Write>>;

/// Returns a sample by number; some have records of several pages.
pub(crate) fn sample(number: u64) -> Sample {
    let n_bytes = if number % 5 == 4 { 9000 } else { 120 };
    let mut sample = Sample::with_record_bytes(number, n_bytes);
    if number % 4 == 3 {
        sample.accept.parent_execution_id = Some(Sample::new(number - 1).execution_id());
    }
    if number % 3 == 2 { sample.running() } else { sample }
}

/// Returns the fixed workload: every kind of write, conflicts, a batch that changes nothing, checkpoints in between.
pub(crate) fn lives() -> Vec<Life> {
    let accept = |number| sample(number).accept();
    let start = |number| sample(number).start();
    let settle = |number, status| sample(number).settle(status);
    vec![
        vec![
            vec![accept(1)],
            vec![accept(2), accept(3), start(1)],
            vec![accept(4), settle(1, 1), accept(1)],
            vec![settle(2, 3)],
        ],
        vec![
            vec![accept(5), accept(6), settle(5, 2)],
            vec![start(1)],
            vec![start(3), settle(4, 1), accept(7)],
            vec![accept(8), accept(9)],
        ],
        vec![
            vec![settle(9, 1), settle(3, 2)],
            vec![accept(10)],
            vec![start(6), settle(6, 1), accept(11)],
        ],
    ]
}

/// Returns the truth behind each batch of a life: the first is from before all of them.
pub(crate) fn truths(before: &Truth, life: &Life) -> Vec<Truth> {
    let mut truths = vec![before.clone()];
    for batch in life {
        let mut truth = truths.last().expect("it begins with one").clone();
        truth.apply(batch);
        truths.push(truth);
    }
    truths
}

/// A random batch, which may hold conflicts.
pub(crate) fn random_batch(dice: &mut Dice, truth: &Truth) -> Vec<Write> {
    let n_accepted = truth.executions().len() as u64;
    let mut next = n_accepted + 1;
    (0..1 + dice.below(6))
        .map(|_| {
            let known = 1 + dice.below(next.max(2) - 1);
            match dice.below(10) {
                0..=4 => {
                    next += 1;
                    sample(next - 1).accept()
                }
                5..=6 => sample(known).start(),
                7..=8 => sample(known).settle(1 + u8::try_from(dice.below(3)).expect("below 3")),
                _ => sample(known).accept(),
            }
        })
        .collect()
}
