//! [`TraceContext`]: the position of a run, a request or a call in a distributed trace.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::extensions::Extensions;
use crate::message::{CallId, MessageId, RunId};

/// Maximum length in bytes of a `tracestate` that is kept. W3C Trace Context §3.3.1.5 asks for 512.
const MAX_STATE_BYTES: usize = 512;

/// A trace context: the ids of a trace and of the parent span, as in the headers `traceparent` and
/// `tracestate` of W3C Trace Context.
///
/// A host passes the context of a request with [`Prompt::with`](crate::event::Prompt::with), or the
/// context of a session with [`RunContext::with`](crate::RunContext::with). The run keeps it in its
/// log, so another process that continues the run has it too. From it the session derives the
/// contexts of its model requests ([`ChatRequest::trace`](crate::model::ChatRequest::trace)), of
/// its calls ([`ToolContext::trace`](crate::ToolContext::trace)) and of its sub-agents. A span's id
/// is derived from the context of its run and the number of its reply or call. If the host passes
/// no context, none is derived and nothing is sent.
///
/// ```
/// use loopwright_core::TraceContext;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = TraceContext::parse(header, None).unwrap();
/// assert_eq!(context.traceparent(), header);
/// assert!(context.is_sampled());
/// assert!(TraceContext::parse("00-0-0-0", None).is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Headers", into = "Headers")]
#[schemars(with = "Headers")]
pub struct TraceContext {
    trace_id: u128,
    /// Zero if the trace has no span yet.
    span_id: u64,
    flags: u8,
    state: Option<Arc<str>>,
}

/// A trace context, as the values of its headers in W3C Trace Context.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TraceContext")]
struct Headers {
    /// The header `traceparent`.
    traceparent: String,
    /// The header `tracestate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<Arc<str>>,
}

impl From<TraceContext> for Headers {
    fn from(context: TraceContext) -> Self {
        Headers { traceparent: context.traceparent(), tracestate: context.state }
    }
}

impl TryFrom<Headers> for TraceContext {
    type Error = &'static str;

    fn try_from(headers: Headers) -> Result<Self, Self::Error> {
        let [trace_id, span_id, flags] =
            fields(&headers.traceparent).ok_or("`traceparent` is not of the form of W3C")?;
        let (span_id, flags) = (span_id as u64, flags as u8);
        Ok(TraceContext { trace_id, span_id, flags, state: headers.tracestate })
    }
}

impl TraceContext {
    /// Starts a trace that is sampled and has no span yet. `trace_id` should be random. Zero, which
    /// is not a valid id, is replaced with one.
    pub fn new(trace_id: u128) -> Self {
        TraceContext { trace_id: trace_id.max(1), span_id: 0, flags: 1, state: None }
    }

    /// Parses the header `traceparent`, and `tracestate`, which is dropped if it is longer than 512
    /// bytes or not ASCII text.
    ///
    /// Returns `None` if `traceparent` is malformed, as W3C Trace Context §3.2 asks. Start a new
    /// trace then. Fields appended by later versions are ignored.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let [trace_id, span_id, flags] = fields(traceparent.trim())?;
        if trace_id == 0 || span_id == 0 {
            return None;
        }
        let is_text = |state: &str| state.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let state = tracestate
            .map(str::trim)
            .filter(|state| !state.is_empty() && state.len() <= MAX_STATE_BYTES && is_text(state));
        let (span_id, flags) = (span_id as u64, flags as u8);
        Some(TraceContext { trace_id, span_id, flags, state: state.map(Into::into) })
    }

    /// Returns the value of the header `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags & 1)
    }

    /// Returns the value of the header `tracestate`, if the context has one.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the id of the trace.
    pub fn trace_id(&self) -> u128 {
        self.trace_id
    }

    /// Returns the id of the span; `None` if the trace has no span yet.
    pub fn span_id(&self) -> Option<u64> {
        (self.span_id != 0).then_some(self.span_id)
    }

    /// Returns whether the spans of the trace are recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// Returns the context of a run below this one.
    pub fn run(&self, session: &str, run: RunId) -> TraceContext {
        self.span(session, b'r', &run.0.to_le_bytes())
    }

    /// Returns the context of the request for a reply, below the context of its run.
    pub fn reply(&self, session: &str, message: MessageId) -> TraceContext {
        self.span(session, b'm', &message.0.to_le_bytes())
    }

    /// Returns the context of a call, below the context of its run.
    pub fn call(&self, session: &str, call: &CallId) -> TraceContext {
        self.span(session, b'c', call.as_bytes())
    }

    fn span(&self, session: &str, kind: u8, id: &[u8]) -> TraceContext {
        let mut hash = Sha256::new();
        hash.update(self.trace_id.to_le_bytes());
        hash.update((session.len() as u64).to_le_bytes());
        hash.update(session);
        hash.update([kind]);
        hash.update(id);
        let hash: [u8; 32] = hash.finalize().into();
        let (id, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
        TraceContext { span_id: u64::from_le_bytes(*id).max(1), ..self.clone() }
    }

    /// Returns the context among the host's values.
    pub(crate) fn of(extensions: &Extensions) -> Option<&TraceContext> {
        extensions.get()
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.traceparent())
    }
}

/// Returns the ids and the flags of a `traceparent`.
fn fields(traceparent: &str) -> Option<[u128; 3]> {
    let mut parts = traceparent.split('-');
    let version = hex(parts.next()?, 2)?;
    let fields = [hex(parts.next()?, 32)?, hex(parts.next()?, 16)?, hex(parts.next()?, 2)?];
    let is_known = version != 0xff && (version > 0 || parts.next().is_none());
    is_known.then_some(fields)
}

/// Reads `digits` lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != digits || !text.bytes().all(is_hex) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn malformed_headers_are_no_context() {
        let span = "00f067aa0ba902b7";
        for (header, is_valid) in [
            (format!("00-{TRACE}-{span}-01"), true),
            (format!("00-{TRACE}-{span}-00"), true),
            (format!("01-{TRACE}-{span}-01-later"), true),
            (format!("00-{TRACE}-{span}-01-later"), false),
            (format!("ff-{TRACE}-{span}-01"), false),
            (format!("00-{}-{span}-01", TRACE.to_uppercase()), false),
            (format!("00-{}-{span}-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), false),
            (format!("00-{TRACE}-{span}"), false),
            (format!("00-{TRACE}-{span}-+1"), false),
            (String::new(), false),
            ("é-é-é-é".into(), false),
        ] {
            assert_eq!(TraceContext::parse(&header, None).is_some(), is_valid, "{header}");
        }
    }

    #[test]
    fn a_state_that_is_too_long_is_dropped() {
        let header = format!("00-{TRACE}-00f067aa0ba902b7-00");
        let state = |state: &str| {
            let context = TraceContext::parse(&header, Some(state)).unwrap();
            context.tracestate().map(str::to_owned)
        };
        assert_eq!(state("a=1,b=2").as_deref(), Some("a=1,b=2"));
        assert_eq!(state(&"a".repeat(513)), None);
        assert_eq!(state("a=\u{e9}"), None);
    }

    #[test]
    fn a_context_is_read_as_it_was_written() {
        let header = format!("00-{TRACE}-00f067aa0ba902b7-01");
        for context in [TraceContext::parse(&header, Some("a=1")).unwrap(), TraceContext::new(7)] {
            let json = serde_json::to_string(&context).unwrap();
            assert_eq!(serde_json::from_str::<TraceContext>(&json).unwrap(), context);
        }
    }

    #[test]
    fn the_span_ids_of_a_trace_differ() {
        let trace = TraceContext::new(7);
        let run = trace.run("s", RunId(1));
        let ids = [
            run.span_id(),
            trace.run("t", RunId(1)).span_id(),
            trace.run("s", RunId(2)).span_id(),
            run.reply("s", MessageId(1)).span_id(),
            run.call("s", &"c".into()).span_id(),
            run.call("s", &"d".into()).span_id(),
        ];
        let distinct: std::collections::HashSet<_> = ids.into_iter().flatten().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(trace.run("s", RunId(1)), run);
    }
}
