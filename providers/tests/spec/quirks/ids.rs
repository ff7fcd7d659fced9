//! Rows 26 to 29: ids that a server refuses, repeated ids, and missing ids.

use super::kit::*;
use crate::rules;
use crate::rules::openai_chat::Server;

/// Returns a call and its result with this id, as a server receives them.
fn pair<F: loopwright_providers::WireFormat>(id: &str, host: &str) -> Vec<u8> {
    let conversation = vec![user("q"), by("other", vec![call(id, "{}")]), result(id, "x")];
    encoded::<F>(&request(conversation), host, "m")
}

#[test]
fn quirk_26_ids_that_are_too_long_or_have_odd_letters_are_mapped_alike_for_calls_and_results() {
    for id in [
        format!("call_abc|fc_{}", "0".repeat(60)),
        "functions.f:0".into(),
        "ä b".into(),
        "x".repeat(41),
    ] {
        rules::openai_chat::check(&pair::<ChatCompletions>(&id, "api.openai.com"), Server::OpenAi)
            .unwrap();
        rules::anthropic::check(&pair::<Messages>(&id, "")).unwrap();
        rules::openai_responses::check(&pair::<Responses>(&id, "")).unwrap();
        rules::gemini::check(&pair::<GenerateContent>(&id, ""), "m").unwrap();
        assert_eq!(pair::<Messages>(&id, ""), pair::<Messages>(&id, ""));
    }
}

#[test]
fn quirk_27_mistral_gets_nine_letters_and_digits() {
    for id in ["call_1", "toolu_01MKSN7NHsBVKr7Jvw5pqCQq", "", "D681PevKs"] {
        rules::openai_chat::check(&pair::<ChatCompletions>(id, "api.mistral.ai"), Server::Mistral)
            .unwrap();
    }
    let own = String::from_utf8(pair::<ChatCompletions>("D681PevKs", "api.mistral.ai")).unwrap();
    assert_eq!(own.matches("D681PevKs").count(), 2, "its own ids stay");
}

#[tokio::test]
async fn quirk_28_repeated_ids_become_unique_and_stay_pairs() {
    let twice = r#"{"tool_calls":[
        {"index":0,"id":"f:0","function":{"name":"f","arguments":"{\"n\":1}"}},
        {"index":1,"id":"f:0","function":{"name":"f","arguments":"{\"n\":2}"}}]}"#
        .replace('\n', "");
    let replies = [
        chat(&twice, "tool_calls"),
        chat(&call_f("f:0", "{\"n\":3}"), "tool_calls"),
        chat(r#"{"content":"ok"}"#, "stop"),
    ];
    let run = run::<ChatCompletions>("", "m", &replies).await;
    assert_eq!((run.outcome.end, run.ran.len()), (RunStatus::Done, 3));
    rules::openai_chat::check(run.raw[2].as_bytes(), Server::Compatible).unwrap();
}

#[tokio::test]
async fn quirk_29_calls_without_ids_get_unique_ones_that_the_server_never_sees() {
    let part = |n: u32| {
        let call = json!({"functionCall": {"name": "f", "args": {"n": n}}});
        json!({"candidates": [{"content": {"parts": [call]},
            "finishReason": if n == 2 { "STOP" } else { "" }}], "responseId": "r"})
        .to_string()
    };
    let calls = stream(&[&part(1), &part(2)]);
    let words = stream(&[
        r#"{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}"#,
    ]);
    let run = run::<GenerateContent>("", "gemini-2.5-flash", &[calls.clone(), calls, words]).await;
    assert_eq!(run.ran.len(), 4);
    let mut ids: Vec<&str> = run.results().iter().map(|result| &*result.call).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{ids:?}");
    assert!(!run.raw[2].contains("\"id\""), "{}", run.raw[2]);
    rules::gemini::check(run.raw[2].as_bytes(), "gemini-2.5-flash").unwrap();
    let given = concat!(
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"x1","name":"f","#,
        r#""args":{}}}]}}]}"#,
    );
    assert_eq!(
        events::<GenerateContent>(&[given]).calls(),
        Vec::<String>::new().into_iter().chain(["x1 f {}".to_owned()]).collect::<Vec<_>>()
    );
}
