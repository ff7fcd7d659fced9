//! [`Validator`]: validation of values within limits of time and stack.

use std::fmt::{self, Display, Write};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError};
use serde_json::Value;

use super::shape::Shape;
use super::stack::on_stack;
use super::steps;
use crate::excerpt;

/// Maximum length of a received value in an error, in characters.
const MAX_VALUE_CHARS: usize = 200;
/// Maximum number of errors in a list.
const MAX_ERRORS: usize = 12;
/// Maximum number of backtracks of a match.
const MAX_BACKTRACKS: usize = 5_000;
/// The error if the system has no memory for a thread.
const NO_STACK: &str = "there is no memory to check it against the schema";
/// The error if listing the errors would take too long.
const TOO_MANY: &str = "- /: finding what does not fit would take too many steps";

/// A compiled schema. Compiling it and validating a value take at most some tens of milliseconds;
/// anything slower is refused.
pub(crate) struct Validator {
    shape: Shape,
    /// `None` only while it is dropped.
    compiled: Option<jsonschema::Validator>,
}

impl Validator {
    /// Compiles a schema. The error names the mistake or the exceeded limit.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let shape = Shape::of(schema)?;
        let patterns = PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS);
        let options = jsonschema::options()
            .with_pattern_options(patterns)
            // The validator's own check would compile each value as a pattern.
            .with_format("regex", |_| true);
        let build = || options.build(schema).map_err(|error| error.to_string());
        let compiled = on_stack(shape.depth, build).map_err(|_| NO_STACK)??;
        Ok(Validator { shape, compiled: Some(compiled) })
    }

    /// Validates a value. The error lists each path and what was received.
    pub(crate) fn validate(&self, value: &Value) -> Result<(), String> {
        let Some(compiled) = &self.compiled else { return Ok(()) };
        let Some(depth) = steps::verdict(&self.shape, value) else {
            return Err("The arguments cannot be checked against the schema: that would take too \
                        many steps. Use a smaller value."
                .into());
        };
        if on_stack(depth, || compiled.is_valid(value)).map_err(|_| NO_STACK)? {
            return Ok(());
        }
        let first = || compiled.iter_errors(value).take(MAX_ERRORS).map(|e| describe(&e)).collect();
        let listed =
            steps::errors(&self.shape, value).and_then(|depth| on_stack(depth, first).ok());
        let mut errors: Vec<String> = listed.unwrap_or_else(|| vec![TOO_MANY.into()]);
        errors.dedup();
        Err(format!("The arguments do not fit the schema:\n{}", errors.join("\n")))
    }
}

impl Drop for Validator {
    fn drop(&mut self) {
        let depth = self.shape.depth;
        if on_stack(depth, || self.compiled = None).is_err() {
            std::mem::forget(self.compiled.take()); // a leak is better than an overflow
        }
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let at = error.instance_path().to_string();
    let received = shown(error.instance(), MAX_VALUE_CHARS);
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let property = property.as_str().unwrap_or_default();
            format!("- {at}/{property}: is required, but missing")
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names = unexpected.iter().map(|name| format!("{at}/{name}"));
            let names: Vec<String> = names.collect();
            format!("- {}: not a property of this tool", names.join(", "))
        }
        _ => {
            let what = shown(error, MAX_VALUE_CHARS * 2);
            let at = if at.is_empty() { "/" } else { &at };
            format!("- {at}: {what} (received {received})")
        }
    }
}

/// Formats the beginning of a value, without formatting the rest.
fn shown(value: impl Display, max_chars: usize) -> String {
    let mut beginning = Beginning { text: String::new(), max_bytes: 4 * (max_chars + 1) };
    let _ = write!(beginning, "{value}"); // an error says that it is long
    excerpt::chars(&beginning.text, max_chars).into_owned()
}

/// A writer that fails soon after `max_bytes`.
struct Beginning {
    text: String,
    max_bytes: usize,
}

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = self.max_bytes - self.text.len();
        self.text.push_str(&text[..text.floor_char_boundary(left)]);
        if text.len() > left { Err(fmt::Error) } else { Ok(()) }
    }
}
