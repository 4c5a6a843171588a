//! The priority of threads.

/// Lowers the priority of this thread. With a niceness of 10 it has a tenth of the share of one with none, and hardly keeps it
/// waiting. Does nothing elsewhere than on Linux, where a priority is one of the whole process.
///
/// # Errors
/// The operating system refuses; the priority stays as it is.
pub fn yield_to_others(niceness: i32) -> std::io::Result<()> {
    if cfg!(target_os = "linux") {
        rustix::process::nice(niceness)?;
    }
    Ok(())
}
