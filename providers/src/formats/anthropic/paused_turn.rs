//! A turn that the provider pauses while it runs its own tools, or after it has compacted the
//! conversation. The blocks so far are sent back, and the turn continues.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::wire::Delta;
use crate::formats::encoding::json::{bytes, put};

/// The maximum number of continuations of one turn, to prevent a loop.
const MAX_PAUSES: u32 = 16;

/// All blocks of the turn as received, including the provider's own tools. Every block is kept,
/// because the pause is reported only at the end of the message and then all are sent back.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// The blocks before the last pause, as JSON separated by commas.
    before: Vec<u8>,
    blocks: Vec<Block>,
    pub(super) pauses: u32,
}

/// The start of a block and its deltas.
#[derive(Debug)]
struct Block {
    index: u64,
    /// The start event, parsed on demand.
    start: String,
    text: String,
    thinking: String,
    signature: String,
    input: String,
    citations: Vec<Value>,
}

impl Transcript {
    /// Discards all blocks, because the message starts again.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Returns the number of blocks since the last pause.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Starts a block with the event `data`.
    pub(super) fn begin(&mut self, index: u64, data: &str) {
        let (text, thinking, signature, input) = Default::default();
        let start = data.to_owned();
        self.blocks.push(Block {
            index,
            start,
            text,
            thinking,
            signature,
            input,
            citations: Vec::new(),
        });
    }

    /// Appends a delta to a block.
    pub(super) fn add(&mut self, index: u64, delta: &Delta<'_>) {
        let Some(block) = self.blocks.iter_mut().rfind(|block| block.index == index) else {
            return;
        };
        block.text.push_str(&delta.text.0);
        block.thinking.push_str(&delta.thinking.0);
        block.signature.push_str(&delta.signature.0);
        block.input.push_str(&delta.partial_json.0);
        block
            .citations
            .extend(delta.citation.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()));
    }

    /// Returns the body of the request that continues the turn, built from the one that started it.
    pub(super) fn resume(&mut self, sent: &[u8]) -> Option<Vec<u8>> {
        self.pauses += 1;
        if self.pauses > MAX_PAUSES {
            return None;
        }
        for block in self.blocks.drain(..).filter_map(Block::whole) {
            if !self.before.is_empty() {
                self.before.push(b',');
            }
            put(&mut self.before, &block);
        }
        let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(sent).ok()?;
        let messages = fields.get("messages")?.get().trim_end().strip_suffix(']')?;
        let content = std::str::from_utf8(&self.before).ok()?;
        let longer = format!(r#"{messages},{{"role":"assistant","content":[{content}]}}]"#);
        fields.insert("messages".into(), RawValue::from_string(longer).ok()?);
        Some(bytes(&fields))
    }
}

impl Block {
    /// Returns the complete block, or `None` for blank text, which the API refuses.
    fn whole(self) -> Option<Value> {
        #[derive(Deserialize)]
        struct Start {
            content_block: Map<String, Value>,
        }
        let Start { content_block: mut block } = serde_json::from_str(&self.start).ok()?;
        let text = if block.get("type")? == "compaction" { "content" } else { "text" };
        for (key, more) in
            [(text, self.text), ("thinking", self.thinking), ("signature", self.signature)]
        {
            match block.get_mut(key) {
                Some(Value::String(start)) => start.push_str(&more),
                _ if more.is_empty() => {}
                _ => drop(block.insert(key.into(), more.into())),
            }
        }
        if !self.input.is_empty() {
            block.insert(
                "input".into(),
                serde_json::from_str(&self.input).unwrap_or_else(|_| json!({})),
            );
        }
        if !self.citations.is_empty() {
            block.insert("citations".into(), self.citations.into());
        }
        let blank = block.get("type")? == "text" && block.get("text")?.as_str()?.trim().is_empty();
        (!blank).then_some(Value::Object(block))
    }
}
