//! The endpoint of a model, and the error sentences that name it.

use std::fmt;
use std::time::SystemTime;

use loopwright_core::excerpt;
use loopwright_core::model::{ModelError, ModelErrorKind};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION};

use super::failure::{Failure, text_of};
use super::unexpected_body::{UnexpectedBody, without_blanks};

/// The maximum length of an unreadable payload within an error.
const MAX_EXCERPT_CHARS: usize = 120;

/// The endpoint of a request. Error messages begin with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Endpoint {
    /// Provider's name.
    pub provider: String,
    /// Host and port.
    pub host: String,
    /// Environment variable that usually holds the key, if known.
    pub key_var: Option<String>,
}

impl Endpoint {
    /// Returns the error of a response with an error status, received at `now`.
    ///
    /// The status and the body determine its kind. The wait comes from the headers, or else from
    /// the body.
    pub fn refused(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> ModelError {
        if (300..400).contains(&status) {
            return self.redirected(status, headers.get(LOCATION));
        }
        let start = without_blanks(body);
        let unexpected =
            UnexpectedBody::of_headers(headers).or_else(|| UnexpectedBody::of_start(start));
        let failure = match unexpected {
            Some(UnexpectedBody::Compressed(encoding)) => Failure {
                status: Some(status),
                message: format!("the explanation is compressed with {encoding}"),
                ..Failure::default()
            },
            _ => Failure::read(Some(status), body),
        };
        self.error(failure.with_headers(headers, now))
    }

    /// Returns the error of a redirect. It is not followed, because the key belongs to one address.
    fn redirected(&self, status: u16, location: Option<&HeaderValue>) -> ModelError {
        let location = location.and_then(|to| to.to_str().ok()).and_then(without_secrets);
        let to = location.unwrap_or_else(|| "an address that it does not name".into());
        let why = format!(
            "{self} redirects to {to} (HTTP {status}). Redirects are not followed, because the key \
             would go along. If you trust the new address, make it the base URL."
        );
        let mut error = ModelError::new(ModelErrorKind::InvalidRequest, why);
        (error.status, error.should_retry) = (Some(status), Some(false));
        error
    }

    /// Returns the error of a response whose body is no reply; `body` is its start. Another request
    /// would get the same response.
    pub(crate) fn unexpected(
        &self,
        status: u16,
        unexpected: &UnexpectedBody,
        body: &[u8],
    ) -> ModelError {
        let why = match unexpected {
            UnexpectedBody::Page => {
                let text: String = text_of(body).chars().take(MAX_EXCERPT_CHARS).collect();
                let text = if text.is_empty() { String::new() } else { format!(": {text}") };
                format!(
                    "{self} sent a web page (HTML) instead of a reply{text}. Check the base URL, \
                     and whether a login page or a proxy answers in its place."
                )
            }
            UnexpectedBody::Compressed(encoding) => format!(
                "{self} sent a reply that is compressed with {encoding}, which was not asked for. \
                 Switch off the compression of the server, or of the proxy before it."
            ),
        };
        let mut error = ModelError::new(ModelErrorKind::Protocol, why);
        (error.status, error.should_retry) = (Some(status), Some(false));
        error
    }

    /// Returns the error of a failure: a sentence that names this endpoint and what to do.
    pub(crate) fn error(&self, failure: Failure) -> ModelError {
        let kind = failure.kind();
        let what = match kind {
            ModelErrorKind::Auth => "did not accept the key or does not allow this request",
            ModelErrorKind::RateLimited => "has had too many requests or tokens",
            ModelErrorKind::QuotaExhausted => "says that the quota is used up",
            ModelErrorKind::PaymentRequired => "requires a payment",
            ModelErrorKind::ContextOverflow => {
                "says that the request is larger than the model's context window"
            }
            ModelErrorKind::ContentFiltered => "refused for its content",
            ModelErrorKind::Timeout => "took too long",
            ModelErrorKind::Malformed => "could not use what the model wrote",
            ModelErrorKind::InvalidRequest => "refused the request",
            _ => "failed on its side",
        };
        let status = failure.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        let detail = if failure.message.is_empty() {
            String::new()
        } else {
            format!(": {}", failure.message)
        };
        let end = if detail.ends_with(['.', '!', '?']) { "" } else { "." };
        let advice = match kind {
            ModelErrorKind::Auth => {
                format!("Check the API key and the account{}.", self.key_hint())
            }
            ModelErrorKind::RateLimited => match failure.retry_after {
                Some(wait) => format!("Try again in {} s.", wait.as_secs_f32().ceil()),
                None => "Try again later.".into(),
            },
            ModelErrorKind::QuotaExhausted => {
                "Wait until it is renewed, raise it, or use another model or account.".into()
            }
            ModelErrorKind::PaymentRequired => {
                "Add credit to the account, or use another model or account.".into()
            }
            ModelErrorKind::ContextOverflow => {
                "Shorten the conversation, or use a model with a larger context window.".into()
            }
            ModelErrorKind::ContentFiltered => "Put the request in other words.".into(),
            ModelErrorKind::InvalidRequest if failure.status == Some(404) => {
                "Check the model's name and the base URL.".into()
            }
            ModelErrorKind::InvalidRequest => "Change the request or the model's settings.".into(),
            ModelErrorKind::Malformed => "Try again.".into(),
            _ => "Try again later.".into(),
        };
        let mut error =
            ModelError::new(kind, format!("{self} {what}{status}{detail}{end} {advice}"));
        error.status = failure.status;
        error.retry_after = failure.retry_after;
        error.should_retry = failure.should_retry;
        error
    }

    /// Returns the error of an unreadable payload; `problem` is a phrase like
    /// `no chunk of a reply`.
    pub(crate) fn unreadable(
        &self,
        problem: &str,
        data: &str,
        error: &serde_json::Error,
    ) -> ModelError {
        let excerpt: String = data.chars().take(MAX_EXCERPT_CHARS).collect();
        let why = format!(
            "{self} sent what is {problem} ({error}): {excerpt}. Try again, or check the base URL."
        );
        ModelError::new(ModelErrorKind::Protocol, why)
    }

    /// Returns the error of a stream that ended before the reply was complete.
    pub(crate) fn cut_short(&self) -> ModelError {
        let why = format!("{self} closed the stream before the reply was complete. Try again.");
        ModelError::new(ModelErrorKind::Network, why)
    }

    /// Returns the error of a stream that yields no usable reply.
    pub(crate) fn unusable(&self, problem: &str) -> ModelError {
        ModelError::new(ModelErrorKind::Protocol, format!("{self} {problem}. Try again."))
    }

    fn key_hint(&self) -> String {
        self.key_var.as_ref().map(|var| format!(" ({var})")).unwrap_or_default()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.provider, self.host)
    }
}

/// Returns the address in a `Location` without user, password, query and fragment, which may
/// contain secrets. Returns `None` if it cannot be read.
fn without_secrets(location: &str) -> Option<String> {
    let relative = Url::parse("http://host.invalid").ok()?;
    let mut url = relative.join(location).ok().filter(|url| url.has_host())?;
    url.set_query(None);
    url.set_fragment(None);
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    let is_relative = url.host_str() == relative.host_str();
    let address = if is_relative { url.path() } else { url.as_str() };
    Some(excerpt::chars(address, MAX_EXCERPT_CHARS).into_owned())
}

/// Returns the error of a model whose stream ended without a last event.
pub(crate) fn cut_short(model: &str) -> ModelError {
    let why = format!("The reply of `{model}` ended before it was complete. Try again.");
    ModelError::new(ModelErrorKind::Network, why)
}

#[cfg(test)]
mod tests {
    use ModelErrorKind::{Auth, InvalidRequest};

    use super::*;

    #[test]
    fn a_redirect_is_named_without_secrets() {
        let endpoint = Endpoint { host: "api.test".into(), ..Endpoint::default() };
        let redirected = |location: &str| {
            let headers = HeaderMap::from_iter([(LOCATION, location.parse().unwrap())]);
            let error = endpoint.refused(307, &headers, b"<p>moved</p>", SystemTime::UNIX_EPOCH);
            assert_eq!((error.kind, error.status), (InvalidRequest, Some(307)), "{error}");
            assert_eq!(error.should_retry, Some(false));
            assert!(error.message.contains("base URL") && !error.message.contains("secret"));
            error.message
        };
        for (location, named) in [
            ("https://me:secret@new.test/v1/chat?key=secret#secret", "https://new.test/v1/chat "),
            ("/v2/chat?key=secret", " /v2/chat "),
            ("//secret@new.test:8080/v1", "http://new.test:8080/v1 "),
            ("http://[", "an address that it does not name"),
            ("mailto:a@secret", "an address that it does not name"),
        ] {
            let message = redirected(location);
            assert!(message.contains(named), "{location}: {message}");
        }
    }

    #[test]
    fn the_sentence_says_what_where_and_what_to_do() {
        let endpoint = Endpoint {
            provider: "openai".into(),
            host: "api.test".into(),
            key_var: Some("OPENAI_API_KEY".into()),
        };
        let failure = Failure::read(Some(401), br#"{"error":{"message":"Wrong key"}}"#);
        let error = endpoint.error(failure);
        assert_eq!(
            error.message,
            "openai at api.test did not accept the key or does not allow this request (HTTP 401): \
             Wrong key. Check the API key and the account (OPENAI_API_KEY)."
        );
        assert_eq!((error.kind, error.status), (Auth, Some(401)));
    }
}
