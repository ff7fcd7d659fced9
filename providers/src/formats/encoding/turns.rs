//! Messages of formats whose roles must alternate: consecutive messages of one role are joined.

use std::borrow::Cow;

use loopwright_core::Message;
use loopwright_core::model::ChatRequest;

use super::tool_result_pairing::pair_tool_results;

/// The names that a format uses.
pub(crate) struct Names {
    /// The role of the model.
    pub(crate) model: &'static str,
    /// The field for the parts of a message.
    pub(crate) parts: &'static str,
    /// The part of the user message that precedes a conversation which starts with the model.
    pub(crate) first: &'static str,
}

/// Writes the conversation. `encode` returns the parts of one message, separated by commas, or an
/// empty string. Returns the ends of the last two user messages: the offset of the last byte of
/// their last part.
pub(crate) fn write_turns(
    body: &mut Vec<u8>,
    request: &ChatRequest,
    names: &Names,
    encode: impl for<'m> Fn(&'m Message) -> Cow<'m, [u8]>,
) -> [Option<usize>; 2] {
    let Names { model, parts, first } = names;
    let (mut open, mut ends) = (None, [None, None]);
    let mut close = |body: &mut Vec<u8>, open: Option<bool>| {
        if open == Some(false) {
            ends = [ends[1], Some(body.len() - 1)];
        }
        body.extend_from_slice(if open.is_some() { b"]}" } else { b"" });
    };
    let conversation = pair_tool_results(&request.messages);
    for message in conversation.iter().filter(|message| message.is_for_model()) {
        let encoded = encode(message);
        if encoded.is_empty() {
            continue;
        }
        let by_model = message.as_assistant().is_some();
        if open != Some(by_model) {
            close(body, open);
            if open.is_none() && by_model {
                body.extend_from_slice(
                    format!(r#"{{"role":"user","{parts}":[{first}]}},"#).as_bytes(),
                );
            }
            let (comma, role) =
                (if open.is_some() { "," } else { "" }, if by_model { model } else { "user" });
            body.extend_from_slice(format!(r#"{comma}{{"role":"{role}","{parts}":["#).as_bytes());
            open = Some(by_model);
        } else {
            body.push(b',');
        }
        body.extend_from_slice(&encoded);
    }
    close(body, open);
    ends
}
