//! The extension point for tools: [`Tool`], its [`ToolSpec`], its [`ToolContext`] and its
//! [`ToolOutput`].

pub(crate) mod action_options;
pub(crate) mod ask_user;
pub(crate) mod coerce;
pub(crate) mod context;
pub(crate) mod function;
pub(crate) mod list;
pub(crate) mod output;
pub(crate) mod question;
pub(crate) mod schema;
pub(crate) mod spec;
pub(crate) mod todo;
pub(crate) mod toolbox;

pub use crate::error::{ActionRequest, ToolboxError};
pub use action_options::{ActionOptions, ActionTerms, DecisionKind, DefaultDecision};
pub use ask_user::AskUser;
pub use context::{ApprovalRecord, Progress, Resolution, ToolContext, ToolUpdate};
pub(crate) use context::{Outcome, Report};
pub use function::{FnTool, tool_fn, tool_with};
pub use list::ToolList;
pub use output::ToolOutput;
pub use question::{AnswerForm, Question};
pub use spec::{Approval, ApprovalPredicate, Effect, NeedsApproval, ToolSpec};
pub use todo::{Todo, TodoItem, TodoList, TodoStatus};
pub use toolbox::Toolbox;

pub use tokio_util::sync::CancellationToken;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::ToolError;

/// A tool that a model can call.
///
/// # Contract
///
/// [`spec`](Tool::spec) must return the same value each time.
///
/// [`call`](Tool::call) gets arguments that have been coerced and checked: against
/// [`ToolSpec::schema`] with the feature `schema`, otherwise by
/// [`check_arguments`](Tool::check_arguments). It runs in its own task, so it may block its thread
/// or panic without harm to the session; a panic becomes an error result. It should return soon
/// after [`ToolContext::cancelled`] resolves, with [`ToolError::Cancelled`], or with
/// [`ToolError::CancelledWith`] if it has output.
///
/// A call may run again after a crash if the tool's [`Effect`] allows it, with the same [call
/// id](ToolContext::call_id). The future is dropped if the call exceeds its time limit, if it is
/// still running 200 ms after it was cancelled, or if the session ends. The result of the call then
/// says that it may have had effects.
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
    /// Returns the definition of the tool.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Carries out a call.
    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError>;

    /// Checks arguments against the types that the tool reads them into. The error tells the model
    /// what to correct. `None`, the default, means that the tool has only a schema.
    ///
    /// Used if the feature `schema` is off. Then a tool without this method is refused when the
    /// agent is built. Tools made by [`tool_fn`] and [`tool_with`] implement it.
    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        let _ = arguments;
        None
    }

    /// Returns the change that a call would make to a file, as a unified diff, for the user who
    /// decides on it. `None`, the default, means that there is nothing to show besides the
    /// arguments. The method must not change anything. It returns the same change as long as
    /// nothing else has changed: an approval can be of this change alone
    /// ([`ActionResult::change`](crate::event::ActionResult::change)).
    ///
    /// # Errors
    ///
    /// Fails if there is no preview, for example because the call would fail. The error is meant
    /// for the user.
    async fn preview(&self, arguments: &Value) -> Result<Option<String>, ToolError> {
        let _ = arguments;
        Ok(None)
    }
}

/// A source of tools that can change between runs, such as a tool server or plug-ins. The session
/// lists the tools at the start of each run.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use loopwright_core::tool::{Effect, ToolSource};
/// use loopwright_core::{Tool, ToolError, tool_fn};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Nothing {}
///
/// /// Lists a tool for each table of a database.
/// struct Tables(Vec<String>);
///
/// #[async_trait]
/// impl ToolSource for Tables {
///     async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
///         let tool = |table: &String| {
///             let answer = format!("{table} is empty.");
///             let count = move |_: Nothing, _| std::future::ready(Ok(answer.clone()));
///             let tool = tool_fn(table, "Counts the rows of a table.", count);
///             Arc::new(tool.effect(Effect::ReadOnly)) as Arc<dyn Tool>
///         };
///         Ok(self.0.iter().map(tool).collect())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let tools = Tables(vec!["invoices".into()]).tools().await?;
/// assert_eq!(&*tools[0].spec().name, "invoices");
/// # Ok(()) }
/// ```
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Returns the current tools.
    ///
    /// # Errors
    ///
    /// An error ends the run with [`StepError::ToolSource`](crate::StepError::ToolSource).
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError>;

    /// Resolves when the source can be asked again for tools that were not ready the last time. The
    /// default resolves at once.
    ///
    /// A source that takes long to start should return from [`tools`](Self::tools) early. Once
    /// `ready` has resolved, the run asks again before its next model request. A run that carries
    /// out an earlier call first waits for the source of that call's tool.
    async fn ready(&self) {}
}

/// A value with tools, for [`AgentBuilder::tools`](crate::AgentBuilder::tools).
///
/// The attribute `#[tools]` of the crate `loopwright` implements this trait for a type whose
/// methods are tools.
pub trait Tools {
    /// Returns the tools. Each has a clone of the `Arc`.
    fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>>;
}
