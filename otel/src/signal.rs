//! [`Signal`]s: spans and measurements to export.

use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::SpanData;

/// A span or a measurement to export.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// A span that has ended.
    Span(Box<SpanData>),
    /// A new value of a metric.
    Measurement(Measurement),
}

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// The metric of the value.
    pub metric: Metric,
    /// The value, in the metric's unit.
    pub value: f64,
    /// The attributes, such as the model and the provider.
    pub attributes: Vec<KeyValue>,
}

/// A metric. All are histograms, except for the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metric {
    /// `gen_ai.client.token.usage`, in `{token}`: the tokens of a reply.
    TokenUsage,
    /// `gen_ai.client.operation.duration`, in `s`: the duration of a reply.
    OperationDuration,
    /// `gen_ai.client.operation.time_to_first_chunk`, in `s`: the time to the first part of a
    /// reply.
    TimeToFirstChunk,
    /// `gen_ai.invoke_agent.duration`, in `s`: the duration of a run.
    AgentDuration,
    /// `gen_ai.execute_tool.duration`, in `s`: the duration of a call.
    ToolDuration,
    /// `loopwright.cost`, in `{USD}`, a counter: the cost of runs, as far as prices are known.
    Cost,
}

impl Metric {
    /// Returns the name of the metric.
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

    /// Returns the unit of the metric.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::TokenUsage => "{token}",
            Metric::Cost => "{USD}",
            _ => "s",
        }
    }
}
