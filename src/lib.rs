//! loopwright core.
mod agent;
mod ambient;
mod ask;
mod assemble;
mod batch;
mod builder;
mod calls;
mod config;
mod context;
mod crew;
mod encoded;
mod error;
mod event;
mod extensions;
mod fold;
mod handle;
mod hear;
mod hooks;
mod hub;
mod input;
mod limits;
mod memory;
mod message;
mod model;
mod pattern;
mod queue;
mod schema;
mod session;
mod settle;
mod state;
mod step;
mod stream;
mod task;
pub mod testing;
mod tool;
mod tool_fn;
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
pub use event::{AgentEvent, EndKind, Envelope, ExternalAction, Parent, Role, RunCause, RunOutcome, Update};
pub use extensions::Extensions;
pub use handle::AgentHandle;
pub use hooks::{
    BeforeEnd, BeforeToolCall, EndCheck, FnAfterToolCall, FnBeforeToolCall, FnConvertToLlm, FnHandleBeforeEnd,
    FnHandleStepTextPart, FnPrepareTools, FnTransformContext, PrepareTools, TextAction, TextPart, ToolCallInfo,
};
pub use hub::EventStream;
pub use input::{ActionResult, Decision, InputEvent, Lane, Prompt, QueueMode, Urgency};
pub use limits::{Limit, Limits};
pub use memory::{InMemory, InMemoryStore, Item, Memory, MemoryStore};
pub use message::{
    AssistantMessage, Body, CallId, Content, CustomMessage, History, InputId, Message, MessageId, Part, ResultStatus,
    RunId, StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
pub use model::{
    BlockKind, ChatModel, ChatRequest, ModelEvent, ModelInfo, OutputSchema, Prices, ThinkingLevel, ToolChoice, ToolList,
};
pub use pattern::{BehaviorPattern, StepEnd};
pub use state::AgentState;
pub use step::{Remember, StepContext};
pub use tool::{
    Answer, Approval, ApprovalPredicate, Effect, Tool, ToolContext, ToolOutput, ToolSource, ToolSpec, ToolUpdate,
};
pub use tool_fn::{FnTool, tool_fn, tool_with};
pub use toolbox::Toolbox;
