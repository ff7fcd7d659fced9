//! The rules that no part of a value matters to.

use serde_json::Value;

use super::equal::is_equal;
use super::number;
use super::program::{Bound, Counted, Rule};

/// The limit that a validation exceeds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    Steps,
    Depth,
}

/// Values that a value without parts is compared with in one step.
const COMPARED_VALUES: usize = 8;
/// Length of a text from which on comparing it is more than a step, in bytes.
const LONG: usize = 64;

/// Returns the steps of applying a rule to a value.
pub(super) fn steps(rule: &Rule, value: &Value) -> usize {
    let bytes = value.as_str().map_or(0, str::len);
    bytes / LONG
        + match rule {
            Rule::Enum { values, size } => {
                let is_large = value.is_array() || value.is_object() || bytes >= LONG;
                values.len() / COMPARED_VALUES + if is_large { *size } else { 0 }
            }
            Rule::Pattern(pattern) => pattern.steps(bytes),
            Rule::Format(_) => bytes / 8,
            _ => 0,
        }
}

/// Returns whether a value satisfies a rule. Fails if finding that out takes too long.
pub(super) fn holds(rule: &Rule, value: &Value) -> Result<bool, Exceeded> {
    Ok(match (rule, value) {
        (Rule::Never, _) => false,
        (Rule::Type { types, floats_are_integers }, _) => types.has(value, *floats_are_integers),
        (Rule::Const(expected), _) => is_equal(expected, value),
        (Rule::Enum { values, .. }, _) => values.iter().any(|other| is_equal(other, value)),
        (Rule::Bound { limit, bound }, Value::Number(number)) => {
            let order = number::compare(number, limit);
            match bound {
                Bound::Minimum => order.is_ge(),
                Bound::ExclusiveMinimum => order.is_gt(),
                Bound::Maximum => order.is_le(),
                Bound::ExclusiveMaximum => order.is_lt(),
            }
        }
        (Rule::MultipleOf(divisor), Value::Number(number)) => number::is_multiple(number, divisor),
        (Rule::Count { of, least, most }, _) => {
            let count = match (of, value) {
                (Counted::Characters, Value::String(text)) => text.chars().count(),
                (Counted::Items, Value::Array(items)) => items.len(),
                (Counted::Properties, Value::Object(fields)) => fields.len(),
                _ => return Ok(true),
            };
            let count = count as u64;
            least.is_none_or(|least| count >= least) && most.is_none_or(|most| count <= most)
        }
        (Rule::Pattern(pattern), Value::String(text)) => {
            pattern.matches(text).ok_or(Exceeded::Steps)?
        }
        (Rule::Format(format), Value::String(text)) => format.accepts(text),
        _ => true,
    })
}
