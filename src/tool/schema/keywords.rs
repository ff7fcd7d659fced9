//! [`Keywords`]: the values of a schema's keywords, as what they must be.

use serde_json::{Map, Number, Value};

use super::program::Types;
use super::report::shown;

/// The keywords of a subschema. The errors name the keyword whose value is wrong.
///
/// `null` is no keyword, and an empty list no map: servers in languages with one empty value for
/// several types send them.
#[derive(Clone, Copy)]
pub(super) struct Keywords<'s>(pub(super) &'s Map<String, Value>);

impl<'s> Keywords<'s> {
    /// Returns the value of a keyword, unless it is null.
    pub(super) fn get(self, word: &str) -> Option<&'s Value> {
        self.0.get(word).filter(|value| !value.is_null())
    }

    fn read<T>(
        self,
        word: &str,
        wanted: &str,
        read: impl Fn(&'s Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(word) else { return Ok(None) };
        read(value)
            .map(Some)
            .ok_or_else(|| format!("`{word}` must be {wanted}, and is {}", shown(value)))
    }

    pub(super) fn text(self, word: &str) -> Result<Option<&'s str>, String> {
        self.read(word, "a string", Value::as_str)
    }

    pub(super) fn flag(self, word: &str) -> Result<bool, String> {
        Ok(self.read(word, "a boolean", Value::as_bool)?.unwrap_or_default())
    }

    pub(super) fn number(self, word: &str) -> Result<Option<&'s Number>, String> {
        self.read(word, "a number", Value::as_number)
    }

    /// Reads a number of characters, items or properties, which may be written as `2.0`.
    pub(super) fn count(self, word: &str) -> Result<Option<u64>, String> {
        self.read(word, "a whole number of at least 0", |value| {
            let float = value.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0);
            value.as_u64().or(float.map(|float| float as u64)) // the cast saturates
        })
    }

    pub(super) fn list(self, word: &str) -> Result<Option<&'s [Value]>, String> {
        self.read(word, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    pub(super) fn object(self, word: &str) -> Result<Option<&'s Map<String, Value>>, String> {
        if self.get(word).and_then(Value::as_array).is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        self.read(word, "an object", Value::as_object)
    }

    pub(super) fn names(self, word: &str) -> Result<Option<Vec<String>>, String> {
        self.get(word).map(|value| self.names_in(word, value)).transpose()
    }

    /// Reads the list of names that is a value of a keyword, or in one.
    pub(super) fn names_in(self, word: &str, value: &Value) -> Result<Vec<String>, String> {
        let names = value.as_array().map(|names| names.iter().map(Value::as_str));
        let names = names.and_then(|names| names.map(|name| name.map(String::from)).collect());
        names.ok_or_else(|| format!("`{word}` must be a list of names, and is {}", shown(value)))
    }

    pub(super) fn types(self) -> Result<Option<Types>, String> {
        self.read("type", "the name of a type of JSON, or a list of names", |value| {
            let one = |value: &Value| value.as_str().and_then(Types::named);
            match value {
                Value::Array(names) => {
                    let add = |sum: Types, name| Some(sum.or(one(name)?));
                    names.iter().try_fold(Types::default(), add)
                }
                _ => one(value),
            }
        })
    }
}
