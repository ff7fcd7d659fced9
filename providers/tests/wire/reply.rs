//! A small fold of model events, and its comparison with what a recording expects.

use std::collections::VecDeque;

use loopwright::{BlockKind, ModelError, ModelEvent, StopReason, Usage};
use loopwright_providers::{Progress, ReplyBody};
use serde_json::Value;

use crate::formats::{End, Format, Reported};

/// A reply, as far as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    blocks: Vec<Block>,
    pub(crate) end: Result<(StopReason, Usage), ModelError>,
}

#[derive(Debug, Clone, PartialEq)]
struct Block {
    number: u32,
    kind: BlockKind,
    text: String,
    signature: Option<String>,
    open: bool,
}

impl Reply {
    /// Reads a body as it comes in these chunks.
    pub(crate) fn read<'a>(format: &Format, chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, String> {
        let (mut body, mut out) = (ReplyBody::new((format.decoder)()), VecDeque::new());
        let mut chunks = chunks.into_iter();
        if !chunks.any(|chunk| body.push(chunk, &mut out) == Some(Progress::Ended)) {
            body.finish(&mut out);
        }
        Reply::fold(out)
    }

    /// The events must be in order: blocks that were begun, an end that is there once.
    fn fold(events: VecDeque<ModelEvent>) -> Result<Reply, String> {
        let (mut blocks, mut end) = (Vec::<Block>::new(), None);
        for event in events {
            if end.is_some() {
                return Err(format!("{event:?} after the end"));
            }
            match event {
                ModelEvent::BlockStart { block: number, kind } => {
                    if number as usize != blocks.len() {
                        return Err(format!("block {number} begins as number {}", blocks.len()));
                    }
                    blocks.push(Block { number, kind, text: String::new(), signature: None, open: true });
                }
                ModelEvent::Delta { block, delta } => open(&mut blocks, block)?.text.push_str(&delta),
                ModelEvent::BlockEnd { block, signature } => {
                    let block = open(&mut blocks, block)?;
                    (block.open, block.signature) = (false, signature.map(|s| s.to_string()));
                }
                ModelEvent::Withdrawn => blocks.clear(),
                ModelEvent::Done { stop, usage } => end = Some(Ok((stop, usage))),
                ModelEvent::Error(error) => end = Some(Err(error)),
                other => return Err(format!("{other:?} is new to this test")),
            }
        }
        let end = end.ok_or("there is no end")?;
        if let (Ok(_), Some(block)) = (&end, blocks.iter().find(|block| block.open)) {
            return Err(format!("block {} is open at the end", block.number));
        }
        Ok(Reply { blocks, end })
    }

    /// What was said, without what only the end tells.
    pub(crate) fn said(&self) -> impl PartialEq + std::fmt::Debug + '_ {
        self.blocks.iter().map(|block| (&block.kind, &block.text)).collect::<Vec<_>>()
    }

    fn texts(&self, kind: &BlockKind) -> String {
        self.blocks.iter().filter(|block| block.kind == *kind).map(|block| block.text.as_str()).collect()
    }

    /// What differs from `expected`, in words; nothing if nothing does.
    pub(crate) fn differs(&self, format: &Format, expected: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |what: &str, got: String, want: String| {
            if got != want {
                wrong.push(format!("{what} is {got}, expected {want}"));
            }
        };
        // A refusal is what the model says, for us as for whoever reads it.
        let text = words(&expected["text"]) + &words(&expected["refusal"]);
        check("text", format!("{:?}", self.texts(&BlockKind::Text)), format!("{text:?}"));
        let thinking = words(&expected["thinking"]);
        check("thinking", format!("{:?}", self.texts(&BlockKind::Thinking)), format!("{thinking:?}"));
        let mut signatures: Vec<String> = list(expected, "thinking_blocks").iter().filter_map(signature).collect();
        let thoughts = self.blocks.iter().filter(|block| block.kind == BlockKind::Thinking);
        let got: Vec<String> = thoughts.filter_map(|block| block.signature.as_deref().map(item_id)).collect();
        if format.name == "openai-responses" && !list(expected, "server_tools").is_empty() {
            // Before what the provider runs itself there is none, as that is not sent back.
            signatures.retain(|one| got.contains(one));
        }
        check("signatures", format!("{got:?}"), format!("{signatures:?}"));
        let want: Vec<String> = list(expected, "tool_calls").iter().map(expected_call).collect();
        let got: Vec<String> = self.blocks.iter().filter_map(Block::call).collect();
        check("calls", format!("{got:?}"), format!("{want:?}"));
        match (&self.end, expected_end(format, expected, !want.is_empty())) {
            (Ok((stop, usage)), Ok(End::Done(wanted))) => {
                check("stop reason", format!("{stop:?}"), format!("{wanted:?}"));
                let wanted = (format.usage)(&reported(&expected["usage"]));
                check("usage", format!("{usage:?}"), format!("{wanted:?}"));
            }
            (Err(error), Ok(End::Fails(kind))) => check("error", format!("{:?}", error.kind), format!("{kind:?}")),
            // Core's errors carry no usage, and their kind is checked with the error bodies.
            (Err(error), Err(message)) if error.message.contains(&message) => {}
            (got, want) => check("end", format!("{got:?}"), format!("{want:?}")),
        }
        wrong
    }
}

impl Block {
    /// A call: its id, its name, its arguments as a JSON value, or as text if they are none.
    fn call(&self) -> Option<String> {
        let BlockKind::ToolCall { id, name } = &self.kind else { return None };
        let arguments = serde_json::from_str(&self.text).map_or_else(|_| self.text.clone(), |v: Value| v.to_string());
        Some(format!("{id} {name} {arguments}"))
    }
}

fn open(blocks: &mut [Block], number: u32) -> Result<&mut Block, String> {
    let block = blocks.get_mut(number as usize).filter(|block| block.open);
    block.ok_or_else(|| format!("a piece of block {number}, which is not open"))
}

/// Providers differ in the spaces between arguments, so they are compared as values.
fn expected_call(call: &Value) -> String {
    let arguments = match &call["arguments"] {
        Value::Null => words(&call["arguments_raw"]),
        arguments => arguments.to_string(),
    };
    format!("{} {} {arguments}", words(&call["id"]), words(&call["name"]))
}

/// The end that is expected: how a reply ends, or the words of an error that is in the stream.
fn expected_end(format: &Format, expected: &Value, calls: bool) -> Result<End, String> {
    if !expected["error"].is_null() {
        return Err(words(&expected["error"]["message"]));
    }
    let cut = expected["terminated"] == false && expected["stop_reason"].is_null();
    if cut { Err("closed the stream".into()) } else { Ok((format.end)(&words(&expected["stop_reason"]), calls)) }
}

/// The signature of a block of thinking; redacted thinking is all signature, marked as such; the id of a whole item
/// stands for it.
fn signature(block: &Value) -> Option<String> {
    match &block["data"] {
        Value::String(data) => Some(format!("redacted:{data}")),
        _ if block["summary_parts"].is_array() => {
            let whole = block["encrypted"] == true || block["reasoning_text"].is_string();
            whole.then(|| words(&block["id"]))
        }
        _ => block["signature"].as_str().map(str::to_owned),
    }
}

fn item_id(signature: &str) -> String {
    let item: Value = serde_json::from_str(signature).unwrap_or_default();
    item["id"].as_str().unwrap_or(signature).to_owned()
}

fn reported(usage: &Value) -> Reported {
    let tokens = |key: &str| usage[key].as_u64().unwrap_or(0);
    Reported {
        input: tokens("input_tokens"),
        output: tokens("output_tokens"),
        cache_read: tokens("cache_read_tokens"),
        cache_write: tokens("cache_write_tokens"),
        reasoning: tokens("reasoning_tokens"),
        total: tokens("total_tokens"),
    }
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}
