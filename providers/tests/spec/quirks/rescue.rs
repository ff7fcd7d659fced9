//! Rows 39, 43 and 44: calls that a server could not parse, and calls that it did not detect.

use std::time::Duration;

use loopwright_providers::{Retry, RetryMalformedCalls, parse_text_tool_calls};

use super::kit::*;

const MALFORMED: &str = concat!(
    r#"{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL","#,
    r#""finishMessage":"Malformed function call: f("}]}"#,
);

#[tokio::test]
async fn quirk_39_a_call_that_gemini_could_not_read_is_requested_once_more_and_then_fails_the_turn()
{
    let nothing = r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#;
    let unexpected = MALFORMED.replace("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL");
    let (malformed, empty) = (ModelErrorKind::Malformed, ModelErrorKind::Protocol);
    for (unusable, kind) in [(MALFORMED, malformed), (&unexpected, malformed), (nothing, empty)] {
        assert_eq!(events::<GenerateContent>(&[unusable]).error_kind(), Some(kind), "{unusable}");
    }
    let words = stream(&[
        r#"{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}"#,
    ]);
    let model = |url: &str| {
        Retry::new(RetryMalformedCalls::new(of::<GenerateContent>("", "gemini-2.5-flash", url)))
    };
    let run = run_with(model, |agent| agent, &[stream(&[MALFORMED]), words]).await;
    assert_eq!((run.outcome.end, run.outcome.text.as_str()), (RunStatus::Done, "ok"));
    assert!(
        run.raw[1].contains("Malformed function call: f("),
        "the model receives: {}",
        run.raw[1]
    );
    assert_eq!(run.messages.len(), 2, "and no other message");
    let second =
        run_with(model, |agent| agent, &[stream(&[MALFORMED]), stream(&[MALFORMED])]).await;
    assert_eq!((second.outcome.end, second.requests.len()), (RunStatus::Error, 2), "not for ever");
}

#[tokio::test]
async fn a_reply_that_the_model_did_not_write_is_retried_without_a_message_to_it() {
    let garbage = "HTTP/1.1 200 OK\ndata: Welcome\n\n";
    let model = |url: &str| {
        let model = of::<ChatCompletions>("", "m", url);
        Retry::new(RetryMalformedCalls::new(model)).attempts(3).base_delay(Duration::ZERO)
    };
    let run = run_with(model, |agent| agent, &[garbage; 3].map(str::to_owned)).await;
    assert_eq!(
        (run.outcome.end, run.requests.len()),
        (RunStatus::Error, 3),
        "the attempts do not multiply"
    );
    assert!(run.requests.iter().all(|request| request == &run.requests[0]), "{:?}", run.requests);
}

#[tokio::test]
async fn quirk_43_a_call_that_was_written_as_text_is_run_where_that_was_asked_for() {
    let fragments = [
        "I look.\n<tool",
        "_call>\n{\"name\": \"f\", \"argum",
        "ents\": {\"x\": 1}}\n</tool_call>",
    ];
    let fragments = fragments.map(|fragment| chunk(&json!({"content": fragment}).to_string()));
    let written = stream(&[&fragments[0], &fragments[1], &fragments[2], &finish("stop"), "[DONE]"]);
    let replies = [written, chat(r#"{"content":"ok"}"#, "stop")];
    let salvages = |agent: AgentBuilder| agent.on_text_part(parse_text_tool_calls(["f"]));
    let model = |url: &str| of::<ChatCompletions>("", "m", url);
    let asked = run_with(model, salvages, &replies).await;
    assert_eq!((asked.ran, asked.requests.len()), (vec![json!({"x": 1})], 2));
    assert_eq!(asked.messages[1].text(), "I look.");
    assert_eq!(asked.requests[1]["messages"][1]["tool_calls"][0]["function"]["name"], "f");
    let not_asked = run_with(model, |agent| agent, &replies[..1]).await;
    assert!(not_asked.ran.is_empty(), "it is text");
    assert!(not_asked.outcome.text.contains("<tool_call>"));
    let other =
        chat(&json!({"content": "{\"name\": \"Ada\", \"arguments\": []}"}).to_string(), "stop");
    let json_answer = run_with(model, salvages, &[other]).await;
    assert_eq!(
        json_answer.outcome.text, "{\"name\": \"Ada\", \"arguments\": []}",
        "nothing is guessed"
    );
}

#[tokio::test]
async fn quirk_44_what_groq_could_not_read_goes_back_to_the_model() {
    let failed = json!({"error": {
        "message": "Failed to call a \
                    function.", "type": "invalid_request_error", "code": "tool_use_failed",
        "failed_generation": "<function=f{x: 1}>",
    }})
    .to_string();
    let in_stream = stream(&[&chunk(r#"{"content":"half"}"#), &failed]);
    let at_once = format!("HTTP/1.1 400 Bad Request\n{failed}");
    for refused in [in_stream, at_once] {
        let model =
            |url: &str| RetryMalformedCalls::new(of::<ChatCompletions>("api.groq.com", "m", url));
        let replies =
            [refused, chat(&call_f("a", "{}"), "tool_calls"), chat(r#"{"content":"ok"}"#, "stop")];
        let run = run_with(model, |agent| agent, &replies).await;
        assert_eq!((run.outcome.end, run.ran.len()), (RunStatus::Done, 1));
        let correction = run.requests[1]["messages"][1]["content"].as_str().unwrap();
        assert!(correction.contains("<function=f{x: 1}>"), "{correction}");
        assert!(!run.raw[2].contains("<function="), "it is in no conversation");
    }
}
