//! Events of a Messages stream, parsed leniently and without copies.

use loopwright_core::message::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::formats::decoding::lenient::{Count, Text};
use crate::formats::decoding::reported_cost::ReportedCost;

/// Prefix of the signature of a redacted thinking block. The block's data follows.
pub(super) const REDACTED: &str = "redacted:";

/// One event of the stream, or a whole message.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) message: Option<Box<Start<'a>>>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<Box<Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) usage: Option<Box<RawUsage>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// The content, from a server that does not stream.
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) stop_details: Option<&'a RawValue>,
}

impl Event<'_> {
    /// Returns whether the event contains only a delta.
    pub(super) fn is_delta(&self) -> bool {
        let silent = self.message.is_none() && self.usage.is_none() && self.error.is_none();
        silent
            && self.content_block.is_none()
            && self.content.is_none()
            && self.stop_reason.0.is_empty()
    }
}

/// The start of a message.
#[derive(Deserialize)]
pub(super) struct Start<'a> {
    /// The blocks that are already complete.
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) usage: Option<RawUsage>,
}

/// The start of a block.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    /// The data of a redacted block.
    #[serde(borrow, default)]
    pub(super) data: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// A fragment of a block, or an update of the message.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    /// The text, or the summary of a compaction.
    #[serde(borrow, default, alias = "content")]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) partial_json: Text<'a>,
    /// The source of a text.
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    /// The reason of a refusal.
    #[serde(borrow, default)]
    pub(super) stop_details: Option<&'a RawValue>,
}

/// Details of the end of a reply.
#[derive(Deserialize, Default)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow, default)]
    category: Text<'a>,
    #[serde(borrow, default)]
    explanation: Text<'a>,
}

impl<'a> StopDetails<'a> {
    /// Parses the details leniently.
    pub(super) fn read(raw: &'a RawValue) -> StopDetails<'a> {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    /// Returns the reason in words, or else its category, or an empty string.
    pub(super) fn reason(&self) -> &str {
        if self.explanation.0.is_empty() { &self.category.0 } else { &self.explanation.0 }
    }
}

/// The token counts so far, as reported. A missing field has not changed.
#[derive(Deserialize, Default)]
pub(super) struct RawUsage {
    #[serde(default)]
    input_tokens: Option<Count>,
    #[serde(default)]
    output_tokens: Option<Count>,
    #[serde(default)]
    cache_read_input_tokens: Option<Count>,
    #[serde(default)]
    cache_creation_input_tokens: Option<Count>,
    #[serde(default)]
    cache_creation: Option<CacheCreation>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
    /// The requests that the provider made for the reply, if it made several: to compact the
    /// conversation, or to ask an adviser or a second model. Each of them is charged. The other
    /// counts cover only the reply itself.
    #[serde(default)]
    iterations: Option<Vec<RawUsage>>,
    /// The cost of all requests, at gateways.
    #[serde(flatten)]
    cost: ReportedCost,
}

/// The breakdown of the tokens written to the cache.
#[derive(Deserialize, Default, Clone, Copy)]
struct CacheCreation {
    #[serde(default)]
    ephemeral_1h_input_tokens: Count,
}

/// The breakdown of the output tokens.
#[derive(Deserialize, Default, Clone, Copy)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
}

impl RawUsage {
    /// Updates `usage` with the counts of the reply itself.
    fn update(&self, usage: &mut Usage) {
        let put = |into: &mut u64, count: Option<Count>| {
            if let Some(Count(count)) = count {
                *into = count;
            }
        };
        put(&mut usage.input, self.input_tokens);
        put(&mut usage.output, self.output_tokens);
        put(&mut usage.cache_read, self.cache_read_input_tokens);
        put(&mut usage.cache_write, self.cache_creation_input_tokens);
        let cache_write_1h = self.cache_creation.map(|creation| creation.ephemeral_1h_input_tokens);
        put(&mut usage.cache_write_1h, cache_write_1h);
        let reasoning = self.output_tokens_details.map(|details| details.thinking_tokens);
        put(&mut usage.reasoning, reasoning);
        let dollars = self.cost.dollars();
        if dollars > 0.0 {
            *usage = usage.reported_cost(dollars);
        }
        usage.cache_write_1h = usage.cache_write_1h.min(usage.cache_write);
        usage.reasoning = usage.reasoning.min(usage.output);
    }
}

/// The counts of a message so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    /// The counts of the reply itself.
    reply: Usage,
    /// The sum of all requests, if the provider made several.
    all: Usage,
    /// The tokens of the largest request.
    max_total: u64,
}

impl Counts {
    pub(super) fn update(&mut self, raw: &RawUsage) {
        raw.update(&mut self.reply);
        let Some(iterations) = &raw.iterations else {
            return;
        };
        (self.all, self.max_total) = Default::default();
        for iteration in iterations {
            let mut usage = Usage::default();
            iteration.update(&mut usage);
            self.all += usage;
            self.max_total = self.max_total.max(usage.total());
        }
    }

    /// Returns the tokens of all requests, and at least the reply's own.
    pub(super) fn usage(&self) -> Usage {
        let Counts { reply, all, .. } = self;
        let mut usage = Usage::new(all.input.max(reply.input), all.output.max(reply.output))
            .cache(all.cache_read.max(reply.cache_read), all.cache_write.max(reply.cache_write))
            .cache_write_1h(all.cache_write_1h.max(reply.cache_write_1h))
            .reasoning(all.reasoning.max(reply.reasoning));
        usage.reported_cost = reply.reported_cost;
        let max_total = self.max_total.max(reply.total());
        usage.outside_context(usage.total().saturating_sub(max_total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(reports: &[&str]) -> Usage {
        let mut counts = Counts::default();
        for report in reports {
            counts.update(&serde_json::from_str(report).unwrap());
        }
        counts.usage()
    }

    #[test]
    fn each_request_that_the_provider_made_for_a_reply_is_counted() {
        let compacted = r#"{"input_tokens": 612, "output_tokens": 2819, "iterations": [
            {"type": "compaction", "input_tokens": 60385, "output_tokens": 522},
            {"type": "message", "input_tokens": 612, "output_tokens": 2819}]}"#;
        let sum = Usage::new(60_997, 3341).outside_context(612 + 2819);
        assert_eq!(usage(&[r#"{"input_tokens": 9, "output_tokens": 1}"#, compacted]), sum);
        assert_eq!(sum.context(), 60_385 + 522);
        let later = r#"{"output_tokens": 2819}"#;
        assert_eq!(usage(&[compacted, later]), sum, "a later report does not hide them");
        let advised = r#"{"input_tokens": 10, "output_tokens": 30, "cache_read_input_tokens": 5,
            "iterations": [
            {"type": "message", "input_tokens": 10, "output_tokens": 20,
             "cache_read_input_tokens": 5},
            {"type": "advisor_message", "model": "other", "input_tokens": 40, "output_tokens": 9},
            {"type": "message", "input_tokens": 40, "output_tokens": 10}]}"#;
        let sum = Usage::new(90, 39).cache(5, 0).outside_context(84);
        assert_eq!(usage(&[advised]), sum);
        let fewer = r#"{"input_tokens": 10, "output_tokens": 30, "iterations": [
            {"input_tokens": 1, "output_tokens": 1}]}"#;
        assert_eq!(usage(&[fewer]), Usage::new(10, 30), "never less than the reply itself");
        let none = r#"{"input_tokens": 10, "output_tokens": 30, "iterations": []}"#;
        assert_eq!(usage(&[none]), Usage::new(10, 30));
    }

    #[test]
    fn what_the_cache_keeps_for_an_hour_is_counted() {
        let written = r#"{"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 9,
            "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 7}}"#;
        let counted = Usage::new(1, 2).cache(0, 9).cache_write_1h(7);
        assert_eq!(usage(&[written]), counted);
        assert_eq!(usage(&[written, r#"{"output_tokens": 3}"#]).cache_write_1h, 7);
    }

    #[test]
    fn the_cost_that_a_gateway_reports_is_part_of_the_usage() {
        let end = r#"{"input_tokens": 32, "output_tokens": 16, "cost": 0.000112}"#;
        let cost = Usage::new(32, 16).reported_cost(0.000_112);
        assert_eq!(usage(&[r#"{"input_tokens": 32}"#, end]), cost);
    }
}
