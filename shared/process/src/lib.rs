//! How a process starts and stops: telemetry to stderr and the signals that ask for an end.
//! Reads no configuration file, opens no port, and decides nothing about how long an end may take.

pub mod signal;
pub mod telemetry;

pub use signal::stop_signal;
