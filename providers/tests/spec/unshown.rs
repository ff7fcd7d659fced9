//! Output that a reply cannot hold. It is reported as text.

use loopwright_core::message::StopReason;
use serde_json::json;

use crate::quirks::kit::*;

fn note(names: &str) -> String {
    format!("[The reply has content that cannot be shown: {names}.]")
}

/// Checks that a reply is complete and has this text.
fn says(reply: &Decoded, text: &str) {
    assert_eq!((reply.text.as_str(), reply.stop), (text, Some(StopReason::Stop)), "{reply:?}");
}

#[test]
fn an_image_of_gemini_is_reported_and_its_tokens_are_counted() {
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let reply = |parts: Value| {
        let chunk = json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 1290}});
        events::<GenerateContent>(&[&chunk.to_string()])
    };
    let alone = reply(json!([image]));
    says(&alone, &note("image/png"));
    assert_eq!((alone.usage.input, alone.usage.output), (5, 1290));
    let file = json!({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}});
    let beside = reply(json!([{"text": "Here."}, image, image, file]));
    says(&beside, &format!("Here.\n\n{}", note("image/png, video/mp4")));
}

#[test]
fn items_of_responses_that_are_not_part_of_the_reply_are_reported_if_nothing_else_is_there() {
    let reply = |items: Value| {
        let response = json!({"object": "response", "status": "completed", "output": items});
        events::<Responses>(&[&response.to_string()])
    };
    let image = json!({"type": "image_generation_call", "id": "a", "result": "AAAA"});
    let search = json!({"type": "web_search_call", "id": "b"});
    let shell = json!({"type": "local_shell_call", "id": "c"});
    let text = json!({"type": "message", "id": "d",
        "content": [{"type": "output_text", "text": "Here."}]});
    says(&reply(json!([image])), &note("image_generation_call"));
    says(&reply(json!([shell])), &note("local_shell_call"));
    says(&reply(json!([image, text])), &format!("Here.\n\n{}", note("image_generation_call")));
    says(&reply(json!([search, text])), "Here.");
    for waits in ["mcp_approval_request", "local_shell_call", "shell_call", "computer_call"] {
        let item = json!({"type": waits, "id": "e"});
        says(&reply(json!([text, item])), &format!("Here.\n\n{}", note(waits)));
    }
}

#[test]
fn images_and_sound_in_chat_completions_are_reported() {
    let reply = |delta: Value| {
        let body = chat(&delta.to_string(), "stop");
        decode::<ChatCompletions>(&[body.as_bytes()])
    };
    let image = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]);
    says(&reply(json!({"content": "", "images": image})), &note("image"));
    let audio = json!({"id": "a", "data": "AAAA", "transcript": "hi"});
    says(
        &reply(json!({"content": "Here.", "audio": audio})),
        &format!("Here.\n\n{}", note("audio")),
    );
    says(&reply(json!({"content": image})), &note("image_url"));
    says(&reply(json!({"content": "a", "images": [], "audio": null})), "a");
    let cited = json!([{"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}]);
    says(&reply(json!({"content": cited})), "a");
}

#[test]
fn a_withdrawn_attempt_leaves_no_report() {
    let image = json!({"type": "response.output_item.done", "output_index": 0,
        "item": {"type": "image_generation_call", "id": "a"}})
    .to_string();
    let created = r#"{"type":"response.created"}"#;
    let text = r#"{"type":"response.output_text.delta","delta":"a"}"#;
    let end = r#"{"type":"response.completed","response":{"status":"completed"}}"#;
    says(&events::<Responses>(&[created, &image, created, text, end]), "a");
}

#[test]
fn a_server_cannot_fill_the_report() {
    let parts: Vec<Value> = (0..100)
        .map(|n| json!({"inlineData": {"mimeType": format!("{n}{}", "x".repeat(500))}}))
        .collect();
    let chunk =
        json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}).to_string();
    let reply = events::<GenerateContent>(&[&chunk]);
    assert!((100..1000).contains(&reply.text.len()), "{} bytes", reply.text.len());
}
