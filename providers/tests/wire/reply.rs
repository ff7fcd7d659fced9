//! A minimal reply built from model events, and its comparison with the expectations of a
//! recording.

use std::collections::VecDeque;

use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelError, ModelEvent};
use loopwright_providers::{Progress, ReplyBody};
use serde_json::Value;

use crate::formats::{End, Format, Reported};

/// The start of the text that reports content missing from a reply.
const NOTE: &str = "[The reply has content that cannot be shown: ";

/// The start of the text that reports the reason of a refusal.
const REASON: &str = "[The provider refused the reply or cut it off: ";

/// A reply, possibly incomplete.
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
    /// Decodes a body that arrives in these chunks.
    pub(crate) fn read<'a>(
        format: &Format,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Reply, String> {
        let (mut body, mut out) = (ReplyBody::new((format.decoder)()), VecDeque::new());
        let mut chunks = chunks.into_iter();
        if !chunks.any(|chunk| body.push(chunk, &mut out) == Some(Progress::Ended)) {
            body.finish(&mut out);
        }
        Reply::fold(out)
    }

    /// Builds a reply from the events. Fails if they are out of order: a delta without a started
    /// block, or any number of ends other than one.
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
                    blocks.push(Block {
                        number,
                        kind,
                        text: String::new(),
                        signature: None,
                        open: true,
                    });
                }
                ModelEvent::Delta { block, delta } => {
                    open(&mut blocks, block)?.text.push_str(&delta)
                }
                ModelEvent::BlockEnd { block, signature } => {
                    let block = open(&mut blocks, block)?;
                    (block.open, block.signature) = (false, signature.map(|s| s.to_string()));
                }
                ModelEvent::Withdrawn => blocks.clear(),
                // The usage so far. The end of the reply has the total.
                ModelEvent::Usage(_) => {}
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

    /// Returns whether this reply equals `whole`, except for data that only the end reports.
    pub(crate) fn says(&self, whole: &Reply) -> bool {
        self.begins(whole) && self.blocks.len() == whole.blocks.len() && {
            let mut pairs = self.blocks.iter().zip(&whole.blocks);
            pairs.all(|(block, whole)| block.text == whole.text)
        }
    }

    /// Returns whether this reply is a prefix of `whole`.
    pub(crate) fn begins(&self, whole: &Reply) -> bool {
        let mut pairs = self.blocks.iter().zip(&whole.blocks);
        self.blocks.len() <= whole.blocks.len()
            && pairs.all(|(block, whole)| {
                block.kind == whole.kind && whole.text.starts_with(&block.text)
            })
    }

    fn texts(&self, kind: &BlockKind) -> String {
        self.blocks
            .iter()
            .filter(|block| block.kind == *kind)
            .map(|block| block.text.as_str())
            .collect()
    }

    /// Returns the signatures of the blocks of some kind, in printable form.
    fn signatures(&self, of: impl Fn(&BlockKind) -> bool) -> String {
        let blocks = self.blocks.iter().filter(|block| of(&block.kind));
        format!("{:?}", blocks.filter_map(|block| block.signature.as_deref()).collect::<Vec<_>>())
    }

    /// Returns the differences from `expected` as text. The list is empty if there are none.
    pub(crate) fn differs(&self, format: &Format, expected: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |what: &str, got: String, want: String| {
            if got != want {
                wrong.push(format!("{what} is {got}, expected {want}"));
            }
        };
        // A refusal is text of the model.
        let text = words(&expected["text"]) + &words(&expected["refusal"]);
        let all = self.texts(&BlockKind::Text);
        // Recordings do not list the reason of a refusal.
        let all = all.split_once(REASON).map_or(&*all, |(before, _)| before.trim_end());
        let (shown, note) = all.split_once(NOTE).map_or((all, None), |(shown, note)| {
            (
                shown.strip_suffix("\n\n").unwrap_or(shown),
                Some(note.trim_end_matches(".]").to_owned()),
            )
        });
        check("text", format!("{shown:?}"), format!("{text:?}"));
        let note_expected = if self.end.is_ok() { missing(expected) } else { None };
        check("what cannot be shown", format!("{note:?}"), format!("{note_expected:?}"));
        let thinking = words(&expected["thinking"]);
        check(
            "thinking",
            format!("{:?}", self.texts(&BlockKind::Thinking)),
            format!("{thinking:?}"),
        );
        let responses = format.name == "openai-responses";
        let of_text: Vec<_> =
            list(expected, "text_signatures").iter().filter_map(Value::as_str).collect();
        if !responses {
            // In this format, a text's signature is the phase of its message, which recordings
            // lack.
            check(
                "signatures of texts",
                self.signatures(|kind| *kind == BlockKind::Text),
                format!("{of_text:?}"),
            );
        }
        let mut of_thoughts: Vec<String> =
            list(expected, "thinking_blocks").iter().filter_map(signature).collect();
        let thoughts = self.blocks.iter().filter(|block| block.kind == BlockKind::Thinking);
        let got: Vec<String> =
            thoughts.filter_map(|block| block.signature.as_deref().map(item_id)).collect();
        // In Chat Completions, plain thinking is signed with the name of its field.
        let got: Vec<String> =
            got.into_iter().filter(|signature| !signature.starts_with("thinking_in:")).collect();
        if responses && !list(expected, "server_tools").is_empty() {
            // Thinking before one of the provider's own tools has no signature, because it is not
            // sent back.
            of_thoughts.retain(|one| got.contains(one));
        }
        let details: Vec<String> = list(expected, "thinking_blocks")
            .iter()
            .flat_map(|block| list(block, "reasoning_details"))
            .map(detail)
            .collect();
        if details.is_empty() {
            check("signatures of thoughts", format!("{got:?}"), format!("{of_thoughts:?}"));
        } else {
            let got =
                got.iter().filter_map(|signature| signature.strip_prefix("reasoning_details:"));
            let got =
                got.flat_map(|list| serde_json::from_str::<Vec<Value>>(list).unwrap_or_default());
            // Recordings list signed and encrypted parts.
            let got: Vec<String> =
                got.map(|one| detail(&one)).filter(|one| !one.ends_with(' ')).collect();
            check("details of thoughts", format!("{got:?}"), format!("{details:?}"));
        }
        let calls = list(expected, "tool_calls");
        let of_calls: Vec<String> = calls.iter().filter_map(signature).collect();
        let got = self.signatures(|kind| matches!(kind, BlockKind::ToolCall { .. }));
        check("signatures of calls", got, format!("{of_calls:?}"));
        let want: Vec<String> = calls.iter().map(expected_call).collect();
        // If the provider gave no id, it may be missing or synthetic. All ids are unique.
        let ids = calls.iter().map(|call| call["id"].is_string()).chain(std::iter::repeat(true));
        let blocks =
            self.blocks.iter().filter(|block| matches!(block.kind, BlockKind::ToolCall { .. }));
        let got: Vec<String> =
            blocks.zip(ids).filter_map(|(block, given)| block.call(given)).collect();
        let synthetic = self.blocks.iter().filter_map(Block::id).filter(|id| !id.is_empty());
        let mut synthetic: Vec<&str> =
            synthetic.filter(|id| calls.iter().all(|call| call["id"] != **id)).collect();
        synthetic.sort_unstable();
        let twice = synthetic.windows(2).find(|pair| pair[0] == pair[1]);
        check("an id that is made up twice", format!("{twice:?}"), "None".into());
        check("calls", format!("{got:?}"), format!("{want:?}"));
        match (&self.end, expected_end(format, expected, !want.is_empty())) {
            (Ok((stop, usage)), Ok(End::Done(wanted))) => {
                check("stop reason", format!("{stop:?}"), format!("{wanted:?}"));
                let wanted = all_requests(expected)
                    .unwrap_or_else(|| (format.usage)(&reported(&expected["usage"])));
                // Recordings do not list the cost that some servers report.
                let usage = usage.reported_cost(0.0);
                check("usage", format!("{usage:?}"), format!("{wanted:?}"));
            }
            (Err(error), Ok(End::Fails(kind))) => {
                check("error", format!("{:?}", error.kind), format!("{kind:?}"))
            }
            // Our errors carry no usage. The tests of error bodies check their kind.
            (Err(error), Err(message)) if error.message.contains(&message) => {}
            (got, want) => check("end", format!("{got:?}"), format!("{want:?}")),
        }
        wrong
    }
}

impl Block {
    fn id(&self) -> Option<&str> {
        if let BlockKind::ToolCall { id, .. } = &self.kind { Some(id) } else { None }
    }

    /// Returns a call: its id if the provider gave it one, its name, and its arguments as a JSON
    /// value, or as text if they are invalid.
    fn call(&self, given: bool) -> Option<String> {
        let BlockKind::ToolCall { id, name } = &self.kind else {
            return None;
        };
        let id = if given { id.as_str() } else { "" };
        let arguments = serde_json::from_str(&self.text)
            .map_or_else(|_| self.text.clone(), |v: Value| v.to_string());
        Some(format!("{id} {name} {arguments}"))
    }
}

fn open(blocks: &mut [Block], number: u32) -> Result<&mut Block, String> {
    let block = blocks.get_mut(number as usize).filter(|block| block.open);
    block.ok_or_else(|| format!("a piece of block {number}, which is not open"))
}

/// Returns a call, with its arguments as a value, because providers put different spaces in them.
fn expected_call(call: &Value) -> String {
    let arguments = match &call["arguments"] {
        Value::Null => words(&call["arguments_raw"]),
        arguments => arguments.to_string(),
    };
    format!("{} {} {arguments}", words(&call["id"]), words(&call["name"]))
}

/// Returns the expected end, or the message of an error in the stream.
fn expected_end(format: &Format, expected: &Value, calls: bool) -> Result<End, String> {
    if !expected["error"].is_null() {
        return Err(words(&expected["error"]["message"]));
    }
    let cut = expected["terminated"] == false && expected["stop_reason"].is_null();
    if cut {
        Err("closed the stream".into())
    } else {
        Ok((format.end)(&words(&expected["stop_reason"]), calls))
    }
}

/// Returns the signature of a thinking block. Redacted thinking is marked. A whole item is
/// represented by its id.
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

/// Returns a detail of a thinking block: its kind, its id, its signature or its encrypted data.
fn detail(detail: &Value) -> String {
    let sealed = detail["signature"].as_str().or(detail["data"].as_str()).unwrap_or("");
    format!("{} {} {sealed}", words(&detail["type"]), words(&detail["id"]))
}

fn item_id(signature: &str) -> String {
    let item: Value = serde_json::from_str(signature).unwrap_or_default();
    item["id"].as_str().unwrap_or(signature).to_owned()
}

/// Returns the names of the content that is reported as missing: media and items that wait for an
/// answer always, and other content if the reply has neither text nor a call.
fn missing(expected: &Value) -> Option<String> {
    let name = |tool: &Value| match &tool["type"] {
        kind if kind == "inlineData" => words(&tool["name"]),
        kind => words(kind),
    };
    let is_missed = |tool: &&Value| {
        let missed = [
            "inlineData",
            "image_generation_call",
            "mcp_approval_request",
            "local_shell_call",
            "shell_call",
            "computer_call",
            "apply_patch_call",
        ];
        missed.iter().any(|missed| tool["type"] == *missed)
    };
    let all = list(expected, "server_tools");
    let nothing_else = ["text", "refusal"].iter().all(|key| words(&expected[key]).is_empty())
        && list(expected, "tool_calls").is_empty();
    let names: Vec<String> =
        all.iter().filter(|tool| nothing_else || is_missed(tool)).map(name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Returns the sum of the requests that the provider made for the reply, if it lists them. The
/// expected usage covers only the last one.
fn all_requests(expected: &Value) -> Option<Usage> {
    let requests = expected["usage_raw"]["iterations"].as_array()?;
    let sum = |key: &str| requests.iter().filter_map(|one| one[key].as_u64()).sum();
    let usage = Usage::new(sum("input_tokens"), sum("output_tokens"))
        .cache(sum("cache_read_input_tokens"), sum("cache_creation_input_tokens"));
    let thinking = |one: &Value| one["output_tokens_details"]["thinking_tokens"].as_u64();
    let reasoning: u64 = requests.iter().filter_map(thinking).sum();
    let reasoning = reasoning.max(thinking(&expected["usage_raw"]).unwrap_or(0));
    let total = |one: &Value| -> u64 {
        let kinds = ["input_tokens", "output_tokens", "cache_read_input_tokens"];
        kinds.iter().filter_map(|kind| one[*kind].as_u64()).sum()
    };
    let max_total = requests.iter().map(total).max().unwrap_or(0);
    Some(usage.reasoning(reasoning).outside_context(usage.total() - max_total))
}

pub(crate) fn reported(usage: &Value) -> Reported {
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

pub(crate) fn words(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}
