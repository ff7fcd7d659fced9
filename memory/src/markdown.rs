//! Export of conversations as Markdown.

use std::fmt::Write;

use loopwright_core::Message;
use loopwright_core::event::IncompleteReply;
use loopwright_core::log::{LogEntry, SessionInfo, SessionLog};
use loopwright_core::message::{
    Content, ContentPart, MessageKind, ResultStatus, StopReason, ToolResult,
};

/// Exports a conversation as Markdown: the messages, the tool calls and their results.
///
/// ```
/// use std::sync::Arc;
///
/// use loopwright_core::Message;
/// use loopwright_core::log::{LogEntry, SessionInfo};
/// use loopwright_core::message::{MessageId, UserMessage};
/// use loopwright_memory::to_markdown;
///
/// let message = Arc::new(Message::new(MessageId(1), UserMessage::from("Hello")));
/// let log = [LogEntry::Remembered { message }];
/// let text = to_markdown(&SessionInfo::of("s", &log), &log);
/// assert!(text.contains("## User (m1)\n\nHello\n"));
/// ```
pub fn to_markdown(info: &SessionInfo, entries: &[LogEntry]) -> String {
    let title = if info.title.is_empty() { "An empty conversation" } else { &info.title };
    let mut text = format!("# {}\n\nSession `{}`.\n", one_line(title), info.id);
    for message in SessionLog::of(entries).messages().iter() {
        write_message(&mut text, message);
    }
    text
}

/// Returns the text without breaks of lines, which would end a heading.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

// Writing into a `String` cannot fail, so the results of `writeln!` are dropped.

fn write_message(text: &mut String, message: &Message) {
    match &message.body {
        MessageKind::User(user) => {
            let _ = writeln!(text, "\n## User ({})\n", message.id);
            write_content(text, &user.content);
        }
        MessageKind::Assistant(reply) => {
            let _ = writeln!(text, "\n## Assistant ({}, {})\n", message.id, reply.model);
            reply.parts.iter().for_each(|part| write_part(text, part));
            let why = match reply.stop {
                StopReason::Aborted | StopReason::Interrupted => Some("interrupted".to_owned()),
                StopReason::Error => Some("the request failed".to_owned()),
                _ => IncompleteReply::of(reply).map(|incomplete| incomplete.to_string()),
            };
            if let Some(why) = why {
                write_paragraph(text, &format!("*({why})*"));
            }
        }
        MessageKind::ToolResult(result) => write_result(text, result),
        MessageKind::Detached(shown) => {
            let _ = writeln!(
                text,
                "\n## {} ({}, {})\n",
                one_line(&shown.speaker),
                message.id,
                shown.reply.model
            );
            shown.reply.parts.iter().for_each(|part| write_part(text, part));
        }
        MessageKind::Custom(custom) => {
            let _ = writeln!(text, "\n### {}\n", custom.kind);
            write_fenced(text, "json", &custom.data.to_string());
        }
        _ => {
            let _ = writeln!(text, "\n### A message of an unknown kind ({})\n", message.id);
        }
    }
}

fn write_part(text: &mut String, part: &ContentPart) {
    match part {
        ContentPart::Text { text: body, .. } => write_paragraph(text, body),
        ContentPart::Thinking { text: thinking, .. } if !thinking.trim().is_empty() => {
            let quoted: Vec<String> =
                thinking.trim().lines().map(|line| format!("> {line}")).collect();
            write_paragraph(text, &quoted.join("\n"));
        }
        ContentPart::ToolCall(call) => {
            let _ = writeln!(text, "Call of `{}`:\n", call.name);
            write_fenced(text, "json", &call.arguments);
        }
        _ => {}
    }
}

fn write_result(text: &mut String, result: &ToolResult) {
    let status = match result.status {
        ResultStatus::Ok => "",
        ResultStatus::Error => ", an error",
        ResultStatus::Denied => ", denied",
        ResultStatus::Skipped => ", skipped",
        ResultStatus::Aborted => ", aborted",
        _ => ", its outcome unknown",
    };
    let _ = writeln!(text, "\n### Result of `{}`{status}\n", result.name);
    write_fenced(text, "text", &result.text());
    let is_text = |content: &&Content| matches!(content, Content::Text { .. });
    let others = result.content.len() - result.content.iter().filter(is_text).count();
    if others > 0 {
        let _ = writeln!(text, "(and {others} part(s) that are not text)\n");
    }
}

fn write_content(text: &mut String, parts: &[Content]) {
    for part in parts {
        match part {
            Content::Text { text: body } => write_paragraph(text, body),
            Content::Image { media_type, .. } => {
                write_paragraph(text, &format!("(an image, {media_type})"));
            }
            _ => write_paragraph(text, "(content that is not text)"),
        }
    }
}

fn write_paragraph(text: &mut String, paragraph: &str) {
    text.push_str(paragraph.trim_end());
    text.push_str("\n\n");
}

/// Writes a code block whose fence is longer than any run of backquotes in it.
fn write_fenced(text: &mut String, language: &str, code: &str) {
    let max_run = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(max_run.max(2) + 1);
    let _ = writeln!(text, "{fence}{language}\n{}\n{fence}\n", code.trim_end());
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{AssistantMessage, DetachedMessage, MessageId};

    use super::*;

    #[test]
    fn a_reply_that_is_not_whole_is_marked() {
        for (stop, mark) in [
            (StopReason::Stop, "half\n\n"),
            (StopReason::Aborted, "half\n\n*(interrupted)*\n\n"),
            (
                StopReason::Length,
                "half\n\n*(the reply is incomplete: it reached the model's limit of output \
                 tokens)*\n\n",
            ),
        ] {
            let part = ContentPart::Text { text: "half".into(), signature: None };
            let reply = AssistantMessage::new(vec![part]).stop(stop);
            let mut text = String::new();
            write_message(&mut text, &Message::new(MessageId(1), reply));
            assert!(text.ends_with(&format!(")\n\n{mark}")), "{text}");
        }
    }

    /// C524: A detached reply that is shown has the name of its speaker.
    #[test]
    fn a_detached_reply_has_its_speaker() {
        let reply = AssistantMessage::from("Too long.").model("a/b");
        let shown = DetachedMessage::new("critic\n# x", reply);
        let mut text = String::new();
        write_message(&mut text, &Message::new(MessageId(2), shown));
        assert_eq!(text, "\n## critic # x (m2, a/b)\n\nToo long.\n\n");
    }

    #[test]
    fn a_fence_is_longer_than_the_backquotes_in_it() {
        let mut text = String::new();
        write_fenced(&mut text, "text", "a ```` b");
        assert_eq!(text, "`````text\na ```` b\n`````\n\n");
    }
}
