//! loopwright core.
mod agent;
mod ambient;
mod ask;
mod assemble;
mod batch;
mod builder;
mod config;
mod context;
mod error;
mod event;
mod fold;
mod handle;
mod hooks;
mod hub;
mod limits;
mod memory;
mod message;
mod model;
mod pattern;
mod schema;
mod session;
mod settle;
mod step;
mod task;
pub mod testing;
mod tool;
mod toolbox;

pub use agent::{GenericAgent, RunContext};
pub use ambient::{Ambient, SystemAmbient};
pub use ask::{Ask, Reply};
pub use batch::BatchEnd;
pub use builder::AgentBuilder;
pub use config::WhileAwaiting;
pub use context::AgentContext;
pub use error::{
    AgentError, InputError, MemoryError, ModelError, ModelErrorKind, Need, StepError, ToolError, ToolboxError,
};
pub use event::{
    ActionResult, AgentEvent, Decision, EndKind, Envelope, ExternalAction, InputEvent, Lane, Parent, Prompt, QueueMode,
    Role, RunCause, RunOutcome, Update, Urgency,
};
pub use handle::AgentHandle;
pub use hooks::{
    BeforeEnd, BeforeToolCall, EndCheck, FnAfterToolCall, FnBeforeToolCall, FnConvertToLlm, FnHandleBeforeEnd,
    FnHandleStepTextPart, FnPrepareTools, FnTransformContext, PrepareTools, TextAction, TextPart, ToolCallInfo,
};
pub use hub::EventStream;
pub use limits::{Limit, Limits};
pub use memory::{InMemory, InMemoryStore, InputId, Item, Memory, MemoryStore};
pub use message::{
    AssistantMessage, Body, CallId, Content, CustomMessage, History, Message, MessageId, Part, ResultStatus, RunId,
    StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
pub use model::{
    BlockKind, ChatModel, ChatRequest, ModelEvent, ModelInfo, OutputSchema, Prices, ThinkingLevel, ToolChoice, ToolList,
};
pub use pattern::{BehaviorPattern, StepEnd};
pub use session::AgentState;
pub use step::{Remember, StepContext};
pub use tool::{
    Answer, Approval, ApprovalPredicate, Effect, Extensions, FnTool, Tool, ToolContext, ToolOutput, ToolSource,
    ToolSpec, ToolUpdate, tool_fn, tool_with,
};
pub use toolbox::Toolbox;
