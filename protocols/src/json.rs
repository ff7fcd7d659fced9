//! JSON values with positions, for errors.

use serde_json::Value;

use crate::error::DecodeError;

/// The maximum length of a client's id, in characters.
const MAX_ID_CHARS: usize = 200;

/// Checks a client's id, which is at this path.
pub(crate) fn check_id<T: AsRef<str>>(id: T, path: &str) -> Result<T, DecodeError> {
    let chars = id.as_ref().chars().take(MAX_ID_CHARS + 1).count();
    if (1..=MAX_ID_CHARS).contains(&chars) {
        return Ok(id);
    }
    let why = format!("An id has between 1 and {MAX_ID_CHARS} characters.");
    Err(DecodeError::at(path, why))
}

/// A value in a body, and its position.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    /// Returns the whole body.
    pub(crate) fn root(value: &'a Value) -> Self {
        Node { value, path: String::new() }
    }

    /// Returns a field of an object, or `None` if it is missing or `null`.
    pub(crate) fn get(&self, field: &str) -> Option<Node<'a>> {
        let value = self.value.get(field).filter(|value| !value.is_null())?;
        Some(Node { value, path: format!("{}/{field}", self.path) })
    }

    /// Returns a field of an object, or an error if it is missing.
    pub(crate) fn field(&self, field: &str) -> Result<Node<'a>, DecodeError> {
        self.get(field).ok_or_else(|| {
            DecodeError::at(format!("{}/{field}", self.path), "The field is missing.")
        })
    }

    /// Returns the elements of an array.
    pub(crate) fn elements(&self) -> Result<Vec<Node<'a>>, DecodeError> {
        let values = self.value.as_array().ok_or_else(|| self.error("This must be an array."))?;
        let element = |(at, value)| Node { value, path: format!("{}/{at}", self.path) };
        Ok(values.iter().enumerate().map(element).collect())
    }

    /// Returns the value as a string.
    pub(crate) fn text(&self) -> Result<&'a str, DecodeError> {
        self.value.as_str().ok_or_else(|| self.error("This must be a string."))
    }

    /// Returns the value as a boolean.
    pub(crate) fn bool(&self) -> Result<bool, DecodeError> {
        self.value.as_bool().ok_or_else(|| self.error("This must be `true` or `false`."))
    }

    /// Returns the value as a client's id.
    pub(crate) fn id(&self) -> Result<&'a str, DecodeError> {
        check_id(self.text()?, &self.path)
    }

    /// Returns a field if it is a string.
    pub(crate) fn str(&self, field: &str) -> Option<&'a str> {
        self.value.get(field)?.as_str()
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns an error at this position.
    pub(crate) fn error(&self, message: impl Into<String>) -> DecodeError {
        DecodeError::at(self.path.clone(), message)
    }
}
