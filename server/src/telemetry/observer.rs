//! [`Observer`]: metrics and traces, derived from a session's events.
//!
//! Spans have the names and attributes of OpenTelemetry's conventions for generative AI:
//! `invoke_agent` for a run, `chat` for a reply of the model, `execute_tool` for a call. They are
//! for logs: the feature `otel` exports spans of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::AgentEvent;
use loopwright_core::event::{Envelope, Role, RunStatus};
use loopwright_core::message::{AssistantMessage, CallId};
use loopwright_core::model::Update;
use tokio::time::Instant;
use tracing::{Span, field};

use super::metrics::{Metrics, Source};

/// An observer that counts and traces the events of one session, from the first one on.
pub(crate) struct Observer {
    metrics: Arc<Metrics>,
    source: Source,
    run: Option<Timed>,
    reply: Option<Reply>,
    calls: HashMap<CallId, Timed>,
}

/// A span and its start.
struct Timed {
    start: Instant,
    span: Span,
}

/// A streaming reply of the model.
struct Reply {
    /// The time at which the request of this attempt was or will be sent.
    start: Instant,
    /// The span of this attempt. `None` until the attempt is known to happen.
    span: Option<Span>,
    /// `true` if a part of the reply has arrived.
    has_token: bool,
}

impl Reply {
    fn new(span: Span) -> Self {
        Reply { start: Instant::now(), span: Some(span), has_token: false }
    }

    /// Ends an attempt whose output was discarded. The next one starts in `delay`.
    fn end_attempt(&mut self, why: &str, delay: Duration) {
        if let Some(span) = self.span.take() {
            span.record("error.type", why);
        }
        let now = Instant::now();
        self.start = now.checked_add(delay).unwrap_or(now);
        self.has_token = false;
    }
}

impl Timed {
    fn new(span: Span) -> Self {
        Timed { start: Instant::now(), span }
    }
}

impl Observer {
    /// Creates the observer of a session.
    pub(crate) fn new(metrics: Arc<Metrics>, source: Source) -> Self {
        let calls = HashMap::new();
        Observer { metrics, source, run: None, reply: None, calls }
    }

    /// Handles the next event.
    pub(crate) fn observe(&mut self, event: &Envelope) {
        match &event.event {
            AgentEvent::AgentStart { .. } => {
                self.metrics.run_started();
                let span = self.invoke_agent(&event.session_id);
                if let Some(unended) = self.run.replace(Timed::new(span)) {
                    self.metrics.run_ended(&self.source, "interrupted", unended.start.elapsed());
                }
            }
            AgentEvent::Held(_) => self.metrics.session_held(&self.source),
            AgentEvent::TurnStart { .. } => self.metrics.turn_started(),
            AgentEvent::MessageStart { role: Role::Assistant, .. } => {
                self.reply = Some(Reply::new(self.chat(&event.session_id)));
            }
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. } => {
                if let Some(reply) = &mut self.reply {
                    reply.end_attempt("withdrawn", Duration::ZERO);
                }
            }
            AgentEvent::Retry(notice) => {
                // Without a reply, the notice is about another request, such as one for a summary.
                let Some(mut reply) = self.reply.take() else { return };
                let delay = Duration::from_millis(notice.delay_ms);
                reply.end_attempt(&enum_name(&notice.kind), delay);
                reply.span = Some(self.chat(&event.session_id));
                self.reply = Some(reply);
            }
            AgentEvent::MessageUpdate { .. } => {
                let Some(mut reply) = self.reply.take() else { return };
                if reply.span.is_none() {
                    reply.span = Some(self.chat(&event.session_id));
                }
                if !std::mem::replace(&mut reply.has_token, true) {
                    self.metrics.first_token(&self.source, reply.start.elapsed());
                }
                self.reply = Some(reply);
            }
            AgentEvent::MessageEnd { message } => {
                if let (Some(message), Some(reply)) = (message.as_assistant(), self.reply.take()) {
                    self.metrics.reply(&self.source, &message.usage, reply.start.elapsed());
                    let span = reply.span.unwrap_or_else(|| self.chat(&event.session_id));
                    record_reply(&span, message);
                }
            }
            AgentEvent::ToolExecutionStart { call, name, .. } => {
                let span = self.execute_tool(&event.session_id, call, name);
                self.calls.insert(call.clone(), Timed::new(span));
            }
            AgentEvent::ToolExecutionEnd { call, name, status, is_error, .. } => {
                let started = self.calls.remove(call);
                let status = enum_name(status);
                if let (true, Some(started)) = (is_error, &started) {
                    started.span.record("error.type", &*status);
                }
                self.metrics.tool_call(
                    name,
                    &status,
                    started.map(|started| started.start.elapsed()),
                );
            }
            AgentEvent::AgentEnd(outcome) => {
                let Some(run) = self.run.take() else { return };
                let end = enum_name(&outcome.end);
                if matches!(outcome.end, RunStatus::Error | RunStatus::Limit) {
                    run.span.record(
                        "error.type",
                        &*outcome.model_error.map_or(end.clone(), |kind| enum_name(&kind)),
                    );
                }
                run.span.record(
                    "gen_ai.usage.input_tokens",
                    outcome.usage.total() - outcome.usage.output,
                );
                run.span.record("gen_ai.usage.output_tokens", outcome.usage.output);
                self.metrics.run_ended(&self.source, &end, run.start.elapsed());
                self.metrics.cost(&self.source, outcome.cost);
                self.reply = None;
                self.calls.clear();
            }
            _ => {}
        }
    }

    fn invoke_agent(&self, session: &str) -> Span {
        tracing::info_span!(
            parent: None,
            "invoke_agent",
            otel.kind = "internal",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.provider.name = self.provider(),
            gen_ai.agent.name = &*self.source.agent,
            gen_ai.conversation.id = session,
            gen_ai.request.model = self.name(),
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
            error.type = field::Empty,
        )
    }

    fn chat(&self, session: &str) -> Span {
        tracing::info_span!(
            parent: self.parent(),
            "chat",
            otel.name = format_args!("chat {}", self.name()),
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.provider(),
            gen_ai.conversation.id = session,
            gen_ai.request.model = self.name(),
            gen_ai.response.model = field::Empty,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
            gen_ai.usage.cache_read.input_tokens = field::Empty,
            gen_ai.usage.cache_creation.input_tokens = field::Empty,
            error.type = field::Empty,
        )
    }

    fn execute_tool(&self, session: &str, call: &str, name: &str) -> Span {
        tracing::info_span!(
            parent: self.parent(),
            "execute_tool",
            otel.name = format_args!("execute_tool {name}"),
            otel.kind = "internal",
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = name,
            gen_ai.tool.call.id = call,
            gen_ai.tool.r#type = "function",
            gen_ai.conversation.id = session,
            error.type = field::Empty,
        )
    }

    fn parent(&self) -> Option<tracing::Id> {
        self.run.as_ref().and_then(|run| run.span.id())
    }

    fn provider(&self) -> &str {
        self.source.model.split_once('/').map_or("", |(provider, _)| provider)
    }

    fn name(&self) -> &str {
        self.source.model.split_once('/').map_or(&self.source.model, |(_, name)| name)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            self.metrics.run_ended(&self.source, "interrupted", run.start.elapsed());
        }
    }
}

/// Records the attributes of a reply. By the conventions, input tokens include cached ones.
fn record_reply(span: &Span, message: &AssistantMessage) {
    let usage = &message.usage;
    let stop = enum_name(&message.stop);
    span.record(
        "gen_ai.response.model",
        message.model.split_once('/').map_or(&*message.model, |(_, name)| name),
    );
    span.record("gen_ai.response.finish_reasons", field::display(format_args!("[\"{stop}\"]")));
    span.record("gen_ai.usage.input_tokens", usage.total() - usage.output);
    span.record("gen_ai.usage.output_tokens", usage.output);
    span.record("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
    span.record("gen_ai.usage.cache_creation.input_tokens", usage.cache_write);
}

/// Returns the serialised name of a variant without fields.
pub(crate) fn enum_name(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}
