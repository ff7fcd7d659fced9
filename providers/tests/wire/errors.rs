//! All recorded error bodies, and all messages for a request that is too large.

use std::time::{Duration, SystemTime};

use loopwright_core::model::{ModelError, ModelErrorKind, ModelEvent};
use loopwright_providers::openai_chat::Decoder;
use loopwright_providers::{Decode, Endpoint};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::recordings::{Recording, read, recordings, verdict};

/// Returns our kind of error for a recording's kind.
fn kind(expected: &Value) -> ModelErrorKind {
    use ModelErrorKind::*;
    match (expected["kind"].as_str().unwrap(), expected["retryable"] == true) {
        ("auth", _) => Auth,
        ("context_overflow", _) => ContextOverflow,
        ("invalid_request" | "not_found", _) => InvalidRequest,
        // A single request exceeds the limit per minute. Waiting does not help, so the request is
        // invalid. Other limits that waiting does not lift are quotas.
        ("rate_limit", false)
            if expected["message"].as_str().is_some_and(|m| m.starts_with("Request too large")) =>
        {
            InvalidRequest
        }
        ("rate_limit", false) => QuotaExhausted,
        ("rate_limit", true) => RateLimited,
        ("overloaded" | "server_error", _) => Overloaded,
        (other, _) => panic!("`{other}` is new to this test"),
    }
}

fn endpoint() -> Endpoint {
    Endpoint { provider: "test".into(), host: "here".into(), key_var: None }
}

fn headers(of: &Value) -> HeaderMap {
    let headers = of.as_object().into_iter().flatten().filter_map(|(name, value)| {
        Some((
            HeaderName::from_bytes(name.as_bytes()).ok()?,
            HeaderValue::from_str(value.as_str()?).ok()?,
        ))
    });
    headers.collect()
}

fn differs(recording: &Recording) -> Option<String> {
    let (about, expected) = (&recording.about, &recording.about["expected"]);
    let status = u16::try_from(about["status"].as_u64().unwrap()).unwrap();
    let error = endpoint().refused(
        status,
        &headers(&about["headers"]),
        &recording.bytes,
        SystemTime::UNIX_EPOCH,
    );
    let wait = expected["retry_after_ms"].as_f64().map(|ms| Duration::from_millis(ms as u64));
    let excerpt: String = expected["message"].as_str().unwrap_or("").chars().take(500).collect();
    let retryable = expected["retryable"].as_bool().unwrap();
    let right = error.kind == kind(expected)
        && error.kind.is_retryable() == retryable
        && (error.status, error.retry_after) == (Some(status), wait)
        && error.message.contains(excerpt.trim());
    (!right).then(|| format!("{}: {error:?}\n  expected {expected}", recording.name))
}

#[test]
fn every_error_body_is_classified_as_expected() {
    let recordings = recordings("wire/errors", "body");
    let wrong: Vec<String> = recordings.iter().filter_map(differs).collect();
    verdict("error bodies", recordings.len(), &wrong);
}

/// Returns the error for a provider's message, in the form that the provider sends.
fn as_it_comes(example: &Value) -> ModelError {
    let (message, status) =
        (example["message"].as_str().unwrap(), example["status"].as_u64().unwrap());
    if status == 200 {
        // The finish reason of a stream, not the message of an error.
        let chunk = json!({"choices": [{"delta": {}, "finish_reason": message}]}).to_string();
        let (mut decoder, mut out) = (Decoder::new(endpoint()), Default::default());
        decoder.decode(&chunk, &mut out);
        decoder.finish(&mut out);
        let Some(ModelEvent::Error(error)) = out.pop_back() else {
            panic!("{message} is no error")
        };
        return error;
    }
    let body = match message {
        _ if message.ends_with("(no body)") => String::new(),
        _ if message.starts_with('{') => message.to_owned(),
        _ => {
            json!({"error": {"message": message, "type": example["type"], "code": example["code"]}})
                .to_string()
        }
    };
    endpoint().refused(status as u16, &HeaderMap::new(), body.as_bytes(), SystemTime::UNIX_EPOCH)
}

#[test]
fn an_overflow_is_recognised_and_nothing_else_is_taken_for_one() {
    let vectors: Value = serde_json::from_str(&read("vectors/overflow.json")).unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for (list, overflow) in [("examples", true), ("not_overflow", false)] {
        for example in vectors[list].as_array().unwrap() {
            checked += 1;
            let error = as_it_comes(example);
            if (error.kind == ModelErrorKind::ContextOverflow) != overflow {
                wrong.push(format!("{list}: {example}\n  {error:?}"));
            }
        }
    }
    verdict("overflow messages", checked, &wrong);
}
