//! [`ResponseStream`]: the events of a run as events of a response.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::error::ModelErrorKind;
use loopwright_core::event::{Envelope, Role, RunOutcome, Update};
use loopwright_core::message::{AssistantMessage, CallId, ContentPart, Message};
use serde_json::Value;

use super::head::ResponseHead;
use super::outcome::{incomplete, typed_answer};
use super::response::{
    At, CallError, Echo, EventKind, IncompleteDetails, OutputItem, OutputText, Response,
    ResponseError, ResponseEvent, ResponseUsage, Status, SummaryText,
};
use crate::failure::RunFailure;

const COMMENTARY: &str = "commentary";
const FINAL_ANSWER: &str = "final_answer";

/// Converts the events of a run to those of a response. Each reply of the agent is a message, and
/// each call that the agent runs an item of the type `mcp_call`. If the answer has a schema, the
/// last message is the answer alone, and it does not stream.
///
/// If the model's server fails in the middle of a reply, the message so far ends as `incomplete`,
/// and the repeated reply is another message.
#[derive(Debug)]
pub struct ResponseStream {
    head: ResponseHead,
    echo: Echo,
    has_schema: bool,
    wants_reasoning: bool,
    sequence_number: u64,
    output: Vec<OutputItem>,
    /// The message or reasoning that streams; it is the last item, unless calls run.
    open: Option<Open>,
    /// Whether text of the current reply was sent.
    has_text: bool,
    /// Whether reasoning of the current reply was sent.
    has_reasoning: bool,
    /// The items of the calls in progress.
    calls: HashMap<CallId, usize>,
}

/// An item that streams.
#[derive(Debug)]
struct Open {
    index: usize,
    block: u32,
    is_text: bool,
    text: String,
}

impl ResponseStream {
    /// Starts a response. `echo` is what it repeats of its request, `has_schema` says whether the
    /// answer has a schema, and `wants_reasoning` whether the output has the model's reasoning.
    pub fn new(head: ResponseHead, echo: Echo, has_schema: bool, wants_reasoning: bool) -> Self {
        ResponseStream {
            head,
            echo,
            has_schema,
            wants_reasoning,
            sequence_number: 0,
            output: Vec::new(),
            open: None,
            has_text: false,
            has_reasoning: false,
            calls: HashMap::new(),
        }
    }

    /// Appends the first events.
    pub fn start(&mut self, to: &mut VecDeque<ResponseEvent>) {
        let response = self.response(Status::InProgress);
        self.send(EventKind::Created { response: response.clone() }, to);
        self.send(EventKind::InProgress { response }, to);
    }

    /// Appends the events of an event of the run. Those of sub-agents have none.
    pub fn encode(&mut self, envelope: &Envelope, to: &mut VecDeque<ResponseEvent>) {
        if envelope.parent.is_some() {
            return;
        }
        match &envelope.event {
            AgentEvent::MessageStart { role: Role::Assistant, .. } => {
                (self.has_text, self.has_reasoning) = (false, false);
            }
            AgentEvent::MessageUpdate { update, .. } => self.update(update, to),
            AgentEvent::MessageEnd { message } => {
                if let Some(reply) = message.as_assistant() {
                    self.reply(reply, to);
                }
            }
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                self.call(call, name, arguments, to);
            }
            AgentEvent::ToolExecutionEnd { call, is_error, result, .. } => {
                self.result(call, *is_error, result, to);
            }
            AgentEvent::AgentEnd(outcome) => self.end(outcome, to),
            _ => {}
        }
    }

    /// Appends the last event of a response that failed.
    pub fn fail(&mut self, failure: RunFailure, to: &mut VecDeque<ResponseEvent>) {
        self.fail_with("server_error", failure, None, to);
    }

    fn update(&mut self, update: &Update, to: &mut VecDeque<ResponseEvent>) {
        match update {
            Update::Text { block, delta } if !self.has_schema => {
                self.delta(*block, true, delta, to);
            }
            Update::Thinking { block, delta } if self.wants_reasoning => {
                self.delta(*block, false, delta, to);
            }
            Update::ToolCallStart { .. } => {
                self.close(Status::Completed, Some(COMMENTARY), to);
            }
            Update::Withdrawn => {
                self.close(Status::Incomplete, None, to);
                (self.has_text, self.has_reasoning) = (false, false);
            }
            _ => {}
        }
    }

    fn delta(&mut self, block: u32, is_text: bool, delta: &str, to: &mut VecDeque<ResponseEvent>) {
        if delta.is_empty() {
            return;
        }
        match is_text {
            true => self.has_text = true,
            false => self.has_reasoning = true,
        }
        let is_same = |open: &Open| open.block == block && open.is_text == is_text;
        if !self.open.as_ref().is_some_and(is_same) {
            self.close(Status::Completed, None, to);
            self.open(block, is_text, to);
        }
        let Some(open) = &mut self.open else { return };
        open.text.push_str(delta);
        let (at, delta) = (self.at(), delta.to_owned());
        self.send(
            match is_text {
                true => EventKind::TextDelta { at, content_index: 0, delta, logprobs: [] },
                false => EventKind::SummaryDelta { at, summary_index: 0, delta },
            },
            to,
        );
    }

    /// Adds a message or reasoning to the output.
    fn open(&mut self, block: u32, is_text: bool, to: &mut VecDeque<ResponseEvent>) {
        let output_index = self.output.len();
        self.open = Some(Open { index: output_index, block, is_text, text: String::new() });
        let item = self.item(output_index, is_text, None, Status::InProgress, None);
        self.output.push(item.clone());
        self.send(EventKind::ItemAdded { output_index, item }, to);
        let at = self.at();
        self.send(
            match is_text {
                true => EventKind::PartAdded { at, content_index: 0, part: text_part("") },
                false => EventKind::SummaryAdded { at, summary_index: 0, part: summary("") },
            },
            to,
        );
    }

    /// Ends the message or reasoning that streams, if there is one.
    fn close(
        &mut self,
        status: Status,
        phase: Option<&'static str>,
        to: &mut VecDeque<ResponseEvent>,
    ) {
        let (at, Some(open)) = (self.at(), self.open.take()) else { return };
        let Open { index: output_index, is_text, text, .. } = open;
        let item = self.item(output_index, is_text, Some(&text), status, phase);
        self.output[output_index] = item.clone();
        let (part_at, index) = (at.clone(), 0);
        if is_text {
            let part = text_part(&text);
            let done = EventKind::TextDone { at, content_index: index, text, logprobs: [] };
            self.send(done, to);
            self.send(EventKind::PartDone { at: part_at, content_index: index, part }, to);
        } else {
            let part = summary(&text);
            self.send(EventKind::SummaryTextDone { at, summary_index: index, text }, to);
            self.send(EventKind::SummaryDone { at: part_at, summary_index: index, part }, to);
        }
        self.send(EventKind::ItemDone { output_index, item }, to);
    }

    /// Ends a reply, and adds its parts if it did not stream.
    fn reply(&mut self, reply: &AssistantMessage, to: &mut VecDeque<ResponseEvent>) {
        let has_calls = reply.calls().next().is_some();
        let phase = if has_calls { COMMENTARY } else { FINAL_ANSWER };
        self.close(Status::Completed, Some(phase), to);
        // An answer that has a schema is sent at the end of the run.
        let sends_text = !self.has_text && (!self.has_schema || has_calls);
        let sends_reasoning = !self.has_reasoning && self.wants_reasoning;
        for (block, part) in (0..).zip(&reply.parts) {
            match part {
                ContentPart::Text { text, .. } if sends_text => self.delta(block, true, text, to),
                ContentPart::Thinking { text, .. } if sends_reasoning => {
                    self.delta(block, false, text, to);
                }
                _ => {}
            }
            self.close(Status::Completed, Some(phase), to);
        }
    }

    fn call(
        &mut self,
        call: &CallId,
        name: &Arc<str>,
        arguments: &Value,
        to: &mut VecDeque<ResponseEvent>,
    ) {
        self.close(Status::Completed, Some(COMMENTARY), to);
        let output_index = self.output.len();
        let item = |arguments| OutputItem::McpCall {
            id: self.item_id("mcp", output_index),
            server_label: self.head.model.clone(),
            name: name.clone(),
            arguments,
            status: Status::InProgress,
            output: None,
            error: None,
        };
        let (arguments, added) = (arguments.to_string(), item(String::new()));
        let at = At { item_id: self.item_id("mcp", output_index), output_index };
        self.output.push(item(arguments.clone()));
        self.calls.insert(call.clone(), output_index);
        self.send(EventKind::ItemAdded { output_index, item: added }, to);
        self.send(EventKind::CallInProgress { at: at.clone() }, to);
        self.send(EventKind::CallArguments { at, arguments }, to);
    }

    fn result(
        &mut self,
        call: &CallId,
        is_error: bool,
        result: &Message,
        to: &mut VecDeque<ResponseEvent>,
    ) {
        let Some(output_index) = self.calls.remove(call) else { return };
        let Some(OutputItem::McpCall { id, status, output, error, .. }) =
            self.output.get_mut(output_index)
        else {
            return;
        };
        let at = At { item_id: id.clone(), output_index };
        let kind = match is_error {
            true => {
                (*status, *error) = (Status::Failed, Some(CallError { content: result.text() }));
                EventKind::CallFailed { at }
            }
            false => {
                (*status, *output) = (Status::Completed, Some(result.text()));
                EventKind::CallCompleted { at }
            }
        };
        let item = self.output[output_index].clone();
        self.send(kind, to);
        self.send(EventKind::ItemDone { output_index, item }, to);
    }

    fn end(&mut self, outcome: &RunOutcome, to: &mut VecDeque<ResponseEvent>) {
        let usage = Some(ResponseUsage::from(&outcome.usage));
        let failure = RunFailure::of(outcome);
        let reason = incomplete(outcome);
        if let (Some(failure), None) = (&failure, reason) {
            let is_limit = outcome.model_error == Some(ModelErrorKind::RateLimited);
            let code = if is_limit { "rate_limit_exceeded" } else { "server_error" };
            return self.fail_with(code, failure.clone(), usage, to);
        }
        if self.has_schema {
            self.delta(0, true, &typed_answer(outcome), to);
        }
        self.close(Status::Completed, Some(FINAL_ANSWER), to);
        let mut response = self.response(Status::Completed);
        response.usage = usage;
        let Some(reason) = reason else {
            return self.send(EventKind::Completed { response }, to);
        };
        response.status = Status::Incomplete;
        response.incomplete_details = Some(IncompleteDetails { reason });
        self.send(EventKind::Incomplete { response }, to);
    }

    fn fail_with(
        &mut self,
        code: &'static str,
        failure: RunFailure,
        usage: Option<ResponseUsage>,
        to: &mut VecDeque<ResponseEvent>,
    ) {
        self.close(Status::Incomplete, None, to);
        let mut response = self.response(Status::Failed);
        response.error = Some(ResponseError { code, message: failure.message });
        response.usage = usage;
        self.send(EventKind::Failed { response }, to);
    }

    /// Returns the position of the item that streams.
    fn at(&self) -> At {
        let (index, is_text) =
            self.open.as_ref().map_or((0, true), |open| (open.index, open.is_text));
        let kind = if is_text { "msg" } else { "rs" };
        At { item_id: self.item_id(kind, index), output_index: index }
    }

    fn item_id(&self, kind: &str, index: usize) -> String {
        format!("{kind}_{}_{index}", self.head.id)
    }

    fn item(
        &self,
        index: usize,
        is_text: bool,
        text: Option<&str>,
        status: Status,
        phase: Option<&'static str>,
    ) -> OutputItem {
        match is_text {
            true => OutputItem::Message {
                id: self.item_id("msg", index),
                role: "assistant",
                status,
                content: text.map(text_part).into_iter().collect(),
                phase,
            },
            false => OutputItem::Reasoning {
                id: self.item_id("rs", index),
                summary: text.map(summary).into_iter().collect(),
                status,
            },
        }
    }

    fn response(&self, status: Status) -> Response {
        Response {
            id: format!("resp_{}", self.head.id),
            object: "response",
            created_at: self.head.created,
            status,
            error: None,
            incomplete_details: None,
            model: self.head.model.clone(),
            output: self.output.clone(),
            usage: None,
            echo: self.echo.clone(),
            tools: [],
            tool_choice: "auto",
            parallel_tool_calls: true,
            store: false,
            top_p: (),
            previous_response_id: (),
        }
    }

    fn send(&mut self, kind: EventKind, to: &mut VecDeque<ResponseEvent>) {
        to.push_back(ResponseEvent { sequence_number: self.sequence_number, kind });
        self.sequence_number += 1;
    }
}

fn text_part(text: &str) -> OutputText {
    OutputText { text: text.to_owned(), annotations: [], logprobs: [] }
}

fn summary(text: &str) -> SummaryText {
    SummaryText { text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Run, head};

    fn stream(has_schema: bool, wants_reasoning: bool) -> ResponseStream {
        ResponseStream::new(head(), Echo::default(), has_schema, wants_reasoning)
    }

    /// Returns the events, after a check of their numbers and of the items' order.
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
                (&json!(number), &json!(event.name()))
            );
            if event.name() == "response.output_item.added" {
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

    /// What is done is the same whether it streams or not.
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
