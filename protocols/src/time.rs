//! Times in the form of protocols.

use jiff::Timestamp;

/// Formats a time in milliseconds since 1970 as RFC 3339, in UTC. A time after the year 9999 is
/// written as the end of that year.
pub(crate) fn rfc_3339(time: u64) -> String {
    let time = i64::try_from(time).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_milliseconds() {
        assert_eq!(rfc_3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc_3339(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert!(rfc_3339(u64::MAX).starts_with("9999-12-30T"));
    }
}
