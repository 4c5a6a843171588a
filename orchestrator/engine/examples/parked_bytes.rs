//! Measures what a queued execution takes that waits beyond memory, all indexes included. Compares with nothing.
//!
//! `parked_bytes [COUNT]`; reads the size of its own process, so it runs on Linux only.
#![allow(clippy::print_stdout, reason = "its answer is its output")]

use escapement_contract::Moment;
use escapement_engine::{Engine, EngineConfig, Input, RecoveredParked};
use escapement_model::{BootId, ExecutionId};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |count| count.parse())?;
    let now = Moment {
        monotonic_ms: 0,
        unix_ms: 1_700_000_000_000,
    };
    let mut engine = Engine::new(EngineConfig::new(BootId::new([1; 16]), [2; 32]), now);
    let (before_kib, begun) = (resident_kib()?, Instant::now());
    for n in 1..=count {
        // Spread as random ids are.
        let id = u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(n);
        let recovered = RecoveredParked {
            execution_id: ExecutionId::from_random(id.to_be_bytes()),
            request_digest: [3; 32],
            priority: i32::try_from(n % 3)?,
            deadline_ms: now.unix_ms + 3_600_000 + i64::try_from(n)?,
        };
        engine.handle(now, Input::RecoverParked(recovered));
    }
    let kib = resident_kib()? - before_kib;
    println!(
        "{count} parked in {:?}: {} bytes each",
        begun.elapsed(),
        kib * 1024 / count
    );
    Ok(())
}

fn resident_kib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(kib.parse()?)
}
