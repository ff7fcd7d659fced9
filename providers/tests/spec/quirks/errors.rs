//! Rows 17, 18 and 22 to 25: errors inside a stream, waits in all formats, errors in all shapes.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use loopwright_providers::{Anthropic, Endpoint, OpenAiChat, OpenAiResponses, Retry};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::kit::*;
use crate::server::Server;

fn refused(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ModelError {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    Endpoint::default().refused(status, &headers, body.as_bytes(), SystemTime::UNIX_EPOCH)
}

#[test]
fn quirk_17_an_error_inside_a_stream_fails_the_turn() {
    let half = chunk(r#"{"content":"half"}"#);
    for (error, kind) in [
        (r#"{"error":{"message":"boom","code":502}}"#, ModelErrorKind::Overloaded),
        (r#"{"error":"the model crashed"}"#, ModelErrorKind::Overloaded),
        (
            r#"{"error":{"message":"slow down","code":429},"choices":[]}"#,
            ModelErrorKind::RateLimited,
        ),
        (r#"{"message":"Unauthorized","status":401}"#, ModelErrorKind::Auth),
    ] {
        let reply = events::<ChatCompletions>(&[&half, error, &finish("stop"), "[DONE]"]);
        assert_eq!((reply.error_kind(), reply.stop), (Some(kind), None), "{error}");
    }
}

#[tokio::test]
async fn quirk_18_an_overload_inside_a_stream_is_retried_and_streamed_output_is_withdrawn() {
    let server = Server::start().await;
    let model = Anthropic::builder("m").base_url(server.url()).build().unwrap();
    let model = Retry::new(model).base_delay(Duration::ZERO);
    let text =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}"#;
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let end = [
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let whole = stream(&[text, end[0], end[1]]);
    for (failed, withdrawn) in [(stream(&[error]), 0), (stream(&[text, error]), 1)] {
        let serve = async {
            for body in [&failed, &whole] {
                let mut http = server.accept().await;
                http.answer("200 OK", "connection: close\r\n", body).await;
            }
        };
        let (events, ()) =
            tokio::join!(model.stream(request(vec![user("hi")])).collect::<Vec<_>>(), serve);
        assert_eq!(
            events.iter().filter(|event| **event == ModelEvent::Withdrawn).count(),
            withdrawn
        );
        assert!(matches!(events.last(), Some(ModelEvent::Done { .. })), "{events:?}");
    }
}

/// C66: a refused request is sent only once.
#[tokio::test]
async fn an_error_that_cannot_pass_is_not_retried() {
    let failed = |code: &str| {
        let error = json!({"code": code, "message": "The prompt was flagged."});
        stream(&[&json!({"type": "response.failed",
            "response": {"status": "failed", "error": error}})
        .to_string()])
    };
    let ok = "200 OK";
    for (status, headers, body, kind) in [
        (ok, "", failed("invalid_prompt"), ModelErrorKind::ContentFiltered),
        (ok, "", failed("something_new"), ModelErrorKind::ContentFiltered),
        (
            ok,
            "",
            failed("invalid_image").replace("flagged", "read"),
            ModelErrorKind::InvalidRequest,
        ),
        ("402 No", "", "{}".into(), ModelErrorKind::PaymentRequired),
        ("500 No", "x-should-retry: false\r\n", "{}".into(), ModelErrorKind::Overloaded),
    ] {
        let server = Server::start().await;
        let model = OpenAiResponses::builder("m").base_url(server.url()).build().unwrap();
        let model = Retry::new(model).base_delay(Duration::ZERO);
        let asked = model.stream(request(vec![user("hi")])).collect::<Vec<_>>();
        let serve = async {
            let headers = format!("connection: close\r\n{headers}");
            server.accept().await.answer(status, &headers, &body).await;
            server.accept().await
        };
        let events = tokio::select! {
            events = asked => events,
            _ = serve => panic!("asked again after {kind:?}"),
        };
        assert!(
            matches!(&events[..], [ModelEvent::Error(error)] if error.kind == kind),
            "{events:?} is not {kind:?}"
        );
    }
}

#[tokio::test]
async fn quirk_22_a_wait_of_hours_is_not_waited_for() {
    let server = Server::start().await;
    let model = Retry::new(OpenAiChat::builder("m").base_url(server.url()).build().unwrap());
    let serve = async |headers: &str, body: &str| {
        let mut http = server.accept().await;
        http.answer("429 Too Many", &format!("connection: close\r\n{headers}"), body).await;
    };
    let words = r#"{"error":{"message":"Rate limit reached. Please try again in 2h13m0s."}}"#;
    for (headers, body, hours) in [("retry-after: 7200\r\n", "{}", 2.0), ("", words, 2.216)] {
        let (events, ()) = tokio::join!(
            model.stream(request(vec![user("hi")])).collect::<Vec<_>>(),
            serve(headers, body)
        );
        let [ModelEvent::Error(error)] = &events[..] else { panic!("{events:?}") };
        let waits = error.retry_after.unwrap().as_secs_f64() / 3600.0;
        assert!((waits - hours).abs() < 0.01, "{waits} hours");
    }
}

#[test]
fn quirk_23_a_wait_is_read_in_all_its_forms_and_a_quota_of_the_day_is_final() {
    let quota = |id: &str| {
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded \
            your current quota.", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": id}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.8s"},
        ]}})
        .to_string()
    };
    let minute = refused(429, &[], &quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"));
    assert_eq!(
        (minute.kind, minute.retry_after),
        (ModelErrorKind::RateLimited, Some(Duration::from_millis(45_800)))
    );
    let day = refused(429, &[], &quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"));
    assert!(day.kind == ModelErrorKind::QuotaExhausted && !day.kind.is_retryable(), "{day:?}");
    let wait = |headers: &[(&'static str, &'static str)]| refused(429, headers, "{}").retry_after;
    assert_eq!(
        wait(&[("retry-after-ms", "250"), ("retry-after", "1")]),
        Some(Duration::from_millis(250))
    );
    assert_eq!(
        wait(&[("retry-after", "Thu, 01 Jan 1970 00:00:09 GMT")]),
        Some(Duration::from_secs(9))
    );
}

#[test]
fn quirk_24_a_page_or_json_without_an_error_is_classified_by_its_status_and_excerpted() {
    let page = format!(
        "<html><head><style>p{{}}</style></head><h1>Bad gateway</h1>{}</html>",
        "<p>Ray</p>".repeat(900)
    );
    for status in [502, 520] {
        let error = refused(status, &[], &page);
        assert_eq!((error.kind, error.status), (ModelErrorKind::Overloaded, Some(status)));
        assert!(error.message.contains("Bad gateway") && !error.message.contains('<'), "{error}");
        assert!(error.message.len() < 1000, "{} bytes", error.message.len());
    }
    assert_eq!(
        refused(404, &[], r#"{"timestamp":1,"path":"/v2"}"#).kind,
        ModelErrorKind::InvalidRequest
    );
    assert_eq!(refused(401, &[], r#"["no"]"#).kind, ModelErrorKind::Auth);
}

/// Returns the error of a request whose response has this status, headers and body.
async fn error_of(status: &str, headers: &str, body: &str) -> ModelError {
    let server = Server::start().await;
    let model = Retry::new(OpenAiChat::builder("m").base_url(server.url()).build().unwrap());
    let asked = model.stream(request(vec![user("hi")])).collect::<Vec<_>>();
    let serve = async {
        let headers = format!("connection: close\r\n{headers}");
        server.accept().await.answer(status, &headers, body).await;
        server.accept().await
    };
    let events = tokio::select! {
        events = asked => events,
        _ = serve => panic!("asked again"),
    };
    let [ModelEvent::Error(error)] = &events[..] else { panic!("{events:?}") };
    error.clone()
}

#[tokio::test]
async fn a_web_page_instead_of_a_reply_is_an_error_that_says_so() {
    let page = "\n<!DOCTYPE html><html><head><title>Sign in</title></head><p>to the network</html>";
    let html = "content-type: text/html\r\n";
    for (headers, body) in [(html, page), ("", &page[1..]), (html, "<")] {
        let error = error_of("200 OK", headers, body).await;
        assert_eq!((error.kind, error.status), (ModelErrorKind::Protocol, Some(200)));
        assert!(error.message.contains("a web page (HTML)"), "{error}");
        assert_eq!(error.message.contains("Sign in to the network"), body.len() > 1, "{error}");
    }
    let stream = chat(r#"{"content":"a"}"#, "stop");
    let server = Server::start().await;
    let model = OpenAiChat::builder("m").base_url(server.url()).build().unwrap();
    let (events, ()) =
        tokio::join!(model.stream(request(vec![user("hi")])).collect::<Vec<_>>(), async {
            server.accept().await.answer("200 OK", html, &stream).await
        });
    assert!(matches!(events.last(), Some(ModelEvent::Done { .. })), "{events:?}");
}

#[tokio::test]
async fn a_compressed_body_is_an_error_that_names_the_encoding() {
    for (status, kind) in
        [("200 OK", ModelErrorKind::Protocol), ("400 No", ModelErrorKind::InvalidRequest)]
    {
        let error = error_of(status, "content-encoding: br\r\n", "xyz").await;
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains("compressed with br"), "{error}");
    }
    let error = refused(400, &[], "");
    assert_eq!(error.kind, ModelErrorKind::ContextOverflow, "an empty body is another matter");
    let bytes = [0x1f, 0x8b, 8, 0, 0xff];
    let error = Endpoint::default().refused(503, &HeaderMap::new(), &bytes, SystemTime::UNIX_EPOCH);
    assert!(error.message.contains("compressed with gzip"), "{error}");
    assert!(!error.message.contains('\u{fffd}'), "{error}");
}

#[test]
fn quirk_25_an_error_may_have_any_shape() {
    for (status, body, kind, words) in [
        (
            400,
            r#"{"code":"The client specified an invalid argument","error":"Bad model"}"#,
            ModelErrorKind::InvalidRequest,
            "Bad model",
        ),
        (
            402,
            r#"{"error":{"message":"No credits","code":402}}"#,
            ModelErrorKind::PaymentRequired,
            "No credits",
        ),
        (401, r#"{"detail":"Unauthorized"}"#, ModelErrorKind::Auth, "Unauthorized"),
        (
            422,
            r#"{"detail":[{"loc":["body","n"],"msg":"extra fields"}]}"#,
            ModelErrorKind::InvalidRequest,
            "extra fields",
        ),
    ] {
        let error = refused(status, &[], body);
        assert_eq!(error.kind, kind, "{body}");
        assert!(error.message.contains(words), "{error}");
    }
}
