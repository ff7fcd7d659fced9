//! loopwright core.
mod error;
mod event;
mod limits;
mod memory;
mod message;
mod model;
mod tool;

pub use error::{
    AgentError, InputError, MemoryError, ModelError, ModelErrorKind, Need, StepError, ToolError, ToolboxError,
};
pub use event::{
    ActionResult, AgentEvent, Decision, EndKind, Envelope, ExternalAction, InputEvent, Lane, Parent, Prompt, QueueMode,
    Role, RunCause, RunOutcome, Update, Urgency,
};
pub use limits::{Limit, Limits};
pub use memory::{InMemory, InMemoryStore, InputId, Item, Memory, MemoryStore};
pub use message::{
    AssistantMessage, Body, CallId, Content, CustomMessage, History, Message, MessageId, Part, ResultStatus, RunId,
    StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
pub use model::{
    BlockKind, ChatModel, ChatRequest, ModelEvent, ModelInfo, OutputSchema, Prices, ThinkingLevel, ToolChoice, ToolList,
};
pub use tool::{
    Answer, Approval, ApprovalPredicate, Effect, Extensions, FnTool, Tool, ToolContext, ToolOutput, ToolSource,
    ToolSpec, ToolUpdate, tool_fn, tool_with,
};
