//! [`Todo`], the tool with which a model keeps a list of its work, and [`TodoList`], that list.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ToolError;
use crate::message::{Message, ResultStatus};
use crate::tool::{Approval, Effect, Tool, ToolContext, ToolOutput, ToolSpec};

/// The name of the tool.
const WRITE_TODOS: &str = "write_todos";
/// The argument with the list, which is also the field of the result's details.
const TODOS: &str = "todos";

const DESCRIPTION: &str = "Writes your todo list, which the user sees while you work. Use it for \
    work of three steps or more, and if the user asks for several things: write the whole list \
    before you begin, and write it again as soon as a task is completed or the plan changes. Keep \
    the task that you work on in_progress, and add tasks that you discover. Do not use it for a \
    question or a simple task. Each call replaces the list; an empty one removes it.";

/// The tool `write_todos`, with which a model keeps a list of its work.
///
/// The list is in the details of the result, so it is a part of the conversation: a restart and a
/// fork keep it, a reset removes it, and a sub-agent has its own. Front ends read it from results
/// ([`TodoList::written`]) and conversations ([`TodoList::of`]). A call changes nothing else, so it
/// needs no approval. `loopwright_memory::SummaryCompaction` repeats the list beside its summary,
/// so the model knows it after a compaction.
///
/// A list with more than [`MAX_ITEMS`](Todo::MAX_ITEMS), or with an item that is empty or longer
/// than [`MAX_ITEM_CHARS`](Todo::MAX_ITEM_CHARS), is an error for the model, and the earlier list
/// stays.
///
/// From: `TodoWrite` in Claude Code, `update_plan` in Codex, 2025.
///
/// ```
/// use loopwright_core::testing::{Harness, Script};
/// use loopwright_core::tool::{Todo, TodoList, TodoStatus};
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
/// # struct Simple;
/// # #[async_trait]
/// # impl BehaviorPattern for Simple {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         loop {
/// #             let reply = step.ask().await?.or_end()?;
/// #             if !step.call_tools(&reply).await?.or_end()?.wants_reply() {
/// #                 return Ok(StepEnd::Done);
/// #             }
/// #         }
/// #     }
/// # }
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let todos = json!({ "todos": [
///     { "content": "Read the log", "status": "completed" },
///     { "content": "Fix the leak", "status": "in_progress" },
/// ]});
/// let replies = [Script::calls([("c1", "write_todos", todos)]), Script::text("I am on it.")];
/// let harness = Harness::new(Simple, replies, |agent| agent.tool(Todo::new())).await;
/// harness.handle.prompt("Find the leak, and fix it.").await.unwrap();
///
/// let list = TodoList::of(&harness.handle.state().await.unwrap().messages);
/// assert_eq!(list.items[1].status, TodoStatus::InProgress);
/// assert_eq!(list.to_string(), "[x] Read the log\n[>] Fix the leak\n");
/// # }
/// ```
pub struct Todo(Arc<ToolSpec>);

/// A list of the work of a model. Its JSON is an array of its items.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TodoList {
    /// The items, in the model's order.
    pub items: Vec<TodoItem>,
}

/// An item of a [`TodoList`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// The work to do, on one line.
    pub content: String,
    /// The state of the work.
    pub status: TodoStatus,
}

/// The state of the work of a [`TodoItem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// It is not begun.
    Pending,
    /// The model works on it.
    InProgress,
    /// It is done.
    Completed,
}

/// The arguments of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    todos: TodoList,
}

impl Todo {
    /// Maximum number of items of a list.
    pub const MAX_ITEMS: usize = 50;
    /// Maximum length of an item.
    pub const MAX_ITEM_CHARS: usize = 200;

    /// Builds the tool.
    pub fn new() -> Self {
        let spec = ToolSpec::with_schema(WRITE_TODOS, DESCRIPTION, schema());
        let spec = spec.title("Write the todo list").effect(Effect::ReadOnly);
        Todo(Arc::new(spec.approval(Approval::Never)))
    }
}

impl Default for Todo {
    fn default() -> Self {
        Self::new()
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            TODOS: {
                "type": "array",
                "description": format!(
                    "The whole list, in the order of the work: at most {} items.", Todo::MAX_ITEMS
                ),
                "items": {
                    "type": "object",
                    "properties": {
                        "content": {
                            "type": "string",
                            "description": format!(
                                "What to do, on one line of at most {} characters.",
                                Todo::MAX_ITEM_CHARS
                            ),
                        },
                        "status": {
                            "type": "string",
                            "enum": ["pending", "in_progress", "completed"],
                            "description": "The state of the work.",
                        },
                    },
                    "required": ["content", "status"],
                    "additionalProperties": false,
                },
            },
        },
        "required": [TODOS],
        "additionalProperties": false,
    })
}

impl TodoList {
    /// Returns the list that a conversation has now: the last one that was written. It is empty if
    /// there is none.
    pub fn of(messages: &[Arc<Message>]) -> TodoList {
        let results = messages.iter().filter(|message| details(message).is_some());
        // Calls of one reply end in any order. The message with the highest number came last.
        let last = results.max_by_key(|message| message.id);
        last.and_then(|message| TodoList::written(message)).unwrap_or_default()
    }

    /// Returns the list that a call of [`Todo`] wrote, or `None` if the message is not its result.
    pub fn written(message: &Message) -> Option<TodoList> {
        TodoList::deserialize(details(message)?).ok()
    }

    /// Returns the number of items that are completed.
    pub fn completed(&self) -> usize {
        self.count(TodoStatus::Completed)
    }

    /// Returns whether an item is not completed.
    pub fn is_open(&self) -> bool {
        self.completed() < self.items.len()
    }

    fn count(&self, status: TodoStatus) -> usize {
        self.items.iter().filter(|item| item.status == status).count()
    }

    /// Returns the list with each item on one line. The error tells the model what to correct.
    fn checked(self) -> Result<Self, String> {
        let (items, max) = (self.items, Todo::MAX_ITEMS);
        if items.len() > max {
            let count = items.len();
            return Err(format!(
                "`{TODOS}` has {count} items, and at most {max} are possible: merge some, or leave \
                 out completed ones."
            ));
        }
        let checked = items.into_iter().enumerate().map(|(at, item)| item.checked(at + 1));
        Ok(TodoList { items: checked.collect::<Result<_, _>>()? })
    }
}

/// Writes each item on a line, with `[ ]` if it is pending, `[>]` in progress, `[x]` completed.
impl fmt::Display for TodoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.iter().try_for_each(|item| writeln!(f, "{item}"))
    }
}

impl fmt::Display for TodoItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.status {
            TodoStatus::Pending => ' ',
            TodoStatus::InProgress => '>',
            TodoStatus::Completed => 'x',
        };
        write!(f, "[{mark}] {}", self.content)
    }
}

impl TodoItem {
    /// Returns the item with its content on one line. `number` counts from one.
    fn checked(self, number: usize) -> Result<Self, String> {
        let visible: String = self.content.chars().filter(|c| !is_invisible(*c)).collect();
        let content = visible.split_whitespace().collect::<Vec<_>>().join(" ");
        match (content.chars().count(), Todo::MAX_ITEM_CHARS) {
            (0, _) => Err(format!("Item {number} is empty: write what to do, or leave it out.")),
            (chars, max) if chars > max => Err(format!(
                "Item {number} has {chars} characters, and at most {max} are possible: shorten it."
            )),
            _ => Ok(TodoItem { content, ..self }),
        }
    }
}

/// Returns whether a character would confuse a terminal or a reader: a control character that is
/// no space, or one that has no width or changes the direction.
fn is_invisible(c: char) -> bool {
    let has_no_width = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{feff}');
    c.is_control() && !c.is_whitespace() || has_no_width
}

/// Returns the list in a successful result of the tool, as JSON.
fn details(message: &Message) -> Option<&Value> {
    let result = message.as_tool_result()?;
    let is_written = *result.name == *WRITE_TODOS && result.status == ResultStatus::Ok;
    result.details.as_deref().filter(|_| is_written)?.get(TODOS)
}

impl Arguments {
    fn read(arguments: &Value) -> Result<Self, String> {
        let read = Arguments::deserialize(arguments);
        read.map_err(|why| format!("The arguments do not fit: {why}."))
    }
}

#[async_trait]
impl Tool for Todo {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        Some(Arguments::read(arguments).map(drop))
    }

    async fn call(&self, arguments: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let list = Arguments::read(arguments).and_then(|arguments| arguments.todos.checked());
        let list = list.map_err(ToolError::Failed)?;
        let text = match list.items.len() {
            0 => "The todo list is empty.".to_owned(),
            count => format!(
                "The todo list is written: {} of {count} completed, {} in progress.",
                list.completed(),
                list.count(TodoStatus::InProgress)
            ),
        };
        Ok(ToolOutput::text(text).details(json!({ TODOS: list })))
    }
}
