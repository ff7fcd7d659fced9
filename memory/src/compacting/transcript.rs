//! A conversation as text, for whoever summarises it: so no provider takes it for a conversation of
//! its own.

use loopwright_core::Message;
use loopwright_core::message::{Content, ContentPart, MessageKind, ResultStatus};

/// Adds one message, whole but for thoughts and the bytes of images.
pub(super) fn write(text: &mut String, message: &Message) {
    match &message.body {
        MessageKind::User(said) => element(text, "user", "", |text| content(text, &said.content)),
        MessageKind::Assistant(said) => element(text, "assistant", "", |text| {
            for part in &said.parts {
                match part {
                    ContentPart::Text { text: words, .. } => line(text, words),
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
        MessageKind::Custom(_) => {}
    }
}

fn element(text: &mut String, name: &str, attributes: &str, inner: impl FnOnce(&mut String)) {
    text.push_str(&format!("<{name}{attributes}>\n"));
    inner(text);
    text.push_str(&format!("</{name}>\n"));
}

fn content(text: &mut String, pieces: &[Content]) {
    for piece in pieces {
        match piece {
            Content::Text { text: words } => line(text, words),
            Content::Image { media_type, .. } => line(text, &format!("({media_type}, not shown)")),
            _ => line(text, "(something that is not text)"),
        }
    }
}

fn line(text: &mut String, words: &str) {
    text.push_str(words);
    if !words.ends_with('\n') {
        text.push('\n');
    }
}
