//! Instants as a policy writes them. Knows no time zone but offsets.

use toml::value::{Datetime, Offset};

/// Returns the milliseconds since 1970 of an instant. `None` for what has no date, no time or no offset, and so is no instant.
pub(super) fn unix_ms(datetime: &Datetime) -> Option<i64> {
    let (date, time, offset) = (datetime.date?, datetime.time?, datetime.offset?);
    let offset_minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let days = days_from_1970(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let minutes = days * 1_440 + i64::from(time.hour) * 60 + i64::from(time.minute) - offset_minutes;
    let seconds = minutes * 60 + i64::from(time.second.unwrap_or(0));
    Some(seconds * 1_000 + i64::from(time.nanosecond.unwrap_or(0) / 1_000_000))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Counts years from March, so that the leap day comes last.
fn days_from_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days_before_month = (153 * month_from_march + 2) / 5;
    365 * year + leap_days + days_before_month + day - 1 - DAYS_TO_1970
}

/// Days from the first of March of the year 0 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
