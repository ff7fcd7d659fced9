//! Spans of a run: of the run itself, of its requests and of its calls.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loopwright_core::event::{RunOutcome, RunStatus};
use loopwright_core::message::{AssistantMessage, CallId, MessageId, StopReason, Usage};
use loopwright_core::model::RetryNotice;
use loopwright_core::{Message, TraceContext};
use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::conventions::Model;

/// A run in progress.
pub(crate) struct Run {
    pub(crate) context: TraceContext,
    /// The id of its parent span, or zero.
    parent: u64,
    /// `true` if another process may have recorded the parent span.
    is_remote: bool,
    pub(crate) start: u64,
}

/// A request in progress, without a complete reply.
pub(crate) struct Chat {
    pub(crate) message: MessageId,
    pub(crate) start: u64,
    /// The time of the first part of the reply.
    pub(crate) first: Option<u64>,
    /// The reply once it is complete, and its time.
    pub(crate) reply: Option<Arc<Message>>,
    pub(crate) end: Option<u64>,
    retries: Vec<Event>,
}

/// A call without a result.
pub(crate) struct Call {
    pub(crate) name: Arc<str>,
    pub(crate) start: u64,
    pub(crate) parent: u64,
    pub(crate) context: TraceContext,
    pub(crate) arguments: Option<String>,
    /// `true` if it has waited for a decision.
    pub(crate) was_suspended: bool,
}

/// The attributes shared by all spans of a session.
pub(crate) struct Common<'a> {
    pub(crate) scope: &'a InstrumentationScope,
    pub(crate) session: &'a Arc<str>,
    pub(crate) agent: &'a Arc<str>,
    pub(crate) model: Option<&'a Model>,
}

impl Run {
    pub(crate) fn new(
        trace: &TraceContext,
        context: TraceContext,
        is_remote: bool,
        start: u64,
    ) -> Self {
        let parent = trace.span_id().unwrap_or(0);
        Run { context, parent, is_remote: is_remote && parent != 0, start }
    }

    /// Returns the span of the ended run.
    pub(crate) fn span(
        &self,
        common: &Common<'_>,
        outcome: &RunOutcome,
        error: Option<&str>,
        end: u64,
    ) -> SpanData {
        let mut attributes = Vec::with_capacity(11);
        attributes.push(KeyValue::new("gen_ai.operation.name", "invoke_agent"));
        attributes.push(text("gen_ai.agent.name", common.agent));
        attributes.push(text("gen_ai.conversation.id", common.session));
        common.put_model(&mut attributes);
        put_usage(&mut attributes, &outcome.usage);
        attributes.push(KeyValue::new("loopwright.cost", outcome.cost));
        attributes.push(KeyValue::new("loopwright.run.status", status(outcome.end)));
        let limit = outcome.limit.map(String::from);
        attributes.extend(limit.map(|limit| KeyValue::new("loopwright.run.limit", limit)));
        let name = format!("invoke_agent {}", common.agent);
        let mut span = span(common, name, &self.context, (self.start, end), attributes, error);
        span.parent_span_id = SpanId::from(self.parent);
        span.parent_span_is_remote = self.is_remote;
        span
    }
}

impl Chat {
    pub(crate) fn new(message: MessageId, start: u64) -> Self {
        Chat { message, start, first: None, reply: None, end: None, retries: Vec::new() }
    }

    pub(crate) fn retry(&mut self, notice: &RetryNotice, kind: String, time: u64) {
        let attributes = vec![
            KeyValue::new("error.type", kind),
            KeyValue::new("loopwright.retry.attempt", i64::from(notice.attempt)),
            KeyValue::new("loopwright.retry.delay", notice.delay_ms as f64 / 1000.0),
        ];
        self.retries.push(Event::new("retry", at(time), attributes, 0));
        self.first = None;
    }

    /// Returns the span of the request. `reply` may be incomplete.
    pub(crate) fn span(
        self,
        common: &Common<'_>,
        run: &Run,
        reply: Option<&AssistantMessage>,
        error: Option<&str>,
        end: u64,
    ) -> SpanData {
        let mut attributes = Vec::with_capacity(16);
        attributes.push(KeyValue::new("gen_ai.operation.name", "chat"));
        attributes.push(text("gen_ai.agent.name", common.agent));
        attributes.push(text("gen_ai.conversation.id", common.session));
        attributes.push(KeyValue::new("gen_ai.request.stream", true));
        common.put_model(&mut attributes);
        if let Some(reply) = reply {
            let stop = StringValue::from(stop_reason(reply.stop));
            let stops = Value::Array(Array::String(vec![stop]));
            attributes.push(KeyValue::new("gen_ai.response.finish_reasons", stops));
            attributes.extend(common.model.map(|model| text("gen_ai.response.model", &model.name)));
            put_usage(&mut attributes, &reply.usage);
        }
        if let Some(first) = self.first {
            let time = seconds(self.start, first);
            attributes.push(KeyValue::new("gen_ai.response.time_to_first_chunk", time));
        }
        let name: Cow<'static, str> = match common.model {
            Some(model) => format!("chat {}", model.name).into(),
            None => "chat".into(),
        };
        let context = run.context.reply(common.session, self.message);
        let mut span = span(common, name, &context, (self.start, end), attributes, error);
        span.span_kind = SpanKind::Client;
        span.parent_span_id = SpanId::from(run.context.span_id().unwrap_or(0));
        span.events.events = self.retries;
        span
    }
}

impl Call {
    /// Returns the span of the ended call.
    pub(crate) fn span(
        self,
        common: &Common<'_>,
        call: &CallId,
        error: Option<&str>,
        end: u64,
    ) -> SpanData {
        let mut attributes = Vec::with_capacity(9);
        attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
        attributes.push(text("gen_ai.tool.name", &self.name));
        attributes.push(text("gen_ai.tool.call.id", call));
        attributes.push(KeyValue::new("gen_ai.tool.type", "function"));
        attributes.push(text("gen_ai.agent.name", common.agent));
        attributes.push(text("gen_ai.conversation.id", common.session));
        if let Some(arguments) = self.arguments {
            attributes.push(KeyValue::new("gen_ai.tool.call.arguments", arguments));
        }
        let name = format!("execute_tool {}", self.name);
        let times = (self.start, end);
        let mut span = span(common, name, &self.context, times, attributes, error);
        span.parent_span_id = SpanId::from(self.parent);
        span
    }
}

impl Common<'_> {
    /// Adds the attributes of the model, if it is known.
    pub(crate) fn put_model(&self, attributes: &mut Vec<KeyValue>) {
        let Some(model) = self.model else { return };
        attributes.push(model.provider.clone());
        attributes.push(text("gen_ai.request.model", &model.name));
    }
}

/// Returns an internal span without a parent.
fn span(
    common: &Common<'_>,
    name: impl Into<Cow<'static, str>>,
    context: &TraceContext,
    (start, end): (u64, u64),
    mut attributes: Vec<KeyValue>,
    error: Option<&str>,
) -> SpanData {
    if let Some(error) = error {
        attributes.push(KeyValue::new("error.type", error.to_owned()));
    }
    let state = context.tracestate().and_then(|state| state.parse::<TraceState>().ok());
    let flags = if context.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let span_context = SpanContext::new(
        TraceId::from(context.trace_id()),
        SpanId::from(context.span_id().unwrap_or(0)),
        flags,
        false,
        state.unwrap_or_default(),
    );
    SpanData {
        span_context,
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time: at(start),
        end_time: at(end.max(start)),
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: if error.is_some() { Status::error("") } else { Status::Unset },
        instrumentation_scope: common.scope.clone(),
    }
}

/// Adds the numbers of tokens. In the conventions, input tokens include cached ones.
fn put_usage(attributes: &mut Vec<KeyValue>, usage: &Usage) {
    let counts = [
        ("gen_ai.usage.input_tokens", usage.total().saturating_sub(usage.output)),
        ("gen_ai.usage.output_tokens", usage.output),
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
    ];
    for (index, (name, count)) in counts.into_iter().enumerate() {
        if index < 2 || count > 0 {
            attributes.push(KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX)));
        }
    }
}

pub(crate) fn text(name: &'static str, value: &Arc<str>) -> KeyValue {
    KeyValue::new(name, Value::String(StringValue::from(value.clone())))
}

/// Returns the seconds from `start` to `end`, both in milliseconds.
pub(crate) fn seconds(start: u64, end: u64) -> f64 {
    end.saturating_sub(start) as f64 / 1000.0
}

fn at(time: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(time)).unwrap_or(UNIX_EPOCH)
}

/// Returns the name of a status in JSON.
fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Done => "done",
        RunStatus::AwaitingAction => "awaiting_action",
        RunStatus::Sleeping => "sleeping",
        RunStatus::Aborted => "aborted",
        RunStatus::Error => "error",
        RunStatus::Limit => "limit",
        RunStatus::Incomplete => "incomplete",
        _ => "_OTHER",
    }
}

/// Returns the name of the reason in JSON.
pub(crate) fn stop_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Stop => "stop",
        StopReason::ToolCalls => "tool_calls",
        StopReason::Length => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Interrupted => "interrupted",
        StopReason::Aborted => "aborted",
        StopReason::Error => "error",
        _ => "_OTHER",
    }
}
