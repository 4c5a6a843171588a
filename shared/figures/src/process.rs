//! Metrics of the process itself from `/proc`; none on a system without it.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::fs;

/// Reads the metrics of this process at each scrape.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(stat) = fs::read_to_string("/proc/self/stat") else {
            return Ok(());
        };
        // The name of the program is in parentheses and may hold anything.
        let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
        let field = |number: usize| fields.split_whitespace().nth(number - FIRST)?.parse::<f64>().ok();
        if let Some((user, system)) = field(USER_TIME).zip(field(SYSTEM_TIME)) {
            let counter = ConstCounter::new((user + system) / TICKS_PER_SECOND);
            describe(&mut encoder, CPU, &counter)?;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |name: &str| number_of(&status, name).map(|kibibytes| kibibytes * 1_024.0);
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        // The count itself has the folder open.
        let open = fs::read_dir("/proc/self/fd").map(|entries| entries.count() as f64 - 1.0);
        let start = field(START_TIME).zip(boot_time_seconds());
        let gauges = [
            (RESIDENT_MEMORY, bytes("VmRSS:")),
            (VIRTUAL_MEMORY, bytes("VmSize:")),
            (OPEN_FDS, open.ok()),
            (MAX_FDS, number_of(&limits, "Max open files")),
            (N_THREADS, field(THREADS)),
            (START, start.map(|(ticks, boot)| boot + ticks / TICKS_PER_SECOND)),
        ];
        for (figure, value) in gauges {
            if let Some(value) = value {
                describe(&mut encoder, figure, &ConstGauge::new(value))?;
            }
        }
        Ok(())
    }
}

fn describe(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): Figure,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// Returns the number after the name that begins a line.
fn number_of(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the time at which the machine started, in seconds since 1970.
fn boot_time_seconds() -> Option<f64> {
    number_of(&fs::read_to_string("/proc/stat").ok()?, "btime ")
}

// Numbers of fields in `/proc/PID/stat`, as its manual counts them; the first after the name is 3.
const FIRST: usize = 3;
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;
const THREADS: usize = 20;
const START_TIME: usize = 22;
/// The unit of times in `/proc`, on every Linux of today.
const TICKS_PER_SECOND: f64 = 100.0;

/// A name, without the `_total` that the library adds to counters, and a sentence.
type Figure = (&'static str, &'static str);

const CPU: Figure = (
    "process_cpu_seconds",
    "Processor time of the process, in seconds.",
);
const RESIDENT_MEMORY: Figure = (
    "process_resident_memory_bytes",
    "Memory of the process that is in RAM.",
);
const VIRTUAL_MEMORY: Figure = ("process_virtual_memory_bytes", "Addresses that the process has.");
const OPEN_FDS: Figure = ("process_open_fds", "Open files of the process.");
const MAX_FDS: Figure = ("process_max_fds", "Most files that the process may have open.");
const N_THREADS: Figure = ("process_threads", "Threads of the process.");
const START: Figure = (
    "process_start_time_seconds",
    "When the process started, in seconds since 1970.",
);
