//! [`LoggedTool`]: a tool that returns results from the log.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::shared::SharedReplay;
use crate::error::{ActionRequest, ToolError};
use crate::event::input::Decision;
use crate::log::edited::Edited;
use crate::log::entry::LogEntry;
use crate::message::{ResultStatus, ToolResult};
use crate::session::calls::running_tool::STOPPED_ITSELF;
use crate::tool::{Tool, ToolContext, ToolOutput, ToolSpec};

/// A tool that returns results from the log.
pub(super) struct LoggedTool {
    replay: Arc<SharedReplay>,
    spec: Arc<ToolSpec>,
}

/// The end of a call, and its position in the log.
struct CallEnd {
    at: usize,
    result: Result<ToolResult, ActionRequest>,
}

impl LoggedTool {
    pub(super) fn new(replay: Arc<SharedReplay>, spec: Arc<ToolSpec>) -> Self {
        LoggedTool { replay, spec }
    }

    /// Returns the end of the call, or `None` if the process died during the call.
    fn end(&self, call: &str) -> Option<CallEnd> {
        let progress = self.replay.progress();
        let from = *progress.call_starts.get(call)? + 1;
        let to = self.replay.epochs[progress.epoch].end;
        self.replay.log[from..to].iter().enumerate().find_map(|(n, entry)| {
            let result = match entry {
                LogEntry::CallAwaiting { call: id, request: Some(request), .. }
                    if **id == *call =>
                {
                    Err((**request).clone())
                }
                LogEntry::CallFinished { result } => {
                    let result = result.as_tool_result().filter(|result| *result.call == *call)?;
                    Ok(self.output(result, &self.replay.log[..from]))
                }
                _ => return None,
            };
            Some(CallEnd { at: from + n, result })
        })
    }

    /// Returns what the tool had returned: without the note about edited arguments, if they were.
    fn output(&self, result: &ToolResult, before: &[LogEntry]) -> ToolResult {
        let is_edit = |entry: &LogEntry| match entry {
            LogEntry::Decided { call, decision, .. } => {
                *call == result.call && matches!(**decision, Decision::ApproveWith(_))
            }
            _ => false,
        };
        let mut result = result.clone();
        if before.iter().any(is_edit) {
            Edited::remove_note(&mut result.content);
        }
        result
    }
}

#[async_trait]
impl Tool for LoggedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn check_arguments(&self, _: &Value) -> Option<Result<(), String>> {
        Some(Ok(())) // the tool does not read its arguments
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let cancellation = self.replay.cancellation();
        let end = self.end(cx.call_id());
        self.replay.call_reached_tool(cx.call_id());
        let Some(CallEnd { at, result }) = end else {
            cancellation.cancelled().await;
            return Err(ToolError::Cancelled);
        };
        if !self.replay.reached(at).await {
            return Err(ToolError::Cancelled);
        }
        let result = result.map_err(ToolError::Suspend)?;
        let why = result.text();
        let ToolResult { status, content, details, terminate, seconds, .. } = result;
        let details = details.map(Arc::unwrap_or_clone);
        match (status, details) {
            (ResultStatus::Error, Some(details)) => Err(ToolError::FailedWith { why, details }),
            (ResultStatus::Error, None) => Err(ToolError::Failed(why)),
            (ResultStatus::Aborted | ResultStatus::OutcomeUnknown, details) => {
                // The first line is the engine's.
                let (cause, output) = why.split_once('\n').unwrap_or((&why, ""));
                if cause != STOPPED_ITSELF {
                    tokio::select! {
                        () = cx.cancelled() => {}
                        () = cancellation.cancelled() => {}
                    }
                }
                match (output, details) {
                    ("", None) => Err(ToolError::Cancelled),
                    (output, details) => {
                        let details = details.unwrap_or_default();
                        Err(ToolError::CancelledWith { output: output.into(), details })
                    }
                }
            }
            (_, details) => Ok(ToolOutput { content, details, terminate, seconds }),
        }
    }
}
