//! [`Signal`]s: what a fold of events has to export.

use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::SpanData;

/// Represents something to export.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// A span that has ended.
    Span(Box<SpanData>),
    /// A measurement.
    Measurement(Measurement),
}

/// Holds a value of a metric.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// The metric.
    pub metric: Metric,
    /// The value, in the metric's unit.
    pub value: f64,
    /// The attributes.
    pub attributes: Vec<KeyValue>,
}

/// Names a metric. All are histograms, except for the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metric {
    /// `gen_ai.client.token.usage`, in `{token}`: the tokens of a reply.
    TokenUsage,
    /// `gen_ai.client.operation.duration`, in `s`: how long a reply took.
    OperationDuration,
    /// `gen_ai.client.operation.time_to_first_chunk`, in `s`.
    TimeToFirstChunk,
    /// `gen_ai.invoke_agent.duration`, in `s`: how long a run took.
    AgentDuration,
    /// `gen_ai.execute_tool.duration`, in `s`: how long a call took.
    ToolDuration,
    /// `loopwright.cost`, in `{USD}`, a counter: what runs cost, as far as prices are known.
    Cost,
}

impl Metric {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Metric::TokenUsage => "gen_ai.client.token.usage",
            Metric::OperationDuration => "gen_ai.client.operation.duration",
            Metric::TimeToFirstChunk => "gen_ai.client.operation.time_to_first_chunk",
            Metric::AgentDuration => "gen_ai.invoke_agent.duration",
            Metric::ToolDuration => "gen_ai.execute_tool.duration",
            Metric::Cost => "loopwright.cost",
        }
    }

    /// Returns its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::TokenUsage => "{token}",
            Metric::Cost => "{USD}",
            _ => "s",
        }
    }
}
