//! The tools that run: what the session knows of each, and how its task ended.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ToolError;
use crate::message::{CallId, Content, ResultStatus, ToolResult};
use crate::session::hooks::{FnAfterToolCall, ToolCallInfo};
use crate::tool::{Outcome, Progress, Report, ToolOutput, ToolUpdate};

/// The tools that run, and what is known of calls that do not run yet.
#[derive(Default)]
pub(crate) struct Crew {
    pub(crate) running: BTreeMap<CallId, Running>,
    /// Validated calls that have neither started nor been put to the user.
    pub(crate) ready: BTreeMap<CallId, Ready>,
    pub(crate) reports: Option<(mpsc::Sender<Report>, mpsc::Receiver<Report>)>,
}

pub(crate) struct Ready {
    pub(crate) arguments: Arc<Value>,
    /// Runs without asking.
    pub(crate) auto: bool,
}

pub(crate) struct Running {
    pub(crate) cancel: CancellationToken,
    pub(crate) _task: Owned,
    pub(crate) deadline: Instant,
    /// How long without an update, and until when.
    pub(crate) idle: Option<(Duration, Instant)>,
    /// Its result if the deadline comes first, where that is not for want of time.
    pub(crate) late: Option<(ResultStatus, String)>,
    /// The time that it has in all.
    pub(crate) time: Duration,
    pub(crate) interruptible: bool,
    pub(crate) told: Told,
}

/// What a running tool has let know, merged, for who comes later.
#[derive(Default)]
pub(crate) struct Told {
    output: String,
    progress: Option<Box<Progress>>,
}

/// So many bytes of a running tool's output are kept at least; the older ones go.
const TOLD: usize = 64 * 1024;

impl Told {
    pub(crate) fn add(&mut self, update: &ToolUpdate) {
        match update {
            ToolUpdate::Output(more) => {
                self.output.push_str(more);
                if self.output.len() > 2 * TOLD {
                    let from = self.output.ceil_char_boundary(self.output.len() - TOLD);
                    self.output.drain(..from);
                }
            }
            ToolUpdate::Progress(progress) => self.progress = Some(progress.clone()),
        }
    }

    pub(crate) fn updates(&self) -> impl Iterator<Item = ToolUpdate> {
        let output = (!self.output.is_empty()).then(|| ToolUpdate::Output(self.output.clone()));
        output.into_iter().chain(self.progress.clone().map(ToolUpdate::Progress))
    }
}

/// A task that ends with whoever holds this: when its call is settled, or the session gone.
pub(crate) struct Owned(pub(crate) AbortHandle);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Running {
    pub(crate) fn due(&self) -> Instant {
        self.idle.map_or(self.deadline, |(_, until)| until.min(self.deadline))
    }
}

impl Outcome {
    pub(crate) fn of(ended: std::thread::Result<Result<ToolOutput, ToolError>>) -> Self {
        match ended {
            Ok(Ok(output)) => Outcome::Result(ResultStatus::Ok, output),
            Ok(Err(ToolError::Cancelled)) => Outcome::Cancelled,
            Ok(Err(ToolError::Suspend(need))) => Outcome::Suspended(need),
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

    pub(crate) async fn after(self, info: ToolCallInfo, hook: FnAfterToolCall) -> Self {
        let Outcome::Result(status, ToolOutput { content, details, terminate }) = self else {
            return self;
        };
        let (call, name, details) =
            (info.call.clone(), info.tool.name.clone(), details.map(Arc::new));
        let result = ToolResult { call, name, status, content, details, terminate };
        match AssertUnwindSafe(async { hook(info, result).await }).catch_unwind().await {
            Ok(ToolResult { status, content, details, terminate, .. }) => {
                let details = details.map(Arc::unwrap_or_clone);
                Outcome::Result(status, ToolOutput { content, details, terminate })
            }
            Err(panic) => Outcome::HookPanicked(panic_text(&*panic)),
        }
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a text").to_owned()
}

/// Text over the limit loses its middle, and says so.
pub(crate) fn shortened(content: Vec<Content>, most: usize) -> Vec<Content> {
    let shorten = |piece| match piece {
        Content::Text { text } if text.len() > most => {
            let head = text.floor_char_boundary(most / 2);
            let tail = text.ceil_char_boundary(text.len() - most / 2);
            let left_out = tail - head;
            let (head, tail) = (&text[..head], &text[tail..]);
            Content::text(format!(
                "{head}\n[… truncated: {left_out} of {} bytes are left out here …]\n{tail}",
                text.len()
            ))
        }
        piece => piece,
    };
    content.into_iter().map(shorten).collect()
}

/// Lets what has been woken run first. Unlike `yield_now` it does not go to the driver, which costs
/// a system call.
pub(crate) async fn step_back() {
    let mut stepped_back = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut stepped_back, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
