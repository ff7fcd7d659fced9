//! [`Cron`]: recurring times.

use std::cmp::Ordering;
use std::str::FromStr;

use croner::errors::CronError;
use croner::time::{CivilDate, CivilDateTime, CivilTime, CronDateTime, Resolution, Weekday};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

use crate::error::InvalidSchedule;

/// A cron expression in a time zone: a series of recurring times.
///
/// The expression has five fields (minute, hour, day of the month, month, day of the week), as in
/// `crontab`, or six with the second in front. Names such as `MON` and `JAN`, steps, lists, `L`,
/// `#` and nicknames such as `@daily` are allowed. If the start of summer time skips a time, it
/// comes right after the gap. If the end of summer time repeats a time, it comes once.
///
/// ```
/// use loopwright_core::log::Cron;
///
/// let weekdays_at_nine = Cron::new("0 9 * * MON-FRI", Some("Europe/Berlin"))?;
/// // A Friday in summer at 9:00, and the Monday after it.
/// let friday = 1_782_457_200_000;
/// assert_eq!(weekdays_at_nine.next_after(friday), Some(friday + 3 * 24 * 3600 * 1000));
/// # Ok::<(), loopwright_core::log::InvalidSchedule>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cron {
    cron: croner::Cron,
    zone: TimeZone,
}

impl Cron {
    /// Parses an expression. Without a time zone, its times are in UTC.
    ///
    /// # Errors
    ///
    /// Fails if the expression is invalid, or if the machine does not know the time zone.
    pub fn new(expression: &str, time_zone: Option<&str>) -> Result<Self, InvalidSchedule> {
        let cron = croner::Cron::from_str(expression).map_err(|why| InvalidSchedule::Cron {
            expression: expression.to_owned(),
            why: why.to_string(),
        })?;
        let zone = match time_zone {
            None => TimeZone::UTC,
            Some(name) => {
                TimeZone::get(name).map_err(|_| InvalidSchedule::TimeZone(name.to_owned()))?
            }
        };
        Ok(Cron { cron, zone })
    }

    /// Returns the first time after `time`, in milliseconds since 1970, or `None` if there is none
    /// before the year 5000.
    pub fn next_after(&self, time: u64) -> Option<u64> {
        let time = Timestamp::from_millisecond(i64::try_from(time).ok()?).ok()?;
        let from = Local(time.to_zoned_datetime(self.zone.clone()));
        let next = self.cron.find_next_occurrence(&from, false).ok()?;
        u64::try_from(next.0.timestamp().as_millisecond()).ok()
    }
}

/// A time in a zone, as croner sees it.
#[derive(Clone)]
struct Local(ZonedDateTime);

impl CronDateTime for Local {
    fn to_civil(&self) -> CivilDateTime {
        let time = &self.0;
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(
                i32::from(time.year()),
                time.month().unsigned_abs().into(),
                time.day().unsigned_abs().into(),
            ),
            CivilTime::from_parts_unchecked(
                time.hour().unsigned_abs().into(),
                time.minute().unsigned_abs().into(),
                time.second().unsigned_abs().into(),
            ),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        let days = self.0.weekday().to_sunday_zero_offset();
        Weekday::from_days_from_sunday(days.unsigned_abs().into())
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let part = |value: u32| i8::try_from(value).map_err(|_| CronError::InvalidDate);
        let year = i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?;
        let (month, day) = (part(civil.month())?, part(civil.day())?);
        let (hour, minute, second) =
            (part(civil.hour())?, part(civil.minute())?, part(civil.second())?);
        let time = DateTime::new(year, month, day, hour, minute, second, 0)
            .map_err(|_| CronError::InvalidDate)?;
        let ambiguous = self.0.time_zone().to_ambiguous_zoned_datetime(time);
        let local = |zoned: Result<ZonedDateTime, jiff::Error>| {
            zoned.map(Local).map_err(|_| CronError::InvalidTime)
        };
        Ok(match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => {
                Resolution::Single(local(ambiguous.unambiguous())?)
            }
            AmbiguousOffset::Fold { .. } => Resolution::Ambiguous(
                local(ambiguous.clone().earlier())?,
                local(ambiguous.later())?,
            ),
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Local)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}
