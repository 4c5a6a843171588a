//! Number of connections that the limit of open files allows. Raises no limit.

use tracing::warn;

/// Default number of connections.
pub const MAX_CONNECTIONS: u32 = 20_000;

/// Returns the number of connections for this many open files, `None` without a limit: as many as requested, or as fit.
/// Logs a warning if they do not fit; the default exceeds the limit of many machines and causes none.
///
/// # Errors
/// If the stores alone would need nearly all of the open files.
pub fn connections_for(requested: u32, open_files: Option<u64>) -> Result<u32, String> {
    let Some(open_files) = open_files else {
        return Ok(requested);
    };
    if open_files < OPEN_FILES_MIN {
        return Err(format!(
            "is {open_files}, and the stores and a few connections need {OPEN_FILES_MIN}; raise it with `ulimit -n`, \
             or with LimitNOFILE= of a systemd unit"
        ));
    }
    let fitting = open_files.saturating_sub(OTHER_FILES_MAX.min(open_files / 4 * 3));
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    if fitting < requested && requested != MAX_CONNECTIONS {
        warn!(
            open_files,
            max_connections = requested,
            lowered_to = fitting,
            "the limit of open files allows fewer connections than --max-connections; raise it, or lower the setting"
        );
    }
    Ok(fitting.min(requested))
}

/// With fewer open files it does not start: three quarters of them are for the stores and the sinks.
const OPEN_FILES_MIN: u64 = 96;
/// Open files of the stores and of the sinks.
const OTHER_FILES_MAX: u64 = 128;

#[cfg(test)]
mod tests {
    use super::{MAX_CONNECTIONS, connections_for};

    #[test]
    fn connections_fit_into_the_limit_of_open_files() {
        assert_eq!(connections_for(500, None), Ok(500));
        assert_eq!(connections_for(500, Some(1024)), Ok(500));
        assert_eq!(connections_for(MAX_CONNECTIONS, Some(1024)), Ok(896));
        assert_eq!(
            connections_for(MAX_CONNECTIONS, Some(u64::MAX)),
            Ok(MAX_CONNECTIONS)
        );
        assert_eq!(connections_for(500, Some(100)), Ok(25));
        assert!(connections_for(1, Some(95)).is_err());
    }
}
