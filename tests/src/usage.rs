//! What a process takes of the machine, as the kernel counts it. Linux only. Judges nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Fault;

/// Resident memory in bytes.
///
/// # Errors
/// The process is gone.
pub fn resident_bytes(process: u32) -> Result<u64, Fault> {
    status_bytes(process, "VmRSS:")
}

/// Returns the most resident memory in bytes since it began, or since [`forget_peak`].
///
/// # Errors
/// The process is gone.
pub fn peak_bytes(process: u32) -> Result<u64, Fault> {
    status_bytes(process, "VmHWM:")
}

/// Counts the peak of its memory from now on.
///
/// # Errors
/// The process is gone, or is none of ours.
pub fn forget_peak(process: u32) -> Result<(), Fault> {
    Ok(std::fs::write(format!("/proc/{process}/clear_refs"), "5")?)
}

/// Open file descriptors.
///
/// # Errors
/// The process is gone.
pub fn n_descriptors(process: u32) -> Result<usize, Fault> {
    Ok(std::fs::read_dir(format!("/proc/{process}/fd"))?.count())
}

/// Processor time of each thread since it began, user and system together, by the thread's id, which rises in the order of
/// their starts.
///
/// In nanoseconds, while `stat` counts hundredths of a second. A thread that ends meanwhile is left out.
///
/// # Errors
/// The process is gone.
pub fn cpu_of_threads(process: u32) -> Result<BTreeMap<u32, Thread>, Fault> {
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let task = task?;
        let read = |file| std::fs::read_to_string(task.path().join(file));
        let (Ok(name), Ok(schedstat)) = (read("comm"), read("schedstat")) else {
            continue;
        };
        let thread = Thread {
            name: name.trim_end().to_owned(),
            cpu: cpu_in(&schedstat)?,
        };
        let id = task.file_name().to_string_lossy().parse()?;
        threads.insert(id, thread);
    }
    Ok(threads)
}

/// The same of the thread that asks.
///
/// # Errors
/// The kernel does not tell.
pub fn cpu_of_this_thread() -> Result<Duration, Fault> {
    cpu_in(&std::fs::read_to_string("/proc/thread-self/schedstat")?)
}

fn cpu_in(schedstat: &str) -> Result<Duration, Fault> {
    let nanoseconds = schedstat
        .split_whitespace()
        .next()
        .ok_or("schedstat begins with a number")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

/// Processor time of all threads that run, since each began.
///
/// # Errors
/// The process is gone.
pub fn cpu_time(process: u32) -> Result<Duration, Fault> {
    Ok(cpu_of_threads(process)?.values().map(|thread| thread.cpu).sum())
}

/// A thread of a process.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Name, of which the kernel keeps 15 bytes.
    pub name: String,
    /// Its time on a processor so far.
    pub cpu: Duration,
}

fn status_bytes(process: u32, name: &str) -> Result<u64, Fault> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: u64 = line
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .ok_or("the kernel says how much memory a process has")?
        .trim()
        .parse()?;
    Ok(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::{cpu_of_threads, cpu_time, peak_bytes, resident_bytes};
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_works_is_found_by_its_name() {
        let me = std::process::id();
        let worked = std::thread::Builder::new()
            .name("works".to_owned())
            .spawn(move || {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(50) {
                    std::hint::spin_loop();
                }
                let mut threads = cpu_of_threads(me).unwrap().into_values();
                let thread = threads.find(|thread| thread.name == "works").unwrap();
                // While it runs: threads that end, as those of other tests do, count no more.
                (thread, cpu_time(me).unwrap())
            })
            .unwrap();
        let (thread, of_all) = worked.join().unwrap();
        assert!(thread.cpu > Duration::ZERO, "{thread:?}");
        assert!(of_all >= thread.cpu, "{of_all:?}, {thread:?}");
        assert!(peak_bytes(me).unwrap() >= resident_bytes(me).unwrap() / 2);
    }
}
