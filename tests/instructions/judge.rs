//! Which figures are too far from the baseline. Reads no file and runs nothing.

use crate::figures::Measured;
use std::fmt::Write;

/// A workload and its figures, as agreed to and as they are.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// It has both.
    Compared { before: Measured, now: Measured },
    /// The baseline does not know it.
    New(Measured),
    /// The program does not know it.
    Gone(Measured),
}

/// Brings together what belongs together: the workloads in their order, then those that are gone.
pub(crate) fn judge(baseline: &[Measured], measured: &[Measured]) -> Vec<Verdict> {
    let find = |among: &[Measured], one: &Measured| {
        let mut same = among.iter().filter(|other| other.workload == one.workload);
        same.next().cloned()
    };
    let compared = measured.iter().map(|now| match find(baseline, now) {
        Some(before) => Verdict::Compared {
            before,
            now: now.clone(),
        },
        None => Verdict::New(now.clone()),
    });
    let gone = baseline.iter().filter(|before| find(measured, before).is_none());
    compared.chain(gone.cloned().map(Verdict::Gone)).collect()
}

impl Verdict {
    /// What is wrong; `None` if the figures are near enough.
    ///
    /// One that has shrunk by a lot is wrong as well: against the old figure it could grow back unseen, by a half where it
    /// was halved. Whoever made it smaller is who has the measurement at hand and gets the credit in the same diff.
    pub(crate) fn complaint(&self) -> Option<String> {
        let (before, now) = match self {
            Verdict::New(now) => return Some(format!("{}: it has no baseline", now.workload)),
            Verdict::Gone(before) => {
                return Some(format!("{}: there is no such workload any more", before.workload));
            }
            Verdict::Compared { before, now } => (before, now),
        };
        if (before.operations, &before.operation) != (now.operations, &now.operation) {
            return Some(format!("{}: it does something else than before", now.workload));
        }
        let complaints = [
            (before.instructions, now.instructions, "instructions"),
            (before.hashing, now.hashing, "instructions in SHA-256"),
        ]
        .into_iter()
        .filter_map(|(before, now, what)| {
            let percent = percent(before, now);
            if is_grown(before, now) {
                Some(format!("{percent} {what}: more than {GROWN_PERCENT} percent of the baseline"))
            } else if is_shrunk(before, now) {
                Some(format!(
                    "{percent} {what}: less than {SHRUNK_PERCENT} percent of the baseline, which would hide that it grows back"
                ))
            } else {
                None
            }
        });
        let complaints: Vec<String> = complaints.collect();
        (!complaints.is_empty()).then(|| format!("{}: {}", now.workload, complaints.join("; ")))
    }
}

fn is_grown(before: u64, now: u64) -> bool {
    u128::from(now) * 100 > u128::from(before) * GROWN_PERCENT
}

fn is_shrunk(before: u64, now: u64) -> bool {
    u128::from(now) * 100 < u128::from(before) * SHRUNK_PERCENT
}

/// The change, such as `+10.1 %`.
fn percent(before: u64, now: u64) -> String {
    if before == 0 {
        return if now == 0 { "+0.0 %".into() } else { "new".into() };
    }
    let percent = (now as f64 / before as f64 - 1.0) * 100.0;
    // No sign where nothing of it is shown.
    format!("{:+.1} %", if percent.abs() < 0.05 { 0.0 } else { percent })
}

/// Every workload with its figures of one operation, before and now.
pub(crate) fn table(verdicts: &[Verdict]) -> String {
    let mut table = format!(
        "{:<34} {:>12} {:>12} {:>9} {:>12} {:>12} {:>9}\n",
        "each without SHA-256, and in it", "baseline", "now", "", "baseline", "now", ""
    );
    for verdict in verdicts {
        let (before, now) = match verdict {
            Verdict::Compared { before, now } => (Some(before), Some(now)),
            Verdict::New(now) => (None, Some(now)),
            Verdict::Gone(before) => (Some(before), None),
        };
        let known = now.or(before).expect("a verdict is about something");
        let cells = |figure: fn(&Measured) -> u64| {
            let each = |one: Option<&Measured>| {
                one.map_or("-".to_owned(), |one| {
                    format!("{:.1}", figure(one) as f64 / one.operations.max(1) as f64)
                })
            };
            let change = before
                .zip(now)
                .map(|(before, now)| percent(figure(before), figure(now)));
            format!(
                "{:>12} {:>12} {:>9}",
                each(before),
                each(now),
                change.unwrap_or_default()
            )
        };
        let mark = if verdict.complaint().is_some() {
            "  <--"
        } else {
            ""
        };
        writeln!(
            table,
            "{:<34} {} {} {}{mark}",
            known.workload,
            cells(|one| one.instructions),
            cells(|one| one.hashing),
            known.operation,
        )
        .expect("a string takes everything");
    }
    table
}

/// Growth up to here is taken without a word: compilers and their libraries move figures by a few percent as well.
const GROWN_PERCENT: u128 = 110;
/// Wider than what is allowed upwards, so that nobody who makes things a little better has to renew.
const SHRUNK_PERCENT: u128 = 85;

#[cfg(test)]
mod tests {
    use super::{Verdict, judge, table};
    use crate::figures::Measured;

    fn measured(workload: &str, instructions: u64, hashing: u64) -> Measured {
        Measured {
            workload: workload.into(),
            operations: 4,
            operation: "step".into(),
            instructions,
            hashing,
        }
    }

    /// Complaints about one workload whose baseline is 100,000 instructions, and 10,000 of hashing.
    fn complaint(instructions: u64, hashing: u64) -> Option<String> {
        let verdicts = judge(
            &[measured("work", 100_000, 10_000)],
            &[measured("work", instructions, hashing)],
        );
        assert_eq!(verdicts.len(), 1);
        verdicts[0].complaint()
    }

    #[test]
    fn a_tenth_more_passes_and_anything_beyond_fails() {
        assert_eq!(complaint(100_000, 10_000), None);
        assert_eq!(complaint(109_900, 10_000), None);
        assert_eq!(complaint(110_000, 11_000), None);
        let grown = complaint(110_100, 10_000).expect("that is more than a tenth");
        assert_eq!(
            grown,
            "work: +10.1 % instructions: more than 110 percent of the baseline"
        );
        assert!(complaint(110_001, 10_000).is_some());
    }

    #[test]
    fn hashing_is_judged_by_itself() {
        let grown = complaint(100_000, 11_010).expect("that is more than a tenth");
        assert!(grown.contains("+10.1 % instructions in SHA-256"), "{grown}");
        assert!(
            judge(&[measured("work", 1, 0)], &[measured("work", 1, 1)])[0]
                .complaint()
                .is_some()
        );
        assert!(
            judge(&[measured("work", 1, 0)], &[measured("work", 1, 0)])[0]
                .complaint()
                .is_none()
        );
    }

    #[test]
    fn a_baseline_that_would_hide_growth_fails() {
        assert_eq!(complaint(85_000, 8_500), None);
        let shrunk = complaint(84_999, 10_000).expect("that is too far below");
        assert!(shrunk.contains("hide that it grows back"), "{shrunk}");
        assert!(complaint(100_000, 0).is_some());
    }

    #[test]
    fn a_workload_is_in_both_or_fails() {
        let verdicts = judge(
            &[measured("gone", 5, 5), measured("kept", 5, 5)],
            &[measured("kept", 5, 5), measured("new", 5, 5)],
        );
        let complaints: Vec<String> = verdicts.iter().filter_map(Verdict::complaint).collect();
        assert_eq!(
            complaints,
            [
                "new: it has no baseline",
                "gone: there is no such workload any more"
            ]
        );
    }

    #[test]
    fn another_number_of_operations_is_another_workload() {
        let other = Measured {
            operations: 5,
            ..measured("work", 100_000, 10_000)
        };
        let verdicts = judge(&[measured("work", 100_000, 10_000)], &[other]);
        assert!(verdicts[0].complaint().is_some());
    }

    #[test]
    fn the_table_points_at_what_fails() {
        let verdicts = judge(
            &[measured("good", 400, 40), measured("bad", 400, 0)],
            &[measured("good", 404, 40), measured("bad", 800, 0)],
        );
        let table = table(&verdicts);
        let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
        let cells = |name: &str| line(name).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(cells("good"), "good 100.0 101.0 +1.0 % 10.0 10.0 +0.0 % step");
        assert_eq!(cells("bad"), "bad 100.0 200.0 +100.0 % 0.0 0.0 +0.0 % step <--");
    }
}
