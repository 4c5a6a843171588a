//! What the checker says about an attack, with the neighbour's share taken out of the counts.

use escapement_tests::session_checker::{self, CheckerSettings, Count, Records, Report};
use escapement_tests::session_journal::{Event, Journal};
use escapement_tests::session_wire::{self, SessionOnWire};
use std::path::Path;

use super::neighbour::{STEPS, Seen};

/// A clean report, and how much of it is the neighbour's.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) report: Report,
    n_neighbour_plans: u64,
}

impl Judgement {
    pub(crate) fn of(
        journal: &Path,
        wire: &[SessionOnWire],
        records: &Records,
        settings: CheckerSettings,
        neighbour: &Seen,
    ) -> Self {
        let noted: Vec<Event> = Journal::open(journal).unwrap().map(Result::unwrap).collect();
        let compared = session_wire::compare(wire, &noted).unwrap();
        eprintln!("the wire: {compared:?}");
        let report = session_checker::check(noted.into_iter().map(Ok), records, settings).unwrap();
        report.expect_clean();
        Self {
            report,
            n_neighbour_plans: neighbour.n_plans,
        }
    }

    /// How many there were without the neighbour's. Exact where nothing restarted.
    pub(crate) fn count(&self, count: Count) -> u64 {
        let of_neighbour = match count {
            Count::Sessions => 1,
            Count::Records => self.n_neighbour_plans,
            Count::Assignments | Count::Started | Count::OutcomesRead | Count::OutcomesAccepted => {
                self.n_neighbour_plans * STEPS
            }
            _ => 0,
        };
        self.report.count(count).saturating_sub(of_neighbour)
    }

    /// Passes when the attack did enough to prove something.
    #[track_caller]
    pub(crate) fn at_least(&self, count: Count, floor: u64) -> &Self {
        let found = self.count(count);
        assert!(
            found >= floor,
            "{count:?} is {found}, and should be at least {floor}\n{}",
            self.report
        );
        self
    }

    /// Passes when the attack did exactly this often what it should.
    #[track_caller]
    pub(crate) fn exactly(&self, count: Count, expected: u64) -> &Self {
        let found = self.count(count);
        assert!(
            found == expected,
            "{count:?} is {found}, and should be {expected}\n{}",
            self.report
        );
        self
    }
}
