//! Cron expressions of five fields, and the local times that they name. Knows no zone.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use jiff::civil::{Date, DateTime, Weekday};

/// Minute, hour, day of the month, month, day of the week.
///
/// A field is `*`, a number, a range `a-b`, either of these with a step `/n`, or several of them with commas between.
/// Months and days of the week may be spelled `JAN` to `DEC` and `SUN` to `SAT`; Sunday is 0 and 7.
/// If neither day field begins with `*`, a day matches if one of them does; else both must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// Bit n: the value n.
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True if one of the day fields is enough.
    either_day: bool,
}

/// Why a text is no cron expression: a sentence that names the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCron(String);

impl fmt::Display for InvalidCron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for InvalidCron {}

impl Cron {
    /// Reads an expression of at most 256 bytes.
    ///
    /// # Errors
    /// [`InvalidCron`], also if no day ever matches.
    pub fn read(text: &str) -> Result<Self, InvalidCron> {
        if text.len() > BYTES_MAX {
            return Err(InvalidCron(format!("it has more than {BYTES_MAX} bytes")));
        }
        let mut parts = text.split_ascii_whitespace();
        let mut texts = [""; 5];
        for place in &mut texts {
            *place = parts.next().ok_or_else(|| wrong_count(text))?;
        }
        if parts.next().is_some() {
            return Err(wrong_count(text));
        }
        let mut sets = [0; 5];
        for ((set, field), text) in sets.iter_mut().zip(&FIELDS).zip(texts) {
            *set = field.set(text)?;
        }
        let [minutes, hours, days, months, weekdays] = sets;
        let cron = Self {
            minutes,
            hours,
            days,
            months,
            // Sunday is 0 and 7.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            either_day: !texts[2].starts_with('*') && !texts[4].starts_with('*'),
        };
        match cron.next_day(Date::constant(2000, 1, 1)) {
            Some(_) => Ok(cron),
            None => Err(InvalidCron("no day ever matches it".to_string())),
        }
    }

    /// The first local time that matches, at or after the minute of that one; `None` if there is none within a century.
    pub(crate) fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let mut date = self.next_day(from.date())?;
        let time = if date == from.date() {
            self.time_of_day(from.hour(), from.minute())
        } else {
            self.time_of_day(0, 0)
        };
        let (hour, minute) = match time {
            Some(time) => time,
            None => {
                date = self.next_day(date.tomorrow().ok()?)?;
                self.time_of_day(0, 0)?
            }
        };
        Some(date.at(hour, minute, 0, 0))
    }

    /// The first time of a day that matches, from that one on.
    fn time_of_day(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if holds(self.hours, hour)
            && let Some(minute) = next_in(self.minutes, minute)
        {
            return Some((hour, minute));
        }
        let hour = next_in(self.hours, hour + 1)?;
        Some((hour, next_in(self.minutes, 0)?))
    }

    fn next_day(&self, from: Date) -> Option<Date> {
        let mut date = from;
        while date.year() <= from.year() + YEARS_MAX {
            if !holds(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if self.has_day(date) {
                return Some(date);
            } else {
                date = date.tomorrow().ok()?;
            }
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let day = holds(self.days, date.day());
        let weekday = holds(self.weekdays, weekday_number(date.weekday()));
        if self.either_day {
            day || weekday
        } else {
            day && weekday
        }
    }
}

/// One of the five.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// Words for the values from `least` on.
    words: &'static [&'static str],
}

impl Field {
    fn set(&self, text: &str) -> Result<u64, InvalidCron> {
        let mut set = 0;
        for part in text.split(',') {
            set |= self.part(part)?;
        }
        Ok(set)
    }

    fn part(&self, part: &str) -> Result<u64, InvalidCron> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = if range == "*" {
            (self.least, self.most)
        } else if let Some((first, last)) = range.split_once('-') {
            (self.value(first)?, self.value(last)?)
        } else {
            let first = self.value(range)?;
            (first, if step.is_some() { self.most } else { first })
        };
        if first > last {
            return Err(self.wrong(&format!("the range {range} ends before it begins")));
        }
        let step = match step {
            None => 1,
            Some(step) => match number(step) {
                Some(step) if (1..=self.most).contains(&step) => step,
                _ => return Err(self.wrong(&format!("the step {step:?} is not 1 to {}", self.most))),
            },
        };
        let values = (first..=last).step_by(step as usize);
        Ok(values.fold(0, |set, value| set | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u32, InvalidCron> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let value = match word {
            Some(place) => u32::try_from(place).ok().map(|place| self.least + place),
            None => number(text),
        };
        match value {
            Some(value) if (self.least..=self.most).contains(&value) => Ok(value),
            _ => Err(self.wrong(&format!("{text:?} is not {} to {}", self.least, self.most))),
        }
    }

    fn wrong(&self, why: &str) -> InvalidCron {
        InvalidCron(format!("in the {}, {why}", self.name))
    }
}

fn wrong_count(text: &str) -> InvalidCron {
    let n = text.split_ascii_whitespace().count();
    InvalidCron(format!(
        "it has {n} fields, not 5: minute, hour, day of the month, month, day of the week"
    ))
}

/// One to four digits, without a sign.
fn number(text: &str) -> Option<u32> {
    let is_short = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| text.parse().ok()).flatten()
}

fn weekday_number(weekday: Weekday) -> i8 {
    weekday.to_sunday_zero_offset()
}

fn holds(set: u64, value: i8) -> bool {
    set >> value & 1 == 1
}

/// The least value of the set from that one on.
fn next_in(set: u64, from: i8) -> Option<i8> {
    let left = set >> from << from;
    (left != 0).then(|| i8::try_from(left.trailing_zeros()).unwrap_or(0))
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        least: 0,
        most: 59,
        words: &[],
    },
    Field {
        name: "hour",
        least: 0,
        most: 23,
        words: &[],
    },
    Field {
        name: "day of the month",
        least: 1,
        most: 31,
        words: &[],
    },
    Field {
        name: "month",
        least: 1,
        most: 12,
        words: &[
            "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
        ],
    },
    Field {
        name: "day of the week",
        least: 0,
        most: 7,
        words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    },
];
/// Bytes of an expression.
const BYTES_MAX: usize = 256;
/// Years within which a day matches, if one ever does: 29 February on a given weekday may be 40 years away.
const YEARS_MAX: i16 = 100;

#[cfg(test)]
mod tests {
    use super::Cron;
    use alloc::string::ToString;
    use jiff::civil::{DateTime, date};

    #[track_caller]
    fn next(text: &str, from: DateTime) -> DateTime {
        Cron::read(text).unwrap().at_or_after(from).unwrap()
    }

    #[test]
    fn the_next_local_time_matches_all_fields() {
        let from = date(2026, 1, 1).at(0, 1, 0, 0);
        for (text, expected) in [
            ("* * * * *", from),
            ("0 18 * * 0", date(2026, 1, 4).at(18, 0, 0, 0)),
            ("0 18 * * SUN", date(2026, 1, 4).at(18, 0, 0, 0)),
            ("0 18 * * 7", date(2026, 1, 4).at(18, 0, 0, 0)),
            ("0 0 29 2 *", date(2028, 2, 29).at(0, 0, 0, 0)),
            ("*/15 9-17 * * mon-fri", date(2026, 1, 1).at(9, 0, 0, 0)),
            ("5/20 0 * * *", date(2026, 1, 1).at(0, 5, 0, 0)),
            ("0 0 1 jan *", date(2027, 1, 1).at(0, 0, 0, 0)),
            ("30 4 1,15 * 5", date(2026, 1, 1).at(4, 30, 0, 0)),
            ("30 4 15 * 5", date(2026, 1, 2).at(4, 30, 0, 0)),
            ("30 4 */2 * 5", date(2026, 1, 9).at(4, 30, 0, 0)),
            ("0 0 31 * *", date(2026, 1, 31).at(0, 0, 0, 0)),
        ] {
            assert_eq!(next(text, from), expected, "{text}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_field() {
        for (text, part) in [
            ("", "it has 0 fields"),
            ("* * * *", "it has 4 fields"),
            ("* * * * * *", "it has 6 fields"),
            ("@daily", "it has 1 fields"),
            ("60 * * * *", "in the minute, \"60\" is not 0 to 59"),
            ("* 24 * * *", "in the hour"),
            ("* * 0 * *", "in the day of the month"),
            ("* * * 13 *", "in the month"),
            ("* * * * 8", "in the day of the week"),
            ("* * * * FOO", "\"FOO\" is not 0 to 7"),
            ("5-1 * * * *", "ends before it begins"),
            ("*/0 * * * *", "the step \"0\""),
            ("*/ * * * *", "the step \"\""),
            ("1,,2 * * * *", "in the minute, \"\""),
            ("+1 * * * *", "in the minute"),
            ("-1 * * * *", "in the minute"),
            ("1-2-3 * * * *", "in the minute"),
            ("** * * * *", "in the minute"),
            ("0 0 31 2 *", "no day ever matches"),
            ("0 0 30,31 2 *", "no day ever matches"),
        ] {
            let why = Cron::read(text).unwrap_err().to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(Cron::read(&"1,".repeat(200)).is_err());
        assert!(Cron::read("0 0 29 2 */7").is_ok(), "a Sunday, every 28 years");
    }
}
