//! [`SessionFold`]: the events of a session and its sub-agents, as spans and measurements.

use std::collections::HashMap;
use std::sync::Arc;

use loopwright_core::TraceContext;
use loopwright_core::event::{AgentEvent, Envelope, Parent, Role, RunOutcome};
use loopwright_core::message::{AssistantMessage, CallId, ToolCall};
use loopwright_core::model::Update;
use loopwright_core::session::AgentState;
use opentelemetry::InstrumentationScope;

use crate::conventions::{Conventions, Model};
use crate::session::{Cx, Session, enum_name};
use crate::signal::{Measurement, Metric, Signal};
use crate::span::text;

/// A fold of the events of a session and its sub-agents
/// ([`AgentHandle::subscribe_tree`](loopwright_core::AgentHandle::subscribe_tree)) into spans and
/// measurements.
///
/// Its times are from the events, in milliseconds. It may miss the start of a run, which happened
/// in another process or before the subscription. Such a run starts with the first of its events.
pub struct SessionFold {
    conventions: Conventions,
    captures_content: bool,
    scope: InstrumentationScope,
    agent: Arc<str>,
    model: Model,
    /// The trace context and the calls of a run in progress before the first event.
    trace: Option<Arc<TraceContext>>,
    open_calls: HashMap<CallId, Arc<str>>,
    sessions: HashMap<Arc<str>, Session>,
    /// The session of the last event, if that was part of a reply but not its end.
    streaming: Option<Arc<str>>,
    /// The number of sessions with a run in progress.
    running: usize,
    /// The recorded cost of the work for the current request.
    recorded_cost: f64,
}

impl SessionFold {
    /// Creates the fold for a session of this agent, with the model `PROVIDER/NAME`.
    pub fn new(
        conventions: Conventions,
        agent: impl Into<Arc<str>>,
        model: impl Into<Arc<str>>,
    ) -> Self {
        SessionFold {
            conventions,
            captures_content: false,
            scope: scope(),
            agent: agent.into(),
            model: Model::new(conventions, &model.into()),
            trace: None,
            open_calls: HashMap::new(),
            sessions: HashMap::new(),
            streaming: None,
            running: 0,
            recorded_cost: 0.0,
        }
    }

    /// Sets whether spans contain messages, arguments and results. Defaults to `false`.
    pub fn capture_content(mut self, captures: bool) -> Self {
        self.captures_content = captures;
        self
    }

    /// Takes work in progress from a snapshot of the session: the trace context of its run, and the
    /// calls that have started.
    pub fn resume(mut self, state: &AgentState) -> Self {
        self.trace = state.trace.clone();
        let mut replies = state.messages.iter().filter_map(|message| message.as_assistant());
        let calls = replies.next_back().into_iter().flat_map(AssistantMessage::calls);
        let is_open = |call: &&ToolCall| state.pending_tool_calls.contains(&call.id);
        self.open_calls =
            calls.filter(is_open).map(|call| (call.id.clone(), call.name.clone())).collect();
        self
    }

    /// Returns whether a run is in progress, in the session or in a sub-agent.
    pub fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Applies the next event, and emits spans and measurements that end with it.
    pub fn apply(&mut self, event: &Envelope, emit: &mut dyn FnMut(Signal)) {
        if let AgentEvent::MessageUpdate { update, .. } = &event.event {
            return self.receive_part(event, matches!(update, Update::Withdrawn));
        }
        self.streaming = None;
        match &event.event {
            AgentEvent::AgentStart { cause, trace } => {
                if event.parent.is_none() && !cause.is_continuation() {
                    self.recorded_cost = 0.0;
                }
                self.trace = None;
                self.start_run(event, trace.as_deref());
            }
            AgentEvent::MessageStart { role: Role::Assistant, message_id } => {
                let (session, cx) = self.running(event);
                session.start_chat(&cx, *message_id, emit);
            }
            AgentEvent::Retry(notice) => {
                if let Some(session) = self.sessions.get_mut(&event.session_id) {
                    session.retry(notice, event.time);
                }
            }
            AgentEvent::MessageEnd { message }
                if self.captures_content || message.as_assistant().is_some() =>
            {
                let (session, cx) = self.running(event);
                session.receive_message(&cx, message, emit);
            }
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                let (session, cx) = self.running(event);
                session.start_call(&cx, call, name, arguments);
            }
            AgentEvent::ExternalAction(action) => {
                if let Some(session) = self.sessions.get_mut(&event.session_id) {
                    session.suspend_call(&action.call);
                }
            }
            AgentEvent::ToolExecutionEnd { call, status, is_error, result, .. } => {
                let (session, cx) = self.running(event);
                let error = is_error.then(|| enum_name(status));
                session.end_call(&cx, call, *status, error, result, emit);
            }
            AgentEvent::AgentEnd(outcome) => {
                let (session, cx) = self.running(event);
                session.end_run(&cx, outcome, emit);
                if session.is_unused() {
                    self.sessions.remove(&event.session_id);
                }
                self.running = self.running.saturating_sub(1);
                if event.parent.is_none() {
                    self.record_cost(outcome, emit);
                }
            }
            _ => {}
        }
    }

    /// Notes a part of a reply. Only the first of consecutive parts counts.
    fn receive_part(&mut self, event: &Envelope, is_withdrawn: bool) {
        let is_same = |id: &Arc<str>| Arc::ptr_eq(id, &event.session_id);
        if self.streaming.as_ref().is_some_and(is_same) && !is_withdrawn {
            return;
        }
        if let Some(session) = self.sessions.get_mut(&event.session_id) {
            session.receive_part(is_withdrawn, event.time);
        }
        self.streaming = (!is_withdrawn).then(|| event.session_id.clone());
    }

    /// Records the cost of the run. An outcome has the cost since the request of the user, whose
    /// work may be several runs.
    fn record_cost(&mut self, outcome: &RunOutcome, emit: &mut dyn FnMut(Signal)) {
        let value = outcome.cost - self.recorded_cost;
        self.recorded_cost = outcome.cost;
        if value > 0.0 {
            let attributes = vec![
                text("gen_ai.agent.name", &self.agent),
                self.model.provider.clone(),
                text("gen_ai.request.model", &self.model.name),
            ];
            emit(Signal::Measurement(Measurement { metric: Metric::Cost, value, attributes }));
        }
    }

    /// Returns the session of an event, which has a run in progress.
    fn running<'a>(&'a mut self, event: &'a Envelope) -> (&'a mut Session, Cx<'a>) {
        if self.sessions.get(&event.session_id).is_none_or(|session| !session.is_running()) {
            let trace = self.trace.take().filter(|_| event.parent.is_none());
            self.start_run(event, trace.as_deref());
        }
        let SessionFold { conventions, captures_content, scope, sessions, .. } = self;
        let session = sessions.entry(event.session_id.clone()).or_default();
        let cx = Cx {
            conventions: *conventions,
            captures_content: *captures_content,
            scope,
            id: &event.session_id,
            now: event.time,
        };
        (session, cx)
    }

    fn start_run(&mut self, event: &Envelope, trace: Option<&TraceContext>) {
        let parent = event.parent.as_deref();
        let call = parent.and_then(|parent| self.call_of(parent));
        let trace = trace.cloned().or_else(|| Some(call.as_ref()?.1.clone()));
        let trace = trace.unwrap_or_else(|| new_trace(event));
        let agent = match (parent, call) {
            (None, _) => self.agent.clone(),
            (Some(_), Some((name, _))) => name,
            (Some(parent), None) => {
                let name = self.open_calls.get(&parent.call).cloned();
                name.unwrap_or_else(|| "sub_agent".into())
            }
        };
        let model = parent.is_none().then(|| self.model.clone());
        let session = self.sessions.entry(event.session_id.clone()).or_default();
        self.running += usize::from(!session.is_running());
        session.start_run(event, &trace, agent, model);
    }

    /// Returns the name and the context of the call for which a sub-agent works.
    fn call_of(&self, parent: &Parent) -> Option<(Arc<str>, TraceContext)> {
        self.sessions.get(&parent.session_id)?.call(&parent.call)
    }
}

/// Returns the scope of all spans.
pub(crate) fn scope() -> InstrumentationScope {
    let version = env!("CARGO_PKG_VERSION");
    InstrumentationScope::builder("loopwright").with_version(version).build()
}

/// Starts the trace of a run for which the host gave no context.
fn new_trace(event: &Envelope) -> TraceContext {
    let half = |n: u128| {
        let seed = TraceContext::new(u128::from(event.time) << 64 | n);
        seed.run(&event.session_id, event.run_id).span_id().unwrap_or(1)
    };
    TraceContext::new(u128::from(half(1)) << 64 | u128::from(half(2)))
}
