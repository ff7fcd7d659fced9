//! Chunks of a Gemini stream, parsed leniently and without copies.

use std::fmt;

use loopwright_core::message::Usage;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::formats::decoding::lenient::{Count, Text, deserialize_leniently, lenient};

/// Prefix of the id of a call that arrived without an id. It is never sent to the server.
pub(super) const SYNTHETIC_ID: &str = "gemini-call-";

/// One chunk of the stream.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) candidates: First<'a>,
    #[serde(borrow, default)]
    pub(super) prompt_feedback: Option<Box<Feedback<'a>>>,
    #[serde(default)]
    pub(super) usage_metadata: Option<RawUsage>,
    #[serde(borrow, default)]
    pub(super) response_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The candidate with index 0, if the chunk has one.
#[derive(Default)]
pub(super) struct First<'a>(pub(super) Option<Candidate<'a>>);

lenient!(FirstVisitor => First<'de>, "a list of candidates", |_| First::default(), {
    fn visit_str<E>(self, _: &str) -> Result<First<'de>, E> {
        Ok(First::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<First<'de>, A::Error> {
        let mut first = First::default();
        while let Some(candidate) = seq.next_element::<Candidate<'de>>()? {
            if candidate.index.0 == 0 && first.0.is_none() {
                first.0 = Some(candidate);
            }
        }
        Ok(first)
    }
});
deserialize_leniently!(First<'a>: FirstVisitor);

/// One candidate. Only one is requested.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) finish_message: Text<'a>,
}

/// The content that a chunk adds to the reply.
#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default)]
    pub(super) parts: Option<Vec<Part<'a>>>,
}

/// A text or thinking, a call, or a result of the provider's own tools.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thought: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thought_signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) function_call: Option<Box<FunctionCall<'a>>>,
    /// An image or another file, inline or by address. Parsed in a second step, because most parts
    /// have none.
    #[serde(borrow, default, alias = "fileData")]
    pub(super) inline_data: Option<&'a RawValue>,
}

/// An image or another file. Its data is skipped.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Media<'a> {
    #[serde(borrow, default)]
    pub(super) mime_type: Text<'a>,
}

impl Part<'_> {
    pub(super) fn is_thought(&self) -> bool {
        is_true(self.thought)
    }
}

/// A call, or a fragment of a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// The complete arguments.
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
    /// Fragments of the arguments.
    #[serde(borrow, default)]
    pub(super) partial_args: Option<Vec<PartialArg<'a>>>,
    #[serde(borrow, default)]
    will_continue: Option<&'a RawValue>,
}

impl FunctionCall<'_> {
    pub(super) fn continues(&self) -> bool {
        is_true(self.will_continue)
    }
}

/// A value inside the arguments, or a fragment of a string.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialArg<'a> {
    #[serde(borrow, default)]
    pub(super) json_path: Text<'a>,
    #[serde(borrow, default)]
    pub(super) string_value: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) number_value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) bool_value: Option<&'a RawValue>,
}

/// The result of checking the prompt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow, default)]
    pub(super) block_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) block_reason_message: Text<'a>,
}

fn is_true(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| value.get() == "true")
}

/// The token counts so far, as reported. A missing field has not changed.
#[derive(Debug, Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawUsage {
    #[serde(default)]
    prompt_token_count: Option<Count>,
    #[serde(default)]
    candidates_token_count: Option<Count>,
    #[serde(default)]
    thoughts_token_count: Option<Count>,
    #[serde(default)]
    cached_content_token_count: Option<Count>,
    #[serde(default)]
    tool_use_prompt_token_count: Option<Count>,
}

impl RawUsage {
    /// Updates these counts with `later`.
    pub(super) fn update(&mut self, later: RawUsage) {
        self.prompt_token_count = later.prompt_token_count.or(self.prompt_token_count);
        self.candidates_token_count = later.candidates_token_count.or(self.candidates_token_count);
        self.thoughts_token_count = later.thoughts_token_count.or(self.thoughts_token_count);
        self.cached_content_token_count =
            later.cached_content_token_count.or(self.cached_content_token_count);
        self.tool_use_prompt_token_count =
            later.tool_use_prompt_token_count.or(self.tool_use_prompt_token_count);
    }
}

/// Gemini's prompt count includes cached tokens, ours does not. Gemini counts thinking, and input
/// of its own tools, separately. Ours includes both.
impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Usage {
        let count = |count: Option<Count>| count.unwrap_or_default().0;
        let (cache_read, reasoning) =
            (count(raw.cached_content_token_count), count(raw.thoughts_token_count));
        let input =
            count(raw.prompt_token_count).saturating_add(count(raw.tool_use_prompt_token_count));
        Usage::new(
            input.saturating_sub(cache_read),
            count(raw.candidates_token_count).saturating_add(reasoning),
        )
        .cache(cache_read, 0)
        .reasoning(reasoning)
    }
}
