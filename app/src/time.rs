//! Times on the command line.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::error::StartError;

/// Parses the time of a flag: a date, or a date and a time, local or with an offset.
pub(crate) fn read_time(flag: &str, text: &str) -> Result<u64, StartError> {
    let local =
        |time: DateTime| time.to_zoned_datetime(TimeZone::system()).ok().map(|at| at.timestamp());
    let read = text.parse::<Timestamp>().ok().or_else(|| local(text.parse().ok()?));
    let milliseconds = read.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    milliseconds.ok_or_else(|| {
        StartError(format!(
            "The value of {flag} is no time: give a date such as 2026-11-24, or a date and time \
             such as 2026-11-24T14:05."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_with_or_without_a_time() {
        let time = read_time;
        for text in ["2026-11-24", "2026-11-24T14:05", "2026-11-24T14:05:30Z"] {
            assert!(time("--since", text).is_ok_and(|time| time > 1_700_000_000_000), "{text}");
        }
        let order = ["2026-11-23", "2026-11-24T14:05", "2026-11-27T14:05Z"];
        assert!(order.map(|text| time("--since", text).unwrap()).is_sorted());
        for wrong in ["yesterday", "", "1969-01-01"] {
            let why = time("--until", wrong).unwrap_err();
            assert!(why.0.contains("--until is no time"), "{wrong}");
        }
    }
}
