//! A running tool: its state in the session, and the end of its task.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ToolError;
use crate::event::hub::keep_end;
use crate::hooks::{HookContext, ToolCallInfo};
use crate::limits::deadline;
use crate::message::{Content, ResultStatus};
use crate::session::calls::shown_changes::ShownChanges;
use crate::session::panics::panic_text;
use crate::session::request::layers::HookLayers;
use crate::tool::{Outcome, Progress, Report, Tool, ToolContext, ToolOutput, ToolUpdate};

/// Time that a cancelled tool has to return its output.
const CANCEL_GRACE: Duration = Duration::from_millis(200);

/// The result of a call whose tool stopped without being cancelled.
pub(crate) const STOPPED_ITSELF: &str = "The tool stopped itself after it had started.";

/// Bytes of a running tool's output that are kept for late subscribers. Up to twice as many are
/// held before older ones are dropped.
const KEPT_OUTPUT_BYTES: usize = 64 * 1024;

/// A tool that runs.
pub(crate) struct RunningTool {
    pub(crate) cancel: CancellationToken,
    _task: AbortOnDrop,
    started: Instant,
    deadline: Instant,
    /// Maximum time without an update, and its expiry.
    idle: Option<(Duration, Instant)>,
    /// The time limit of the whole call.
    timeout: Duration,
    /// The reason for the cancellation, if the tool was cancelled.
    cancelled: Option<String>,
    pub(crate) interruptible: bool,
    output: OutputBuffer,
    /// Hooks see results before the model does. Output that they have not seen is left out.
    has_hooks: bool,
}

impl RunningTool {
    /// Starts the tool in its own task, so that a tool that blocks its thread or panics harms only
    /// itself.
    pub(crate) fn spawn(
        tool: Arc<dyn Tool>,
        tool_cx: ToolContext,
        info: ToolCallInfo,
        shown: ShownChanges,
        hooks: HookLayers,
        cx: HookContext,
        timeout: Duration,
    ) -> RunningTool {
        let spec = info.tool.clone();
        let has_hooks = !hooks.is_empty();
        let reports: mpsc::Sender<Report> = tool_cx.reports.clone();
        let cancel = tool_cx.cancel.clone();
        let task = tokio::spawn(async move {
            let outcome = if has_hooks {
                let run = || async {
                    if tool_cx.is_cancelled() {
                        return Outcome::Cancelled(None);
                    }
                    run(&*tool, &info.arguments, tool_cx.clone(), &shown).await
                };
                hooks.around_tool_call(&cx, &info, run).await
            } else {
                run(&*tool, &info.arguments, tool_cx, &shown).await
            };
            let _ = reports.send(Report::End(info.call, Box::new(outcome))).await;
        });
        let timeout = spec.timeout.unwrap_or(timeout);
        RunningTool {
            cancel,
            _task: AbortOnDrop(task.abort_handle()),
            started: Instant::now(),
            deadline: deadline(timeout),
            idle: spec.idle_timeout.map(|idle| (idle, deadline(idle))),
            timeout,
            cancelled: None,
            interruptible: spec.interruptible,
            output: OutputBuffer::default(),
            has_hooks,
        }
    }

    /// Returns the whole seconds since the start.
    pub(crate) fn seconds(&self) -> u32 {
        self.started.elapsed().as_secs().try_into().unwrap_or(u32::MAX)
    }

    /// Asks the tool to stop. After a grace period the call gets the result "aborted".
    pub(crate) fn cancel(&mut self, why: &str) {
        self.cancel.cancel();
        self.deadline = self.deadline.min(deadline(CANCEL_GRACE));
        let why = format!("Aborted after it had started, since {why}; it may have had effects.");
        self.cancelled = Some(why);
    }

    /// Returns the time at which the call times out: by its own timeout or the idle timeout.
    pub(crate) fn timeout_at(&self) -> Instant {
        self.idle.map_or(self.deadline, |(_, until)| until.min(self.deadline))
    }

    /// Returns the result of a call whose timeout has expired, with the streamed output.
    pub(crate) fn time_out(self) -> (ResultStatus, ToolOutput) {
        self.cancel.cancel();
        let timed_out = |time: Duration, what: &str| {
            let why =
                format!("It was given up after {time:?} without {what}; it may have had effects.");
            (ResultStatus::Error, why)
        };
        let (status, why) = match (self.idle, &self.cancelled) {
            (Some((idle, until)), _) if until < self.deadline => timed_out(idle, "an update"),
            (_, Some(why)) => (ResultStatus::Aborted, why.clone()),
            (_, None) => timed_out(self.timeout, "an end"),
        };
        (status, after(why, self.streamed()))
    }

    /// Returns the result of a call whose tool stopped early, with the output that it returned or
    /// streamed.
    pub(crate) fn stopped(self, output: Option<ToolOutput>) -> (ResultStatus, ToolOutput) {
        let output = output.unwrap_or_else(|| self.streamed());
        let why = self.cancelled.unwrap_or_else(|| STOPPED_ITSELF.into());
        (ResultStatus::Aborted, after(why, output))
    }

    /// Returns the streamed output, for the model.
    fn streamed(&self) -> ToolOutput {
        match self.output.report() {
            Some(report) if !self.has_hooks => ToolOutput::text(report),
            _ => ToolOutput::default(),
        }
    }

    /// Records an update.
    pub(crate) fn update(&mut self, update: &ToolUpdate) {
        if let Some((idle, until)) = &mut self.idle {
            *until = deadline(*idle);
        }
        self.output.add(update);
    }

    /// Returns the updates so far, merged.
    pub(crate) fn updates_so_far(&self) -> impl Iterator<Item = ToolUpdate> {
        self.output.updates()
    }
}

/// Returns the output after a line with the reason why it is incomplete.
fn after(why: String, mut output: ToolOutput) -> ToolOutput {
    match output.content.first_mut() {
        Some(Content::Text { text }) => *text = format!("{why}\n{text}"),
        _ => output.content.insert(0, Content::text(why)),
    }
    output
}

/// Runs a tool once, unless it would no longer make the changes that were shown.
async fn run(tool: &dyn Tool, arguments: &Value, cx: ToolContext, shown: &ShownChanges) -> Outcome {
    if let Some(refused) = shown.refuse(tool, arguments, &cx).await {
        return refused;
    }
    Outcome::of(AssertUnwindSafe(tool.call(arguments, cx)).catch_unwind().await)
}

/// The updates of a running tool, merged for late subscribers.
#[derive(Default)]
struct OutputBuffer {
    text: String,
    /// Older text was dropped.
    is_cut: bool,
    progress: Option<Box<Progress>>,
}

impl OutputBuffer {
    fn add(&mut self, update: &ToolUpdate) {
        match update {
            ToolUpdate::Output(more) => {
                self.text.push_str(more);
                let bytes = self.text.len();
                keep_end(&mut self.text, KEPT_OUTPUT_BYTES);
                self.is_cut |= self.text.len() < bytes;
            }
            ToolUpdate::Progress(progress) => self.progress = Some(progress.clone()),
        }
    }

    fn updates(&self) -> impl Iterator<Item = ToolUpdate> {
        let text = (!self.text.is_empty()).then(|| ToolUpdate::Output(self.text.clone()));
        text.into_iter().chain(self.progress.clone().map(ToolUpdate::Progress))
    }

    /// Returns the text as a part of a result, or `None` if it is empty.
    fn report(&self) -> Option<String> {
        let what = if self.is_cut { "The end of its output" } else { "Its output so far" };
        (!self.text.is_empty()).then(|| format!("{what}:\n{}", self.text))
    }
}

/// A guard that aborts a task when it is dropped: when the call is closed, or the session ends.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Outcome {
    fn of(ended: std::thread::Result<Result<ToolOutput, ToolError>>) -> Self {
        match ended {
            Ok(Ok(output)) => Outcome::Result(ResultStatus::Ok, output),
            Ok(Err(ToolError::Cancelled)) => Outcome::Cancelled(None),
            Ok(Err(ToolError::CancelledWith { output, details })) => {
                let details = Some(details).filter(|details| !details.is_null());
                Outcome::Cancelled(Some(ToolOutput { details, ..ToolOutput::text(output) }))
            }
            Ok(Err(ToolError::Suspend(request))) => Outcome::Suspended(request),
            Ok(Err(ToolError::Failed(why))) => {
                Outcome::Result(ResultStatus::Error, ToolOutput::text(why))
            }
            Ok(Err(ToolError::FailedWith { why, details })) => {
                Outcome::Result(ResultStatus::Error, ToolOutput::text(why).details(details))
            }
            Err(panic) => {
                let why = format!("The tool panicked: {}", panic_text(&*panic));
                Outcome::Result(ResultStatus::Error, ToolOutput::text(why))
            }
        }
    }
}

/// Cuts the middle out of texts longer than `max_bytes`, and inserts a note about the cut.
pub(crate) fn shortened(content: Vec<Content>, max_bytes: usize) -> Vec<Content> {
    let shorten = |part| match part {
        Content::Text { text } if text.len() > max_bytes => {
            let head = text.floor_char_boundary(max_bytes / 2);
            let tail = text.ceil_char_boundary(text.len() - max_bytes / 2);
            let left_out = tail - head;
            let total = text.len();
            let (head, tail) = (&text[..head], &text[tail..]);
            Content::text(format!(
                "{head}\n[… truncated: {left_out} of {total} bytes are left out here …]\n{tail}"
            ))
        }
        part => part,
    };
    content.into_iter().map(shorten).collect()
}

/// Yields to tasks that have been woken. Unlike `yield_now`, it does not poll the driver, which
/// would cost a system call.
pub(crate) async fn yield_once() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
