//! [`Offline`]: a rule-based model for users who have no key yet.

mod answer;
mod rules;
mod words;

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use loopwright_core::message::{MessageKind, StopReason, Usage};
use loopwright_core::model::{BlockKind, ChatRequest, ModelEvent, ModelInfo, Prices, ToolChoice};
use loopwright_core::{ChatModel, Message};

use self::answer::Outcome;
use self::words::{Call, Words};

/// A [`ChatModel`] that follows rules and needs no network. It calls tools that suit the prompt and
/// quotes their results. Its replies are free and deterministic, and state that it is not a
/// language model.
///
/// It reads files (`What is in Cargo.toml?`), lists directories (`List src/`), writes files
/// (`Create a.txt with "hi"`), calculates if there is a tool for it (`2 + 3`), and calls any tool
/// by name (`use weather with city=Rome`).
#[derive(Debug, Clone)]
pub struct Offline {
    info: ModelInfo,
}

impl Offline {
    /// Returns the model `offline/rules`.
    pub fn new() -> Self {
        Offline { info: ModelInfo::new("offline/rules").with_prices(Prices::default()) }
    }
}

impl Default for Offline {
    fn default() -> Self {
        Offline::new()
    }
}

impl ChatModel for Offline {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        stream::iter(reply(&request)).boxed()
    }
}

/// Returns all events of the reply.
fn reply(request: &ChatRequest) -> Vec<ModelEvent> {
    let messages = &request.messages;
    let asked = messages.iter().rposition(|message| matches!(message.body, MessageKind::User(_)));
    let prompt = asked.map(|at| messages[at].text()).unwrap_or_default();
    let outcomes = outcomes(&messages[asked.unwrap_or(0)..]);
    let calls = if outcomes.is_empty() { wanted(request, &prompt) } else { Vec::new() };
    if !calls.is_empty() {
        return call_events(calls);
    }
    text_events(&match &request.output {
        Some(output) => answer::fitting(&output.schema, &prompt, &outcomes).to_string(),
        None if outcomes.is_empty() => answer::introduction(&request.tools),
        None => answer::quoting(&outcomes),
    })
}

fn wanted(request: &ChatRequest, prompt: &str) -> Vec<Call> {
    let (words, tools) = (Words::of(prompt), &request.tools);
    let must = match &request.tool_choice {
        ToolChoice::None => return Vec::new(),
        ToolChoice::Tool(name) => {
            return tools.iter().filter(|t| *t.name == **name).map(|t| words.call(t)).collect();
        }
        choice => *choice == ToolChoice::Required,
    };
    let calls = rules::calls(&words, tools);
    if calls.is_empty() && must {
        tools.first().map(|tool| words.call(tool)).into_iter().collect()
    } else {
        calls
    }
}

/// Returns the tool results since the prompt, each with the arguments of its call.
fn outcomes(messages: &[Arc<Message>]) -> Vec<Outcome<'_>> {
    let calls: Vec<_> =
        messages.iter().filter_map(|m| m.as_assistant()).flat_map(|m| m.calls()).collect();
    let results = messages.iter().filter_map(|message| message.as_tool_result());
    let outcome = |result| {
        Outcome::new(
            result,
            calls.iter().find(|call| call.id == result.call).map(|c| &*c.arguments),
        )
    };
    results.map(outcome).collect()
}

fn call_events(calls: Vec<Call>) -> Vec<ModelEvent> {
    let mut events = Vec::with_capacity(3 * calls.len() + 1);
    for (block, call) in (0..).zip(calls) {
        let kind =
            BlockKind::ToolCall { id: format!("offline_{block}"), name: call.tool.to_string() };
        events.push(ModelEvent::BlockStart { block, kind });
        events.push(ModelEvent::Delta { block, delta: call.arguments.to_string() });
        events.push(ModelEvent::BlockEnd { block, signature: None });
    }
    events.push(ModelEvent::Done { stop: StopReason::ToolCalls, usage: Usage::default() });
    events
}

/// Splits a text into one delta per word, so that front ends show streaming.
fn text_events(text: &str) -> Vec<ModelEvent> {
    let mut events = vec![ModelEvent::BlockStart { block: 0, kind: BlockKind::Text }];
    events.extend(
        text.split_inclusive(' ')
            .map(|word| ModelEvent::Delta { block: 0, delta: word.to_owned() }),
    );
    events.push(ModelEvent::BlockEnd { block: 0, signature: None });
    events.push(ModelEvent::Done { stop: StopReason::Stop, usage: Usage::default() });
    events
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{
        AssistantMessage, Content, ContentPart, MessageId, ResultStatus, ToolCall, ToolResult,
        UserMessage,
    };
    use loopwright_core::model::OutputSchema;
    use loopwright_core::tool::{ToolList, ToolSpec};
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, schema: Value) -> Arc<ToolSpec> {
        Arc::new(ToolSpec::with_schema(name, "A tool.", schema))
    }

    fn ask(prompt: &str) -> ChatRequest {
        let path = json!({"type": "object", "properties": {"path": {"type": "string"}},
            "required": ["path"]});
        let read = tool("read_file", path);
        let mut request = ChatRequest::default();
        request.messages =
            Arc::new(vec![Arc::new(Message::new(MessageId(1), UserMessage::from(prompt)))]);
        request.tools = Arc::new(ToolList::new(vec![read]));
        request
    }

    fn answered(mut request: ChatRequest, status: ResultStatus, text: &str) -> ChatRequest {
        let call = ToolCall::new("c1", "read_file", r#"{"path":"Cargo.toml"}"#);
        let assistant = AssistantMessage::new(vec![ContentPart::ToolCall(call)]);
        let result = ToolResult::new("c1", "read_file", status, vec![Content::text(text)]);
        let messages = Arc::make_mut(&mut request.messages);
        messages.push(Arc::new(Message::new(MessageId(2), assistant)));
        messages.push(Arc::new(Message::new(MessageId(3), result)));
        request
    }

    fn text(request: &ChatRequest) -> String {
        let deltas = reply(request).into_iter().filter_map(|event| match event {
            ModelEvent::Delta { delta, .. } => Some(delta),
            _ => None,
        });
        deltas.collect()
    }

    #[test]
    fn a_named_file_is_read_and_quoted() {
        let request = ask("What is Cargo.toml about?");
        assert_eq!(text(&request), r#"{"path":"Cargo.toml"}"#);
        let file = "[package]\nname = \"loopwright\"\ndescription = \"Write the loop\"\n";
        let answer = text(&answered(request, ResultStatus::Ok, file));
        assert!(answer.starts_with(
            "`Cargo.toml` says: name = \"loopwright\", description = \"Write the loop\""
        ));
        assert!(answer.contains("not a language model"), "{answer}");
    }

    #[test]
    fn errors_and_denials_are_reported() {
        let denied = text(&answered(ask("Read Cargo.toml"), ResultStatus::Denied, "no thanks"));
        assert!(
            denied.starts_with("`read_file` of `Cargo.toml` was denied: no thanks"),
            "{denied}"
        );
        let failed = text(&answered(ask("Read Cargo.toml"), ResultStatus::Error, "no such file"));
        assert!(failed.starts_with("`read_file` of `Cargo.toml` failed: no such file"), "{failed}");
    }

    #[test]
    fn without_tools_it_says_what_it_is() {
        let events = reply(&ask("Hello"));
        assert!(events.len() > 10, "words stream one by one");
        assert!(text(&ask("Hello")).contains("OPENAI_API_KEY"));
    }

    #[test]
    fn a_schema_is_filled() {
        let mut request = ask("Tell me about \"Rome\" in 3 words");
        let schema = json!({"type": "object", "properties": {
            "city": {"type": "string"}, "words": {"type": "integer"}, "ok": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "kind": {"$ref": "#/$defs/Kind"}},
            "$defs": {"Kind": {"enum": ["town", "village"]}}});
        request.output = Some(Arc::new(OutputSchema::new("City", schema)));
        let value: Value = serde_json::from_str(&text(&request)).unwrap();
        assert_eq!(
            value,
            json!({"city": "Rome", "words": 3, "ok": false, "tags": [], "kind": "town"})
        );
    }

    #[test]
    fn a_forced_tool_is_called() {
        let mut request = ask("Hello");
        request.tool_choice = ToolChoice::Required;
        assert!(matches!(
            reply(&request)[0],
            ModelEvent::BlockStart { kind: BlockKind::ToolCall { .. }, .. }
        ));
        request.tool_choice = ToolChoice::None;
        assert!(matches!(reply(&request)[0], ModelEvent::BlockStart { kind: BlockKind::Text, .. }));
    }
}
