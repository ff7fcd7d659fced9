//! A conversation as text, for the request for a summary.
//!
//! As text, no provider mistakes it for the conversation of the request itself.

use loopwright_core::Message;
use loopwright_core::message::{Content, ContentPart, MessageKind, ResultStatus, StopReason};

/// Appends one message, without its thinking and without the bytes of images.
pub(super) fn write(text: &mut String, message: &Message) {
    match &message.body {
        MessageKind::User(user) => element(text, "user", "", |text| content(text, &user.content)),
        MessageKind::Assistant(reply) => {
            let attributes = match reply.stop {
                StopReason::Interrupted | StopReason::Aborted => " interrupted=\"true\"",
                _ => "",
            };
            element(text, "assistant", attributes, |text| {
                for part in &reply.parts {
                    match part {
                        ContentPart::Text { text: body, .. } => line(text, body),
                        ContentPart::ToolCall(call) => line(
                            text,
                            &format!("<call tool=\"{}\">{}</call>", call.name, call.arguments),
                        ),
                        _ => {}
                    }
                }
            });
        }
        MessageKind::ToolResult(result) => {
            let status = if result.status == ResultStatus::Ok { "" } else { " failed=\"true\"" };
            let attributes = format!(" tool=\"{}\"{status}", result.name);
            element(text, "result", &attributes, |text| content(text, &result.content));
        }
        _ => {}
    }
}

fn element(text: &mut String, name: &str, attributes: &str, inner: impl FnOnce(&mut String)) {
    text.push_str(&format!("<{name}{attributes}>\n"));
    inner(text);
    text.push_str(&format!("</{name}>\n"));
}

fn content(text: &mut String, parts: &[Content]) {
    for part in parts {
        match part {
            Content::Text { text: body } => line(text, body),
            Content::Image { media_type, .. } => line(text, &format!("({media_type}, not shown)")),
            _ => line(text, "(content that is not text)"),
        }
    }
}

fn line(text: &mut String, body: &str) {
    text.push_str(body);
    if !body.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{AssistantMessage, MessageId};

    use super::*;

    #[test]
    fn a_reply_that_was_cut_off_is_marked() {
        for (stop, expected) in [
            (StopReason::Stop, "<assistant>\nhalf\n</assistant>\n"),
            (StopReason::Aborted, "<assistant interrupted=\"true\">\nhalf\n</assistant>\n"),
        ] {
            let part = ContentPart::Text { text: "half".into(), signature: None };
            let mut text = String::new();
            let reply = AssistantMessage::new(vec![part]).stop(stop);
            write(&mut text, &Message::new(MessageId(1), reply));
            assert_eq!(text, expected);
        }
    }
}
