//! The context of a tool call: cancellation, updates, the host's values.

use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::ActionRequest;
use crate::extensions::Extensions;
use crate::message::{CallId, ResultStatus};
use crate::principal::Principal;
use crate::tool::output::ToolOutput;
use crate::trace_context::TraceContext;

/// Holds the decision on the action of a tool call that suspended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resolution {
    /// What the call asked for when it suspended.
    pub request: Arc<ActionRequest>,
    /// The data of the decision; `null` for an approval without data.
    pub data: Value,
    /// Who decided, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When the decision was received, in milliseconds since 1970.
    #[serde(default)]
    pub time: u64,
}

/// Says who approved a call, when, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ApprovalRecord {
    /// Who decided, if known: what the host set with
    /// [`ActionResult::by`](crate::event::ActionResult::by), or `system` for the decision that was
    /// taken at the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// When the decision was received, in milliseconds since 1970.
    pub time: u64,
    /// What it was sent with, such as `http` or `terminal`, if the front end said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
}

/// Represents what a running tool reports to its session. Updates and the end use one channel, so
/// no update follows the end.
pub(crate) enum Report {
    Update(CallId, ToolUpdate),
    End(CallId, Box<Outcome>),
    /// The call makes a request to a model, which only the session knows.
    Request(Box<dyn Any + Send>),
}

/// Says how the task of a call ended.
pub(crate) enum Outcome {
    Result(ResultStatus, ToolOutput),
    /// The tool stopped before it had finished, with the output that it returned, if any.
    Cancelled(Option<ToolOutput>),
    Suspended(ActionRequest),
    HookPanicked(String),
}

/// Represents an update of a running tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolUpdate {
    /// A fragment of output; the fragments of one call are to be joined.
    Output(String),
    /// The progress.
    Progress(Box<Progress>),
}

/// Describes the progress of a running tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Progress {
    /// The amount of work done.
    pub done: u64,
    /// The total amount of work, if known.
    pub total: Option<u64>,
    /// A line of text to show.
    pub message: String,
}

impl Progress {
    /// Builds a progress of `done` out of `total`, with a line of text to show.
    pub fn new(done: u64, total: Option<u64>, message: impl Into<String>) -> Self {
        Progress { done, total, message: message.into() }
    }
}

/// Gives a tool call access to its session: cancellation, updates, the host's values.
///
/// Clones refer to the same call.
#[derive(Clone)]
pub struct ToolContext {
    pub(crate) session: Arc<str>,
    /// When the session was created, or a random number without one.
    pub(crate) created: u64,
    pub(crate) call: CallId,
    pub(crate) cancel: CancellationToken,
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) extensions: Extensions,
    pub(crate) resolution: Option<Resolution>,
    pub(crate) approvals: Arc<[ApprovalRecord]>,
    pub(crate) observer: Option<UpdateObserver>,
    /// The trace context of the call.
    pub(crate) trace: Option<TraceContext>,
}

/// Is called with each update of a tool before it is sent.
pub(crate) type UpdateObserver = Arc<dyn Fn(&ToolUpdate) + Send + Sync>;

impl ToolContext {
    /// Builds a context without a session, for calling a tool directly. Updates are discarded.
    pub fn detached() -> Self {
        ToolContext {
            session: "detached".into(),
            created: RandomState::new().hash_one(0),
            call: "call".into(),
            cancel: CancellationToken::new(),
            reports: mpsc::channel(1).0,
            extensions: Extensions::new(),
            resolution: None,
            approvals: Arc::default(),
            observer: None,
            trace: None,
        }
    }

    /// Returns the id of the session.
    pub fn session_id(&self) -> &str {
        &self.session
    }

    /// Returns the id of the call, which is unique in its session only: branches of a session and
    /// other sessions have calls of the same id.
    pub fn call_id(&self) -> &CallId {
        &self.call
    }

    /// Returns a key to give to a service that must carry out the call once, such as a payment
    /// service.
    ///
    /// It is the same whenever this call runs again: after a crash, and after a decision. Calls of
    /// other sessions and of branches have other keys, and so has a session that is created again
    /// under the same id. It consists of 32 hexadecimal digits.
    ///
    /// ```
    /// use loopwright_core::ToolContext;
    ///
    /// let cx = ToolContext::detached();
    /// assert_eq!(cx.idempotency_key(), cx.clone().idempotency_key());
    /// assert_ne!(cx.idempotency_key(), ToolContext::detached().idempotency_key());
    /// ```
    pub fn idempotency_key(&self) -> String {
        let ToolContext { session, created, call, .. } = self;
        let hash = Sha256::digest(format!("{session}\0{created}\0{call}"));
        hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Waits until the call should stop.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await
    }

    /// Returns whether the call should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns a token that is cancelled when the call should stop, to pass to other code.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Returns the host's value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extensions.get()
    }

    /// Returns who the session works for, if the host has said so. After a restart, a call can run
    /// without the values that came with its request, and so without a principal.
    pub fn principal(&self) -> Option<&Principal> {
        Principal::of(&self.extensions)
    }

    /// Returns the trace context of the call, to send with requests that the tool makes; `None`
    /// unless the host gave the run one.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// Returns the decision on the action that this call suspended for, when the tool is called
    /// again: what it asked for, the answer, who decided, and when.
    /// [`approval`](ToolContext::approval) says the same of the approval of the call.
    pub fn decision(&self) -> Option<&Resolution> {
        self.resolution.as_ref()
    }

    /// Returns who allowed the call to run, and when: the last one of
    /// [`approvals`](ToolContext::approvals). `None` if no decision was needed.
    pub fn approval(&self) -> Option<&ApprovalRecord> {
        self.approvals.last()
    }

    /// Returns the approvals of the call, the first one first: as many as its
    /// [quorum](crate::tool::ActionOptions::quorum) requires. In the session of a sub-agent, only
    /// the last one is known.
    pub fn approvals(&self) -> &[ApprovalRecord] {
        &self.approvals
    }

    /// Sends a fragment of output to subscribers. Waits while the session has not received earlier
    /// updates, but never for a subscriber.
    pub async fn update(&self, output: impl Into<String>) {
        self.send(ToolUpdate::Output(output.into())).await;
    }

    /// Reports the progress to subscribers. Waits as [`update`](ToolContext::update) does.
    pub async fn progress(&self, done: u64, total: Option<u64>, message: impl Into<String>) {
        self.send(ToolUpdate::Progress(Box::new(Progress::new(done, total, message)))).await;
    }

    pub(crate) async fn send(&self, update: ToolUpdate) {
        if let Some(observer) = &self.observer {
            observer(&update);
        }
        let _ = self.reports.send(Report::Update(self.call.clone(), update)).await;
    }
}
