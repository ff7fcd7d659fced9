//! [`TextFormat`]: Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

use super::counters::{BUCKETS, Counters, Histogram, RunCounters, Source};

/// A text in this format, under construction.
#[derive(Default)]
pub(super) struct TextFormat(String);

impl TextFormat {
    /// Returns the text.
    pub(super) fn finish(self) -> String {
        self.0
    }

    pub(super) fn runs(&mut self, counters: &Counters) {
        self.head("runs_started_total", "counter", "Runs that were started.");
        self.sample("runs_started_total", &[], counters.runs_started);
        self.head("runs_total", "counter", "Runs that have ended, by agent, model and status.");
        let mut ended = 0;
        for (source, own) in &counters.by_source {
            for (status, count) in &own.runs {
                self.sample("runs_total", &with(source, "status", status), count);
                ended += count;
            }
        }
        let help = "Sessions held for a person, since processes ended while they worked on them.";
        self.head("sessions_held_total", "counter", help);
        for (source, own) in &counters.by_source {
            self.sample("sessions_held_total", &labels(source), own.held);
        }
        self.head("runs_active", "gauge", "Runs in progress.");
        self.sample("runs_active", &[], counters.runs_started.saturating_sub(ended));
        let help = "Turns that were started: model replies and their tool calls.";
        self.head("turns_total", "counter", help);
        self.sample("turns_total", &[], counters.turns);
    }

    pub(super) fn usage(&mut self, counters: &Counters) {
        self.head("tokens_total", "counter", "Tokens, by kind; reasoning is a part of output.");
        for (source, own) in &counters.by_source {
            let kinds = [
                ("input", own.tokens.input),
                ("output", own.tokens.output),
                ("cache_read", own.tokens.cache_read),
                ("cache_write", own.tokens.cache_write),
                ("reasoning", own.tokens.reasoning),
            ];
            for (kind, count) in kinds {
                self.sample("tokens_total", &with(source, "kind", kind), count);
            }
        }
        let help = "US dollars spent, as far as prices are known.";
        self.head("cost_dollars_total", "counter", help);
        for (source, own) in &counters.by_source {
            self.sample("cost_dollars_total", &labels(source), own.cost);
        }
    }

    pub(super) fn times(&mut self, counters: &Counters) {
        type Times = fn(&RunCounters) -> &Histogram;
        let families: [(&str, &str, Times); 3] = [
            ("run_seconds", "How long runs took.", |own| &own.run_seconds),
            ("reply_seconds", "How long model replies took.", |own| &own.reply_seconds),
            (
                "first_token_seconds",
                "How long models took until the first part of a reply.",
                |own| &own.first_token_seconds,
            ),
        ];
        for (name, help, times) in families {
            self.head(name, "histogram", help);
            for (source, own) in &counters.by_source {
                self.histogram(name, &labels(source), times(own));
            }
        }
    }

    pub(super) fn requests(&mut self, counters: &Counters) {
        self.head("http_responses_total", "counter", "Responses of a served server, by status.");
        for (status, count) in &counters.requests {
            self.sample("http_responses_total", &[("status", &status.to_string())], count);
        }
        let help = "Requests and connections that a served server has refused, by kind of error.";
        self.head("refusals_total", "counter", help);
        for (kind, count) in &counters.refusals {
            self.sample("refusals_total", &[("kind", kind)], count);
        }
    }

    /// Writes a histogram, without its `HELP` and `TYPE` lines.
    pub(super) fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        let mut sample = |bound: &str, count| {
            self.sample(&bucket, &[labels, &[("le", bound)]].concat(), count);
        };
        for (bound, count) in BUCKETS.iter().zip(histogram.buckets) {
            sample(&bound.to_string(), count);
        }
        sample("+Inf", histogram.count);
        self.sample(&format!("{name}_sum"), labels, histogram.sum);
        self.sample(&format!("{name}_count"), labels, histogram.count);
    }

    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ =
            writeln!(self.0, "# HELP loopwright_{name} {help}\n# TYPE loopwright_{name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "loopwright_{name}{labels} {value}");
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn labels(source: &Source) -> [(&'static str, &str); 2] {
    [("agent", &source.agent), ("model", &source.model)]
}

fn with<'a>(
    source: &'a Source,
    name: &'static str,
    value: &'a str,
) -> [(&'static str, &'a str); 3] {
    [("agent", &source.agent), ("model", &source.model), (name, value)]
}
