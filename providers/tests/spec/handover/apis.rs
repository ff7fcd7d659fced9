//! The APIs as a table: a model, its rules, and the replies of its server.

use loopwright_core::ChatModel;
use loopwright_providers::{Anthropic, Gemini, OpenAiChat, OpenAiResponses, openai_chat};
use serde_json::{Value, json};

use crate::rules;
use crate::rules::openai_chat::Server;

/// One API. Its replies and signatures differ per visit, like a real provider's.
pub(super) struct Api {
    pub(super) name: &'static str,
    pub(super) model: fn(&str) -> Box<dyn ChatModel>,
    pub(super) check: fn(&[u8]) -> Result<(), String>,
    /// The reply with a thinking block, a text and two calls, by visit.
    pub(super) calls: fn(usize) -> String,
    /// The final reply with only text, by visit.
    pub(super) words: fn(usize) -> String,
    /// The parts of a visit's replies that must be sent back unchanged.
    pub(super) signatures: fn(usize) -> Vec<String>,
}

pub(super) const APIS: &[Api] = &[
    Api {
        name: "anthropic",
        model: |url| boxed(Anthropic::builder("claude-sonnet-4-5").base_url(url).build()),
        check: rules::anthropic::check,
        calls: anthropic_calls,
        words: anthropic_words,
        signatures: anthropic_signatures,
    },
    Api {
        name: "anthropic, another model",
        model: |url| boxed(Anthropic::builder("claude-opus-4-7").base_url(url).build()),
        check: rules::anthropic::check,
        calls: anthropic_calls,
        words: anthropic_words,
        signatures: anthropic_signatures,
    },
    Api {
        name: "gemini",
        model: |url| boxed(Gemini::builder("gemini-3-pro-preview").base_url(url).build()),
        check: |body| rules::gemini::check(body, "gemini-3-pro-preview"),
        calls: gemini_calls,
        words: |visit| gemini(visit, &json!([{"text": words(visit)}])),
        signatures: |visit| vec![json!(gemini_signature(visit)).to_string()],
    },
    Api {
        name: "gemini, another model",
        model: |url| boxed(Gemini::builder("gemini-2.5-flash").base_url(url).build()),
        check: |body| rules::gemini::check(body, "gemini-2.5-flash"),
        calls: gemini_calls,
        words: |visit| gemini(visit, &json!([{"text": words(visit)}])),
        signatures: |visit| vec![json!(gemini_signature(visit)).to_string()],
    },
    Api {
        name: "openai-responses",
        model: |url| boxed(OpenAiResponses::builder("gpt-5.1").base_url(url).build()),
        check: rules::openai_responses::check,
        calls: responses_calls,
        words: responses_words,
        signatures: |visit| vec![sealed(visit)],
    },
    Api {
        name: "openai-responses, another model",
        model: |url| boxed(OpenAiResponses::builder("o3").base_url(url).build()),
        check: rules::openai_responses::check,
        calls: responses_calls,
        words: responses_words,
        signatures: |visit| vec![sealed(visit)],
    },
    Api {
        name: "openrouter",
        model: |url| chat(url, "openrouter.ai", "anthropic/claude-haiku-4.5"),
        check: |body| rules::openai_chat::check(body, Server::OpenRouter),
        calls: |visit| {
            let detail = json!({"type": "reasoning.text", "text": thought(visit),
                "signature": format!("b3I/{visit}"), "index": 0});
            // Some models number the calls of each reply from zero.
            chat_calls(
                visit,
                json!({"reasoning": thought(visit), "reasoning_details": [detail]}),
                "functions.weather:",
            )
        },
        words: chat_words,
        signatures: |visit| vec![format!("\"b3I/{visit}\"")],
    },
    Api {
        name: "deepseek",
        model: |url| chat(url, "api.deepseek.com", "deepseek-chat"),
        check: |body| rules::openai_chat::check(body, Server::DeepSeek),
        calls: |visit| chat_calls(visit, json!({"reasoning_content": thought(visit)}), "call_0_"),
        words: chat_words,
        signatures: |visit| vec![format!("\"reasoning_content\":\"{}\"", thought(visit))],
    },
    Api {
        name: "mistral",
        model: |url| chat(url, "api.mistral.ai", "mistral-small-latest"),
        check: |body| rules::openai_chat::check(body, Server::Mistral),
        calls: |visit| {
            let thinking = json!([{"type": "text", "text": thought(visit)}]);
            let content = json!([{"type": "thinking", "thinking": thinking}]);
            chat_calls(visit, json!({"content": content}), &format!("abcdefg{visit}"))
        },
        words: chat_words,
        signatures: |visit| vec![json!(thought(visit)).to_string()],
    },
    Api {
        name: "vllm",
        model: |url| chat(url, "localhost", "qwen3"),
        check: |body| rules::openai_chat::check(body, Server::Compatible),
        calls: |visit| chat_calls(visit, json!({"reasoning": thought(visit)}), "chatcmpl-tool-"),
        words: chat_words,
        signatures: |visit| vec![format!("\"reasoning\":\"{}\"", thought(visit))],
    },
    Api {
        name: "openai-chat",
        model: |url| chat(url, "api.openai.com", "gpt-4o"),
        check: |body| rules::openai_chat::check(body, Server::OpenAi),
        calls: |visit| chat_calls(visit, json!({}), &format!("call_{visit}")),
        words: chat_words,
        signatures: |_| Vec::new(),
    },
];

fn boxed(
    model: Result<impl ChatModel + 'static, loopwright_core::model::ModelError>,
) -> Box<dyn ChatModel> {
    Box::new(model.unwrap())
}

fn chat(url: &str, host: &str, model: &str) -> Box<dyn ChatModel> {
    let profile = openai_chat::Profile::of(host, model);
    boxed(OpenAiChat::builder(model).provider(host).profile(profile).base_url(url).build())
}

fn thought(visit: usize) -> String {
    format!("I have to look, {visit}.")
}

fn words(visit: usize) -> String {
    format!("It is dry in town {visit}.")
}

fn stream(events: impl IntoIterator<Item = String>) -> String {
    events.into_iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn anthropic_calls(visit: usize) -> String {
    let call = |n: usize, city: String| {
        json!({"type": "tool_use",
        "id": format!("toolu_{visit}{n}"), "name": "weather", "input": {"city": city}})
    };
    anthropic(
        &[
            json!({"type": "thinking", "thinking": thought(visit),
                "signature": format!("c2ln+/{visit}=")}),
            json!({"type": "redacted_thinking", "data": format!("c2VhbA{visit}==")}),
            json!({"type": "text", "text": "I look."}),
            call(1, format!("Lima{visit}")),
            call(2, "Oslo".into()),
        ],
        "tool_use",
    )
}

fn anthropic(blocks: &[Value], stop: &str) -> String {
    let mut events =
        vec![json!({"type": "message_start", "message": {"usage": {"input_tokens": 9}}})];
    for (index, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}}));
    events.push(json!({"type": "message_stop"}));
    stream(events.iter().map(Value::to_string))
}

fn anthropic_words(visit: usize) -> String {
    anthropic(&[json!({"type": "text", "text": words(visit)})], "end_turn")
}

fn anthropic_signatures(visit: usize) -> Vec<String> {
    vec![format!("\"c2ln+/{visit}=\""), format!("\"c2VhbA{visit}==\"")]
}

/// Returns base64 in a form that no other provider would send.
fn gemini_signature(visit: usize) -> String {
    format!("R2VtaW5p{visit}AA+/w==")
}

fn gemini_calls(visit: usize) -> String {
    let call = |city: String| json!({"name": "weather", "args": {"city": city}});
    let signature = gemini_signature(visit);
    gemini(
        visit,
        &json!([
            {"text": thought(visit), "thought": true},
            {"text": "I look."},
            {"functionCall": call(format!("Lima{visit}")), "thoughtSignature": signature},
            {"functionCall": call("Oslo".into())},
        ]),
    )
}

fn gemini(visit: usize, parts: &Value) -> String {
    let candidate =
        json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0});
    stream([json!({"candidates": [candidate], "responseId": format!("r|{visit}")}).to_string()])
}

/// Returns an item with spaces that our encoder would not write.
fn sealed(visit: usize) -> String {
    let summary = format!(r#"[{{"type":"summary_text","text":"{}"}}]"#, thought(visit));
    let content = format!(r#""summary":{summary},"encrypted_content":"Z{visit}""#);
    format!(r#"{{"id": "rs_{visit}",  "type":"reasoning", {content}}}"#)
}

fn responses_calls(visit: usize) -> String {
    let id = |n: usize| format!("call_{visit}{n}{}", "x".repeat(50));
    let call = |n: usize, city: String| {
        let arguments = json!({"city": city}).to_string();
        let id = id(n);
        json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "weather",
            "arguments": arguments})
        .to_string()
    };
    responses(&[sealed(visit), call(1, format!("Lima{visit}")), call(2, "Oslo".into())])
}

fn responses_words(visit: usize) -> String {
    let content = json!([{"type": "output_text", "text": words(visit)}]);
    let id = format!("msg_{visit}");
    responses(&[
        json!({"type": "message", "id": id, "role": "assistant", "content": content}).to_string()
    ])
}

fn responses(items: &[String]) -> String {
    let mut events = vec![json!({"type": "response.created", "response": {}}).to_string()];
    let done = items.iter().enumerate();
    events.extend(done.map(|(at, item)| {
        format!(r#"{{"type":"response.output_item.done","output_index":{at},"item":{item}}}"#)
    }));
    events.push(
        json!({"type": "response.completed", "response": {"status": "completed"}}).to_string(),
    );
    stream(events)
}

fn chat_calls(visit: usize, mut delta: Value, id: &str) -> String {
    let call = |n: usize, city: String| {
        let function = json!({"name": "weather", "arguments": json!({"city": city}).to_string()});
        json!({"index": n, "id": format!("{id}{n}"), "function": function})
    };
    delta["tool_calls"] = json!([call(0, format!("Lima{visit}")), call(1, "Oslo".into())]);
    stream([
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]})
            .to_string(),
        "[DONE]".into(),
    ])
}

fn chat_words(visit: usize) -> String {
    let choice = json!({"index": 0, "delta": {"content": words(visit)}, "finish_reason": "stop"});
    stream([json!({"choices": [choice]}).to_string(), "[DONE]".into()])
}
