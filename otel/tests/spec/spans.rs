//! Spans: names, kinds, attributes, parents, errors, content.

use loopwright_core::TraceContext;
use loopwright_core::event::Prompt;
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::Script;
use loopwright_otel::{Conventions, Telemetry};
use loopwright_test_support::collector::{Collector, attributes};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};

use crate::kit::{Note, agent, calls, run, usage};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn answer(text: &str) -> Script {
    Script::text(text).usage(usage())
}

/// C387: A run, its requests and its calls are spans of OpenTelemetry's conventions, below the span
/// of the request. Tools and models are sent the contexts of their spans.
#[tokio::test]
async fn spans_have_the_names_and_parents_of_the_conventions() {
    let collector = Collector::start().await;
    let telemetry = Telemetry::builder().endpoint(&collector.url).build().unwrap();
    let note = Note::new("note");
    let scripts = [calls("note", json!({ "text": "a secret argument" })), answer("Noted.")];
    let (agent, model) = agent(scripts, |builder| builder.tool(note.clone()));
    let trace = TraceContext::parse(TRACEPARENT, Some("vendor=1")).unwrap();
    run(&telemetry, &agent, Prompt::from("a secret prompt").with(trace)).await;
    telemetry.flush().await;

    let run = collector.span("invoke_agent boss");
    assert_eq!(run.kind(), SpanKind::Internal);
    assert_eq!(hex(&run.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&run.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(run.trace_state, "vendor=1");
    let fields = attributes(&run.attributes);
    assert_eq!(fields["gen_ai.operation.name"], "invoke_agent");
    assert_eq!(fields["gen_ai.agent.name"], "boss");
    assert_eq!(fields["gen_ai.conversation.id"], "s1");
    assert_eq!(fields["gen_ai.usage.input_tokens"], "34");
    assert_eq!(fields["gen_ai.usage.output_tokens"], "6");
    assert_eq!(fields["loopwright.run.status"], "done");

    let call = collector.span("execute_tool note");
    assert_eq!((call.kind(), &call.parent_span_id), (SpanKind::Internal, &run.span_id));
    let fields = attributes(&call.attributes);
    assert_eq!(fields["gen_ai.tool.name"], "note");
    assert_eq!(fields["gen_ai.tool.call.id"], "c1");
    assert_eq!(fields["gen_ai.tool.type"], "function");
    let sent = note.traces.lock().unwrap()[0].clone().unwrap();
    let context = |span: &[u8]| format!("00-{}-{}-01", hex(&run.trace_id), hex(span));
    assert_eq!(sent.traceparent(), context(&call.span_id));
    assert_eq!(sent.tracestate(), Some("vendor=1"));

    let mut chats = collector.received().spans.clone();
    chats.retain(|span| span.name == "chat scripted");
    assert_eq!(chats.len(), 2);
    for (chat, request) in chats.iter().zip(model.requests()) {
        assert_eq!((chat.kind(), &chat.parent_span_id), (SpanKind::Client, &run.span_id));
        assert_eq!(request.trace.unwrap().traceparent(), context(&chat.span_id));
        let fields = attributes(&chat.attributes);
        assert_eq!(fields["gen_ai.request.model"], "scripted");
        assert_eq!(fields["gen_ai.response.model"], "scripted");
        assert_eq!(fields["gen_ai.request.stream"], "true");
        assert_eq!(fields["gen_ai.usage.input_tokens"], "17");
        assert_eq!(fields["gen_ai.usage.cache_read.input_tokens"], "5");
        assert_eq!(fields["gen_ai.usage.cache_creation.input_tokens"], "2");
        assert!(fields.contains_key("gen_ai.response.time_to_first_chunk"));
    }
    let stops =
        |n: usize| attributes(&chats[n].attributes)["gen_ai.response.finish_reasons"].clone();
    assert_eq!((stops(0), stops(1)), ("tool_calls".into(), "stop".into()));
    assert_eq!(collector.received().resource["service.name"], "loopwright");
    telemetry.shutdown().await;
    assert!(!collector.contains("secret"), "content was sent");
}

/// C388: The span of a sub-agent's run is below the call for which it works, with or without a
/// trace of the host.
#[tokio::test]
async fn the_run_of_a_sub_agent_is_below_its_call() {
    for trace in [None, TraceContext::parse(TRACEPARENT, None)] {
        let collector = Collector::start().await;
        let telemetry = Telemetry::builder().endpoint(&collector.url).build().unwrap();
        let note = Note::new("note");
        let (child, _) =
            agent([calls("note", json!({})), answer("Chapter 7.")], |b| b.tool(note.clone()));
        let scripts = [calls("librarian", json!({ "task": "Where?" })), answer("There.")];
        let (boss, _) = agent(scripts, |b| b.child("librarian", "Finds passages.", child));
        let prompt = Prompt::from("Where is it?");
        let prompt = match &trace {
            Some(trace) => prompt.with(trace.clone()),
            None => prompt,
        };
        run(&telemetry, &boss, prompt).await;
        telemetry.flush().await;
        let root = collector.span("invoke_agent boss");
        let call = collector.span("execute_tool librarian");
        let child = collector.span("invoke_agent librarian");
        let inner = collector.span("execute_tool note");
        assert_eq!(call.parent_span_id, root.span_id);
        assert_eq!(child.parent_span_id, call.span_id);
        assert_eq!(inner.parent_span_id, child.span_id);
        let is_of_root = |span: &str| collector.span(span).trace_id == root.trace_id;
        assert!(is_of_root("invoke_agent librarian") && is_of_root("execute_tool note"));
        let sent = note.traces.lock().unwrap()[0].clone();
        assert_eq!(sent.is_some(), trace.is_some());
        if let Some(sent) = sent {
            assert!(sent.traceparent().contains(&hex(&inner.span_id)));
        }
    }
}

/// C389: `OTEL_SEMCONV_STABILITY_OPT_IN` selects the names of version 1.36.0, or the latest ones.
#[tokio::test]
async fn the_names_are_those_of_the_selected_version() {
    for (conventions, has, has_not) in [
        (Conventions::V1_36, "gen_ai.system", "gen_ai.provider.name"),
        (Conventions::Latest, "gen_ai.provider.name", "gen_ai.system"),
    ] {
        let collector = Collector::start().await;
        let builder = Telemetry::builder().endpoint(&collector.url).conventions(conventions);
        let telemetry = builder.build().unwrap();
        let (agent, _) = agent([answer("Hi.")], |builder| builder);
        run(&telemetry, &agent, "Hello").await;
        telemetry.flush().await;
        telemetry.shutdown().await;
        for name in ["invoke_agent boss", "chat scripted"] {
            assert_eq!(attributes(&collector.span(name).attributes)[has], "test", "{name}");
        }
        assert!(!collector.contains(has_not), "{has_not} was sent");
    }
}

/// C390: Messages, arguments and results are sent only on request.
#[tokio::test]
async fn content_is_sent_on_request() {
    let collector = Collector::start().await;
    let builder = Telemetry::builder().endpoint(&collector.url).capture_content(true);
    let telemetry = builder.build().unwrap();
    let note = Note::new("note");
    let scripts = [calls("note", json!({ "text": "x" })), answer("Noted.")];
    let (agent, _) = agent(scripts, |builder| builder.tool(note));
    run(&telemetry, &agent, "Note it.").await;
    telemetry.flush().await;
    let call = attributes(&collector.span("execute_tool note").attributes);
    assert_eq!(call["gen_ai.tool.call.arguments"], r#"{"text":"x"}"#);
    assert_eq!(call["gen_ai.tool.call.result"], "a secret result");
    let mut chats = collector.received().spans.clone();
    chats.retain(|span| span.name == "chat scripted");
    let json = |chat: usize, name: &str| -> Value {
        serde_json::from_str(&attributes(&chats[chat].attributes)[name]).unwrap()
    };
    let text = |text: &str| json!([{ "type": "text", "content": text }]);
    assert_eq!(
        json(0, "gen_ai.input.messages"),
        json!([{ "role": "user", "parts": text("Note it.") }])
    );
    let part =
        json!({ "type": "tool_call", "id": "c1", "name": "note", "arguments": { "text": "x" } });
    assert_eq!(
        json(0, "gen_ai.output.messages"),
        json!([{ "role": "assistant", "parts": [part], "finish_reason": "tool_call" }])
    );
    let part = json!({ "type": "tool_call_response", "id": "c1", "response": "a secret result" });
    assert_eq!(json(1, "gen_ai.input.messages"), json!([{ "role": "tool", "parts": [part] }]));
    assert_eq!(
        json(1, "gen_ai.output.messages"),
        json!([{ "role": "assistant", "parts": text("Noted."), "finish_reason": "stop" }])
    );
}

/// C391: Failed spans have the status and the type of the error.
#[tokio::test]
async fn what_fails_has_the_status_of_an_error() {
    let collector = Collector::start().await;
    let telemetry = Telemetry::builder().endpoint(&collector.url).build().unwrap();
    let failed = Script::error(ModelErrorKind::Auth, "a secret reason");
    let scripts = [calls("note", json!({ "fails": true })), failed];
    let (agent, _) = agent(scripts, |builder| builder.tool(Note::new("note")));
    run(&telemetry, &agent, "Note it.").await;
    telemetry.flush().await;
    let error = |span: &opentelemetry_proto::tonic::trace::v1::Span| {
        let status = span.status.as_ref().unwrap();
        let is_error = status.code() == StatusCode::Error;
        is_error.then(|| attributes(&span.attributes)["error.type"].clone())
    };
    assert_eq!(error(&collector.span("execute_tool note")).as_deref(), Some("error"));
    assert_eq!(error(&collector.span("invoke_agent boss")).as_deref(), Some("auth"));
    let chats = collector.received().spans.clone();
    let chats: Vec<_> = chats.iter().filter(|span| span.name == "chat scripted").collect();
    assert_eq!(chats.len(), 2);
    assert_eq!(error(chats[0]), None);
    assert_eq!(error(chats[1]).as_deref(), Some("auth"));
    telemetry.shutdown().await;
    assert!(!collector.contains("secret"), "the text of an error was sent");
}

/// A trace that is not sampled has no spans. Its runs are still measured.
#[tokio::test]
async fn a_trace_that_is_not_sampled_has_no_spans() {
    let collector = Collector::start().await;
    let telemetry = Telemetry::builder().endpoint(&collector.url).build().unwrap();
    let (agent, model) = agent([answer("Hi.")], |builder| builder);
    let header = TRACEPARENT.replace("-01", "-00");
    let trace = TraceContext::parse(&header, None).unwrap();
    run(&telemetry, &agent, Prompt::from("Hello").with(trace)).await;
    telemetry.flush().await;
    telemetry.shutdown().await;
    assert!(collector.received().spans.is_empty());
    assert!(collector.received().metrics.contains_key("gen_ai.client.token.usage"));
    assert!(model.requests()[0].trace.as_ref().unwrap().traceparent().ends_with("-00"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
