//! [`ResponseStream`]: converts the events of a run to the events of a response.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::error::ModelErrorKind;
use loopwright_core::event::{Envelope, Role, RunOutcome};
use loopwright_core::message::{AssistantMessage, CallId, ContentPart, Message};
use loopwright_core::model::Update;
use serde_json::Value;

use super::head::ResponseHead;
use super::outcome::{incomplete, typed_answer};
use super::response::{
    CallError, Echo, IncompleteDetails, OutputItem, Part, Response, ResponseError, ResponseEvent,
    ResponseUsage, Status,
};
use crate::failure::RunFailure;

const COMMENTARY: &str = "commentary";
const FINAL_ANSWER: &str = "final_answer";

/// The types of the events of a text and of a summary: start of the part, delta, whole text, and
/// end of the part.
const TEXT: [&str; 4] = [
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
];
const SUMMARY: [&str; 4] = [
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
];

/// An encoder of the events of a run as events of a response. Each reply of the agent is a message,
/// and each call that the agent runs is an item of the type `mcp_call`. If the answer has a schema,
/// the last message is only the answer, and it is not streamed.
///
/// If the model's server fails in the middle of a reply, the message so far ends as `incomplete`.
/// The repeated reply is another message.
#[derive(Debug, Default)]
pub struct ResponseStream {
    head: ResponseHead,
    echo: Echo,
    has_schema: bool,
    wants_reasoning: bool,
    sequence_number: u64,
    output: Vec<OutputItem>,
    /// The streaming message or reasoning. It is the last item, unless calls run.
    open: Option<Open>,
    /// `true` if text of the current reply was sent.
    has_text: bool,
    /// `true` if reasoning of the current reply was sent.
    has_reasoning: bool,
    /// The items of the calls in progress.
    calls: HashMap<CallId, usize>,
    /// The events that are not sent yet.
    ready: VecDeque<ResponseEvent>,
}

/// A streaming item.
#[derive(Debug)]
struct Open {
    index: usize,
    block: u32,
    is_text: bool,
    text: String,
}

impl ResponseStream {
    /// Creates the encoder of a response. `echo` has the repeated fields of the request.
    /// `has_schema` is true if the answer has a schema. If `wants_reasoning` is true, the output
    /// includes the model's reasoning.
    pub fn new(head: ResponseHead, echo: Echo, has_schema: bool, wants_reasoning: bool) -> Self {
        ResponseStream { head, echo, has_schema, wants_reasoning, ..ResponseStream::default() }
    }

    /// Appends the first events.
    pub fn start(&mut self, to: &mut VecDeque<ResponseEvent>) {
        let response = self.response(Status::InProgress);
        self.send_response("response.created", response.clone());
        self.send_response("response.in_progress", response);
        to.append(&mut self.ready);
    }

    /// Appends the events for an event of the run. Events of sub-agents are ignored.
    pub fn encode(&mut self, envelope: &Envelope, to: &mut VecDeque<ResponseEvent>) {
        if envelope.parent.is_some() {
            return;
        }
        match &envelope.event {
            AgentEvent::MessageStart { role: Role::Assistant, .. } => {
                (self.has_text, self.has_reasoning) = (false, false);
            }
            AgentEvent::MessageUpdate { update, .. } => self.update(update),
            AgentEvent::MessageEnd { message } => {
                if let Some(reply) = message.as_assistant() {
                    self.reply(reply);
                }
            }
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                self.call(call, name, arguments);
            }
            AgentEvent::ToolExecutionEnd { call, is_error, result, .. } => {
                self.result(call, *is_error, result);
            }
            AgentEvent::AgentEnd(outcome) => self.end(outcome),
            _ => {}
        }
        to.append(&mut self.ready);
    }

    /// Appends the last event of a failed response.
    pub fn fail(&mut self, failure: RunFailure, to: &mut VecDeque<ResponseEvent>) {
        self.fail_with("server_error", failure, None);
        to.append(&mut self.ready);
    }

    fn update(&mut self, update: &Update) {
        match update {
            Update::Text { block, delta } if !self.has_schema => self.delta(*block, true, delta),
            Update::Thinking { block, delta } if self.wants_reasoning => {
                self.delta(*block, false, delta);
            }
            Update::ToolCallStart { .. } => self.close(Status::Completed, Some(COMMENTARY)),
            Update::Withdrawn => {
                self.close(Status::Incomplete, None);
                (self.has_text, self.has_reasoning) = (false, false);
            }
            _ => {}
        }
    }

    fn delta(&mut self, block: u32, is_text: bool, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.has_text |= is_text;
        self.has_reasoning |= !is_text;
        let is_same = |open: &Open| open.block == block && open.is_text == is_text;
        if !self.open.as_ref().is_some_and(is_same) {
            self.close(Status::Completed, None);
            self.open(block, is_text);
        }
        let Some(open) = &mut self.open else { return };
        open.text.push_str(delta);
        let (index, delta) = (open.index, Some(delta.to_owned()));
        let logprobs = is_text.then_some([]);
        let [_, kind, ..] = types(is_text);
        self.send(kind, ResponseEvent { delta, logprobs, ..self.at(index, is_text) });
    }

    /// Adds a message or reasoning to the output.
    fn open(&mut self, block: u32, is_text: bool) {
        let index = self.output.len();
        self.open = Some(Open { index, block, is_text, text: String::new() });
        let item = self.item(index, is_text, None, Status::InProgress, None);
        self.output.push(item.clone());
        self.send_item("response.output_item.added", index, item);
        let part = Some(part(is_text, String::new()));
        let [added, ..] = types(is_text);
        self.send(added, ResponseEvent { part, ..self.at(index, is_text) });
    }

    /// Ends the streaming message or reasoning, if any.
    fn close(&mut self, status: Status, phase: Option<&'static str>) {
        let Some(Open { index, is_text, text, .. }) = self.open.take() else { return };
        let whole = part(is_text, text.clone());
        let item = self.item(index, is_text, Some(whole.clone()), status, phase);
        self.output[index] = item.clone();
        let [.., text_done, part_done] = types(is_text);
        let (text, logprobs) = (Some(text), is_text.then_some([]));
        self.send(text_done, ResponseEvent { text, logprobs, ..self.at(index, is_text) });
        let part = Some(whole);
        self.send(part_done, ResponseEvent { part, ..self.at(index, is_text) });
        self.send_item("response.output_item.done", index, item);
    }

    /// Ends a reply, and adds its parts if it was not streamed.
    fn reply(&mut self, reply: &AssistantMessage) {
        let has_calls = reply.calls().next().is_some();
        let phase = if has_calls { COMMENTARY } else { FINAL_ANSWER };
        self.close(Status::Completed, Some(phase));
        // An answer with a schema is sent at the end of the run.
        let sends_text = !self.has_text && (!self.has_schema || has_calls);
        let sends_reasoning = !self.has_reasoning && self.wants_reasoning;
        for (block, part) in (0..).zip(&reply.parts) {
            match part {
                ContentPart::Text { text, .. } if sends_text => self.delta(block, true, text),
                ContentPart::Thinking { text, .. } if sends_reasoning => {
                    self.delta(block, false, text);
                }
                _ => {}
            }
            self.close(Status::Completed, Some(phase));
        }
    }

    fn call(&mut self, call: &CallId, name: &Arc<str>, arguments: &Value) {
        self.close(Status::Completed, Some(COMMENTARY));
        let index = self.output.len();
        let item = |arguments| OutputItem::McpCall {
            id: self.item_id("mcp", index),
            server_label: self.head.model.clone(),
            name: name.clone(),
            arguments,
            status: Status::InProgress,
            output: None,
            error: None,
        };
        let (arguments, added) = (arguments.to_string(), item(String::new()));
        self.output.push(item(arguments.clone()));
        self.calls.insert(call.clone(), index);
        self.send_item("response.output_item.added", index, added);
        self.send("response.mcp_call.in_progress", self.at_item("mcp", index));
        let done = ResponseEvent { arguments: Some(arguments), ..self.at_item("mcp", index) };
        self.send("response.mcp_call_arguments.done", done);
    }

    fn result(&mut self, call: &CallId, is_error: bool, result: &Message) {
        let Some(index) = self.calls.remove(call) else { return };
        let Some(item) = self.output.get_mut(index) else { return };
        let OutputItem::McpCall { status, output, error, .. } = item else { return };
        let kind = match is_error {
            true => {
                (*status, *error) = (Status::Failed, Some(CallError { content: result.text() }));
                "response.mcp_call.failed"
            }
            false => {
                (*status, *output) = (Status::Completed, Some(result.text()));
                "response.mcp_call.completed"
            }
        };
        let item = item.clone();
        self.send(kind, self.at_item("mcp", index));
        self.send_item("response.output_item.done", index, item);
    }

    fn end(&mut self, outcome: &RunOutcome) {
        let usage = Some(ResponseUsage::from(&outcome.usage));
        let failure = RunFailure::of(outcome);
        let reason = incomplete(outcome);
        if let (Some(failure), None) = (&failure, reason) {
            let is_limit = outcome.model_error == Some(ModelErrorKind::RateLimited);
            let code = if is_limit { "rate_limit_exceeded" } else { "server_error" };
            return self.fail_with(code, failure.clone(), usage);
        }
        if self.has_schema {
            self.delta(0, true, &typed_answer(outcome));
        }
        self.close(Status::Completed, Some(FINAL_ANSWER));
        let mut response = self.response(Status::Completed);
        response.usage = usage;
        let Some(reason) = reason else {
            return self.send_response("response.completed", response);
        };
        response.status = Status::Incomplete;
        response.incomplete_details = Some(IncompleteDetails { reason });
        self.send_response("response.incomplete", response);
    }

    fn fail_with(&mut self, code: &'static str, failure: RunFailure, usage: Option<ResponseUsage>) {
        self.close(Status::Incomplete, None);
        let mut response = self.response(Status::Failed);
        response.error = Some(ResponseError { code, message: failure.message });
        response.usage = usage;
        self.send_response("response.failed", response);
    }

    fn item_id(&self, kind: &str, index: usize) -> String {
        format!("{kind}_{}_{index}", self.head.id)
    }

    /// Returns an event about the part of a message, or of reasoning.
    fn at(&self, index: usize, is_text: bool) -> ResponseEvent {
        let (content_index, summary_index) = (is_text.then_some(0), (!is_text).then_some(0));
        let item = self.at_item(if is_text { "msg" } else { "rs" }, index);
        ResponseEvent { content_index, summary_index, ..item }
    }

    fn at_item(&self, kind: &str, index: usize) -> ResponseEvent {
        let (item_id, output_index) = (Some(self.item_id(kind, index)), Some(index));
        ResponseEvent { item_id, output_index, ..ResponseEvent::default() }
    }

    fn item(
        &self,
        index: usize,
        is_text: bool,
        part: Option<Part>,
        status: Status,
        phase: Option<&'static str>,
    ) -> OutputItem {
        let part = part.into_iter().collect();
        match is_text {
            true => OutputItem::Message {
                id: self.item_id("msg", index),
                role: "assistant",
                status,
                content: part,
                phase,
            },
            false => OutputItem::Reasoning { id: self.item_id("rs", index), summary: part, status },
        }
    }

    fn response(&self, status: Status) -> Response {
        Response {
            id: format!("resp_{}", self.head.id),
            object: "response",
            created_at: self.head.created,
            status,
            model: self.head.model.clone(),
            output: self.output.clone(),
            echo: self.echo.clone(),
            tool_choice: "auto",
            parallel_tool_calls: true,
            ..Response::default()
        }
    }

    fn send_response(&mut self, kind: &'static str, response: Response) {
        self.send(kind, ResponseEvent { response: Some(response), ..ResponseEvent::default() });
    }

    fn send_item(&mut self, kind: &'static str, index: usize, item: OutputItem) {
        let (output_index, item) = (Some(index), Some(item));
        self.send(kind, ResponseEvent { output_index, item, ..ResponseEvent::default() });
    }

    fn send(&mut self, r#type: &'static str, event: ResponseEvent) {
        let sequence_number = self.sequence_number;
        self.ready.push_back(ResponseEvent { r#type, sequence_number, ..event });
        self.sequence_number += 1;
    }
}

fn types(is_text: bool) -> [&'static str; 4] {
    if is_text { TEXT } else { SUMMARY }
}

fn part(is_text: bool, text: String) -> Part {
    match is_text {
        true => Part::OutputText { text, annotations: [], logprobs: [] },
        false => Part::SummaryText { text },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Run, head};

    fn stream(has_schema: bool, wants_reasoning: bool) -> ResponseStream {
        ResponseStream::new(head(), Echo::default(), has_schema, wants_reasoning)
    }

    /// Returns the events, after checking their numbers and the order of the items.
    fn events(mut stream: ResponseStream, run: &Run) -> Vec<Value> {
        let mut to = VecDeque::new();
        stream.start(&mut to);
        run.0.iter().for_each(|envelope| stream.encode(envelope, &mut to));
        let mut events = Vec::new();
        let mut items = 0;
        for (number, event) in to.iter().enumerate() {
            let value = serde_json::to_value(event).unwrap();
            assert_eq!(
                (&value["sequence_number"], &value["type"]),
                (&json!(number), &json!(event.r#type))
            );
            if event.r#type == "response.output_item.added" {
                assert_eq!(value["output_index"], items);
                items += 1;
            }
            events.push(value);
        }
        events
    }

    fn names(events: &[Value]) -> Vec<&str> {
        events
            .iter()
            .map(|event| event["type"].as_str().unwrap().trim_start_matches("response."))
            .collect()
    }

    fn output(events: &[Value]) -> &Value {
        &events.last().unwrap()["response"]["output"]
    }

    #[test]
    fn replies_calls_and_reasoning_are_items() {
        let run = Run::new()
            .thoughtful("Hm.", "I count.", "c")
            .call("c", "count", "nine", true)
            .reply(&["Ni", "ne."])
            .end();
        let events = events(stream(false, true), &run);
        assert_eq!(
            names(&events),
            [
                "created",
                "in_progress",
                "output_item.added",
                "reasoning_summary_part.added",
                "reasoning_summary_text.delta",
                "reasoning_summary_text.done",
                "reasoning_summary_part.done",
                "output_item.done",
                "output_item.added",
                "content_part.added",
                "output_text.delta",
                "output_text.done",
                "content_part.done",
                "output_item.done",
                "output_item.added",
                "mcp_call.in_progress",
                "mcp_call_arguments.done",
                "mcp_call.completed",
                "output_item.done",
                "output_item.added",
                "content_part.added",
                "output_text.delta",
                "output_text.delta",
                "output_text.done",
                "content_part.done",
                "output_item.done",
                "completed",
            ]
        );
        let output = output(&events).as_array().unwrap();
        let kinds: Vec<&Value> = output.iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["reasoning", "message", "mcp_call", "message"]);
        assert_eq!(
            (&output[1]["phase"], &output[3]["phase"]),
            (&json!("commentary"), &json!("final_answer"))
        );
        assert_eq!(
            (&output[2]["output"], &output[2]["arguments"]),
            (&json!("nine"), &json!("{\"of\":\"sheep\"}"))
        );
        assert_eq!(output[3]["content"][0]["text"], "Nine.");
        assert_eq!(events.last().unwrap()["response"]["usage"]["total_tokens"], 5);
    }

    /// The completed output is the same with and without streaming.
    #[test]
    fn without_deltas_the_output_is_the_same() {
        let run = || {
            Run::new()
                .thoughtful("Hm.", "I count.", "c")
                .call("c", "count", "none", false)
                .reply(&["Ni", "ne."])
                .end()
        };
        for wants_reasoning in [true, false] {
            let whole = events(stream(false, wants_reasoning), &run().without_deltas());
            assert_eq!(output(&whole), output(&events(stream(false, wants_reasoning), &run())));
            let failed = output(&whole).as_array().unwrap();
            let call = failed.iter().find(|item| item["type"] == "mcp_call").unwrap();
            assert_eq!((&call["status"], &call["output"]), (&json!("failed"), &Value::Null));
            assert_eq!(call["error"]["content"], "none");
        }
    }

    #[test]
    fn a_withdrawn_reply_ends_incomplete() {
        let run = Run::new().withdrawn("Wrong").reply(&["Right."]).end();
        let streamed = events(stream(false, false), &run);
        let output_of = output(&streamed).as_array().unwrap();
        assert_eq!(
            (&output_of[0]["status"], &output_of[1]["status"]),
            (&json!("incomplete"), &json!("completed"))
        );
        let whole = events(stream(false, false), &run.without_deltas());
        assert_eq!(output(&whole).as_array().unwrap().len(), 1);
    }

    #[test]
    fn an_answer_with_a_schema_is_the_last_message() {
        let run = Run::new()
            .thoughtful("Hm.", "I count.", "c")
            .call("c", "count", "nine", true)
            .reply(&["{\"n\": ", "9}"])
            .end_with(|outcome| outcome.value = Some(Arc::new(json!({ "n": 9 }))));
        let events = events(stream(true, true), &run);
        let texts: Vec<&Value> = output(&events)
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["type"] == "message")
            .map(|item| &item["content"][0]["text"])
            .collect();
        assert_eq!(texts, ["I count.", "{\"n\":9}"]);
    }

    #[test]
    fn a_run_without_an_answer_has_a_reason() {
        use loopwright_core::event::{IncompleteReply, RunStatus};
        let cut = Run::new().reply(&["It"]).end_with(|outcome| {
            (outcome.end, outcome.incomplete) =
                (RunStatus::Incomplete, Some(IncompleteReply::Length));
        });
        let events_of = |run: &Run| events(stream(false, false), run);
        let last = events_of(&cut).pop().unwrap();
        assert_eq!(last["type"], "response.incomplete");
        assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
        let run = Run::new().end_with(|outcome| outcome.end = RunStatus::AwaitingAction);
        let last = events_of(&run).pop().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["status"]),
            (&json!("response.failed"), &json!("failed"))
        );
        let message = last["response"]["error"]["message"].as_str().unwrap();
        assert!(message.contains("approval"), "{message}");
    }
}
