//! The state of one session in a fold: its run, its request and its calls.

use std::collections::HashMap;
use std::sync::Arc;

use loopwright_core::event::{Envelope, RunOutcome, RunStatus};
use loopwright_core::message::{AssistantMessage, CallId, MessageId, ResultStatus, StopReason};
use loopwright_core::model::RetryNotice;
use loopwright_core::{Message, TraceContext};
use opentelemetry::InstrumentationScope;
use opentelemetry::KeyValue;
use serde_json::Value;

use crate::content;
use crate::conventions::{Conventions, Model};
use crate::signal::{Measurement, Metric, Signal};
use crate::span::{Call, Chat, Common, Run, seconds, stop_reason, text};

/// The context in which an event is applied.
pub(crate) struct Cx<'a> {
    pub(crate) conventions: Conventions,
    pub(crate) captures_content: bool,
    pub(crate) scope: &'a InstrumentationScope,
    /// The id of the session.
    pub(crate) id: &'a Arc<str>,
    /// The time of the event, in milliseconds since 1970.
    pub(crate) now: u64,
}

/// A session with work in progress.
#[derive(Default)]
pub(crate) struct Session {
    /// The name of its agent. For a sub-agent, the name of its tool.
    agent: Arc<str>,
    /// The model of the last reply. Before the first reply, the agent's; unknown for a sub-agent.
    model: Option<Model>,
    run: Option<Run>,
    chat: Option<Chat>,
    calls: HashMap<CallId, Call>,
    /// The messages sent to the model since its last reply, if content is captured.
    input: Vec<Arc<Message>>,
}

impl Session {
    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Returns whether the session has no work in progress.
    pub(crate) fn is_unused(&self) -> bool {
        self.run.is_none() && self.calls.is_empty()
    }

    /// Returns the name and the context of a call in progress.
    pub(crate) fn call(&self, call: &CallId) -> Option<(Arc<str>, TraceContext)> {
        let call = self.calls.get(call)?;
        Some((call.name.clone(), call.context.clone()))
    }

    pub(crate) fn start_run(
        &mut self,
        event: &Envelope,
        trace: &TraceContext,
        agent: Arc<str>,
        model: Option<Model>,
    ) {
        (self.agent, self.model, self.chat) = (agent, model, None);
        let context = trace.run(&event.session_id, event.run_id);
        self.run = Some(Run::new(trace, context, event.parent.is_none(), event.time));
    }

    /// Notes the time of the first part of a reply. A withdrawn reply has none.
    pub(crate) fn receive_part(&mut self, is_withdrawn: bool, now: u64) {
        let Some(chat) = &mut self.chat else { return };
        match is_withdrawn {
            true => chat.first = None,
            false => _ = chat.first.get_or_insert(now),
        }
    }

    /// Notes that a request is sent again. Without a request in progress the notice is about
    /// another one, such as a request for a summary.
    pub(crate) fn retry(&mut self, notice: &RetryNotice, now: u64) {
        if let Some(chat) = &mut self.chat {
            chat.retry(notice, enum_name(&notice.kind), now);
        }
    }

    pub(crate) fn start_chat(
        &mut self,
        cx: &Cx<'_>,
        message: MessageId,
        emit: &mut dyn FnMut(Signal),
    ) {
        self.end_chat(cx, Some("_OTHER"), emit);
        self.chat = Some(Chat::new(message, cx.now));
    }

    pub(crate) fn receive_message(
        &mut self,
        cx: &Cx<'_>,
        message: &Arc<Message>,
        emit: &mut dyn FnMut(Signal),
    ) {
        let Some(reply) = message.as_assistant() else {
            if cx.captures_content {
                self.input.push(message.clone());
            }
            return;
        };
        let Some(chat) = &mut self.chat else { return };
        (chat.reply, chat.end) = (Some(message.clone()), Some(cx.now));
        if reply.stop != StopReason::Error {
            self.end_chat(cx, None, emit); // else the end of the run says what failed
        }
    }

    /// Notes the model of a reply.
    fn note_model(&mut self, cx: &Cx<'_>, id: &Arc<str>) {
        if !id.is_empty() && self.model.as_ref().is_none_or(|model| model.id != *id) {
            self.model = Some(Model::new(cx.conventions, id));
        }
    }

    /// Ends the request in progress, if any.
    fn end_chat(&mut self, cx: &Cx<'_>, error: Option<&str>, emit: &mut dyn FnMut(Signal)) {
        let Some(chat) = self.chat.take() else { return };
        let message = chat.reply.clone();
        let reply = message.as_ref().and_then(|message| message.as_assistant());
        if let Some(reply) = reply {
            self.note_model(cx, &reply.model);
        }
        let Some(run) = &self.run else { return };
        let common = self.common(cx);
        let end = chat.end.unwrap_or(cx.now);
        let mut attributes = vec![KeyValue::new("gen_ai.operation.name", "chat")];
        common.put_model(&mut attributes);
        if let Some(reply) = reply {
            attributes.extend(common.model.map(|model| text("gen_ai.response.model", &model.name)));
            record_usage(reply, &attributes, emit);
        }
        if let Some(first) = chat.first {
            let time = seconds(chat.start, first);
            measure(Metric::TimeToFirstChunk, time, attributes.clone(), emit);
        }
        if let Some(error) = error {
            attributes.push(KeyValue::new("error.type", error.to_owned()));
        }
        measure(Metric::OperationDuration, seconds(chat.start, end), attributes, emit);
        if run.context.is_sampled() {
            let mut span = chat.span(&common, run, reply, error, end);
            if cx.captures_content {
                let input = content::input(&self.input);
                span.attributes.push(KeyValue::new("gen_ai.input.messages", input));
                if let Some(reply) = reply {
                    let output = content::output(reply, stop_reason(reply.stop));
                    span.attributes.push(KeyValue::new("gen_ai.output.messages", output));
                }
            }
            emit(Signal::Span(Box::new(span)));
        }
        self.input.clear();
    }

    pub(crate) fn start_call(
        &mut self,
        cx: &Cx<'_>,
        call: &CallId,
        name: &Arc<str>,
        arguments: &Value,
    ) {
        let Some(run) = &self.run else { return };
        let started = Call {
            name: name.clone(),
            start: cx.now,
            parent: run.context.span_id().unwrap_or(0),
            context: run.context.call(cx.id, call),
            arguments: cx.captures_content.then(|| arguments.to_string()),
            was_suspended: false,
        };
        self.calls.insert(call.clone(), started);
    }

    /// Starts a call, at the start of the run, if this fold has not seen the call's start.
    fn resume_call(&mut self, cx: &Cx<'_>, call: &CallId, name: &Arc<str>) {
        self.start_call(cx, call, name, &Value::Null);
        if let (Some(started), Some(run)) = (self.calls.get_mut(call), &self.run) {
            (started.start, started.was_suspended) = (run.start, true);
            started.arguments = None;
        }
    }

    /// Notes that a call waits for a decision. That time does not count as the tool's.
    pub(crate) fn suspend_call(&mut self, call: &CallId) {
        if let Some(started) = self.calls.get_mut(call) {
            started.was_suspended = true;
        }
    }

    pub(crate) fn end_call(
        &mut self,
        cx: &Cx<'_>,
        call: &CallId,
        status: ResultStatus,
        error: Option<String>,
        result: &Message,
        emit: &mut dyn FnMut(Signal),
    ) {
        if !self.calls.contains_key(call)
            && let Some(result) = result.as_tool_result()
        {
            self.resume_call(cx, call, &result.name);
        }
        let Some(started) = self.calls.remove(call) else { return };
        let common = self.common(cx);
        let ran = !matches!(status, ResultStatus::Denied | ResultStatus::Skipped);
        if ran && !started.was_suspended {
            let mut attributes = vec![
                KeyValue::new("gen_ai.operation.name", "execute_tool"),
                text("gen_ai.tool.name", &started.name),
                KeyValue::new("gen_ai.tool.type", "function"),
                text("gen_ai.agent.name", &self.agent),
            ];
            attributes.extend(error.clone().map(|error| KeyValue::new("error.type", error)));
            measure(Metric::ToolDuration, seconds(started.start, cx.now), attributes, emit);
        }
        if started.context.is_sampled() {
            let mut span = started.span(&common, call, error.as_deref(), cx.now);
            if cx.captures_content {
                let result = result.text();
                span.attributes.push(KeyValue::new("gen_ai.tool.call.result", result));
            }
            emit(Signal::Span(Box::new(span)));
        }
    }

    pub(crate) fn end_run(
        &mut self,
        cx: &Cx<'_>,
        outcome: &RunOutcome,
        emit: &mut dyn FnMut(Signal),
    ) {
        let kind = outcome.model_error.map(|kind| enum_name(&kind));
        let error = matches!(outcome.end, RunStatus::Error | RunStatus::Limit)
            .then(|| kind.clone().unwrap_or_else(|| enum_name(&outcome.end)));
        self.end_chat(cx, error.as_deref(), emit);
        let Some(run) = self.run.take() else { return };
        let common = self.common(cx);
        let mut attributes = vec![text("gen_ai.agent.name", &self.agent)];
        common.put_model(&mut attributes);
        attributes.extend(error.clone().map(|error| KeyValue::new("error.type", error)));
        measure(Metric::AgentDuration, seconds(run.start, cx.now), attributes, emit);
        if run.context.is_sampled() {
            emit(Signal::Span(Box::new(run.span(&common, outcome, error.as_deref(), cx.now))));
        }
    }

    fn common<'a>(&'a self, cx: &Cx<'a>) -> Common<'a> {
        Common { scope: cx.scope, session: cx.id, agent: &self.agent, model: self.model.as_ref() }
    }
}

/// Records the tokens of a reply, if the provider has reported them.
fn record_usage(reply: &AssistantMessage, attributes: &[KeyValue], emit: &mut dyn FnMut(Signal)) {
    let usage = &reply.usage;
    let input = usage.total().saturating_sub(usage.output);
    for (kind, tokens) in [("input", input), ("output", usage.output)] {
        if usage.total() > 0 {
            let mut attributes = attributes.to_vec();
            attributes.push(KeyValue::new("gen_ai.token.type", kind));
            measure(Metric::TokenUsage, tokens as f64, attributes, emit);
        }
    }
}

fn measure(metric: Metric, value: f64, attributes: Vec<KeyValue>, emit: &mut dyn FnMut(Signal)) {
    emit(Signal::Measurement(Measurement { metric, value, attributes }));
}

/// Returns the serialised name of a variant without fields.
pub(crate) fn enum_name(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or("_OTHER").to_owned()
}
