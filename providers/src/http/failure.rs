//! Error responses of providers, in all their shapes: the kind of error, and the time to wait.

mod kind;

use std::time::{Duration, SystemTime};

use loopwright_core::excerpt;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::http::retry_after;

/// The maximum length of a provider's message within our error message.
const MAX_EXCERPT_CHARS: usize = 600;

/// The content of an error response.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Failure {
    /// The HTTP status, or the status in the body.
    pub(crate) status: Option<u16>,
    /// The provider's message, or an empty string.
    pub(crate) message: String,
    /// The error's codes and types, in lower case, joined by spaces.
    pub(crate) codes: String,
    /// The wait that the provider asks for.
    pub(crate) retry_after: Option<Duration>,
    /// `true` if the provider says that the same request can succeed later, `false` if not.
    pub(crate) should_retry: Option<bool>,
    /// The headers of an upstream server's response, from the body.
    pub(crate) headers: HeaderMap,
}

impl Failure {
    /// Reads an error body: JSON of any shape in use, an HTML page, plain text, or an empty body.
    pub(crate) fn read(status: Option<u16>, body: &[u8]) -> Failure {
        let mut failure = Failure { status, ..Failure::default() };
        match serde_json::from_slice::<Value>(body) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => failure.read_json(&value),
            _ => failure.message = text_of(body),
        }
        let words = failure.message.to_lowercase();
        failure.retry_after = failure.retry_after.or_else(|| retry_after::in_words(&words));
        failure
    }

    /// Sets the wait and the retry advice from the headers. They take precedence over the body.
    pub(crate) fn with_headers(mut self, headers: &HeaderMap, now: SystemTime) -> Failure {
        let limited = self.status == Some(429);
        let header_wait = [headers, &self.headers]
            .into_iter()
            .find_map(|headers| retry_after::in_headers(headers, now, limited));
        self.retry_after = header_wait.or(self.retry_after);
        let should_retry = headers.get("x-should-retry").map(HeaderValue::as_bytes);
        self.should_retry = match should_retry {
            Some(b"true") => Some(true),
            Some(b"false") => Some(false),
            _ => None,
        };
        self
    }

    fn read_json(&mut self, body: &Value) {
        let body = body.as_array().and_then(|list| list.first()).unwrap_or(body);
        let inner = body.get("error").filter(|e| !e.is_null()).unwrap_or(body);
        let messages = [
            inner.get("message"),
            inner.as_str().map(|_| inner),
            inner.get("detail"),
            body.get("message"),
        ];
        self.message =
            shortened(&messages.into_iter().flatten().find_map(words).unwrap_or_default());
        if self.message.is_empty() && inner.get("message").is_none() {
            self.message = shortened(&inner.to_string());
        }
        if let Some(raw) = inner.pointer("/metadata/raw").and_then(words) {
            self.message = shortened(&format!("{}: {raw}", self.message));
        }
        if let Some(written) = inner.get("failed_generation").and_then(words) {
            self.message = shortened(&format!("{} The model wrote: {written}", self.message));
        }
        for (name, value) in
            inner.pointer("/metadata/headers").and_then(Value::as_object).into_iter().flatten()
        {
            let value = words(value).and_then(|value| HeaderValue::try_from(value).ok());
            if let (Ok(name), Some(value)) = (HeaderName::try_from(name), value) {
                self.headers.insert(name, value);
            }
        }
        for key in ["type", "code", "status"] {
            for value in [inner.get(key), body.get(key)].into_iter().flatten() {
                if let Some(code) = value.as_str() {
                    self.add_code(code);
                }
            }
        }
        if ["reasons", "flagged_input"]
            .iter()
            .any(|key| inner.pointer(&format!("/metadata/{key}")).is_some())
        {
            self.add_code("moderation"); // at OpenRouter
        }
        let numbers = ["code", "status_code", "status"].into_iter().filter_map(|key| {
            let value = inner.get(key)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        });
        let status = numbers.filter_map(|n| u16::try_from(n).ok()).find(|n| (400..600).contains(n));
        self.status = self.status.or(status);
        for detail in inner.get("details").and_then(Value::as_array).into_iter().flatten() {
            let delay =
                detail.get("retryDelay").and_then(Value::as_str).and_then(retry_after::duration);
            self.retry_after = self.retry_after.or(delay);
            let violations =
                detail.get("violations").and_then(Value::as_array).into_iter().flatten();
            let quotas = violations
                .filter_map(|violation| violation.get("quotaId"))
                .chain(detail.pointer("/metadata/quota_limit"));
            quotas.filter_map(Value::as_str).for_each(|quota| self.add_code(quota));
        }
    }

    /// Adds a code, unless it is a number or only says that there is an error.
    fn add_code(&mut self, code: &str) {
        let code = code.to_lowercase();
        let is_number = code.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number && !["error", "fail", "failed", "none"].contains(&code.as_str()) {
            self.codes.push_str(&code);
            self.codes.push(' ');
        }
    }
}

/// Returns an excerpt of a body, as text without HTML tags.
pub(crate) fn text_of(body: &[u8]) -> String {
    shortened(&plain_text(&String::from_utf8_lossy(body)))
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn shortened(text: &str) -> String {
    excerpt::chars(text.trim(), MAX_EXCERPT_CHARS).into_owned()
}

/// Returns the text of a page without tags, scripts and styles. Plain text is not changed.
fn plain_text(page: &str) -> String {
    if !page.trim_start().starts_with('<') {
        return page.trim().to_owned();
    }
    let (mut text, mut rest) = (String::new(), page);
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        text.push(' ');
        rest = &rest[open..];
        let hidden = [("<script", "</script"), ("<style", "</style"), ("<!--", "-->")];
        let skip = hidden
            .iter()
            .find(|(tag, _)| rest.get(..tag.len()).is_some_and(|t| t.eq_ignore_ascii_case(tag)));
        let from = skip.and_then(|(_, end)| rest.find(end)).unwrap_or(0);
        let Some(close) = rest[from..].find('>') else {
            return squeeze(&text);
        };
        rest = &rest[from + close + 1..];
    }
    text.push_str(rest);
    squeeze(&text)
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use loopwright_core::model::ModelErrorKind::{self, *};

    use super::*;

    #[test]
    fn every_shape_of_body_is_read() {
        let cases: [(u16, &str, ModelErrorKind, &str); 10] = [
            (
                401,
                r#"{"error":{"message":"Bad key","type":"invalid_request_error","code":401}}"#,
                Auth,
                "Bad key",
            ),
            (404, r#"{"error":"No such model"}"#, InvalidRequest, "No such model"),
            (401, r#"{"detail":"Unauthorized"}"#, Auth, "Unauthorized"),
            (
                400,
                r#"{"object":"error","message":"No logprobs","code":"3051"}"#,
                InvalidRequest,
                "No logprobs",
            ),
            (
                429,
                r#"[{"error":{"message":"Exhausted","status":"RESOURCE_EXHAUSTED"}}]"#,
                RateLimited,
                "Exhausted",
            ),
            (
                400,
                r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#,
                ContextOverflow,
                "x",
            ),
            (
                429,
                r#"{"error":{"message":"Pay","code":"insufficient_quota"}}"#,
                QuotaExhausted,
                "Pay",
            ),
            (
                502,
                "<html><style>p{}</style><h1>Bad  gateway</h1><p>Ray 7</html>",
                Overloaded,
                "Bad gateway Ray 7",
            ),
            (503, "busy\n", Overloaded, "busy"),
            (400, "", ContextOverflow, ""),
        ];
        for (status, body, kind, message) in cases {
            let failure = Failure::read(Some(status), body.as_bytes());
            assert_eq!((failure.kind(), failure.message.as_str()), (kind, message), "{body}");
        }
    }

    #[test]
    fn a_wait_is_read_from_headers_and_bodies() {
        let wait = |headers: &[(&'static str, &'static str)], body: &str| {
            let headers = headers.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            let failure = Failure::read(Some(429), body.as_bytes());
            failure.with_headers(&headers.collect(), SystemTime::UNIX_EPOCH).retry_after
        };
        let millis = |ms| Some(Duration::from_millis(ms));
        assert_eq!(
            wait(&[("retry-after", "7")], r#"{"error":{"message":"try again in 9s"}}"#),
            millis(7000)
        );
        assert_eq!(
            wait(&[], r#"{"error":{"message":"Please try again in 1m3.5s. Bye"}}"#),
            millis(63_500)
        );
        assert_eq!(wait(&[], r#"{"error":{"details":[{}, {"retryDelay":"20ms"}]}}"#), millis(20));
        let passed_on = concat!(
            r#"{"error":{"metadata":{"headers":{"X-RateLimit-Remaining":"0","#,
            r#""X-RateLimit-Reset":9000}}}}"#,
        );
        assert_eq!(wait(&[], passed_on), millis(9_000_000));
        assert_eq!(wait(&[("retry-after", "soon")], "no"), None);
    }

    #[test]
    fn a_header_says_whether_to_retry() {
        let should_retry = |value: &'static str| {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static("x-should-retry"),
                HeaderValue::from_static(value),
            )]);
            let failure = Failure::read(Some(500), b"{}");
            failure.with_headers(&headers, SystemTime::UNIX_EPOCH).should_retry
        };
        let values = ["true", "false", "perhaps"].map(should_retry);
        assert_eq!(values, [Some(true), Some(false), None]);
    }

    #[test]
    fn quirk_23_a_daily_quota_is_final_whatever_wait_is_given() {
        let gemini = |quota: &str| {
            let violations = format!(r#"[{{"quotaId":"x"}},{{"quotaId":"{quota}"}}]"#);
            format!(
                r#"{{"error":{{"code":429,"message":
                "You exceeded your current quota. Please retry in 45.8s.",
                "status":"RESOURCE_EXHAUSTED","details":[{{"violations":{violations}}},
                {{"retryDelay":"45.8s"}}]}}}}"#
            )
        };
        let (day, minute) = (
            "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
            "GenerateRequestsPerMinutePerProject",
        );
        for status in [Some(429), None] {
            let kind = |body: String| Failure::read(status, body.as_bytes()).kind();
            assert_eq!(
                (kind(gemini(day)), kind(gemini(minute))),
                (QuotaExhausted, RateLimited),
                "{status:?}"
            );
        }
        for message in [
            "Limit reached on requests per day (RPD): Limit 200",
            "Rate limit exceeded: free-models-per-day",
        ] {
            let body = format!(r#"{{"error":{{"message":"{message}","code":429}}}}"#);
            assert_eq!(
                Failure::read(Some(429), body.as_bytes()).kind(),
                QuotaExhausted,
                "{message}"
            );
        }
        assert!(!QuotaExhausted.is_retryable());
    }
}
