//! Messages to a service manager in the protocol of `sd_notify`: the process serves, stops, lives.
//! Without a manager they are not sent; sending never waits.

use std::ffi::OsStr;
use std::io::{Error, ErrorKind, Result};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tracing::warn;

/// Says that the process serves. A unit of `Type=notify` has started from now on.
pub fn ready() {
    tell("READY=1");
}

/// Says that the process stops and may take its time.
pub fn stopping() {
    tell("STOPPING=1");
}

/// Feeds the manager's watchdog for ever, three times in each of its periods, as long as `lives` answers true.
/// Ends at once if the manager has none for this process. A `lives` that does not answer starves the watchdog too.
pub async fn feed_watchdog<F: Future<Output = bool>>(mut lives: impl FnMut() -> F) {
    let [period, process] = ["WATCHDOG_USEC", "WATCHDOG_PID"].map(|name| std::env::var(name).ok());
    let Some(period) = watchdog_period(period.as_deref(), process.as_deref(), std::process::id()) else {
        return;
    };
    loop {
        if lives().await {
            tell("WATCHDOG=1");
        }
        tokio::time::sleep(period / FEEDS_IN_A_PERIOD).await;
    }
}

/// Returns the period; `None` if the watchdog is off, or is another process's.
fn watchdog_period(period_us: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    let is_ours = process.is_none_or(|process| process.parse() == Ok(own));
    let period_us = period_us?.parse().ok().filter(|period_us| *period_us > 0)?;
    is_ours.then(|| Duration::from_micros(period_us))
}

fn tell(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&address, state) {
        warn!(%error, state, "the service manager is not reached");
    }
}

fn send(address: &OsStr, state: &str) -> Result<()> {
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up what serves.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &socket_address(address)?)?;
    Ok(())
}

/// Returns a path, or after `@` a name in the abstract namespace.
fn socket_address(address: &OsStr) -> Result<SocketAddr> {
    match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(address),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            "NOTIFY_SOCKET begins with neither / nor @",
        )),
    }
}

/// So that one that comes late is not missed.
const FEEDS_IN_A_PERIOD: u32 = 3;

#[cfg(test)]
mod tests {
    use super::{socket_address, watchdog_period};
    use std::ffi::OsStr;
    use std::os::linux::net::SocketAddrExt;
    use std::time::Duration;

    #[test]
    fn a_watchdog_of_another_process_is_not_fed() {
        let period = Some(Duration::from_secs(60));
        assert_eq!(watchdog_period(Some("60000000"), None, 7), period);
        assert_eq!(watchdog_period(Some("60000000"), Some("7"), 7), period);
        assert_eq!(watchdog_period(Some("60000000"), Some("8"), 7), None);
        assert_eq!(watchdog_period(Some("0"), None, 7), None);
        assert_eq!(watchdog_period(Some("often"), None, 7), None);
        assert_eq!(watchdog_period(None, Some("7"), 7), None);
    }

    #[test]
    fn sockets_have_paths_or_abstract_names() {
        let path = socket_address(OsStr::new("/run/notify")).unwrap();
        assert_eq!(path.as_pathname().unwrap().to_str(), Some("/run/notify"));
        let name = socket_address(OsStr::new("@notify")).unwrap();
        assert_eq!(name.as_abstract_name(), Some(&b"notify"[..]));
        assert!(socket_address(OsStr::new("vsock:2:1234")).is_err());
    }
}
