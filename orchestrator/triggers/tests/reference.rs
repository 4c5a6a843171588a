//! A year of instants in five zones, held against the table that [`instants.py`](instants.py) made with another library.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use escapement_triggers::{Cron, Schedule, Zone};
use sha2::{Digest, Sha256};

/// 2025-01-01 and 2026-01-01, UTC.
const YEAR_MS: std::ops::Range<i64> = 1_735_689_600_000..1_767_225_600_000;

// TRIG-2.1
#[test]
fn a_year_of_instants_is_that_of_another_library() {
    for line in include_str!("instants.txt").lines() {
        let [zone, cron, n, digest] = line.split(';').collect::<Vec<_>>().try_into().unwrap();
        let schedule = Schedule::new(Cron::read(cron).unwrap(), Zone::named(zone).unwrap());
        let mut instants = Vec::new();
        let mut at = YEAR_MS.start - 1;
        while let Some(next) = schedule.next_after(at).filter(|next| *next < YEAR_MS.end) {
            instants.push(next.to_string());
            at = next;
        }
        let found: [u8; 32] = Sha256::digest(instants.join(",")).into();
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (instants.len().to_string(), found.as_str()),
            (n.to_owned(), digest),
            "{zone} {cron}"
        );
    }
}
