//! Typical log entries.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::event::{QueueKind, RunCause, RunStatus, Urgency};
use loopwright_core::log::{Estimate, LogEntry};
use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, MessageId, MessageKind, ResultStatus, RunId,
    StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
use serde_json::json;

fn message(id: u64, body: impl Into<MessageKind>) -> Arc<Message> {
    Arc::new(Message::new(MessageId(id), body))
}

fn reply(id: u64, part: ContentPart, stop: StopReason) -> LogEntry {
    let usage = Usage::new(1_000, 100).cache(900, 0);
    let reply = AssistantMessage::new(vec![part]).stop(stop).model("offline/model").usage(usage);
    LogEntry::Replied { message: message(id, reply), cost: Some(0.001) }
}

fn words(n: u64) -> String {
    format!("Answer {n}: {}", "what a model says in a few words, or in more of them. ".repeat(8))
}

/// Returns replies of half a kilobyte each, which need not be durable at once.
pub(crate) fn replies(count: usize) -> Vec<LogEntry> {
    let text = |n| ContentPart::Text { text: words(n), signature: None };
    (0..count as u64).map(|n| reply(n, text(n), StopReason::Stop)).collect()
}

/// Returns `count` entries of runs. Each run has ten entries: a request, a call with its result,
/// and a reply.
pub(crate) fn turns(count: usize) -> Vec<LogEntry> {
    let entries: Vec<LogEntry> = (0..count as u64 / 10).flat_map(turn).collect();
    assert_eq!(entries.len(), count);
    loopwright_core::log::check_log(&entries[..1_000]).unwrap();
    entries
}

fn turn(n: u64) -> [LogEntry; 10] {
    let input: Arc<str> = format!("i{n}").into();
    let run = RunId(n + 1);
    let time = 1_700_000_000_000 + n;
    let id = |k| MessageId(4 * n + k);
    let call: Arc<str> = format!("c{n}").into();
    let arguments = json!({ "path": format!("src/file{n}.rs"), "from": 1, "to": 40 });
    let calls =
        ContentPart::ToolCall(ToolCall::new(call.as_ref(), "read_file", arguments.to_string()));
    let result = ToolResult::new(
        call.as_ref(),
        "read_file",
        ResultStatus::Ok,
        vec![Content::text(words(n))],
    );
    let request = |k| LogEntry::RequestStarted {
        message: id(k),
        model: "offline/model".into(),
        tools: None,
        request_digest: None,
        estimate: Estimate::new(1_000, Some(0.001)),
        wrap_up: None,
    };
    [
        LogEntry::Queued {
            input: input.clone(),
            kind: QueueKind::Request,
            urgency: Urgency::default(),
            message: message(
                4 * n + 1,
                UserMessage::from(format!("Request {n}: look at this file, please.")),
            ),
            output: None,
            principal: None,
        },
        LogEntry::RunStarted {
            run,
            cause: RunCause::UserRequest(input.clone()),
            time,
            trace: None,
        },
        LogEntry::Delivered { input },
        request(2),
        reply(4 * n + 2, calls, StopReason::ToolCalls),
        LogEntry::CallStarted { call: call.as_ref().into(), arguments: Arc::new(arguments) },
        LogEntry::CallFinished { result: message(4 * n + 3, result) },
        request(4),
        reply(4 * n + 4, ContentPart::Text { text: words(n), signature: None }, StopReason::Stop),
        LogEntry::RunEnded {
            run,
            end: RunStatus::Done,
            time,
            error: None,
            model_error: None,
            limit: None,
            value: None,
            handed_back: vec![],
        },
    ]
}
