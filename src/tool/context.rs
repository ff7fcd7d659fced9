//! The context of a tool call: cancellation, updates, and the host's values.

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
use crate::hex;
use crate::message::{CallId, ResultStatus};
use crate::principal::Principal;
use crate::tool::output::ToolOutput;
use crate::trace_context::TraceContext;

/// The decision on the action of a suspended tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resolution {
    /// The request with which the call suspended.
    pub request: Arc<ActionRequest>,
    /// The data of the decision; `null` for an approval without data.
    pub data: Value,
    /// The principal who decided, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Time when the decision was received, in milliseconds since 1970.
    #[serde(default)]
    pub time: u64,
}

/// The approval of a call: by whom, when, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ApprovalRecord {
    /// The principal who decided, if known: set by the host with
    /// [`ActionResult::by`](crate::event::ActionResult::by), or `system` for the default decision
    /// at the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// Time when the decision was received, in milliseconds since 1970.
    pub time: u64,
    /// The front end that sent the decision, such as `http` or `terminal`, if it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// The digest of the change that was shown to who approved:
    /// [`ActionResult::change`](crate::event::ActionResult::change).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Arc<str>>,
}

/// A report of a running tool to its session. Updates and the end share one channel, so no update
/// follows the end.
pub(crate) enum Report {
    Update(CallId, ToolUpdate),
    End(CallId, Box<Outcome>),
    /// The call makes a request to a model. Only the session knows the type of the request.
    Request(Box<dyn Any + Send>),
}

/// The end of the task of a call.
pub(crate) enum Outcome {
    Result(ResultStatus, ToolOutput),
    /// The tool stopped early, with the output that it returned, if any.
    Cancelled(Option<ToolOutput>),
    Suspended(ActionRequest),
    HookPanicked(String),
}

/// An update of a running tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolUpdate {
    /// A fragment of output, to be joined with the other fragments of the call.
    Output(String),
    /// The amount of work done so far.
    Progress(Box<Progress>),
}

/// The progress of a running tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Progress {
    /// Amount of work done, in the tool's own unit.
    pub done: u64,
    /// Total amount of work in the same unit, if known.
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

/// A tool call's access to its session: cancellation, updates, and the host's values.
///
/// Clones refer to the same call.
#[derive(Clone)]
pub struct ToolContext {
    pub(crate) session: Arc<str>,
    /// Creation time of the session, or a random number without a session.
    pub(crate) created: u64,
    pub(crate) call: CallId,
    pub(crate) cancel: CancellationToken,
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) extensions: Extensions,
    pub(crate) resolution: Option<Resolution>,
    pub(crate) approvals: Arc<[ApprovalRecord]>,
    pub(crate) observer: Option<UpdateObserver>,
    /// The trace context of the call; `None` unless the host gave the run one.
    pub(crate) trace: Option<TraceContext>,
}

/// A callback that sees each update of a tool before it is sent.
pub(crate) type UpdateObserver = Arc<dyn Fn(&ToolUpdate) + Send + Sync>;

impl ToolContext {
    /// Builds a context without a session, to call a tool directly. Updates are discarded.
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

    /// Returns the id of the call. It is unique only within its session: branches and other
    /// sessions may have calls with the same id.
    pub fn call_id(&self) -> &CallId {
        &self.call
    }

    /// Returns an idempotency key for services that must carry out the call once, such as a payment
    /// service.
    ///
    /// The key stays the same whenever this call runs again: after a crash, and after a decision.
    /// Calls of other sessions and branches have other keys, even if a session is created again
    /// under the same id. The key consists of 32 hexadecimal digits.
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
        hex::encode(&Sha256::digest(format!("{session}\0{created}\0{call}"))[..16])
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

    /// Returns the principal that the session works for, if the host has set one. After a restart,
    /// a call can run without the values that came with its request, and so without a principal.
    pub fn principal(&self) -> Option<&Principal> {
        Principal::of(&self.extensions)
    }

    /// Returns the trace context of the call, to send with requests of the tool; `None` unless the
    /// host gave the run one.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// Returns the decision on this call's suspension when the tool is called again: its request,
    /// the answer, who decided, and when. For the approval of the call, see
    /// [`approval`](ToolContext::approval).
    pub fn decision(&self) -> Option<&Resolution> {
        self.resolution.as_ref()
    }

    /// Returns the approval that allowed the call to run: the last of
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

    /// Sends a fragment of output to subscribers. Waits while earlier updates have not reached the
    /// session, but never for a subscriber.
    pub async fn update(&self, output: impl Into<String>) {
        self.send(ToolUpdate::Output(output.into())).await;
    }

    /// Reports the progress to subscribers. Waits like [`update`](ToolContext::update).
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
