//! [`CassetteTool`] and [`CassetteSource`]: tools whose calls are recorded or replayed.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use serde_json::Value;
use tokio::time::Instant;

use super::file::{AgentKey, CallEnd, CallLine, Listing};
use super::recorded_spec::RecordedSpec;
use super::recorder::Ticket;
use super::tape::{CUT_OFF_TIMEOUT, Shared, Tape};
use crate::error::ToolError;
use crate::session::panics::panic_text;
use crate::tool::{Tool, ToolContext, ToolOutput, ToolSource, ToolSpec};

/// A tool of an agent whose calls are recorded or replayed.
pub(super) struct CassetteTool {
    shared: Shared,
    of: AgentKey,
    /// The name in the cassette, with the prefix of the source.
    name: String,
    spec: Arc<ToolSpec>,
    /// The wrapped tool; `None` if a replay has only the recorded specification.
    tool: Option<Arc<dyn Tool>>,
}

impl CassetteTool {
    pub(super) fn new(shared: Shared, of: AgentKey, prefix: &str, tool: Arc<dyn Tool>) -> Self {
        let spec = tool.spec().clone();
        let name = format!("{prefix}{}", spec.name);
        CassetteTool { shared, of, name, spec, tool: Some(tool) }
    }

    async fn record(
        &self,
        ticket: Ticket,
        tool: &dyn Tool,
        arguments: &Value,
        mut cx: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let (shared, outer) = (self.shared.clone(), cx.observer.take());
        cx.observer = Some(Arc::new(move |update| {
            if let Tape::Record(recorder) = &mut *shared.lock() {
                recorder.update(ticket, update);
            }
            outer.iter().for_each(|observer| observer(update));
        }));
        let guard = CallGuard { shared: &self.shared, ticket };
        let cancelled = cx.cancellation();
        let started = Instant::now();
        let mut ended = AssertUnwindSafe(tool.call(arguments, cx)).catch_unwind().await;
        if let Ok(Ok(output)) = &mut ended {
            // A replay takes no time, but what depends on it must be the same.
            let seconds = u32::try_from(started.elapsed().as_secs()).unwrap_or(u32::MAX);
            output.seconds = output.seconds.max(seconds);
        }
        let end = match &ended {
            Ok(result) => CallEnd::of(result),
            Err(panic) => {
                let why = format!("The tool panicked: {}", panic_text(&**panic));
                CallEnd::Failed { why, details: None }
            }
        };
        guard.end(end, cancelled.is_cancelled())?;
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Repeats a recorded call without its effects.
async fn replay(line: CallLine, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    for update in line.updates {
        cx.send(update).await;
    }
    if line.cancelled {
        let cancelled = tokio::time::timeout(CUT_OFF_TIMEOUT, cx.cancelled()).await;
        cancelled.map_err(|_| not_cut_off("was cancelled"))?;
    }
    match line.end.result() {
        Some(result) => result,
        None => {
            // The session drops the call, as it did during recording.
            tokio::time::sleep(CUT_OFF_TIMEOUT).await;
            Err(not_cut_off("was cut off"))
        }
    }
}

fn not_cut_off(what: &str) -> ToolError {
    ToolError::failed(format!(
        "the cassette has a call that {what}; in the replay that did not happen for \
         {CUT_OFF_TIMEOUT:?}"
    ))
}

#[async_trait]
impl Tool for CassetteTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        match &self.tool {
            Some(tool) => tool.check_arguments(arguments),
            None => Some(Ok(())), // the replay has only calls whose arguments were valid
        }
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let started = match &mut *self.shared.lock() {
            Tape::Record(recorder) => {
                recorder.start_call(&self.name, arguments, &cx).map(Started::Recorded)
            }
            Tape::Replay(player) => {
                let line = player.call(&self.of, &self.name, arguments, &cx);
                line.map(|line| Started::Replayed(Box::new(line)))
            }
        };
        match (started.map_err(ToolError::failed)?, &self.tool) {
            (Started::Recorded(ticket), Some(tool)) => {
                self.record(ticket, &**tool, arguments, cx).await
            }
            (Started::Replayed(line), _) => replay(*line, &cx).await,
            (Started::Recorded(_), None) => Err(ToolError::failed("the tool was not recorded")),
        }
    }
}

enum Started {
    Recorded(Ticket),
    Replayed(Box<CallLine>),
}

/// A guard that records a call as cut off if it is dropped before its end.
struct CallGuard<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl CallGuard<'_> {
    fn end(&self, end: CallEnd, cancelled: bool) -> Result<(), ToolError> {
        match &mut *self.shared.lock() {
            Tape::Record(recorder) => {
                recorder.end_call(self.ticket, end, cancelled).map_err(ToolError::failed)
            }
            Tape::Replay(_) => Ok(()),
        }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if let Tape::Record(recorder) = &mut *self.shared.lock()
            && let Err(error) = recorder.end(self.ticket, true)
        {
            tracing::error!(%error, "a call was not recorded");
        }
    }
}

/// A source of tools whose lists and tool calls are recorded or replayed.
pub(super) struct CassetteSource {
    pub(super) shared: Shared,
    pub(super) of: AgentKey,
    pub(super) prefix: String,
    pub(super) source: Arc<dyn ToolSource>,
}

impl CassetteSource {
    async fn record(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let mut listed = self.source.tools().await;
        // A replay takes no time, so the recorder waits until all tools are ready.
        if self.source.ready().now_or_never().is_none() {
            self.source.ready().await;
            listed = self.source.tools().await;
        }
        let listing = match &listed {
            Ok(tools) => {
                let specs = tools.iter().map(|tool| recorded_spec(tool.spec()));
                Listing::Tools(specs.collect::<Result<_, _>>()?)
            }
            Err(error) => Listing::Failed(error.to_string()),
        };
        if let Tape::Record(recorder) = &mut *self.shared.lock() {
            recorder.listing(&self.of, &self.prefix, listing).map_err(ToolError::failed)?;
        }
        let wrap = |tool| {
            let (shared, of) = (self.shared.clone(), self.of.clone());
            Arc::new(CassetteTool::new(shared, of, &self.prefix, tool)) as Arc<dyn Tool>
        };
        Ok(listed?.into_iter().map(wrap).collect())
    }

    fn stand_in(&self, spec: Arc<ToolSpec>) -> Arc<dyn Tool> {
        let (shared, of) = (self.shared.clone(), self.of.clone());
        let name = format!("{}{}", self.prefix, spec.name);
        Arc::new(CassetteTool { shared, of, name, spec, tool: None })
    }
}

fn recorded_spec(spec: &ToolSpec) -> Result<RecordedSpec, ToolError> {
    RecordedSpec::of(spec).ok_or_else(|| {
        ToolError::Failed(format!(
            "a cassette cannot record the tool `{}` of a source: a predicate decides which of its \
             calls need approval; add the tool to the agent itself",
            spec.name
        ))
    })
}

#[async_trait]
impl ToolSource for CassetteSource {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let listing = match &mut *self.shared.lock() {
            Tape::Record(_) => None,
            Tape::Replay(player) => Some(player.listing(&self.of, &self.prefix)),
        };
        let Some(listing) = listing else {
            return self.record().await;
        };
        let unknown =
            || format!("the cassette has no tools of a source with the prefix `{}`", self.prefix);
        let specs = listing.ok_or_else(unknown).and_then(|listing| listing);
        let specs = specs.map_err(ToolError::Failed)?;
        Ok(specs.into_iter().map(|spec| self.stand_in(spec)).collect())
    }
}
