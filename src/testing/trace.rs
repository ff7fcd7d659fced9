//! Events and messages as text, for assertions and snapshots.

use std::fmt::Write;
use std::sync::Arc;

use crate::event::{AgentEvent, Envelope};
use crate::message::{ContentPart, Message, MessageKind};
use crate::model::Update;

/// Formats events as text, one line per event. The deltas of a block are joined into one line.
pub fn trace(events: &[Arc<Envelope>]) -> String {
    let mut out = String::new();
    let mut streaming = None;
    for event in events {
        if let AgentEvent::MessageUpdate { message_id, update } = &event.event
            && let Update::Text { block, delta }
            | Update::Thinking { block, delta }
            | Update::ToolCall { block, delta } = update
        {
            if streaming != Some((*message_id, *block)) {
                let _ = write!(
                    out,
                    "{}  {message_id}/{block}: ",
                    if streaming.is_some() { "\n" } else { "" }
                );
            }
            streaming = Some((*message_id, *block));
            out.push_str(delta);
            continue;
        }
        if streaming.take().is_some() {
            out.push('\n');
        }
        let _ = writeln!(out, "{}", describe(&event.event));
    }
    out
}

/// Formats an event as one line.
pub(super) fn describe(event: &AgentEvent) -> String {
    match event {
        AgentEvent::AgentStart { cause, .. } => format!("agent_start {cause:?}"),
        AgentEvent::TurnStart { turn } => format!("turn_start {turn}"),
        AgentEvent::MessageStart { message_id, role } => {
            format!("message_start {message_id} {role:?}")
        }
        AgentEvent::DetachedUpdate { message_id, speaker, update } => {
            format!("detached_update {message_id} {speaker} {update:?}")
        }
        AgentEvent::MessageUpdate { message_id, update } => {
            format!("message_update {message_id} {update:?}")
        }
        AgentEvent::Held(held) => format!("held {} {}", held.owners, held.unread),
        AgentEvent::MessageEnd { message } => {
            format!("message_end {} {}", message.id, line(message))
        }
        AgentEvent::Retry(notice) => {
            format!("retry {}/{} {:?}", notice.attempt, notice.max_attempts, notice.kind)
        }
        AgentEvent::ToolExecutionStart { call, name, arguments } => {
            format!("tool_execution_start {call} {name} {arguments}")
        }
        AgentEvent::ToolExecutionUpdate { call, update } => {
            format!("tool_execution_update {call} {update:?}")
        }
        AgentEvent::ToolExecutionEnd { call, status, .. } => {
            format!("tool_execution_end {call} {status:?}")
        }
        AgentEvent::ExternalAction(action) => {
            format!("external_action {} {} {}", action.call, action.name, action.arguments)
        }
        AgentEvent::ExternalActionApproval { call, approval } => {
            let by = approval.by.as_deref().unwrap_or_default();
            format!("external_action_approval {call} {by}")
        }
        AgentEvent::ExternalActionEnd { call, decision, .. } => {
            format!("external_action_end {call} {}", decision.name())
        }
        AgentEvent::QueueUpdate { added, removed } => {
            let added = added.as_ref().map(|a| format!(" +{} {:?} {:?}", a.input, a.queue, a.text));
            let removed = removed.iter().map(|input| format!(" -{input}"));
            format!("queue_update{}", added.into_iter().chain(removed).collect::<String>())
        }
        AgentEvent::Compaction(done) => {
            let how = if done.summarised { "summarised" } else { "left out" };
            format!("compaction {}..{} {how} {}", done.first, done.last, done.message.id)
        }
        AgentEvent::Custom { kind, data } => format!("custom {kind} {data}"),
        AgentEvent::TurnEnd { turn, tool_results, .. } => {
            format!("turn_end {turn} {}", tool_results.len())
        }
        AgentEvent::Reset => "reset".into(),
        AgentEvent::AgentEnd(outcome) => format!(
            "agent_end {:?}{}",
            outcome.end,
            outcome.error.as_ref().map(|e| format!(" {e}")).unwrap_or_default()
        ),
    }
}

/// Formats a message as one line, in words.
pub(super) fn message_text(body: &MessageKind) -> String {
    match body {
        MessageKind::User(m) => format!("user: {}", m.text()),
        MessageKind::Custom(m) => format!("{}: {}", m.kind, m.data),
        MessageKind::Detached(m) => format!("{}: {}", m.speaker, m.reply.text()),
        MessageKind::ToolResult(m) => {
            format!("result of {} ({:?}): {}", m.call, m.status, m.text())
        }
        MessageKind::Assistant(m) => {
            let mut out = String::from("assistant: ");
            for part in &m.parts {
                match part {
                    ContentPart::Text { text, .. } => out.push_str(text),
                    ContentPart::Thinking { text, .. } => drop(write!(out, "<{text}>")),
                    ContentPart::ToolCall(call) => {
                        let _ = write!(out, "[{} {}({})]", call.id, call.name, call.arguments);
                    }
                }
            }
            out
        }
    }
}

/// Formats a message as one line: `U:text`, `A:text[calls]/Stop`, `R:call/Status` `C:kind`
/// or `D:speaker: text`.
pub(super) fn line(message: &Message) -> String {
    match &message.body {
        MessageKind::User(m) => format!("U:{}", m.text()),
        MessageKind::Assistant(m) => {
            let mut out = String::from("A:");
            for part in &m.parts {
                match part {
                    ContentPart::Text { text, .. } => out.push_str(text),
                    ContentPart::Thinking { text, .. } => drop(write!(out, "<{text}>")),
                    ContentPart::ToolCall(call) => drop(write!(out, "[{}]", call.id)),
                }
            }
            format!("{out}/{:?}", m.stop)
        }
        MessageKind::ToolResult(m) => format!("R:{}/{:?}", m.call, m.status),
        MessageKind::Custom(m) => format!("C:{}", m.kind),
        MessageKind::Detached(m) => format!("D:{}: {}", m.speaker, m.reply.text()),
    }
}
