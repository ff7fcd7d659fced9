//! Thinking in a message: the field in which a server sends it, and in which it goes back.

use std::sync::Arc;

use loopwright_core::message::{AssistantMessage, ContentPart};
use serde_json::{Value, json};

use super::details;
use super::profile::Replay;

/// Prefix of a signature that is the name of a field.
const FIELD: &str = "thinking_in:";
/// Prefix of a call's signature that is the object around Gemini's signature.
const EXTRA: &str = "extra_content:";
/// Prefix of a signature that is the opaque data of GitHub Copilot.
const OPAQUE: &str = "reasoning_opaque:";

/// A place of thinking in a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    /// A field of this name, which contains text.
    Named(&'static str),
    /// A part of the content, as at Mistral.
    Part,
    /// The start of the text, between these tags.
    Tags(&'static str, &'static str),
}

const FIELDS: [(&str, Field); 6] = [
    ("reasoning_content", Field::Named("reasoning_content")),
    ("reasoning", Field::Named("reasoning")),
    ("reasoning_text", Field::Named("reasoning_text")),
    ("content", Field::Part),
    ("<think>", Field::Tags("<think>", "</think>")),
    ("<thinking>", Field::Tags("<thinking>", "</thinking>")),
];

/// Returns the signature of thinking that came in this field: the name of a field, of a part of
/// the content, or an opening tag.
pub(super) fn mark(field: &str) -> Arc<str> {
    format!("{FIELD}{field}").into()
}

/// Returns the signature of thinking with this opaque data.
pub(super) fn mark_opaque(data: &str) -> Arc<str> {
    format!("{OPAQUE}{data}").into()
}

/// Returns the signature of a call with this object, or `None` if the object is empty.
pub(super) fn mark_extra(object: &str) -> Option<Arc<str>> {
    let is_empty = matches!(object, "null" | "{}");
    (!is_empty && object.starts_with('{')).then(|| format!("{EXTRA}{object}").into())
}

/// Returns the object in the signature of a call.
pub(super) fn extra_content(signature: &str) -> Option<Value> {
    serde_json::from_str(signature.strip_prefix(EXTRA)?).ok()
}

/// Returns the object for a call that Gemini has not signed, as documented for Gemini 3.
pub(super) fn unsigned() -> Value {
    json!({"google": {"thought_signature": "skip_thought_signature_validator"}})
}

/// Thinking that is sent back with a message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SentBack {
    /// The content of the message, if the thinking is a part of it.
    pub(super) content: Option<Value>,
    /// The other fields.
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl SentBack {
    /// Returns the thinking of a reply in the fields that the server expects. `text` is the text
    /// of the reply.
    pub(super) fn of(reply: &AssistantMessage, replay: Replay, text: &str) -> SentBack {
        let mut sent = SentBack::default();
        if replay == Replay::Never {
            return sent;
        }
        let thoughts = || {
            reply.parts.iter().filter_map(|part| match part {
                ContentPart::Thinking { text, signature } => Some((text, signature.as_deref())),
                _ => None,
            })
        };
        let thought: String = thoughts().map(|(text, _)| text.as_str()).collect();
        if replay == Replay::ReasoningContent {
            sent.fields.push(("reasoning_content", thought.into()));
            return sent;
        }
        let signatures = || thoughts().filter_map(|(_, signature)| signature);
        let details: Vec<Value> = signatures().flat_map(details::of_signature).collect();
        if !details.is_empty() {
            sent.fields.push(("reasoning_details", details.into()));
            return sent;
        }
        if replay == Replay::Reasoning {
            if thoughts().next().is_some() {
                sent.fields.push(("reasoning", thought.into()));
            }
            return sent;
        }
        if let Some(data) = signatures().find_map(|signature| signature.strip_prefix(OPAQUE)) {
            if !thought.is_empty() {
                sent.fields.push(("reasoning_text", thought.into()));
            }
            sent.fields.push(("reasoning_opaque", data.into()));
            return sent;
        }
        match signatures().find_map(field).filter(|_| !thought.is_empty()) {
            None => {}
            Some(Field::Named(name)) => sent.fields.push((name, thought.into())),
            Some(Field::Part) => {
                let thinking = json!([{"type": "text", "text": thought}]);
                let mut parts = vec![json!({"type": "thinking", "thinking": thinking})];
                if !text.is_empty() {
                    parts.push(json!({"type": "text", "text": text}));
                }
                sent.content = Some(parts.into());
            }
            Some(Field::Tags(open, close)) => {
                sent.content = Some(format!("{open}\n{}\n{close}\n\n{text}", thought.trim()).into())
            }
        }
        sent
    }
}

/// Returns the field that a signature names.
fn field(signature: &str) -> Option<Field> {
    let name = signature.strip_prefix(FIELD)?;
    FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(signature: Option<Arc<str>>, replay: Replay) -> SentBack {
        let thinking = ContentPart::Thinking { text: "hm".into(), signature };
        SentBack::of(&AssistantMessage::new(vec![thinking]), replay, "a")
    }

    fn fields(fields: &[(&'static str, &str)]) -> SentBack {
        let fields = fields.iter().map(|(name, text)| (*name, (*text).into())).collect();
        SentBack { content: None, fields }
    }

    #[test]
    fn thinking_goes_back_where_it_came_from() {
        for name in ["reasoning_content", "reasoning", "reasoning_text"] {
            assert_eq!(sent(Some(mark(name)), Replay::AsReceived), fields(&[(name, "hm")]));
        }
        let opaque = fields(&[("reasoning_text", "hm"), ("reasoning_opaque", "OPQ")]);
        assert_eq!(sent(Some(mark_opaque("OPQ")), Replay::AsReceived), opaque);
        let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "a"}]);
        assert_eq!(sent(Some(mark("content")), Replay::AsReceived).content, Some(parts));
        let tagged = json!("<think>\nhm\n</think>\n\na");
        assert_eq!(sent(Some(mark("<think>")), Replay::AsReceived).content, Some(tagged));
    }

    #[test]
    fn thinking_of_unknown_origin_goes_back_only_if_the_profile_names_a_field() {
        for signature in [None, Some("of another".into()), Some(mark("unknown"))] {
            assert_eq!(sent(signature, Replay::AsReceived), SentBack::default());
        }
        assert_eq!(sent(None, Replay::Reasoning), fields(&[("reasoning", "hm")]));
        let forced = fields(&[("reasoning_content", "hm")]);
        assert_eq!(sent(Some(mark("reasoning")), Replay::ReasoningContent), forced);
        assert_eq!(sent(Some(mark("reasoning")), Replay::Never), SentBack::default());
    }
}
