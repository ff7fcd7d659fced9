//! The kind of an error, from its status, its codes and its message.

use loopwright_core::model::ModelErrorKind;

use super::Failure;

impl Failure {
    /// Returns the kind of error. Codes and message decide if the status is ambiguous, or missing
    /// because the error came inside a stream.
    pub(crate) fn kind(&self) -> ModelErrorKind {
        use ModelErrorKind::*;
        let message = self.message.to_lowercase();
        let contains = |signs: &[&str]| signs.iter().any(|sign| message.contains(sign));
        let coded = |signs: &[&str]| signs.iter().any(|sign| self.codes.contains(sign));
        let unpaid = coded(UNPAID_CODES) || contains(UNPAID);
        let exhausted = coded(EXHAUSTED_CODES) || contains(DAILY);
        let is_too_large = message.starts_with("request too large");
        let is_server_error = self.status.is_some_and(|status| status >= 499);
        let filtered = coded(FILTER_CODES) || contains(FILTERED) && !is_server_error;
        match self.status {
            Some(402) => PaymentRequired,
            Some(403) if filtered => ContentFiltered,
            Some(401 | 403) if unpaid => PaymentRequired,
            Some(401 | 403) => Auth,
            Some(408 | 504) => Timeout,
            Some(413) => ContextOverflow,
            Some(429) if unpaid => PaymentRequired,
            Some(429) if is_too_large => InvalidRequest,
            Some(429) if exhausted => QuotaExhausted,
            Some(429) => RateLimited,
            Some(400) if message.is_empty() && self.codes.is_empty() => ContextOverflow,
            _ if coded(OVERFLOW_CODES) || contains(OVERFLOW) => ContextOverflow,
            _ if filtered => ContentFiltered,
            _ if unpaid => PaymentRequired,
            _ if coded(AUTH_CODES) || contains(AUTH) => Auth,
            _ if coded(&["insufficient_quota"]) => QuotaExhausted,
            _ if coded(&["tool_use_failed"]) => Malformed,
            // 409: a conflict with another request. 499: the provider cancelled the request, and
            // reports it inside the stream.
            Some(409 | 499..=599) => Overloaded,
            Some(_) => InvalidRequest,
            None if coded(LIMITED_CODES) && is_too_large => InvalidRequest,
            None if coded(LIMITED_CODES) && exhausted => QuotaExhausted,
            None if coded(LIMITED_CODES) => RateLimited,
            None if coded(REFUSED_CODES) => InvalidRequest,
            None if coded(TIMEOUT_CODES) => Timeout,
            None if coded(TRANSIENT_CODES) || contains(TRANSIENT) => Overloaded,
            // A server that fails during generation often reports no code.
            None if self.codes.is_empty() => Overloaded,
            // For an unknown code: the same request costs the same again, and may be held against
            // the account.
            None => InvalidRequest,
        }
    }
}

const OVERFLOW_CODES: &[&str] = &[
    "context_length",
    "context_window_exceeded",
    "exceed_context",
    "request_too_large",
    "too_many_prompt_tokens",
    "too_many_tokens",
];
const OVERFLOW: &[&str] = &[
    "available context size",
    "context window",
    "exceeded model token limit",
    "input is too long",
    "input token count",
    "input tokens exceeded",
    "longer than the model's context",
    "greater than the context length",
    "maximum context length",
    "maximum prompt length",
    "max context length",
    "model_context_window_exceeded",
    "prompt is too long",
    "prompt token count",
    "reduce the length of the messages",
    "request exceeds the maximum size",
    "total length of all messages is too long",
];
const AUTH_CODES: &[&str] = &[
    "authentication_error",
    "forbidden",
    "invalid_api_key",
    "permission",
    "unauthenticated",
    "unauthorized",
];
const AUTH: &[&str] = &["incorrect api key", "api key not valid", "invalid api key"];
const FILTER_CODES: &[&str] = &[
    "content_filter",
    "content_policy",
    "cyber_policy",
    "data_inspection",
    "moderation",
    "policy_violation",
    "safety",
];
const FILTERED: &[&str] = &[
    "content exists risk",
    "content filter",
    "content management policy",
    "content policy",
    "flagged as potentially",
    "flagged by",
    "input was flagged",
    "prompt was flagged",
    "request was flagged",
    "safety system",
    "usage policies",
    "usage policy",
];
const EXHAUSTED_CODES: &[&str] = &["insufficient_quota", "perday"];
/// Words for quotas that a short wait does not renew.
const DAILY: &[&str] = &["per day", "per-day", "daily limit", "daily quota", "daily free"];
const UNPAID_CODES: &[&str] =
    &["billing", "insufficient_balance", "insufficient_credits", "payment"];
const UNPAID: &[&str] =
    &["any credits", "credit balance", "insufficient balance", "insufficient credits"];

// The codes of errors inside a stream, which have no status.

const LIMITED_CODES: &[&str] =
    &["rate_limit", "ratelimit", "resource_exhausted", "throttl", "too_many_requests"];
const REFUSED_CODES: &[&str] =
    &["invalid", "not_found", "too_large", "too_long", "unsupported", "validation"];
const TIMEOUT_CODES: &[&str] = &["deadline_exceeded", "timed_out", "timeout"];
const TRANSIENT_CODES: &[&str] = &[
    "aborted",
    "api_error",
    "apierror",
    "busy",
    "cancelled",
    "capacity",
    "connection",
    "internal",
    "network",
    "overloaded",
    "server_error",
    "servererror",
    "slow_down",
    "stream_error",
    "temporar",
    "unavailable",
    "upstream",
];
const TRANSIENT: &[&str] =
    &["internal error", "internal server error", "overloaded", "temporarily", "try again later"];

#[cfg(test)]
mod tests {
    use ModelErrorKind::*;

    use super::*;

    fn kind(status: impl Into<Option<u16>>, body: &str) -> ModelErrorKind {
        Failure::read(status.into(), body.as_bytes()).kind()
    }

    /// Returns the kind of an error inside a stream, with this code and this message.
    fn in_stream(code: &str, message: &str) -> ModelErrorKind {
        let error = serde_json::json!({"code": code, "message": message});
        let kinds = [
            kind(None, &error.to_string()),
            kind(None, &serde_json::json!({"error": error}).to_string()),
            kind(
                None,
                &serde_json::json!({"type": "error", "error": {"type": code, "message": message}})
                    .to_string(),
            ),
        ];
        assert_eq!(kinds, [kinds[0]; 3], "{code}");
        kinds[0]
    }

    #[test]
    fn of_errors_inside_a_stream_only_those_that_may_pass_are_retried() {
        let flagged = "Invalid prompt: your prompt was flagged as potentially violating our usage \
                       policy. Please try again with a different prompt.";
        for (code, message, expected) in [
            ("server_error", "The server had an error.", Overloaded),
            ("server_is_overloaded", "Later.", Overloaded),
            ("slow_down", "Slow down.", Overloaded),
            ("overloaded_error", "Overloaded", Overloaded),
            ("api_error", "Internal server error", Overloaded),
            ("InternalServerError", "no", Overloaded),
            ("something_new", "The model is overloaded. Please try again later.", Overloaded),
            ("vector_store_timeout", "no", Timeout),
            ("timeout_error", "no", Timeout),
            ("rate_limit_exceeded", "Try again in 2 s.", RateLimited),
            ("too_many_requests", "no", RateLimited),
            ("invalid_prompt", "no", InvalidRequest),
            ("invalid_prompt", flagged, ContentFiltered),
            ("cyber_policy_violation", "no", ContentFiltered),
            ("image_content_policy_violation", "no", ContentFiltered),
            ("invalid_image", "no", InvalidRequest),
            ("image_too_large", "no", InvalidRequest),
            ("image_parse_error", "no", InvalidRequest),
            ("failed_to_download_image", "no", InvalidRequest),
            ("not_found_error", "no", InvalidRequest),
            ("something_new", "no", InvalidRequest),
            ("permission_error", "no", Auth),
            ("insufficient_quota", "no", QuotaExhausted),
            ("billing_error", "no", PaymentRequired),
            ("context_length_exceeded", "no", ContextOverflow),
        ] {
            assert_eq!(in_stream(code, message), expected, "{code}: {message}");
        }
        for body in [r#"{"error":"the model crashed"}"#, r#"{"type":"error","message":"boom"}"#] {
            assert_eq!(kind(None, body), Overloaded, "{body}");
        }
        assert_eq!(kind(None, r#"{"error":{"code":"429","message":"no"}}"#), RateLimited);
    }

    #[test]
    fn a_missing_payment_a_used_up_quota_and_moderation_are_no_problems_of_the_key() {
        let of_code = |code: &str| {
            format!(r#"{{"error":{{"message":"no","type":"{code}","code":"{code}"}}}}"#)
        };
        let says = |message: &str| format!(r#"{{"error":{{"message":"{message}"}}}}"#);
        for (status, body, expected) in [
            (429, of_code("insufficient_quota"), QuotaExhausted),
            (403, of_code("billing_not_active"), PaymentRequired),
            (429, of_code("billing_not_active"), PaymentRequired),
            (400, of_code("billing_hard_limit_reached"), PaymentRequired),
            (402, says("no"), PaymentRequired),
            (400, says("Your credit balance is too low."), PaymentRequired),
            (403, says("Your team does not have any credits."), PaymentRequired),
            (403, says("Your input was flagged by moderation."), ContentFiltered),
            (
                403,
                r#"{"error":{"code":403,"message":"no","metadata":{"reasons":["x"]}}}"#.into(),
                ContentFiltered,
            ),
            (400, says("Content Exists Risk"), ContentFiltered),
            (400, of_code("content_policy_violation"), ContentFiltered),
            (403, says("no"), Auth),
            (401, says("no"), Auth),
            (400, of_code("permission_error"), Auth),
            (503, says("blocked by the usage policy"), Overloaded),
        ] {
            assert_eq!(kind(status, &body), expected, "{status} {body}");
        }
        let kinds = [PaymentRequired, QuotaExhausted, ContentFiltered];
        assert!(!kinds.into_iter().any(ModelErrorKind::is_retryable));
    }
}
