//! Keys that expire: a callback returns the key of each request.

use std::fmt::Display;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use loopwright_core::model::{ModelError, ModelErrorKind};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::endpoint::Endpoint;

/// The minimum length of a secret. A shorter key or header value may be a common word.
const MIN_SECRET_BYTES: usize = 8;

/// A callback that returns a key, or an error.
pub(crate) type KeyCallback =
    Arc<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Boxes a callback.
pub(crate) fn key_callback<F, T, E>(callback: F) -> KeyCallback
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Future<Output = Result<String, E>> + Send + 'static,
    E: Display,
{
    Arc::new(move || callback().map(|key| key.map_err(|why| why.to_string())).boxed())
}

/// The source of each request's key, and the header that carries it.
#[derive(Clone)]
pub(crate) struct KeySource {
    pub(crate) callback: KeyCallback,
    pub(crate) header: HeaderName,
    /// The text before the key in the header.
    pub(crate) scheme: &'static str,
}

/// The key of one request, which is removed from error messages.
#[derive(Clone, PartialEq)]
pub(crate) struct Secret(Arc<str>);

impl KeySource {
    /// Obtains a key and adds it to `headers`.
    pub(crate) async fn put(
        &self,
        headers: &mut HeaderMap,
        endpoint: &Endpoint,
    ) -> Result<Secret, ModelError> {
        let missing = |why: &str| {
            let why = format!(
                "There is no key for {endpoint}: {why}. Check the callback that gives the key."
            );
            ModelError::new(ModelErrorKind::Auth, why)
        };
        let key = (self.callback)()
            .await
            .map_err(|why| missing(&format!("its callback failed ({why})")))?;
        let key = key.trim();
        if key.is_empty() {
            return Err(missing("its callback gave an empty one"));
        }
        let value = HeaderValue::from_str(&format!("{}{key}", self.scheme));
        let mut value = value.map_err(|_| {
            missing("what its callback gave has characters that no header can have")
        })?;
        value.set_sensitive(true);
        headers.insert(self.header.clone(), value);
        Ok(Secret(key.into()))
    }
}

impl Secret {
    /// Returns `error` with the key removed.
    pub(crate) fn clean(&self, mut error: ModelError) -> ModelError {
        hide(&mut error.message, &self.0);
        error
    }
}

/// Replaces `secret` by `***`. An excerpt may have cut it, so a part counts too if it has at least
/// [`MIN_SECRET_BYTES`] bytes.
///
/// No letter or digit may follow such a part, because a header's value may start like a common word
/// or address.
pub(crate) fn hide(text: &mut String, secret: &str) {
    if secret.len() < MIN_SECRET_BYTES {
        return;
    }
    let (begins, mut from) = (&secret[..secret.floor_char_boundary(MIN_SECRET_BYTES)], 0);
    while let Some(offset) = text[from..].find(begins) {
        let at = from + offset;
        let same = text[at..].chars().zip(secret.chars()).take_while(|(a, b)| a == b);
        let end = at + same.map(|(char, _)| char.len_utf8()).sum::<usize>();
        let whole = end - at == secret.len();
        if whole || !text[end..].starts_with(char::is_alphanumeric) {
            text.replace_range(at..end, "***");
            from = at + "***".len();
        } else {
            from = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_an_excerpt_has_cut_is_hidden_too() {
        let hidden = |text: &str, secret: &str| {
            let mut text = text.to_owned();
            hide(&mut text, secret);
            text
        };
        let key = "sk-0123456789";
        assert_eq!(hidden("Wrong: sk-0123456789, sk-0123456789x.", key), "Wrong: ***, ***x.");
        assert_eq!(hidden("Wrong: sk-01234567…. Try again.", key), "Wrong: ***…. Try again.");
        assert_eq!(
            hidden("sk-01234 and sk-0123", key),
            "*** and sk-0123",
            "few characters tell nothing"
        );
        assert_eq!(hidden("sk-01234****89", key), "*******89");
        assert_eq!(hidden("see https://other.test", "https://mine.test"), "see https://other.test");
        assert_eq!(hidden("abc", "abc"), "abc", "an everyday word");
        assert_eq!(hidden("pässwörd…", "pässwörd9"), "***…");
    }
}
