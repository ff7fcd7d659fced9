//! Instruments that record measurements.

use opentelemetry::metrics::{Counter, Histogram, Meter};

use crate::signal::{Measurement, Metric};

/// The bucket boundaries of the conventions.
const TOKENS: [f64; 14] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const AGENT_SECONDS: [f64; 13] =
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];

/// The instruments of all metrics.
#[derive(Debug)]
pub(crate) struct Instruments {
    token_usage: Histogram<u64>,
    operation_duration: Histogram<f64>,
    time_to_first_chunk: Histogram<f64>,
    agent_duration: Histogram<f64>,
    tool_duration: Histogram<f64>,
    cost: Counter<f64>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        let seconds = |metric: Metric, about: &'static str, buckets: &[f64]| {
            let histogram = meter.f64_histogram(metric.name()).with_unit(metric.unit());
            histogram.with_description(about).with_boundaries(buckets.to_vec()).build()
        };
        let tokens = meter.u64_histogram(Metric::TokenUsage.name());
        let cost = meter.f64_counter(Metric::Cost.name()).with_unit(Metric::Cost.unit());
        Instruments {
            token_usage: tokens
                .with_unit(Metric::TokenUsage.unit())
                .with_description("Number of input and output tokens used.")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            operation_duration: seconds(
                Metric::OperationDuration,
                "GenAI operation duration.",
                &SECONDS,
            ),
            time_to_first_chunk: seconds(
                Metric::TimeToFirstChunk,
                "Time to receive the first chunk of a streaming response.",
                &SECONDS,
            ),
            agent_duration: seconds(
                Metric::AgentDuration,
                "The duration of a single agent invocation.",
                &AGENT_SECONDS,
            ),
            tool_duration: seconds(
                Metric::ToolDuration,
                "The duration of a single tool execution.",
                &SECONDS,
            ),
            cost: cost.with_description("The cost of runs in US dollars.").build(),
        }
    }

    pub(crate) fn record(&self, measurement: &Measurement) {
        let Measurement { metric, value, attributes } = measurement;
        match metric {
            Metric::TokenUsage => self.token_usage.record(*value as u64, attributes),
            Metric::OperationDuration => self.operation_duration.record(*value, attributes),
            Metric::TimeToFirstChunk => self.time_to_first_chunk.record(*value, attributes),
            Metric::AgentDuration => self.agent_duration.record(*value, attributes),
            Metric::ToolDuration => self.tool_duration.record(*value, attributes),
            Metric::Cost => self.cost.add(*value, attributes),
        }
    }
}
