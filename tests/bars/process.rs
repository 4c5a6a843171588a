//! What a process takes of the machine, as the kernel counts it. Linux only, like the figures.

use std::time::Duration;

use escapement_tests::Fault;

/// Resident memory in bytes.
///
/// # Errors
/// The process is gone.
pub(crate) fn resident_bytes(id: u32) -> Result<u64, Fault> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .ok_or("the kernel says how much memory is resident")?
        .trim()
        .parse()?;
    Ok(kib << 10)
}

/// Time on the processors since it began, all threads, user and system together.
///
/// # Errors
/// The process is gone.
pub(crate) fn cpu_time(id: u32) -> Result<Duration, Fault> {
    let mut total = Duration::ZERO;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        // Nanoseconds, where `stat` counts hundredths of a second. A thread that ends meanwhile is left out.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let nanoseconds = text
            .split_whitespace()
            .next()
            .ok_or("schedstat begins with a number")?;
        total += Duration::from_nanos(nanoseconds.parse()?);
    }
    Ok(total)
}
