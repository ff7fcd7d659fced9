//! Metrics, and spans with the names of OpenTelemetry's conventions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwright_core::message::Usage;
use loopwright_core::model::{ModelError, ModelErrorKind, ModelEvent, RetryNotice};
use loopwright_core::testing::Script;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::api::Api;

/// A subscriber that records all spans: name, parent and fields.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

#[derive(Clone, Debug, Default)]
struct Span {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Spans {
    /// Records the spans of this thread until the guards are dropped.
    fn record() -> (Spans, (tracing::Dispatch, DefaultGuard)) {
        let spans = Spans::default();
        // With a single dispatcher, `tracing` asks only the dispatcher of the thread that meets a
        // callsite first. If that thread belongs to a test without one, the callsite is switched
        // off everywhere. With two dispatchers it asks both.
        let second = tracing::Dispatch::new(spans.clone());
        let guard = tracing::subscriber::set_default(spans.clone());
        (spans, (second, guard))
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("loopwright_server")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let parent = attributes.parent().map(|id| id.into_u64());
        let mut span = Span { name: attributes.metadata().name(), parent, ..Span::default() };
        attributes.record(&mut span);
        let mut spans = self.0.lock().unwrap();
        spans.push(span);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        values.record(&mut self.0.lock().unwrap()[id.into_u64() as usize - 1]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn scripts() -> [Script; 2] {
    let usage = |input, output| Usage::new(input, output).cache(5, 2);
    let reads = Script::new()
        .say("I read.")
        .call("a", "read_file", r#"{"path": "notes.txt"}"#)
        .usage(usage(10, 3));
    [reads, Script::text("Nine.").usage(usage(20, 4))]
}

/// A run is a span, and its requests and calls are spans in it. Names and fields follow
/// OpenTelemetry's conventions.
#[tokio::test(start_paused = true)]
async fn a_run_is_traced_by_the_conventions() {
    let (spans, _guards) = Spans::record();
    let api = Api::new(scripts());
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    reader.until("agent_end").await;
    api.get("/metrics").await; // the observer has received the end too
    let spans = spans.0.lock().unwrap().clone();
    let names: Vec<&str> = spans.iter().map(|span| span.name).collect();
    assert_eq!(names, ["invoke_agent", "chat", "execute_tool", "chat"]);
    assert_eq!(
        spans.iter().map(|span| span.parent).collect::<Vec<_>>(),
        [None, Some(1), Some(1), Some(1)]
    );
    let field = |span: usize, name: &str| spans[span].fields.get(name).cloned().unwrap_or_default();
    for span in 0..4 {
        assert_eq!(field(span, "gen_ai.conversation.id"), id);
    }
    for span in [0, 1, 3] {
        assert_eq!(field(span, "gen_ai.request.model"), "scripted");
        assert_eq!(field(span, "gen_ai.provider.name"), "test");
    }
    assert_eq!(field(1, "otel.name"), "chat scripted");
    assert_eq!(field(1, "gen_ai.usage.input_tokens"), "17");
    assert_eq!(field(1, "gen_ai.usage.cache_read.input_tokens"), "5");
    assert_eq!(field(3, "gen_ai.response.finish_reasons"), "[\"stop\"]");
    assert_eq!(
        (field(2, "gen_ai.tool.name"), field(2, "gen_ai.tool.type")),
        ("read_file".into(), "function".into())
    );
    assert_eq!(
        (field(0, "gen_ai.usage.input_tokens"), field(0, "gen_ai.usage.output_tokens")),
        ("44".into(), "7".into())
    );
}

/// C311: The successful attempt of a reply is counted and traced, whatever happened to earlier
/// attempts. Failed attempts have spans of their own.
#[tokio::test(start_paused = true)]
async fn a_reply_that_was_retried_is_counted() {
    let seconds = Duration::from_secs;
    let error = ModelError::new(ModelErrorKind::Overloaded, "busy");
    let retry =
        |attempt| ModelEvent::Retry(RetryNotice::new(attempt, 4, seconds(5), &error).into());
    let script = Script::new()
        .wait(seconds(1)) // it breaks off
        .say("Ei")
        .wait(seconds(9))
        .withdraw()
        .event(retry(2))
        .wait(seconds(5 + 3)) // it fails at once
        .event(retry(3))
        .wait(seconds(5 + 2)) // another model takes over from this one
        .say("Te")
        .withdraw()
        .wait(seconds(4))
        .say("Nine.")
        .wait(seconds(16))
        .usage(Usage::new(20, 4));
    let (spans, _guards) = Spans::record();
    let api = Api::new([script]);
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    reader.until("agent_end").await;
    let metrics = api.get("/metrics").await;
    let text = metrics.as_str().unwrap();
    let source = "{agent=\"coding\",model=\"test/scripted\"}";
    for line in [
        "tokens_total{agent=\"coding\",model=\"test/scripted\",kind=\"output\"} 4",
        &format!("reply_seconds_count{source} 1"),
        &format!("reply_seconds_sum{source} 20"),
        &format!("first_token_seconds_count{source} 3"),
        &format!("first_token_seconds_sum{source} 7"),
    ] {
        assert!(text.contains(&format!("loopwright_{line}\n")), "{line} is not in\n{text}");
    }
    let spans = spans.0.lock().unwrap().clone();
    let ends: Vec<&str> = spans
        .iter()
        .filter(|span| span.name == "chat")
        .map(|span| {
            let end = span.fields.get("error.type");
            end.or_else(|| span.fields.get("gen_ai.response.finish_reasons")).unwrap().as_str()
        })
        .collect();
    assert_eq!(ends, ["withdrawn", "overloaded", "withdrawn", "[\"stop\"]"]);
}

/// Runs of `/api/agent-chat` are counted too, even if the client has disconnected.
#[tokio::test(start_paused = true)]
async fn runs_of_one_request_are_counted() {
    let api = Api::new([Script::text("Nine."), Script::new().say("half").hang()]);
    let config = json!({ "apiKey": "k", "model": "m", "provider": "openai" });
    let body = json!({ "message": "How many?", "workDir": ".", "llmConfig": config });
    let (status, frames) = api.post("/api/agent-chat", body.clone()).await;
    assert_eq!(status, 200, "{frames}");
    let mut dropped = api.stream("/api/agent-chat", body).await;
    dropped.next_text().await.unwrap();
    drop(dropped);
    let metrics = api.get("/metrics").await;
    for line in [
        "runs_total{agent=\"coding\",model=\"test/scripted\",status=\"done\"} 1",
        "runs_total{agent=\"coding\",model=\"test/scripted\",status=\"interrupted\"} 1",
        "runs_active 0",
        "event_streams 0",
    ] {
        assert!(
            metrics.as_str().unwrap().contains(&format!("loopwright_{line}\n")),
            "{line} is not in\n{metrics}"
        );
    }
}

/// C210: Metrics are in Prometheus' format.
#[tokio::test(start_paused = true)]
async fn metrics_count_what_has_happened() {
    let api = Api::new(scripts());
    let id = api.session(json!({})).await;
    let mut reader = api.events(&id, None).await;
    api.say(&id, "How many?").await;
    reader.until("agent_end").await;
    let metrics = api.get("/metrics").await;
    let text = metrics.as_str().unwrap();
    let lines = [
        "runs_started_total 1",
        "runs_total{agent=\"coding\",model=\"test/scripted\",status=\"done\"} 1",
        "runs_active 0",
        "turns_total 2",
        "tokens_total{agent=\"coding\",model=\"test/scripted\",kind=\"input\"} 30",
        "tokens_total{agent=\"coding\",model=\"test/scripted\",kind=\"output\"} 7",
        "tokens_total{agent=\"coding\",model=\"test/scripted\",kind=\"cache_read\"} 10",
        "tool_calls_total{tool=\"read_file\",status=\"ok\"} 1",
        "run_seconds_count{agent=\"coding\",model=\"test/scripted\"} 1",
        "reply_seconds_bucket{agent=\"coding\",model=\"test/scripted\",le=\"+Inf\"} 2",
        "first_token_seconds_count{agent=\"coding\",model=\"test/scripted\"} 2",
        "tool_seconds_count 1",
        "event_streams 1",
        "live_sessions 1",
    ];
    for line in lines {
        assert!(
            text.lines().any(|have| have == format!("loopwright_{line}")),
            "{line} is not in\n{text}"
        );
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("loopwright_") && value.parse::<f64>().is_ok(), "{line}");
        let family = name.split(['{']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .fold(family, |name, end| name.strip_suffix(end).unwrap_or(name));
        assert!(text.contains(&format!("# TYPE {family} ")), "{line} has no type");
    }
    drop(reader);
    assert!(api.get("/metrics").await.as_str().unwrap().contains("loopwright_event_streams 0\n"));
}
