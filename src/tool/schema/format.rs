//! The formats of strings that schemas of Draft 4 to 7 assert. Later drafts only annotate.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A format, with its name. Only what can be decided without tables is checked; other formats
/// accept all strings, as the drafts allow.
#[derive(Clone, Copy)]
pub(super) struct Format {
    pub(super) name: &'static str,
    check: fn(&str) -> bool,
}

const FORMATS: [Format; 9] = [
    Format { name: "date", check: is_date },
    Format { name: "time", check: is_time },
    Format { name: "date-time", check: is_date_time },
    Format { name: "email", check: is_email },
    Format { name: "ipv4", check: |text| text.parse::<Ipv4Addr>().is_ok() },
    Format { name: "ipv6", check: |text| text.parse::<Ipv6Addr>().is_ok() },
    Format { name: "json-pointer", check: is_json_pointer },
    Format { name: "uri", check: is_uri },
    Format { name: "uuid", check: is_uuid },
];

impl Format {
    /// Returns the format, or `None` if it accepts all strings.
    pub(super) fn named(name: &str) -> Option<Format> {
        FORMATS.into_iter().find(|format| format.name == name)
    }

    pub(super) fn accepts(self, text: &str) -> bool {
        (self.check)(text)
    }
}

/// Returns the number that a text of this many digits is.
fn digits(text: &str, count: usize) -> Option<u32> {
    let are_digits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok()).flatten()
}

/// Returns the parts of a text that has this many, or `None`.
fn parts<const N: usize>(text: &str, separator: char) -> Option<[&str; N]> {
    text.splitn(N + 1, separator).collect::<Vec<_>>().try_into().ok()
}

/// RFC 3339, section 5.6, `full-date`.
fn is_date(text: &str) -> bool {
    let date = || {
        let [year, month, day] = parts(text, '-')?;
        let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        Some((1..=days).contains(&day))
    };
    date().unwrap_or_default()
}

/// RFC 3339, section 5.6, `full-time`. A leap second is the last one of a day in UTC.
fn is_time(text: &str) -> bool {
    let time = || {
        let offset = text.find(['Z', 'z', '+', '-'])?;
        let (clock, offset) = text.split_at(offset);
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let [hour, minute, second] = parts(clock, ':')?;
        let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
        let minutes = match offset {
            "Z" | "z" => 0,
            _ if offset.starts_with(['Z', 'z']) => return None,
            _ => {
                let [hours, minutes] = parts(&offset[1..], ':')?;
                let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
                let is_after = offset.starts_with('+');
                let minutes = (hours < 24 && minutes < 60).then_some(60 * hours + minutes)?;
                if is_after { 24 * 60 - minutes } else { minutes }
            }
        };
        let is_leap = second == 60 && (60 * hour + minute + minutes) % (24 * 60) == 24 * 60 - 1;
        let is_clock = hour < 24 && minute < 60 && (second < 60 || is_leap);
        let is_fraction = !fraction.is_empty() && fraction.bytes().all(|it| it.is_ascii_digit());
        Some(is_clock && is_fraction)
    };
    time().unwrap_or_default()
}

fn is_date_time(text: &str) -> bool {
    let split = text.split_once(['T', 't']);
    split.is_some_and(|(date, time)| is_date(date) && is_time(time))
}

/// RFC 5321, section 4.1.2, `Mailbox`, without the comparison of domains.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_atom = |atom: &str| {
        let special =
            |c: char| c.is_ascii_whitespace() || c.is_control() || "()<>[]:;@\\,\"".contains(c);
        !atom.is_empty() && !atom.contains(special)
    };
    let is_local = is_quoted || local.split('.').all(is_atom);
    let is_literal = domain.starts_with('[') && domain.ends_with(']');
    let is_label = |label: &str| {
        let is_inner = |c: char| c.is_alphanumeric() || c == '-';
        !label.is_empty()
            && label.chars().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    is_local && (is_literal || domain.split('.').all(is_label))
}

/// RFC 6901.
fn is_json_pointer(text: &str) -> bool {
    let is_escaped = |part: &str| part.starts_with(['0', '1']);
    (text.is_empty() || text.starts_with('/')) && text.split('~').skip(1).all(is_escaped)
}

/// RFC 3986, section 3: a scheme, and the characters of a URI.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_encoded = |part: &str| {
        part.as_bytes().get(..2).is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit))
    };
    let is_of_uri = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c);
    is_scheme && rest.chars().all(is_of_uri) && rest.split('%').skip(1).all(is_encoded)
}

/// RFC 9562, section 4.
fn is_uuid(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts::<5>(text, '-').is_some_and(|parts| {
        parts.into_iter().all(is_hex) && parts.map(str::len) == [8, 4, 4, 4, 12]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_tells_texts_apart() {
        for (name, valid, invalid) in [
            ("date", "2024-02-29", "2023-02-29 2024-2-1 2024-13-01 24-01-01 2024-01-01x"),
            (
                "time",
                "08:30:06Z 08:30:06.2812345678901+02:00 23:59:60Z 01:29:60+01:30 15:59:60-08:00",
                "08:30 24:00:00Z 08:30:06 08:30:06.Z 08:30:06Z01:30 08:30:06+24:00 22:59:60Z",
            ),
            ("date-time", "2024-02-29T00:00:00z", "2024-02-29 2024-02-29T25:00:00Z"),
            (
                "email",
                "a.b@example.org \"a@b\"@example.org a@[127.0.0.1]",
                "a a@ @b .a@b a..b@c a@b@c a@-b a@b_c",
            ),
            ("ipv4", "127.0.0.1", "127.0.0.256 127.0.0 127.0.0.01"),
            ("ipv6", "::1 1:2:3:4:5:6:7:8", "1::2::3 12345::"),
            ("json-pointer", "/a/b~1c /", "a /a~2 /~"),
            ("uri", "https://example.org/a%20b?c#d urn:x", "//example.org a%2 h:a%2 http:a{b :x"),
            (
                "uuid",
                "2EB8AA08-aa98-11ea-b4aa-73b441d16380",
                "2eb8aa08aa9811eab4aa73b441d16380 2eb8aa08-aa98-11ea-b4aa73b441d16380-",
            ),
        ] {
            let format = Format::named(name).unwrap();
            for text in valid.split(' ') {
                assert!(format.accepts(text), "{name}: {text}");
            }
            for text in invalid.split(' ') {
                assert!(!format.accepts(text), "{name}: {text}");
            }
        }
        assert!(Format::named("hostname").is_none());
        assert!(!Format::named("uri").unwrap().accepts("http://a b"));
    }
}
