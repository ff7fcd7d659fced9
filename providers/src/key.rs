//! Keys that expire: asked for with each request.

use std::fmt::Display;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use loopwright::{ModelError, ModelErrorKind};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::error::Place;

/// A key or header value shorter than this may be an everyday word, and is not taken for a secret.
pub(crate) const SECRET: usize = 8;

/// What gives a key, or says why there is none.
pub(crate) type AskKey = Arc<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Makes any callback one of a single type.
pub(crate) fn ask_key<F, T, E>(ask: F) -> AskKey
where
    F: Fn() -> T + Send + Sync + 'static,
    T: Future<Output = Result<String, E>> + Send + 'static,
    E: Display,
{
    Arc::new(move || ask().map(|key| key.map_err(|why| why.to_string())).boxed())
}

/// Where the key of each request comes from, and the header that it goes into.
#[derive(Clone)]
pub(crate) struct KeySource {
    pub(crate) ask: AskKey,
    pub(crate) header: HeaderName,
    /// What stands before the key.
    pub(crate) scheme: &'static str,
}

/// The key of one request, so that it can be kept out of what is told of its failure.
#[derive(Clone)]
pub(crate) struct Secret(Arc<str>);

impl KeySource {
    /// Asks for a key and puts it into `headers`.
    pub(crate) async fn put(&self, headers: &mut HeaderMap, place: &Place) -> Result<Secret, ModelError> {
        let missing = |why: &str| {
            let why = format!("There is no key for {place}: {why}. Check the callback that gives the key.");
            ModelError::new(ModelErrorKind::Auth, why)
        };
        let key = (self.ask)().await.map_err(|why| missing(&format!("its callback failed ({why})")))?;
        let key = key.trim();
        if key.is_empty() {
            return Err(missing("its callback gave an empty one"));
        }
        let value = HeaderValue::from_str(&format!("{}{key}", self.scheme));
        let mut value = value.map_err(|_| missing("what its callback gave has characters that no header can have"))?;
        value.set_sensitive(true);
        headers.insert(self.header.clone(), value);
        Ok(Secret(key.into()))
    }
}

impl Secret {
    /// `error` without the key.
    pub(crate) fn clean(&self, mut error: ModelError) -> ModelError {
        if self.0.len() >= SECRET {
            error.message = error.message.replace(&*self.0, "***");
        }
        error
    }
}
