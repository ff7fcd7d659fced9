//! Comparison of numbers without loss, which a comparison as floats would have.

use std::cmp::Ordering;

use serde_json::Number;

/// Compares two numbers.
pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => with_float(a, b.as_f64().unwrap_or_default()),
        (None, Some(b)) => with_float(b, a.as_f64().unwrap_or_default()).reverse(),
        (None, None) => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            a.partial_cmp(&b).unwrap_or(Ordering::Equal) // JSON has no NaN
        }
    }
}

/// Returns the value of a whole number, unless it is too large.
pub(super) fn whole(number: &Number) -> Option<i128> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e30);
    number.as_i128().or_else(|| float().map(|float| float as i128)) // exact: it fits
}

/// Compares a whole number of at most 64 bits with a float.
fn with_float(whole: i128, float: f64) -> Ordering {
    // Exact: a float is a whole number from 2^53 on, and the cast saturates.
    let floor = float.floor();
    whole.cmp(&(floor as i128)).then(if floor < float { Ordering::Less } else { Ordering::Equal })
}

/// Returns whether a number is a multiple of a number that is greater than 0, as decimals.
pub(super) fn is_multiple(number: &Number, divisor: &Number) -> bool {
    let (Some((a, from)), Some((b, to))) = (decimal(number), decimal(divisor)) else {
        return false;
    };
    let power = from.abs_diff(to);
    let is_multiple = || {
        if from >= to {
            // `a` times a power of ten, within the remainders.
            let b = u128::from(u64::try_from(b).ok()?);
            Some((a.unsigned_abs() % b * power_of_ten(power, b)).is_multiple_of(b))
        } else {
            let b = 10_i128.checked_pow(power).and_then(|scale| b.checked_mul(scale));
            Some(b.map_or(a == 0, |b| a % b == 0))
        }
    };
    is_multiple().unwrap_or_default()
}

/// Returns the remainder of a power of ten after a division by a number of 64 bits.
fn power_of_ten(mut power: u32, divisor: u128) -> u128 {
    let (mut result, mut square) = (1 % divisor, 10 % divisor);
    while power > 0 {
        if power % 2 == 1 {
            result = result * square % divisor;
        }
        square = square * square % divisor;
        power /= 2;
    }
    result
}

/// Returns the digits of a number, at most 20, and the power of ten that they are multiplied with.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: i32 = exponent.parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    Some((format!("{whole}{fraction}").parse().ok()?, exponent - places))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn no_digit_is_lost() {
        use Ordering::{Equal, Greater, Less};
        for (a, b, expected) in [
            ("1", "1.0", Equal),
            ("9007199254740993", "9007199254740992.0", Greater),
            ("18446744073709551615", "18446744073709551616.0", Less),
            ("-3", "-2.5", Less),
            ("-2", "-2.5", Greater),
            ("1", "1e300", Less),
            ("1", "-1e300", Greater),
            ("0.1", "0.2", Less),
        ] {
            assert_eq!(compare(&number(a), &number(b)), expected, "{a} {b}");
            assert_eq!(compare(&number(b), &number(a)), expected.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn multiples_are_those_of_decimals() {
        for (a, b, expected) in [
            ("10", "2", true),
            ("7", "2", false),
            ("4.5", "1.5", true),
            ("0.0075", "0.0001", true),
            ("0.00751", "0.0001", false),
            ("19.99", "0.01", true),
            ("12391239123", "1e-8", true),
            ("1e308", "0.123456789", false),
            ("1e308", "1e300", true),
            ("1e308", "0.5", true),
            ("1e-300", "1e300", false),
            ("0", "3", true),
        ] {
            assert_eq!(is_multiple(&number(a), &number(b)), expected, "{a} {b}");
        }
    }
}
