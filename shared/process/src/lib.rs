//! Start, stop and output of a process: stderr, stdout, messages to a service manager, and the signals that stop it.
//! The caller reads configuration files, opens ports, and decides how long a stop may take.
//!
//! Without a feature it has only [`stop_signal`], [`unix_ms`] and [`with_causes`], which every worker compiles.

#![warn(clippy::too_many_lines)]

mod causes;
#[cfg(feature = "settings")]
pub mod exposure;
#[cfg(feature = "settings")]
pub mod files;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "priority")]
pub mod priority;
#[cfg(feature = "settings")]
pub mod probe;
#[cfg(feature = "settings")]
pub mod service;
#[cfg(feature = "settings")]
pub mod settings;
pub mod signal;
#[cfg(feature = "log")]
pub mod telemetry;
mod wall_clock;

pub use causes::with_causes;
pub use signal::stop_signal;
pub use wall_clock::unix_ms;

/// Says something on stderr that no filter hides. Does not wait: see [`telemetry`].
#[cfg(feature = "log")]
pub fn say(text: &str) {
    log::say(text);
}

/// Says a line on stdout, for the program that started this one. Does not wait, and drops what is not read.
#[cfg(feature = "log")]
pub fn announce(line: &str) {
    log::announce(line);
}

/// Lets what is [exported](telemetry::Exported) be sent, then calls [`flush`]. The last call of a program that ends normally.
#[cfg(feature = "log")]
pub fn end() {
    log::end();
    log::flush();
}

/// Waits until everything that was said and logged is written, for a second at most. The last call of a program that must end now.
#[cfg(feature = "log")]
pub fn flush() {
    log::flush();
}
