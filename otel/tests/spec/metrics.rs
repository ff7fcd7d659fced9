//! Metrics: names, units, buckets, attributes, values.

use std::collections::BTreeMap;

use loopwright_core::testing::Script;
use loopwright_otel::{Conventions, Telemetry};
use loopwright_test_support::collector::{Collector, attributes};
use opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use serde_json::json;

use crate::kit::{Note, agent, calls, run, usage};

fn points(collector: &Collector, name: &str) -> (String, Vec<HistogramDataPoint>) {
    let received = collector.received();
    let metric = &received.metrics[name];
    match metric.data.as_ref().unwrap() {
        Data::Histogram(histogram) => (metric.unit.clone(), histogram.data_points.clone()),
        other => panic!("{name} is {other:?}"),
    }
}

/// C392: Metrics have the names, units, buckets and attributes of the conventions.
#[tokio::test]
async fn metrics_have_the_names_units_and_buckets_of_the_conventions() {
    let collector = Collector::start().await;
    let builder = Telemetry::builder().endpoint(&collector.url).conventions(Conventions::Latest);
    let telemetry = builder.build().unwrap();
    let scripts = [calls("note", json!({})), Script::text("Noted.").usage(usage())];
    let (agent, _) = agent(scripts, |builder| builder.tool(Note::new("note")));
    run(&telemetry, &agent, "Note it.").await;
    telemetry.flush().await;

    let (unit, tokens) = points(&collector, "gen_ai.client.token.usage");
    assert_eq!(unit, "{token}");
    let sums: BTreeMap<String, (u64, f64)> = tokens
        .iter()
        .map(|point| {
            let fields = attributes(&point.attributes);
            assert_eq!(fields["gen_ai.operation.name"], "chat");
            assert_eq!(fields["gen_ai.provider.name"], "test");
            assert_eq!(fields["gen_ai.request.model"], "scripted");
            assert_eq!(point.explicit_bounds.len(), 14);
            assert_eq!(point.explicit_bounds[13], 67108864.0);
            (fields["gen_ai.token.type"].clone(), (point.count, point.sum.unwrap()))
        })
        .collect();
    let expected = [("input".to_owned(), (2, 34.0)), ("output".to_owned(), (2, 6.0))];
    assert_eq!(sums, BTreeMap::from(expected));
    for (name, first, last, count) in [
        ("gen_ai.client.operation.duration", 0.01, 81.92, 2),
        ("gen_ai.client.operation.time_to_first_chunk", 0.01, 81.92, 2),
        ("gen_ai.invoke_agent.duration", 0.1, 409.6, 1),
        ("gen_ai.execute_tool.duration", 0.01, 81.92, 1),
    ] {
        let (unit, points) = points(&collector, name);
        assert_eq!((&*unit, points.len()), ("s", 1), "{name}");
        let bounds = &points[0].explicit_bounds;
        assert_eq!((bounds[0], bounds[bounds.len() - 1]), (first, last), "{name}");
        assert_eq!(points[0].count, count, "{name}");
    }
    let (_, calls) = points(&collector, "gen_ai.execute_tool.duration");
    assert_eq!(attributes(&calls[0].attributes)["gen_ai.tool.name"], "note");
}
