//! Times as protocols write them.

/// Writes a time in milliseconds since 1970 as ISO 8601, in UTC.
pub(crate) fn iso_8601(time: u64) -> String {
    let (days, of_day) = (time / 86_400_000, time % 86_400_000);
    // The calendar repeats every 400 years; it is counted from 1 March of year 0.
    let (era, of_era) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + carry;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, millis) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_iso_8601() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_8601(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(iso_8601(1_798_761_599_999), "2026-12-31T23:59:59.999Z");
    }
}
