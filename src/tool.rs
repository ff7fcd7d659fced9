//! The tool seam: [`Tool`], its [`ToolSpec`], and what it is given and gives back.

pub(crate) mod coerce;
pub(crate) mod function;
pub(crate) mod list;
pub(crate) mod schema;
pub(crate) mod toolbox;

pub use crate::error::{ActionRequest, ToolError, ToolboxError};
pub use function::{FnTool, tool_fn, tool_with};
pub use list::ToolList;
pub use toolbox::Toolbox;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::extensions::Extensions;
use crate::message::{CallId, Content, ResultStatus};

/// Carries out calls of a model.
///
/// # Contract
///
/// [`spec`](Tool::spec) must return the same value each time. [`call`](Tool::call) gets arguments
/// that have been coerced and checked: against [`ToolSpec::schema`] with the feature `schema`, else
/// by [`check_arguments`](Tool::check_arguments). It runs in a task of its own, so it may block its
/// thread or panic without harm to the session; a panic becomes an error result. It should return
/// [`ToolError::Cancelled`] soon after [`ToolContext::cancelled`] resolves.
///
/// A call may run again after a crash if the tool's [`Effect`] allows it, with the same
/// [call id](ToolContext::call_id). The future is dropped if the call exceeds its time limit, if it
/// is still running 200 ms after it was cancelled, or if the session ends. The call then gets a
/// result that says that it may have had effects.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use loopwright_core::tool::{Effect, ToolSpec};
/// use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput};
/// use serde_json::Value;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Roll {
///     sides: u64,
/// }
///
/// struct Dice(Arc<ToolSpec>);
///
/// #[async_trait]
/// impl Tool for Dice {
///     fn spec(&self) -> &Arc<ToolSpec> {
///         &self.0
///     }
///
///     async fn call(&self, arguments: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
///         let sides = arguments["sides"].as_u64().unwrap_or(6).max(1);
///         Ok(ToolOutput::text(format!("Rolled {} of {sides}.", 4 % sides + 1)))
///     }
/// }
///
/// let spec = ToolSpec::new::<Roll>("roll", "Rolls a die.").effect(Effect::ReadOnly);
/// let dice = Dice(Arc::new(spec));
/// assert_eq!(&*dice.spec().name, "roll");
/// ```
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the description of the tool.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Carries out a call.
    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError>;

    /// Checks arguments against the types that the tool reads them into; the error tells the model
    /// what to correct. `None`, the default, means that the tool has only a schema.
    ///
    /// It is used if the feature `schema` is off; a tool without it is then refused when the agent
    /// is built. Tools made by [`tool_fn`] and [`tool_with`] implement it.
    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        let _ = arguments;
        None
    }
}

/// What a tool does to the world; it decides what happens after a crash in the middle of a call,
/// and whether it needs confirmation where nothing else says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes nothing. Runs by itself; after a crash it runs again.
    ReadOnly,
    /// Doing it twice is the same as doing it once. After a crash it runs again.
    Idempotent,
    /// It must not be done twice. After a crash the model is told that it may have run.
    #[default]
    AtMostOnce,
}

/// When a call of a tool needs the user's confirmation.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Approval {
    /// As the agent's rules say; where they are silent, a read-only tool runs by itself and any
    /// other asks.
    #[default]
    ByEffect,
    /// Never.
    Never,
    /// Always, whatever the agent's rules say.
    Always,
    /// When the predicate says so of these arguments. One that panics asks.
    When(ApprovalPredicate),
}

/// Says of the validated arguments whether they need confirmation.
pub type ApprovalPredicate = Arc<dyn Fn(&Value, &Extensions) -> bool + Send + Sync>;

/// What a tool is, to the model and to the loop.
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolSpec {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: Arc<str>,
    /// A title for people.
    pub title: Option<String>,
    /// Tells the model what it is for and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub schema: Value,
    /// What it does to the world.
    pub effect: Effect,
    /// Whether a batch with it runs one call after the other. Tools that write should.
    pub sequential: bool,
    /// Whether a steer with [`Urgency::Interrupt`](crate::event::Urgency::Interrupt) cancels it.
    pub interruptible: bool,
    /// Time for one call; the agent's [`Limits::tool_time`](crate::agent::Limits::tool_time) where
    /// it is `None`.
    pub timeout: Option<Duration>,
    /// Time without an update after which a call is given up; `None` for no such limit.
    pub idle_timeout: Option<Duration>,
    /// When it needs confirmation.
    pub needs_approval: Approval,
}

impl ToolSpec {
    /// A tool of this name whose arguments are of type `A`. Everything else is at its default:
    /// [`Effect::AtMostOnce`], parallel, interruptible.
    pub fn new<A: JsonSchema>(name: impl Into<Arc<str>>, description: impl Into<String>) -> Self {
        let mut schema = schemars::schema_for!(A).to_value();
        if let Some(map) = schema.as_object_mut() {
            map.remove("title"); // the Rust type's name tells a model nothing
        }
        Self::with_schema(name, description, schema)
    }

    /// A tool of this name with a JSON Schema of its own.
    pub fn with_schema(
        name: impl Into<Arc<str>>,
        description: impl Into<String>,
        schema: Value,
    ) -> Self {
        ToolSpec {
            name: name.into(),
            title: None,
            description: description.into(),
            schema,
            effect: Effect::default(),
            sequential: false,
            interruptible: true,
            timeout: None,
            idle_timeout: None,
            needs_approval: Approval::default(),
        }
    }

    /// With this effect.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// With a title for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// One call after the other in every batch that has it.
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }

    /// Not to be cancelled by a steer.
    pub fn uninterruptible(mut self) -> Self {
        self.interruptible = false;
        self
    }

    /// With a time limit of its own.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Given up after this long without an update.
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.idle_timeout = Some(time);
        self
    }

    /// With a rule of its own for confirmation.
    pub fn needs_approval(mut self, approval: Approval) -> Self {
        self.needs_approval = approval;
        self
    }

    /// Needs confirmation when `predicate` says so of the arguments.
    pub fn needs_approval_when(
        self,
        predicate: impl Fn(&Value, &Extensions) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.needs_approval(Approval::When(Arc::new(predicate)))
    }
}

impl std::fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSpec")
            .field("name", &self.name)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

/// What a tool gives back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// For the model.
    pub content: Vec<Content>,
    /// For a user interface; never sent to a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The run may end without a further request, if all results of the batch say so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}

impl ToolOutput {
    /// Text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        ToolOutput { content: vec![Content::text(text)], ..Self::default() }
    }

    /// With data for a user interface.
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// With the wish to end the run.
    pub fn terminate(mut self) -> Self {
        self.terminate = true;
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        ToolOutput::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        ToolOutput::text(text)
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        ToolOutput::text(value.to_string())
    }
}

/// The outside's answer to a tool that suspended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// What was answered; `null` for a plain approval.
    pub data: Value,
    /// Who answered, if told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a running tool reports to its session. Updates and the end travel in one channel, so no
/// update comes after its end.
pub(crate) enum Report {
    Update(CallId, ToolUpdate),
    End(CallId, Box<Outcome>),
}

/// How a tool's task ended.
pub(crate) enum Outcome {
    Result(ResultStatus, ToolOutput),
    Cancelled,
    Suspended(ActionRequest),
    HookPanicked(String),
}

/// Something that a running tool lets its watchers know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolUpdate {
    /// More output; updates of one call are to be joined.
    Output(String),
    /// How far it is.
    Progress(Box<Progress>),
}

/// How far a running tool is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// What has been done.
    pub done: u64,
    /// Of how much, if known.
    pub total: Option<u64>,
    /// A line for people.
    pub message: String,
}

/// What a tool is given besides its arguments.
#[derive(Clone)]
pub struct ToolContext {
    pub(crate) session: Arc<str>,
    pub(crate) call: CallId,
    pub(crate) cancel: CancellationToken,
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) extensions: Extensions,
    pub(crate) resolution: Option<Resolution>,
}

impl ToolContext {
    /// A context outside of a session, for calling a tool by hand: updates go nowhere.
    pub fn detached() -> Self {
        ToolContext {
            session: "detached".into(),
            call: "call".into(),
            cancel: CancellationToken::new(),
            reports: mpsc::channel(1).0,
            extensions: Extensions::new(),
            resolution: None,
        }
    }

    /// The session.
    pub fn session_id(&self) -> &str {
        &self.session
    }

    /// The call; the same when a call is made again after a crash, so it can serve as an
    /// idempotency key.
    pub fn call_id(&self) -> &CallId {
        &self.call
    }

    /// Resolves when the call should stop.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await
    }

    /// Whether the call should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// A token that is cancelled when the call should stop, to hand on.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// The host's value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extensions.get()
    }

    /// Returns the decision on the action that this call suspended for, when the tool is called
    /// again.
    pub fn decision(&self) -> Option<&Resolution> {
        self.resolution.as_ref()
    }

    /// Sends a piece of output. Waits while the session is behind, never for a subscriber.
    pub async fn update(&self, output: impl Into<String>) {
        let report = Report::Update(self.call.clone(), ToolUpdate::Output(output.into()));
        let _ = self.reports.send(report).await;
    }

    /// Tells how far the work is.
    pub async fn progress(&self, done: u64, total: Option<u64>, message: impl Into<String>) {
        let update =
            ToolUpdate::Progress(Box::new(Progress { done, total, message: message.into() }));
        let _ = self.reports.send(Report::Update(self.call.clone(), update)).await;
    }
}

/// Tools that come and go, asked for at each run's start: a server of tools, a user's plug-ins.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// The tools as they are now. An error ends the run.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError>;
}
