//! `Recorded`: the contents of the file, and the replay.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use loopwright_core::message::{
    AssistantMessage, ContentPart, MessageId, StopReason, Usage, UserMessage,
};
use loopwright_core::model::{
    ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo, Prices,
};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::{ToolList, ToolSpec};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::{Fallback, OpenAiChat, Recorded, Retry};
use serde_json::json;
use tempfile::TempDir;

use crate::kit::{events, request, scripted, transcript};
use crate::server::Server;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/session.jsonl");
    (folder, path)
}

async fn answer(model: &impl ChatModel, request: ChatRequest) -> Vec<ModelEvent> {
    model.stream(request).collect().await
}

fn why(events: &[ModelEvent]) -> &str {
    match events {
        [ModelEvent::Error(error)] => {
            assert!(!error.kind.is_retryable(), "{error:?}");
            &error.message
        }
        other => panic!("not one error: {other:?}"),
    }
}

/// Returns the error for a file that is not a recording.
fn refused(path: &PathBuf) -> String {
    Recorded::replay(path).unwrap_err().message
}

/// Returns two requests of a conversation: `hello`, and the same request followed by a reply and
/// another message.
fn conversation() -> [ChatRequest; 2] {
    let reply =
        AssistantMessage::new(vec![ContentPart::Text { text: "Hi".into(), signature: None }])
            .model("a/1");
    let (first, mut second) = (request("Hello"), request("Hello"));
    let more = UserMessage::from("And now?");
    let messages = [Message::new(MessageId(2), reply), Message::new(MessageId(3), more)];
    second.messages =
        Arc::new(second.messages.iter().cloned().chain(messages.map(Arc::new)).collect());
    [first, second]
}

/// Records the conversation and returns the events.
async fn record(path: &PathBuf, model: ScriptedModel) -> Vec<Vec<ModelEvent>> {
    let model = Recorded::record(model, path).unwrap();
    let mut all = Vec::new();
    for request in conversation() {
        all.push(answer(&model, request).await);
    }
    all
}

fn hi() -> ScriptedModel {
    scripted("a/1", [Script::text("Hi"), Script::text("Well, ünd")])
}

#[tokio::test(start_paused = true)]
async fn a_session_is_played_back_event_by_event() {
    let (_folder, path) = folder();
    let usage = Usage::new(7, 5).cache(3, 2).reasoning(1);
    let mut limited = ModelError::new(ModelErrorKind::RateLimited, "Wait.");
    (limited.status, limited.retry_after) = (Some(429), Some(Duration::from_millis(1500)));
    let rich = Script::new()
        .think("hm", Some("signed"))
        .call("c1", "add", r#"{"a": 1}"#)
        .withdraw()
        .say("Hi");
    let prices = Prices::new(0.1, 0.7);
    let info = ModelInfo::new("a/1").with_prices(prices).with_context_window(9000);
    let second = Script::text("half").event(ModelEvent::Error(limited)).cut();
    let model =
        ScriptedModel::new([rich.usage(usage).stop(StopReason::Length), second]).info(info.clone());
    let transcript = record(&path, model).await;
    let replayed = Recorded::replay(&path).unwrap();
    assert_eq!((replayed.info(), replayed.remaining()), (&info, 2));
    for (request, transcript) in conversation().into_iter().zip(transcript) {
        assert_eq!(answer(&replayed, request).await, transcript);
    }
    assert_eq!(replayed.remaining(), 0);
}

#[tokio::test]
async fn what_a_request_has_in_common_with_the_one_before_it_is_written_once() {
    let (_folder, path) = folder();
    record(&path, hi()).await;
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        (text.lines().count(), text.matches("Hello").count(), text.matches("system").count()),
        (3, 1, 1),
        "{text}"
    );
    assert!(text.starts_with(r#"{"loopwright_recording":1,"#), "{text}");
}

#[tokio::test]
async fn a_request_that_differs_fails_and_says_where_and_how() {
    let (_folder, path) = folder();
    record(&path, hi()).await;
    type Change = fn(&mut ChatRequest);
    let cases: [(Change, &str); 5] = [
        (|r| r.messages = request("Hello there").messages, "its message 1 is `"),
        (|r| r.system = "Be brief.".into(), "its `system` is `Be brief.`, and `` was recorded"),
        (|r| r.max_tokens = Some(9), "its `max_tokens` is `9`, and `null` was recorded"),
        (
            |r| r.messages = conversation()[1].messages.clone(),
            "it has 3 messages, and 1 were recorded",
        ),
        (
            |r| {
                r.tools = Arc::new(ToolList::new(vec![Arc::new(ToolSpec::with_schema(
                    "t",
                    "d",
                    json!({}),
                ))]))
            },
            concat!(
                r#"its `tools` is `[{"description":"d","name":"t","schema":{}}]`,"#,
                r#" and `[]` was recorded"#,
            ),
        ),
    ];
    for (change, expected) in cases {
        let mut request = request("Hello");
        change(&mut request);
        let events = answer(&Recorded::replay(&path).unwrap(), request).await;
        assert!(why(&events).contains(expected), "{expected}\n{events:?}");
        assert!(
            why(&events).contains("session.jsonl: the request differs from exchange 1"),
            "{events:?}"
        );
    }
    let replayed = Recorded::replay(&path).unwrap();
    let [first, mut second] = conversation();
    answer(&replayed, first).await;
    second.messages = Arc::new(
        second
            .messages
            .iter()
            .take(2)
            .cloned()
            .chain(request("And then?").messages.to_vec())
            .collect(),
    );
    let events = answer(&replayed, second).await;
    assert!(why(&events).contains("exchange 2: its message 3"), "{events:?}");
}

#[tokio::test]
async fn fields_that_no_model_receives_may_differ() {
    let (_folder, path) = folder();
    let transcript = record(&path, hi()).await;
    let replayed = Recorded::replay(&path).unwrap();
    let [mut first, mut second] = conversation();
    first.session = "another".into();
    assert_eq!(answer(&replayed, first).await, transcript[0]);
    let mut reply = second.messages[1].as_assistant().unwrap().clone();
    reply.usage.input = 99;
    let reply = Arc::new(Message::new(MessageId(70), reply));
    second.messages = Arc::new(vec![second.messages[0].clone(), reply, second.messages[2].clone()]);
    assert_eq!(answer(&replayed, second).await, transcript[1]);
}

#[tokio::test]
async fn after_the_last_exchange_requests_fail() {
    let (_folder, path) = folder();
    record(&path, hi()).await;
    let replayed = Recorded::replay(&path).unwrap();
    for request in conversation() {
        answer(&replayed, request).await;
    }
    let events = events(&Retry::new(replayed)).await;
    assert!(
        why(&events).contains("Request 3 to the recording")
            && why(&events).contains("it has only 2 exchanges")
    );
}

#[tokio::test]
async fn a_file_that_was_cut_anywhere_is_refused_or_says_less() {
    let (_folder, path) = folder();
    record(&path, hi()).await;
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lines = ends.iter().filter(|end| **end < cut).count();
        if cut <= ends[0] {
            // The first line identifies the file.
            assert!(
                cut == ends[0] || refused(&path).contains("does not begin with the line"),
                "at {cut}"
            );
        } else if ends.iter().any(|end| end + 1 == cut) {
            assert_eq!(Recorded::replay(&path).unwrap().remaining(), lines - 1);
        } else {
            let expected = format!("Line {} of the recording", lines + 1);
            assert!(
                refused(&path).contains(&expected) && refused(&path).contains("is cut off"),
                "at {cut}"
            );
        }
        assert_eq!(fs::read(&path).unwrap(), whole[..cut], "nothing is changed");
    }
}

#[tokio::test]
async fn what_is_no_recording_is_refused() {
    let (_folder, path) = folder();
    assert!(refused(&path).contains("cannot be read"));
    record(&path, hi()).await;
    let text = fs::read_to_string(&path).unwrap();
    let first = text.lines().nth(1).unwrap();
    let cases = [
        (
            text.replace("recording\":1", "recording\":2"),
            "of version 2, and this program reads version 1",
        ),
        (text.replace(first, "{}"), "Line 2 of the recording"),
        (format!("{text}{first}\n"), "Line 4 of the recording"),
        ("# Title\n".to_owned(), "does not begin with the line"),
    ];
    for (text, expected) in cases {
        fs::write(&path, text).unwrap();
        assert!(refused(&path).contains(expected), "{}", refused(&path));
    }
}

#[tokio::test]
async fn a_recording_is_never_overwritten() {
    let (_folder, path) = folder();
    record(&path, hi()).await;
    let before = fs::read(&path).unwrap();
    let error = Recorded::record(hi(), &path).unwrap_err();
    assert!(error.message.contains("already") && fs::read(&path).unwrap() == before, "{error}");
}

#[tokio::test]
async fn the_model_is_built_only_to_record() {
    let (_folder, path) = folder();
    let no_key = || Err::<ScriptedModel, _>(ModelError::new(ModelErrorKind::Auth, "No key."));
    assert_eq!(Recorded::auto(&path, no_key).unwrap_err().message, "No key.");
    let recorded = Recorded::auto(&path, || Ok(hi())).unwrap();
    let first = events(&recorded).await;
    drop(recorded);
    assert_eq!(events(&Recorded::auto(&path, no_key).unwrap()).await, first);
}

#[tokio::test]
async fn requests_that_overlap_keep_their_order() {
    let (_folder, path) = folder();
    let recorded =
        Recorded::record(scripted("a/1", [Script::text("one"), Script::text("two")]), &path)
            .unwrap();
    let (first, second) = (recorded.stream(request("1")), recorded.stream(request("2")));
    let (second, first): (Vec<_>, Vec<_>) = (second.collect().await, first.collect().await);
    let replayed = Recorded::replay(&path).unwrap();
    assert_eq!(answer(&replayed, request("1")).await, first);
    assert_eq!(answer(&replayed, request("2")).await, second);
}

#[tokio::test]
async fn a_reply_that_was_left_ends_where_it_was_left() {
    let (_folder, path) = folder();
    let recorded = Recorded::record(
        scripted("a/1", [Script::text("half").hang(), Script::text("whole")]),
        &path,
    )
    .unwrap();
    let mut left = recorded.stream(request("Hello"));
    while left.next().now_or_never().is_some() {}
    drop(left);
    assert_eq!(transcript(&recorded).await, "+whole.$");
    let replayed = Recorded::replay(&path).unwrap();
    assert_eq!(transcript(&replayed).await, "+half.!");
    assert_eq!(transcript(&replayed).await, "+whole.$");
}

#[tokio::test(start_paused = true)]
async fn it_goes_into_any_other_decorator_and_around_it() {
    let (_folder, path) = folder();
    let broken = Script::text("half").fail(ModelErrorKind::Overloaded, "busy");
    let inner =
        Fallback::new(scripted("a/1", [broken])).or(scripted("b/2", [Script::text("whole")]));
    let first = transcript(&Recorded::record(inner, &path).unwrap()).await;
    assert_eq!(first, "@a/1 +half.<@b/2 +whole.$");
    assert_eq!(transcript(&Retry::new(Recorded::replay(&path).unwrap())).await, first);
}

#[tokio::test]
async fn no_key_is_in_the_file() {
    let (_folder, path) = folder();
    let server = Server::start().await;
    let model = OpenAiChat::builder("m")
        .base_url(server.url())
        .api_key("sk-a-very-secret-key")
        .build()
        .unwrap();
    let model = Recorded::record(model, &path).unwrap();
    let serve = async {
        let mut exchange = server.accept().await;
        assert!(exchange.head.contains("sk-a-very-secret-key"));
        let body = r#"{"error":{"message":"Incorrect API key: sk-a-very-secret-key"}}"#;
        exchange.answer("401 Unauthorized", "", body).await;
    };
    let (events, ()) = tokio::join!(events(&model), serve);
    assert!(why(&events).contains("Incorrect API key: ***"), "{events:?}");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("Incorrect API key") && !text.contains("secret"), "{text}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_cannot_be_created_is_an_error() {
    let error = Recorded::record(hi(), "/proc/nowhere/session.jsonl").unwrap_err();
    assert!(error.message.contains("cannot be written"), "{error}");
}
