//! Chunks of a Chat Completions stream, parsed leniently and without copies.
//!
//! Servers deviate in types: `null` for an empty string, a number for an id, an object for a text.
//! Everything that can be understood is accepted. Only invalid JSON is an error.

use std::borrow::Cow;
use std::fmt;

use loopwright_core::message::Usage;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::formats::decoding::lenient::{Count, Text, deserialize_leniently, lenient};
use crate::formats::decoding::reported_cost::ReportedCost;
use crate::formats::encoding::json::json_text;

/// A string that most chunks lack. It is boxed to keep the chunk small.
pub(super) type Rare<'a> = Option<Box<Text<'a>>>;

/// Returns the string, or an empty one.
#[inline]
pub(super) fn text(rare: Rare<'_>) -> Cow<'_, str> {
    rare.map(|text| text.0).unwrap_or_default()
}

/// One chunk of the stream, or a whole completion.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: FirstChoice<'a>,
    #[serde(default)]
    pub(super) usage: Option<Box<RawUsage>>,
    #[serde(default)]
    pub(super) x_groq: Option<Box<XGroq>>,
    #[serde(default)]
    pub(super) error: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) message: Option<IgnoredAny>,
    #[serde(default)]
    pub(super) detail: Option<IgnoredAny>,
}

impl Chunk<'_> {
    /// Returns whether the chunk contains only one delta.
    pub(super) fn is_delta(&self) -> bool {
        let silent = self.usage.is_none() && self.x_groq.is_none();
        let fine = self.error.is_none() && self.message.is_none() && self.detail.is_none();
        let plain =
            |choice: &Choice<'_>| choice.message.is_none() && choice.finish_reason.is_none();
        silent && fine && self.choices.alone && self.choices.first.as_ref().is_some_and(plain)
    }
}

/// Groq's extension of a chunk.
#[derive(Deserialize)]
pub(super) struct XGroq {
    #[serde(default)]
    pub(super) usage: Option<Box<RawUsage>>,
}

/// One choice of a chunk.
#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    /// The message, from a server that does not stream.
    #[serde(borrow, default)]
    pub(super) message: Option<Box<Delta<'a>>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Rare<'a>,
}

/// The content that a chunk adds to the reply.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Content<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Rare<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Rare<'a>,
    /// The thinking, at GitHub Copilot.
    #[serde(borrow, default)]
    pub(super) reasoning_text: Rare<'a>,
    /// Data of GitHub Copilot that belongs to the thinking.
    #[serde(borrow, default)]
    pub(super) reasoning_opaque: Rare<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<Box<RawDetails<'a>>>,
    #[serde(borrow, default)]
    pub(super) refusal: Rare<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Box<[CallDelta<'a>]>>,
    /// The only call, in the form that preceded `tool_calls`.
    #[serde(borrow, default)]
    pub(super) function_call: Option<Box<Function<'a>>>,
    #[serde(borrow, default)]
    pub(super) images: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) audio: Option<&'a RawValue>,
}

impl Delta<'_> {
    /// Returns the kinds of media in the delta.
    pub(super) fn media(&self) -> impl Iterator<Item = &'static str> {
        let has = |raw: Option<&RawValue>| {
            raw.is_some_and(|raw| !matches!(raw.get(), "null" | "[]" | "{}" | "\"\""))
        };
        let all = [("image", has(self.images)), ("audio", has(self.audio))];
        all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name)
    }
}

/// Signed or encrypted reasoning, which most servers lack. Parsed in a second step.
#[derive(Deserialize)]
pub(super) struct RawDetails<'a>(#[serde(borrow)] pub(super) &'a RawValue);

/// A fragment of a tool call.
#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
    /// The call of a tool whose input is free text, in place of `function`.
    #[serde(borrow, default)]
    pub(super) custom: Option<Box<Custom<'a>>>,
    /// Gemini's signature of the call, in an object.
    #[serde(borrow, default)]
    pub(super) extra_content: Option<&'a RawValue>,
}

/// The custom tool of a call.
#[derive(Deserialize, Default)]
pub(super) struct Custom<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Text<'a>,
}

/// The function of a tool call.
#[derive(Deserialize, Default)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl Function<'_> {
    /// Returns the JSON text of the arguments, or of a fragment: the content of a string, or else
    /// the JSON value itself.
    pub(super) fn arguments(&self) -> String {
        json_text(self.arguments)
    }
}

/// The token counts, as reported.
#[derive(Deserialize, Default)]
pub(super) struct RawUsage {
    #[serde(default)]
    pub(super) prompt_tokens: Count,
    #[serde(default)]
    pub(super) completion_tokens: Count,
    #[serde(default)]
    pub(super) total_tokens: Count,
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: Count,
    /// The cached tokens, at Moonshot.
    #[serde(default)]
    pub(super) cached_tokens: Count,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    #[serde(flatten)]
    pub(super) cost: ReportedCost,
}

impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Usage {
        let prompt = raw.prompt_tokens_details.unwrap_or_default();
        let beside = raw.prompt_cache_hit_tokens.0.max(raw.cached_tokens.0);
        let cache_read = prompt.cached_tokens.0.max(beside);
        let cache_write = prompt.cache_write_tokens.0;
        let reasoning = raw.completion_tokens_details.unwrap_or_default().reasoning_tokens.0;
        // Some servers count reasoning separately from the completion, as the total shows.
        let beside =
            raw.prompt_tokens.0 + raw.completion_tokens.0 + reasoning == raw.total_tokens.0;
        let output = raw.completion_tokens.0 + if beside { reasoning } else { 0 };
        Usage::new(raw.prompt_tokens.0.saturating_sub(cache_read + cache_write), output)
            .cache(cache_read, cache_write)
            .reasoning(reasoning.min(output))
            .reported_cost(raw.cost.dollars())
    }
}

/// The breakdown of the prompt tokens.
#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Count,
    #[serde(default)]
    pub(super) cache_write_tokens: Count,
}

/// The breakdown of the completion tokens.
#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Count,
}

/// The choice with index 0, if the chunk has one.
#[derive(Default)]
pub(super) struct FirstChoice<'a> {
    pub(super) first: Option<Choice<'a>>,
    /// `true` if there is no other choice.
    pub(super) alone: bool,
}

/// The content: a string, or parts of text and thinking.
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

/// A part of the content.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Content<'a>,
}

impl Part<'_> {
    /// Returns whether the part is an image or another file.
    pub(super) fn is_media(&self) -> bool {
        ["image", "audio", "video", "file"].iter().any(|media| self.kind.0.contains(media))
    }
}

impl Content<'_> {
    /// Returns all text, joined.
    pub(super) fn into_text(self) -> String {
        match self {
            Content::Text(text) => text.into_owned(),
            Content::Parts(parts) => parts.into_iter().map(|part| part.text.0).collect(),
        }
    }
}

impl Default for Content<'_> {
    fn default() -> Self {
        Content::Text(Cow::Borrowed(""))
    }
}

fn number_content<'a>(number: u64) -> Content<'a> {
    Content::Text(Cow::Owned(number.to_string()))
}

lenient!(ContentVisitor => Content<'de>, "text or parts", number_content, {
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Content<'de>, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content<'de>, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content<'de>, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            parts.push(part);
        }
        Ok(Content::Parts(parts))
    }
});

lenient!(FirstChoiceVisitor => FirstChoice<'de>, "a list of choices", |_| FirstChoice::default(), {
    fn visit_str<E>(self, _: &str) -> Result<FirstChoice<'de>, E> {
        Ok(FirstChoice::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<FirstChoice<'de>, A::Error> {
        let (mut first, mut all) = (None, 0);
        while let Some(choice) = seq.next_element::<Choice<'de>>()? {
            all += 1;
            if choice.index.0 == 0 && first.is_none() {
                first = Some(choice);
            }
        }
        Ok(FirstChoice { first, alone: all == 1 })
    }
});

deserialize_leniently!(Content<'a>: ContentVisitor, FirstChoice<'a>: FirstChoiceVisitor);

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunk is moved several times per delta. Above this size each move calls `memcpy`.
    #[test]
    fn a_chunk_is_small() {
        assert!(size_of::<Chunk<'_>>() <= 128, "{} bytes", size_of::<Chunk<'_>>());
    }
}
