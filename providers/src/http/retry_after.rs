//! Parsing of the time that a provider asks to wait, in all its formats.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// Returns the wait in the headers. `limited` means that a limit was reached. Many servers send the
/// reset time with every response, and only then is it a wait.
pub(crate) fn in_headers(headers: &HeaderMap, now: SystemTime, limited: bool) -> Option<Duration> {
    let texts = |name| {
        headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).map(str::trim)
    };
    let millis = texts("retry-after-ms").chain(texts("x-ms-retry-after-ms"));
    let millis =
        millis.filter_map(|text| text.parse::<f64>().ok()).find_map(|ms| seconds(ms / 1e3));
    let is_number = |text: &&str| text.parse::<f64>().is_ok();
    millis
        .or_else(|| texts("retry-after").filter(is_number).find_map(|text| parse_wait(text, now)))
        .or_else(|| texts("retry-after").find_map(|text| parse_wait(text, now)))
        .or_else(|| if limited { renewal(headers, now) } else { None })
}

/// Returns the latest reset time of the exhausted limits. If no header states a remaining quota,
/// returns the earliest reset time. Limits with a remaining quota are ignored.
fn renewal(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let (mut used_up, mut unknown) = (None::<Duration>, None::<Duration>);
    for (name, value) in headers {
        let name = name.as_str();
        if !(name.contains("ratelimit") && name.contains("reset")) {
            continue;
        }
        let Some(wait) = value.to_str().ok().and_then(|text| parse_wait(text.trim(), now)) else {
            continue;
        };
        let left: Option<f64> = headers
            .get(name.replace("reset", "remaining"))
            .and_then(|left| left.to_str().ok()?.trim().parse().ok());
        match left {
            Some(left) if left <= 0.0 => used_up = used_up.max(Some(wait)),
            Some(_) => {}
            None => unknown = Some(unknown.map_or(wait, |other| other.min(wait))),
        }
    }
    used_up.or(unknown)
}

/// Returns the wait in a lower-case message, as in "try again in 1m30.5s" and "retry after 26
/// seconds".
pub(crate) fn in_words(message: &str) -> Option<Duration> {
    let phrases = ["try again in ", "try again after ", "retry in ", "retry after ", "wait "];
    let mut waits = phrases.iter().flat_map(|words| message.split(words).skip(1)).map(spans);
    waits.find_map(|(wait, _)| wait)
}

/// Parses a duration such as `45.8s`, `20ms` or `114h18m0s`. Returns `None` if it is zero.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    match spans(text) {
        (wait, "") => wait,
        _ => None,
    }
}

/// Parses a wait in a header: seconds from now, a duration, seconds or milliseconds since 1970, or
/// a date.
fn parse_wait(text: &str, now: SystemTime) -> Option<Duration> {
    let until = |then: SystemTime| then.duration_since(now).ok().filter(|wait| !wait.is_zero());
    let since_1970 = |seconds: f64| {
        until(SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?)
    };
    match text.parse::<f64>() {
        Ok(number) if number >= 1e11 => since_1970(number / 1e3),
        Ok(number) if number >= 1e9 => since_1970(number),
        Ok(number) => seconds(number),
        Err(_) => duration(text)
            .or_else(|| since_1970(iso_date(text)?))
            .or_else(|| until(httpdate::parse_http_date(text).ok()?)),
    }
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok().filter(|wait| !wait.is_zero())
}

/// Returns the sum of the durations at the start of `text`, and the rest of the text.
fn spans(text: &str) -> (Option<Duration>, &str) {
    let (mut sum, mut rest) = (0.0, text);
    while let Some((span, after)) = span(rest) {
        sum += span;
        rest = after;
    }
    (seconds(sum), rest)
}

/// Parses a number with its unit. Returns the seconds, and the rest of the text.
fn span(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let (number, after) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let after = after.trim_start();
    let (unit, after) =
        after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
    let scale = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * scale, after))
}

/// Returns the seconds from 1970 to a date such as `2026-03-01T12:30:00.5Z` or `…+02:00`.
fn iso_date(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let numbers = |text: &str, by: char| {
        text.split(by).map(|n| n.parse::<f64>().ok()).collect::<Option<Vec<_>>>()
    };
    let (date, time) = (numbers(date, '-')?, numbers(time, ':')?);
    let (&[year, month, day], &[hour, minute, second]) = (&date[..], &time[..]) else {
        return None;
    };
    let east = match offset.strip_prefix(['+', '-']) {
        None => 0.0,
        Some(amount) => {
            let &[hours, minutes] = &numbers(amount, ':')?[..] else {
                return None;
            };
            (hours * 3600.0 + minutes * 60.0) * if offset.starts_with('-') { -1.0 } else { 1.0 }
        }
    };
    // Years start in March here, so that the leap day is the last day of a year.
    let (year, month) = if month > 2.0 { (year, month - 3.0) } else { (year - 1.0, month + 9.0) };
    let leap_days = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days =
        year * 365.0 + leap_days + ((month * 153.0 + 2.0) / 5.0).floor() + day - 1.0 - 719_468.0;
    Some(days * 86400.0 + hour * 3600.0 + minute * 60.0 + second - east)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    /// Returns the wait in these headers after a reached limit, in milliseconds, at 8:00 on 15
    /// January 2027.
    fn wait(headers: &[(&'static str, &'static str)]) -> Option<u128> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        in_headers(&headers.iter().map(pair).collect(), now, true).map(|wait| wait.as_millis())
    }

    #[test]
    fn quirk_23_a_wait_is_read_in_each_form_that_a_header_gives_it() {
        let cases = [
            ("retry-after", "7", Some(7000)),
            ("retry-after", " 0.5 ", Some(500)),
            ("retry-after", "20s", Some(20_000)),
            ("retry-after", "Fri, 15 Jan 2027 08:01:00 GMT", Some(60_000)),
            ("retry-after", "Fri, 15 Jan 2027 07:59:00 GMT", None),
            ("retry-after", "soon", None),
            ("retry-after", "-3", None),
            ("retry-after", "0", None),
            ("retry-after-ms", "250", Some(250)),
            ("x-ms-retry-after-ms", "250", Some(250)),
            ("x-ratelimit-reset-requests", "1s", Some(1000)),
            ("x-ratelimit-reset-tokens", "6m0s", Some(360_000)),
            ("x-ratelimit-reset-tokens", "20ms", Some(20)),
            ("x-ratelimit-reset", "1800000030", Some(30_000)),
            ("x-ratelimit-reset", "1800000030500", Some(30_500)),
            ("x-ratelimit-reset", "12.5", Some(12_500)),
            ("ratelimit-reset", "50", Some(50_000)),
            ("anthropic-ratelimit-tokens-reset", "2027-01-15T08:00:30Z", Some(30_000)),
            ("anthropic-ratelimit-tokens-reset", "2027-01-15T10:00:30.25+02:00", Some(30_250)),
            ("x-ratelimit-reset", "1e25", None),
            ("retry-after", "1e300", None),
            ("retry-after", "inf", None),
            ("x-ratelimit-limit-requests", "60", None),
        ];
        for (name, value, expected) in cases {
            assert_eq!(wait(&[(name, value)]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn the_nearest_word_counts_first() {
        assert_eq!(wait(&[("retry-after", "1"), ("retry-after-ms", "0")]), Some(1000));
        assert_eq!(wait(&[("retry-after", "1"), ("retry-after-ms", "250")]), Some(250));
        assert_eq!(wait(&[("retry-after", "1"), ("x-ratelimit-reset-tokens", "6m0s")]), Some(1000));
    }

    #[test]
    fn the_limit_that_is_used_up_is_waited_for() {
        let (requests, tokens) =
            (("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-reset-tokens", "6m0s"));
        let left = |requests, tokens| {
            [("x-ratelimit-remaining-requests", requests), ("x-ratelimit-remaining-tokens", tokens)]
        };
        assert_eq!(wait(&[requests, tokens]), Some(1000));
        assert_eq!(wait(&[&[requests, tokens], &left("0", "9")[..]].concat()), Some(1000));
        assert_eq!(wait(&[&[requests, tokens], &left("9", "0")[..]].concat()), Some(360_000));
        assert_eq!(wait(&[&[requests, tokens], &left("0", "0")[..]].concat()), Some(360_000));
        assert_eq!(wait(&[&[requests, tokens], &left("9", "9")[..]].concat()), None);
    }

    #[test]
    fn a_renewal_means_no_wait_where_no_limit_was_reached() {
        let headers =
            [(HeaderName::from_static("x-ratelimit-reset"), HeaderValue::from_static("50"))];
        assert_eq!(in_headers(&headers.into_iter().collect(), SystemTime::UNIX_EPOCH, false), None);
    }

    #[test]
    fn quirk_23_a_wait_is_read_in_words() {
        let cases = [
            ("please try again in 1.2s.", Some(1200)),
            ("please try again in 1m3.5s. bye", Some(63_500)),
            ("try again in 20ms", Some(20)),
            ("try again in 114h18m0s. visit", Some(411_480_000)),
            ("please retry in 45.837s.", Some(45_837)),
            ("please retry after 26 seconds.", Some(26_000)),
            ("try again in a while, or retry in 2 minutes", Some(120_000)),
            ("try again in 1 hour 30 minutes", Some(5_400_000)),
            ("try again in 5 parsecs", None),
            ("try again in ", None),
            ("wait 0s", None),
            ("no", None),
        ];
        for (message, expected) in cases {
            assert_eq!(in_words(message).map(|wait| wait.as_millis()), expected, "{message}");
        }
    }

    #[test]
    fn days_are_counted_through_leap_years() {
        assert_eq!(iso_date("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(iso_date("2000-02-29T23:59:59Z"), Some(951_868_799.0));
        assert_eq!(iso_date("2027-01-15T08:00:00Z"), Some(1_800_000_000.0));
        assert_eq!(iso_date("2100-03-01T00:00:00-01:00"), Some(4_107_546_000.0));
        assert_eq!(
            (iso_date("tomorrow"), iso_date("2027-01T08Z"), iso_date("1-1-1TT")),
            (None, None, None)
        );
    }
}
