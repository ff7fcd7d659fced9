//! Rows 11 to 16, and 19 to 21: chunks of any size, keep-alives, and streams that end too early or
//! never.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt;
use loopwright_providers::{Anthropic, Endpoint, Http, Progress, ReplyBody, Timeouts, WireFormat};

use super::kit::*;
use crate::server::Server;

#[test]
fn quirk_11_comments_are_passed_over_and_are_no_progress() {
    let body =
        format!(": OPENROUTER PROCESSING\n\n{}: more\n\n", chat(r#"{"content":"a"}"#, "stop"));
    assert_eq!(decode::<ChatCompletions>(&[body.as_bytes()]).text, "a");
    assert_eq!(progress::<ChatCompletions>(": OPENROUTER PROCESSING\n\n"), None);
}

#[test]
fn quirk_12_keep_alives_that_are_sent_as_data_are_passed_over() {
    let body =
        stream(&[": keepalive", &chunk(r#"{"content":"a"}"#), ": keepalive", &finish("stop")]);
    assert_eq!(decode::<ChatCompletions>(&[body.as_bytes()]).text, "a");
    for skipped in [
        progress::<ChatCompletions>("data: : keepalive\n\n"),
        progress::<Messages>("event: ping\ndata: {\"type\": \"ping\"}\n\n"),
        progress::<Responses>("data: {\"type\":\"keepalive\"}\n\n"),
        progress::<GenerateContent>("data: : keepalive\n\n"),
    ] {
        assert_eq!(skipped, None);
    }
}

/// Returns the progress of a reply after `bytes`.
fn progress<F: WireFormat>(bytes: &str) -> Option<Progress> {
    let endpoint = Arc::new(Endpoint::default());
    ReplyBody::new(F::decoder(endpoint)).push(bytes.as_bytes(), &mut VecDeque::new())
}

#[test]
fn quirk_13_lines_may_end_in_any_way_and_be_cut_in_the_middle_of_it() {
    let body = chat(r#"{"content":"a"}"#, "stop");
    for end in ["\n", "\r\n", "\r"] {
        let body = body.replace('\n', end);
        let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        assert_eq!(decode::<ChatCompletions>(&bytes).text, "a", "{end:?}");
        let body = body.into_bytes();
        for at in 0..body.len() {
            assert_eq!(
                decode::<ChatCompletions>(&[&body[..at], &body[at..]]).text,
                "a",
                "{end:?} at {at}"
            );
        }
    }
}

#[test]
fn quirk_14_a_letter_may_be_cut_by_a_chunk() {
    let body = chat(r#"{"content":"Zürich ☃ 🦅"}"#, "stop").into_bytes();
    for at in 0..body.len() {
        assert_eq!(decode::<ChatCompletions>(&[&body[..at], &body[at..]]).text, "Zürich ☃ 🦅");
    }
}

#[test]
fn quirk_15_a_last_event_without_its_blank_line_counts_and_so_does_a_reason_without_a_done() {
    let body = format!("data: {}\n\ndata: {}", chunk(r#"{"content":"a"}"#), finish("stop"));
    for end in ["", "\n", "\n\n"] {
        let reply = decode::<ChatCompletions>(&[format!("{body}{end}").as_bytes()]);
        assert_eq!((reply.text.as_str(), reply.stop), ("a", Some(StopReason::Stop)), "{end:?}");
    }
}

#[tokio::test]
async fn quirk_16_a_stream_that_just_ends_is_an_error_that_may_pass_and_no_turn() {
    let call = format!("data: {}\n\n", chunk(&call_f("a", "{}")));
    let block = concat!(
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","#,
        r#""id":"a","name":"f"}}"#,
    );
    let item = concat!(
        r#"{"type":"response.output_item.done","output_index":0,"#,
        r#""item":{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}}"#,
    );
    let part =
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}]}"#;
    let cut = [
        decode::<ChatCompletions>(&[call.as_bytes()]),
        events::<Messages>(&[
            block,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        ]),
        events::<Responses>(&[item]),
        events::<GenerateContent>(&[part]),
    ];
    for reply in cut {
        assert!(reply.error_kind().is_some_and(ModelErrorKind::is_retryable), "{reply:?}");
    }
    let run = run::<ChatCompletions>("", "m", &[call]).await;
    assert_eq!((run.outcome.end, run.ran.len()), (RunStatus::Error, 0));
}

#[test]
fn quirk_19_an_error_that_is_no_event_is_an_error() {
    let error = concat!(
        r#"{"error": {"code": 503, "message": "The model is overloaded.","#,
        r#" "status": "UNAVAILABLE"}}"#,
    );
    let half = r#"{"candidates":[{"content":{"parts":[{"text":"half"}]}}]}"#;
    for body in [
        error.to_owned(),
        format!("[{error}]"),
        format!("[{error}\n]\n"),
        format!("data: {half}\n\n{error}"),
    ] {
        let reply = decode::<GenerateContent>(&[body.as_bytes()]);
        assert_eq!(reply.error_kind(), Some(ModelErrorKind::Overloaded), "{body}");
    }
}

#[tokio::test]
async fn quirk_20_pings_show_that_the_server_works_and_a_reply_can_be_given_up_at_any_time() {
    let server = Server::start().await;
    let timeouts = Timeouts { idle: Duration::from_millis(100), ..Timeouts::default() };
    let model = Anthropic::builder("m")
        .base_url(server.url())
        .http(Http::with_timeouts(timeouts))
        .build()
        .unwrap();
    let start = "data: {\"type\":\"message_start\",\"message\":{}}\n\n";
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(start).await;
        let mut every = tokio::time::interval(Duration::from_millis(10));
        for ping in ["event: ping\ndata: {\"type\":\"ping\"}\n\n", ": thinking\n\n"] {
            for _ in 0..20 {
                every.tick().await;
                http.chunk(ping).await;
            }
        }
        let block =
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        http.chunk(&format!("data: {block}\n\n")).await;
        http
    };
    let mut reply = model.stream(request(vec![user("hi")]));
    let (event, http) = tokio::join!(reply.next(), serve);
    assert!(matches!(event, Some(ModelEvent::BlockStart { .. })), "{event:?}");
    let silent = reply.next().await;
    assert!(
        matches!(&silent, Some(ModelEvent::Error(e)) if e.kind == ModelErrorKind::Timeout),
        "{silent:?}"
    );
    drop(http);
    drop(reply);
    let mut given_up = model.stream(request(vec![user("hi")]));
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        let block =
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        http.chunk(&format!("data: {block}\n\n")).await;
        http
    };
    let (event, http) = tokio::join!(given_up.next(), serve);
    assert!(matches!(event, Some(ModelEvent::BlockStart { .. })), "{event:?}");
    drop(given_up);
    http.closed().await;
}
