//! Time zones by their IANA names, from the database that is built in. Decides nothing.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// No zone has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone(String);

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for UnknownZone {}

impl Zone {
    /// The zone of an IANA name such as `Europe/Berlin`, in any case of its letters; the empty name is UTC.
    ///
    /// # Errors
    /// [`UnknownZone`].
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        if name.is_empty() {
            return Ok(Self(TimeZone::UTC));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(UnknownZone("is longer than any name of a time zone".to_string()));
        }
        let zone = TimeZoneDatabase::bundled().get(name);
        zone.map(Self)
            .map_err(|_| UnknownZone(format!("names no IANA time zone: {name:?}")))
    }

    /// The local time at an instant, Unix milliseconds.
    pub(crate) fn local(&self, instant_ms: i64) -> Option<DateTime> {
        let instant = Timestamp::from_millisecond(instant_ms).ok()?;
        Some(self.0.to_datetime(instant))
    }

    /// The instant of a local time in Unix milliseconds: the first of two, and the first one after the gap if it does not exist.
    pub(crate) fn instant(&self, local: DateTime) -> Option<i64> {
        let at = |offset: Offset| offset.to_timestamp(local).ok();
        let instant = match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset)?,
            AmbiguousOffset::Fold { before, .. } => at(before)?,
            // With the later offset the gap's local times lie before its transition.
            AmbiguousOffset::Gap { after, .. } => self.0.following(at(after)?).next()?.timestamp(),
        };
        Some(instant.as_millisecond())
    }
}

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::Zone;
    use jiff::civil::date;

    #[test]
    fn names_are_known_without_files_of_the_machine() {
        for name in ["Europe/Berlin", "europe/berlin", "UTC", "", "America/New_York"] {
            assert!(Zone::named(name).is_ok(), "{name}");
        }
        for name in ["Europe/Atlantis", "../../etc/passwd", "CEST-nowhere", "\u{e9}"] {
            assert!(Zone::named(name).is_err(), "{name}");
        }
        assert!(Zone::named(&"E".repeat(65)).is_err());
    }

    #[test]
    fn every_local_time_of_a_gap_is_the_instant_behind_it() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let behind = berlin.instant(date(2026, 3, 29).at(3, 0, 0, 0));
        assert_eq!(behind, Some(1_774_746_000_000));
        for minute in [0, 1, 30, 59] {
            assert_eq!(berlin.instant(date(2026, 3, 29).at(2, minute, 0, 0)), behind);
        }
        // A whole day was left out.
        let apia = Zone::named("Pacific/Apia").unwrap();
        let behind = apia.instant(date(2011, 12, 31).at(0, 0, 0, 0));
        assert_eq!(apia.instant(date(2011, 12, 30).at(12, 0, 0, 0)), behind);
    }

    #[test]
    fn a_local_time_that_occurs_twice_is_the_first() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let first = berlin.instant(date(2026, 10, 25).at(2, 30, 0, 0));
        assert_eq!(first, Some(1_792_888_200_000));
    }
}
