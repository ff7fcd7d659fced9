//! [`Encoder`]: converts a session's events to the events of a run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use loopwright_core::event::{AgentEvent, Envelope, ExternalAction, RunOutcome, RunStatus};
use loopwright_core::message::{InputId, MessageKind, Usage};
use loopwright_core::tool::{TodoList, ToolUpdate};
use serde_json::{Value, json};

use super::event::{Event, Events, PROTOCOL_VERSION, content, token_usage};
use super::history::messages;
use super::interrupt::interrupt;
use super::speaker::Speaker;
use crate::encode::{Encode, Progress};
use crate::failure::RunFailure;
use crate::shown_runs::{ShownRuns, Visibility, is_of_sub_agent, request_of};

/// An encoder of the events of a session, and of its sub-agents, as events of a run.
///
/// A custom event of the kind `state` is sent as `STATE_SNAPSHOT` with its data. Other custom
/// events are sent as `CUSTOM`. The model's todo list is an activity of the type `PLAN`. Detached
/// replies that are shown are messages with the name of their speaker. They, and the arguments of a
/// call, are sent once the reply is complete.
#[derive(Default)]
pub struct Encoder {
    thread: Arc<str>,
    run: Arc<str>,
    runs: ShownRuns,
    /// `true` if the client lacks the request that has started the run.
    shows_request: bool,
    /// The request that has started the run, until its message is added.
    request: Option<InputId>,
    agent: Speaker,
    /// The working sub-agents, by their sessions.
    sub_agents: HashMap<Arc<str>, Speaker>,
    /// The number of sub-agent runs so far.
    sub_agent_runs: u64,
    /// The names of the tools whose calls are running.
    tools: HashMap<String, Arc<str>>,
    /// The tokens used by each model.
    usage: BTreeMap<Arc<str>, Usage>,
}

impl Encoder {
    /// Creates the encoder of a run with the client's ids of its thread and itself. It shows these
    /// runs of the session.
    pub fn new(thread: impl Into<Arc<str>>, run: impl Into<Arc<str>>, runs: ShownRuns) -> Self {
        Encoder { thread: thread.into(), run: run.into(), runs, ..Encoder::default() }
    }

    /// Includes the user's request, for a client that has not sent it.
    pub fn show_request(mut self) -> Self {
        self.shows_request = true;
        self
    }

    /// Appends the start of the run. `metadata` comes from the host, such as the id of the session.
    pub fn start(&self, metadata: impl Into<Option<Value>>, to: &mut Events) {
        let mut started = json!({
            "type": "RUN_STARTED", "threadId": self.thread, "runId": self.run,
            "protocolVersion": PROTOCOL_VERSION,
        });
        metadata.into().into_iter().for_each(|metadata| started["metadata"] = metadata);
        self.agent.push(started, to);
    }

    /// Appends the events for an event of the agent, or of a sub-agent. Returns `true` if it voids
    /// text that was shown.
    fn speak(&mut self, envelope: &Envelope, to: &mut Events) -> bool {
        let speaker = match is_of_sub_agent(envelope) {
            false => &mut self.agent,
            true => match self.sub_agents.get_mut(&envelope.session_id) {
                Some(speaker) => speaker,
                None => return false,
            },
        };
        match &envelope.event {
            AgentEvent::TurnStart { turn } => speaker.start_step(*turn, to),
            AgentEvent::TurnEnd { .. } => speaker.end_step(to),
            AgentEvent::MessageUpdate { message_id, update } => {
                return speaker.update(*message_id, update, to);
            }
            AgentEvent::MessageEnd { message } => match &message.body {
                MessageKind::Assistant(reply) => {
                    speaker.reply(message, reply, to);
                    if reply.usage != Usage::default() {
                        *self.usage.entry(reply.model.clone()).or_default() += reply.usage;
                    }
                }
                MessageKind::User(user) if !is_of_sub_agent(envelope) => {
                    let request = self.request.take();
                    if request.is_none() || self.shows_request {
                        let id = request.unwrap_or_else(|| message.id.to_string().into());
                        speaker.message(&id, ("role", "user"), &user.text(), to);
                    }
                }
                MessageKind::Detached(shown) => {
                    let (id, author) = (speaker.message_id(message.id), ("name", &*shown.speaker));
                    speaker.message(&id, author, &shown.reply.text(), to);
                }
                _ => {}
            },
            AgentEvent::ToolExecutionStart { call, name, .. } => {
                self.tools.insert(speaker.call_id(call), name.clone());
            }
            AgentEvent::ToolExecutionUpdate { call, update } => {
                let id = speaker.call_id(call);
                speaker.push(tool_update(&id, update), to);
            }
            AgentEvent::ToolExecutionEnd { call, status, result, .. } => {
                let tool_call_id = speaker.call_id(call);
                self.tools.remove(&tool_call_id);
                let parts = result.as_tool_result().map(|result| content(&result.content));
                let ended = json!({
                    "type": "TOOL_CALL_RESULT", "messageId": speaker.message_id(result.id),
                    "toolCallId": tool_call_id, "role": "tool",
                    "content": parts.unwrap_or_else(|| json!("")), "metadata": { "status": status },
                });
                speaker.push(ended, to);
            }
            AgentEvent::Custom { kind, data } if **kind == *"state" => {
                speaker.push(json!({ "type": "STATE_SNAPSHOT", "snapshot": data }), to);
            }
            AgentEvent::Custom { kind, data } => speaker.push(custom(kind, json!(data)), to),
            AgentEvent::Retry(notice) => speaker.push(custom("retry", json!(notice)), to),
            AgentEvent::Compaction(done) => speaker.push(custom("compaction", json!(done)), to),
            _ => {}
        }
        let plan = plan(&speaker.call_id("todos"), &envelope.event);
        plan.into_iter().for_each(|plan| speaker.push(plan, to));
        false
    }

    /// Starts a sub-agent at its first event, and ends it at the end of its run.
    fn sub_agent(&mut self, envelope: &Envelope, to: &mut Events) {
        let Some(parent) = &envelope.parent else { return };
        let session = &envelope.session_id;
        if !self.sub_agents.contains_key(session) {
            let outer = self.sub_agents.get(&parent.session_id).unwrap_or(&self.agent);
            let call = outer.call_id(&parent.call);
            let name = self.tools.get(&call).unwrap_or(&parent.call);
            let mut started =
                json!({ "type": "SUBAGENT_STARTED", "name": name, "parentToolCallId": call });
            let outer = outer.subagent.iter();
            outer.for_each(|outer| started["parentSubagentRunId"] = json!(outer));
            self.sub_agent_runs += 1;
            let id = format!("{session}.{}", self.sub_agent_runs).into();
            let speaker = Speaker::sub_agent(id, format!("{call}~"));
            speaker.push(started, to);
            self.sub_agents.insert(session.clone(), speaker);
        }
        if let AgentEvent::AgentEnd(outcome) = &envelope.event
            && let Some(mut speaker) = self.sub_agents.remove(session)
        {
            speaker.close(to);
            speaker.push(sub_agent_end(outcome), to);
        }
    }

    /// Ends everything that is open.
    fn close(&mut self, to: &mut Events) {
        let suspended = json!({ "type": "SUBAGENT_FINISHED", "outcome": outcome("suspended") });
        for (_, mut speaker) in self.sub_agents.drain() {
            speaker.close(to);
            speaker.push(suspended.clone(), to);
        }
        self.agent.close(to);
    }

    fn usage(&self) -> Value {
        self.usage.iter().map(token_usage).collect()
    }

    fn error(&self, code: &str, why: &str, to: &mut Events) {
        let error =
            json!({ "type": "RUN_ERROR", "message": why, "code": code, "usage": self.usage() });
        self.agent.push(error, to);
    }
}

impl Encode for Encoder {
    type Event = Event;

    fn encode(&mut self, envelope: &Envelope, to: &mut Events) -> Progress {
        let first = to.len();
        let shown = self.runs.take(envelope);
        match (shown, &envelope.event) {
            (_, AgentEvent::Reset) => {}
            (Visibility::No, _) => return Progress::Continue,
            (Visibility::Withdrawn, _) => return Progress::Finish,
            _ if is_of_sub_agent(envelope) => self.sub_agent(envelope, to),
            (_, AgentEvent::AgentStart { cause, .. }) => self.request = request_of(cause),
            _ => {}
        }
        let is_void = self.speak(envelope, to);
        to.range_mut(first..).for_each(|event| event.0["timestamp"] = envelope.time.into());
        match shown.progress() {
            Progress::Continue if is_void && !is_of_sub_agent(envelope) => Progress::Restate,
            progress => progress,
        }
    }

    fn restate(&mut self, events: &[Envelope], to: &mut Events) {
        let messages = json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages(events) });
        let plan = events.iter().rev().find_map(|envelope| plan("todos", &envelope.event));
        [messages].into_iter().chain(plan).for_each(|event| self.agent.push(event, to));
    }

    fn finish(&mut self, pending: &[ExternalAction], to: &mut Events) {
        self.close(to);
        let ended = self.runs.outcome();
        let outcome = match ended.map(|outcome| outcome.end) {
            Some(RunStatus::Aborted) => outcome("cancelled"),
            None if self.runs.is_withdrawn() => outcome("cancelled"),
            Some(RunStatus::AwaitingAction) | None if !pending.is_empty() => {
                let interrupts: Vec<Value> = pending.iter().map(interrupt).collect();
                json!({ "type": "interrupt", "interrupts": interrupts })
            }
            Some(RunStatus::Done | RunStatus::Sleeping | RunStatus::AwaitingAction) | None => {
                outcome("success")
            }
            Some(_) => {
                let failure = ended.and_then(RunFailure::of);
                let (why, code) = failure.map(|why| (why.sentence(), why.kind)).unwrap_or_default();
                return self.error(&code, &why, to);
            }
        };
        let mut finished = json!({
            "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run,
            "outcome": outcome, "usage": self.usage(),
        });
        if let Some(ended) = ended {
            finished["metadata"] = json!({ "cost": ended.cost });
            ended.limit.iter().for_each(|limit| finished["metadata"]["limit"] = json!(limit));
            ended.value.iter().for_each(|value| finished["result"] = json!(value));
        }
        self.agent.push(finished, to);
    }

    fn cut_off(&mut self, kind: &str, why: &str, to: &mut Events) {
        self.close(to);
        self.error(kind, why, to);
    }
}

fn outcome(kind: &str) -> Value {
    json!({ "type": kind })
}

fn custom(name: &str, value: Value) -> Value {
    json!({ "type": "CUSTOM", "name": name, "value": value })
}

/// Returns a message beside the conversation, which replaces an earlier one with the same id.
fn activity(id: &str, of: &str, content: Value) -> Value {
    json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": of, "content": content })
}

/// Returns the activity that shows the todo list, if the event changes it.
fn plan(id: &str, event: &AgentEvent) -> Option<Value> {
    let list = match event {
        AgentEvent::ToolExecutionEnd { result, .. } => TodoList::written(result)?,
        AgentEvent::Reset => TodoList::default(),
        _ => return None,
    };
    Some(activity(id, "PLAN", json!({ "todos": list })))
}

fn tool_update(call: &str, update: &ToolUpdate) -> Value {
    match update {
        ToolUpdate::Progress(it) => activity(&format!("{call}-progress"), "progress", json!(it)),
        ToolUpdate::Output(delta) => {
            custom("tool_output", json!({ "toolCallId": call, "delta": delta }))
        }
        _ => custom("tool_update", json!({ "toolCallId": call })),
    }
}

fn sub_agent_end(ended: &RunOutcome) -> Value {
    let kind = match ended.end {
        RunStatus::Done | RunStatus::Sleeping => "success",
        RunStatus::AwaitingAction => "suspended",
        _ => {
            let message = RunFailure::of(ended).map(|why| why.sentence());
            return json!({ "type": "SUBAGENT_ERROR", "message": message });
        }
    };
    json!({ "type": "SUBAGENT_FINISHED", "outcome": outcome(kind) })
}
