//! A conversation as text, for the request for a summary.
//!
//! As text, no provider mistakes it for the conversation of the request itself.

use loopwright_core::Message;
use loopwright_core::message::{Content, ContentPart, MessageKind, ResultStatus};

/// Appends one message, without its thinking and without the bytes of images.
pub(super) fn write(text: &mut String, message: &Message) {
    match &message.body {
        MessageKind::User(user) => element(text, "user", "", |text| content(text, &user.content)),
        MessageKind::Assistant(reply) => element(text, "assistant", "", |text| {
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
        }),
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
