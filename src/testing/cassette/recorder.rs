//! [`Recorder`]: the recording of an agent's models and tools to a file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::Value;

use super::error::CassetteError;
use super::file::{
    AgentKey, CallEnd, CallLine, Line, Listing, ModelLine, RequestLine, ToolsLine, Writer,
};
use super::request::RecordedRequest;
use super::session_name::{is_random, split};
use crate::model::{ChatRequest, ModelEvent, ModelInfo};
use crate::tool::{ToolContext, ToolUpdate};

/// The recording of an agent's models and tools to a file. A request or call is written when it has
/// ended.
pub(super) struct Recorder {
    writer: Writer,
    /// The names of the sessions with random ids.
    names: HashMap<String, String>,
    /// The last request of each session in the file.
    last: HashMap<String, RecordedRequest>,
    /// The last listing of each source of tools in the file.
    listings: HashMap<(AgentKey, String), Listing>,
    /// Number of requests of each session; `calls` counts the calls.
    requests: HashMap<String, usize>,
    calls: HashMap<String, usize>,
    /// The requests and calls in progress, in starting order.
    open: BTreeMap<Ticket, Open>,
    tickets: Ticket,
    is_finished: bool,
    /// The error if a line could not be written.
    failure: Option<CassetteError>,
}

/// The number of a request or call that has started.
pub(super) type Ticket = u64;

enum Open {
    Request { session: String, number: usize, request: RecordedRequest, events: Vec<ModelEvent> },
    Call(CallLine),
}

impl Recorder {
    pub(super) fn create(path: &Path) -> Result<Self, CassetteError> {
        Ok(Recorder {
            writer: Writer::create(path)?,
            names: HashMap::new(),
            last: HashMap::new(),
            listings: HashMap::new(),
            requests: HashMap::new(),
            calls: HashMap::new(),
            open: BTreeMap::new(),
            tickets: 0,
            is_finished: false,
            failure: None,
        })
    }

    pub(super) fn model(&mut self, of: AgentKey, name: Option<&str>, info: &ModelInfo) {
        let name = name.map(str::to_owned);
        // The next recording, or `finish`, returns the error.
        let _ = self.write(&Line::Model(ModelLine { of, name, info: info.clone() }));
    }

    pub(super) fn listing(
        &mut self,
        of: &AgentKey,
        prefix: &str,
        listing: Listing,
    ) -> Result<(), CassetteError> {
        let key = (of.clone(), prefix.to_owned());
        let is_unchanged = self.listings.get(&key) == Some(&listing);
        let written = if is_unchanged { Listing::Unchanged } else { listing.clone() };
        self.listings.insert(key, listing);
        let (of, prefix) = (of.clone(), prefix.to_owned());
        self.write(&Line::Tools(ToolsLine { of, prefix, listing: written }))
    }

    pub(super) fn start_request(
        &mut self,
        model: Option<&str>,
        request: &ChatRequest,
    ) -> Result<Ticket, CassetteError> {
        self.check()?;
        let session = self.session(&request.session);
        let number = next(&mut self.requests, &session);
        let request = RecordedRequest::new(model, request);
        Ok(self.open(Open::Request { session, number, request, events: Vec::new() }))
    }

    /// Records an event of a reply, and the whole exchange after the last event.
    pub(super) fn event(
        &mut self,
        ticket: Ticket,
        event: &ModelEvent,
    ) -> Result<(), CassetteError> {
        if let Some(Open::Request { events, .. }) = self.open.get_mut(&ticket) {
            events.push(event.clone());
        }
        match event {
            ModelEvent::Done { .. } | ModelEvent::Error(_) => self.end(ticket, false),
            _ => Ok(()),
        }
    }

    pub(super) fn start_call(
        &mut self,
        tool: &str,
        arguments: &Value,
        cx: &ToolContext,
    ) -> Result<Ticket, CassetteError> {
        self.check()?;
        let session = self.session(cx.session_id());
        let call = CallLine {
            number: next(&mut self.calls, &session),
            session,
            id: cx.call_id().clone(),
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            decided: cx.decision().is_some(),
            updates: Vec::new(),
            cancelled: false,
            end: CallEnd::CutOff,
        };
        Ok(self.open(Open::Call(call)))
    }

    pub(super) fn update(&mut self, ticket: Ticket, update: &ToolUpdate) {
        if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
            call.updates.push(update.clone());
        }
    }

    pub(super) fn end_call(
        &mut self,
        ticket: Ticket,
        end: CallEnd,
        cancelled: bool,
    ) -> Result<(), CassetteError> {
        if let Some(Open::Call(call)) = self.open.get_mut(&ticket) {
            (call.end, call.cancelled) = (end, cancelled);
        }
        self.end(ticket, false)
    }

    /// Records a request or call that has ended, once. `cut_off` is true if a reply was dropped.
    pub(super) fn end(&mut self, ticket: Ticket, cut_off: bool) -> Result<(), CassetteError> {
        match self.open.remove(&ticket) {
            None => Ok(()),
            Some(Open::Call(call)) => self.write(&Line::Call(call)),
            Some(Open::Request { session, number, request, events }) => {
                let last = self.last.entry(session.clone()).or_default();
                let change = request.change_from(last);
                *last = request;
                let line = RequestLine { session, number, request: change, events, cut_off };
                self.write(&Line::Request(line))
            }
        }
    }

    /// Records requests and calls in progress as cut off, and ends the file.
    pub(super) fn finish(&mut self) -> Result<(), CassetteError> {
        if !self.is_finished {
            let open: Vec<Ticket> = self.open.keys().copied().collect();
            open.into_iter().try_for_each(|ticket| self.end(ticket, true))?;
            self.write(&Line::End)?;
            self.is_finished = true;
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn open(&mut self, what: Open) -> Ticket {
        self.tickets += 1;
        self.open.insert(self.tickets, what);
        self.tickets
    }

    fn check(&self) -> Result<(), CassetteError> {
        if self.is_finished {
            let why = "is finished: call `Cassette::finish` after the last run has ended";
            return Err(CassetteError::file(self.writer.path(), why));
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn write(&mut self, line: &Line) -> Result<(), CassetteError> {
        self.check()?;
        let written = self.writer.write(line);
        self.failure = written.clone().err();
        written
    }

    /// Returns the name of a session in the file: its id, or a number if the id is random.
    fn session(&mut self, id: &str) -> String {
        let (root, rest) = split(id);
        if !is_random(root) {
            return id.to_owned();
        }
        let number = self.names.len() + 1;
        let name = self.names.entry(root.to_owned()).or_insert_with(|| format!("#{number}"));
        format!("{name}{rest}")
    }
}

/// Returns the next number of a session.
fn next(numbers: &mut HashMap<String, usize>, session: &str) -> usize {
    let number = numbers.entry(session.to_owned()).or_default();
    *number += 1;
    *number
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt;

    use super::*;
    use crate::model::ChatModel;
    use crate::testing::cassette::model::CassetteModel;
    use crate::testing::cassette::tape::{Shared, Tape};
    use crate::testing::{Script, ScriptedModel};

    /// C174: A reply that is not in the file is an error, also for `finish`.
    #[tokio::test]
    async fn a_reply_that_cannot_be_written_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.jsonl");
        let shared = Shared::new(Tape::Record(Recorder::create(&path).unwrap()));
        let model = Arc::new(ScriptedModel::new([Script::text("Hi")]));
        let model = CassetteModel::new(shared.clone(), AgentKey::default(), None, model);
        let events = model.stream(ChatRequest::default());
        if let Tape::Record(recorder) = &mut *shared.lock() {
            recorder.writer = Writer::read_only(&path);
        }
        let events: Vec<_> = events.collect().await;
        let Some(ModelEvent::Error(error)) = events.last() else { panic!("{events:?}") };
        assert!(error.message.contains("full.jsonl cannot be written"), "{error}");
        assert!(!events.iter().any(|event| matches!(event, ModelEvent::Done { .. })), "{events:?}");
        if let Tape::Record(recorder) = &mut *shared.lock() {
            assert!(recorder.finish().is_err());
        }
    }
}
