//! What operations cost processes: processor time and bytes written. Linux only, like the figures.

use std::time::Duration;

use escapement_tests::Fault;
use escapement_tests::usage::cpu_time;

/// Returns the bytes that it has given to the disk, or to the page cache on the way there.
///
/// # Errors
/// The process is gone.
pub(crate) fn written_bytes(id: u32) -> Result<u64, Fault> {
    disk_bytes(id, "write_bytes:")
}

/// Returns the bytes that came for it from the disk, and were not in the page cache.
///
/// # Errors
/// The process is gone.
pub(crate) fn read_bytes(id: u32) -> Result<u64, Fault> {
    disk_bytes(id, "read_bytes:")
}

fn disk_bytes(id: u32, name: &str) -> Result<u64, Fault> {
    let counters = std::fs::read_to_string(format!("/proc/{id}/io"))?;
    let line = counters.lines().find_map(|line| line.strip_prefix(name));
    Ok(line
        .ok_or("the kernel says how much went to the disk and came from it")?
        .trim()
        .parse()?)
}

/// What operations cost each process, over several spans.
#[derive(Debug)]
pub(crate) struct Bill {
    processes: Vec<Account>,
    n_operations: usize,
}

#[derive(Debug)]
struct Account {
    name: &'static str,
    id: u32,
    begun: Duration,
    total: Duration,
    written_before: u64,
    written: u64,
}

impl Bill {
    /// For processes by their names.
    pub(crate) fn of(processes: &[(&'static str, u32)]) -> Self {
        let account = |(name, id): &(&'static str, u32)| Account {
            name,
            id: *id,
            begun: Duration::ZERO,
            total: Duration::ZERO,
            written_before: 0,
            written: 0,
        };
        Self {
            processes: processes.iter().map(account).collect(),
            n_operations: 0,
        }
    }

    /// A span begins.
    ///
    /// # Errors
    /// A process is gone.
    pub(crate) fn begin(&mut self) -> Result<(), Fault> {
        for account in &mut self.processes {
            account.begun = cpu_time(account.id)?;
            account.written_before = written_bytes(account.id)?;
        }
        Ok(())
    }

    /// The span is over, after so many operations.
    ///
    /// # Errors
    /// A process is gone.
    pub(crate) fn end(&mut self, n_operations: usize) -> Result<(), Fault> {
        for account in &mut self.processes {
            account.total += cpu_time(account.id)?.saturating_sub(account.begun);
            account.written += written_bytes(account.id)?.saturating_sub(account.written_before);
        }
        self.n_operations += n_operations;
        Ok(())
    }

    /// Microseconds on the processors for each operation, process by process.
    pub(crate) fn shares(&self) -> Vec<(&'static str, f64)> {
        let each = |total: Duration| total.as_secs_f64() * 1e6 / self.n_operations as f64;
        self.processes
            .iter()
            .map(|account| (account.name, each(account.total)))
            .collect()
    }

    /// KiB that all processes together wrote for each operation.
    pub(crate) fn written_kib(&self) -> f64 {
        let written: u64 = self.processes.iter().map(|account| account.written).sum();
        written as f64 / 1024.0 / self.n_operations as f64
    }
}
