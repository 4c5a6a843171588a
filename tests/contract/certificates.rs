//! Certificates against random executions of random plans: none exceeds what its certificate says.
//! Knows the rule only as it is told: time that does not count is measured by what the workers of the run did.

mod plans;
mod run;

use crate::cases::check_cases;
use escapement_codec::stored::encode_result;
use escapement_contract::{Certificate, DurationBound};
use escapement_tests::Dice;
use proptest::prelude::any;
use proptest::test_runner::TestCaseError;
use run::Ran;
use std::cell::RefCell;

/// What the runs came to, so that the property cannot hold because nothing happened.
#[derive(Debug, Default)]
struct Tally {
    n_runs: u32,
    /// The bound follows from the steps.
    n_from_steps: u32,
    /// Of these: the run came within a twentieth of the bound.
    n_close: u32,
    /// Of these: the run took as long as the bound says.
    n_exact: u32,
    /// With fewer slots than steps, and within a twentieth.
    n_close_with_few_slots: u32,
    /// Something did not count.
    n_with_waiting: u32,
    n_given_back: u32,
    n_timed_out_plans: u32,
    n_retries: u64,
    /// As many attempts as the certificate allows.
    n_all_attempts: u32,
    /// More than half as many bytes as the certificate allows.
    n_large: u32,
}

impl Tally {
    fn add(&mut self, certificate: &Certificate, n_steps: usize, ran: &Ran, bytes: u64) {
        self.n_runs += 1;
        self.n_with_waiting += u32::from(ran.counted_ms < ran.total_ms);
        self.n_given_back += ran.n_given_back;
        self.n_timed_out_plans += u32::from(ran.hit_plan_limit());
        self.n_retries += ran
            .n_attempts
            .iter()
            .map(|n| u64::from(n.saturating_sub(1)))
            .sum::<u64>();
        self.n_all_attempts += u32::from(ran.attempts() == certificate.worst_case_attempts);
        self.n_large += u32::from(bytes > certificate.worst_case_result_bytes / 2);
        if certificate.duration_bound == DurationBound::Steps {
            self.n_from_steps += 1;
            let close = ran.counted_ms * 20 >= certificate.worst_case_duration_ms * 19;
            self.n_close += u32::from(close);
            self.n_close_with_few_slots += u32::from(
                close
                    && (1..n_steps).contains(&(certificate.max_concurrent_steps as usize))
                    && certificate.max_concurrent_steps > 1,
            );
            self.n_exact += u32::from(ran.counted_ms == certificate.worst_case_duration_ms);
        }
    }
}

fn judge(seed: u64, tally: &RefCell<Tally>) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let request = plans::request(&mut dice);
    let plan = request.plan();
    let certificate = plan.certificate(request.max_concurrent_steps());
    let ran = run::to_its_end(&request, &mut dice);
    let result = &ran.settlement.result;
    let fails = |what: &str, is: u64, most: u64| {
        format!("{what}: {is}, the certificate says {most}\n{certificate:?}\n{plan:?}")
    };
    if ran.counted_ms > certificate.worst_case_duration_ms {
        return Err(fails(
            "milliseconds",
            ran.counted_ms,
            certificate.worst_case_duration_ms,
        ));
    }
    if ran.total_ms > plan.timeout_ms() + ran.late_ms {
        return Err(fails("milliseconds in all", ran.total_ms, plan.timeout_ms()));
    }
    let is_of_steps = certificate.duration_bound == DurationBound::Steps;
    if is_of_steps && ran.hit_plan_limit() && ran.counted_ms == ran.total_ms {
        return Err(fails(
            "the plan's limit ended it",
            ran.counted_ms,
            certificate.worst_case_duration_ms,
        ));
    }
    if ran.attempts() > certificate.worst_case_attempts {
        return Err(fails("attempts", ran.attempts(), certificate.worst_case_attempts));
    }
    for critical in &certificate.critical_path {
        let n_attempts = ran.n_attempts[critical.step.as_usize()];
        if n_attempts > critical.worst_case_attempts {
            return Err(fails(
                "attempts of a step",
                n_attempts.into(),
                critical.worst_case_attempts.into(),
            ));
        }
    }
    let bytes = encode_result(result).len() as u64;
    if bytes > certificate.worst_case_result_bytes {
        return Err(fails("bytes", bytes, certificate.worst_case_result_bytes));
    }
    tally
        .borrow_mut()
        .add(&certificate, plan.steps().len(), &ran, bytes);
    Ok(())
}

//
#[test]
fn no_execution_exceeds_its_certificate() {
    let tally = RefCell::new(Tally::default());
    let name = "certificates::no_execution_exceeds_its_certificate";
    check_cases(name, CASES, &any::<u64>(), |seed| {
        judge(seed, &tally).map_err(TestCaseError::fail)
    });
    let tally = tally.into_inner();
    println!("{tally:?}");
    // Rare, and yet not by chance: the seed is fixed.
    let in_hundred = |n: u32| n * 100 / tally.n_runs;
    assert!(in_hundred(tally.n_from_steps) >= 30, "{tally:?}");
    assert!(tally.n_close * 10 > tally.n_from_steps, "{tally:?}");
    assert!(
        tally.n_exact > 20 && tally.n_close_with_few_slots > 20,
        "{tally:?}"
    );
    assert!(
        in_hundred(tally.n_with_waiting) >= 30 && in_hundred(tally.n_given_back) >= 10,
        "{tally:?}"
    );
    assert!(
        in_hundred(tally.n_timed_out_plans) >= 5 && in_hundred(tally.n_all_attempts) >= 10,
        "{tally:?}"
    );
    assert!(tally.n_retries > 1_000 && tally.n_large > 0, "{tally:?}");
}

/// They take some ten seconds of one core; `ESCAPEMENT_CASES=10` makes a million of them.
const CASES: u32 = 100_000;
