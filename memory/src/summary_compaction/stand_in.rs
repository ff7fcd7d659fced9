//! The message that replaces older turns, and the details that are logged with it.

use std::sync::Arc;

use loopwright_core::tool::{TodoItem, TodoList, TodoStatus};
use loopwright_core::{Message, excerpt};
use serde::{Deserialize, Serialize};

use super::touched_files::TouchedFiles;

/// The replacement of older turns. It is logged with the replacement, for the next compaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StandIn {
    pub(super) summary: String,
    #[serde(flatten)]
    pub(super) files: TouchedFiles,
    /// The model's todo list, unless a message that stays has a newer one.
    #[serde(skip_serializing_if = "is_empty")]
    todos: TodoList,
    /// The number of items of the list that are left out although they are not completed.
    #[serde(skip_serializing_if = "is_zero")]
    todos_left_out: usize,
    /// The number of turns left out without a summary.
    pub(super) left_out: usize,
}

fn is_empty(list: &TodoList) -> bool {
    list.items.is_empty()
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl StandIn {
    /// Takes over the todo list of the replaced messages, unless it is completed or the messages
    /// that stay have one. Completed items, and then the last ones, are left out if the list
    /// exceeds `max_tokens`. Returns the number of tokens that the list has.
    pub(super) fn set_todos(
        &mut self,
        replaced: &[Arc<Message>],
        rest: &[Arc<Message>],
        max_tokens: u64,
    ) -> u64 {
        let is_written = |message: &Arc<Message>| TodoList::written(message).is_some();
        if rest.iter().any(is_written) {
            (self.todos, self.todos_left_out) = Default::default();
        } else if replaced.iter().any(is_written) {
            (self.todos, self.todos_left_out) = (TodoList::of(replaced), 0);
        }
        if !self.todos.is_open() {
            self.todos = TodoList::default();
        }
        let bytes = |items: &[TodoItem]| items.iter().map(line_bytes).sum::<usize>();
        let (items, max_bytes) = (&mut self.todos.items, 3 * max_tokens as usize);
        while bytes(items) > max_bytes {
            let completed = items.iter().position(|item| item.status == TodoStatus::Completed);
            items.remove(completed.unwrap_or(items.len() - 1));
            self.todos_left_out += usize::from(completed.is_none());
        }
        bytes(items).div_ceil(3) as u64
    }

    /// Sets the summary, cut to `max_bytes`.
    pub(super) fn set_summary(&mut self, summary: &str, max_bytes: usize) {
        self.summary = excerpt::bytes(summary.trim(), max_bytes);
    }

    /// Returns the text that the model gets in place of the older turns.
    pub(super) fn text(&self) -> String {
        let mut text = String::from(
            "(The conversation from after the first request up to here was shortened.)\n",
        );
        self.files.write(&mut text);
        if !is_empty(&self.todos) {
            text.push_str(&format!("\nYour todo list:\n{}", self.todos));
            if self.todos_left_out > 0 {
                let left_out = self.todos_left_out;
                text.push_str(&format!("({left_out} more items of the list were left out.)\n"));
            }
        }
        if !self.summary.is_empty() {
            text.push_str("\nSummary:\n");
            text.push_str(&self.summary);
            text.push('\n');
        }
        if self.left_out > 0 {
            let turns = self.left_out;
            text.push_str(&format!("\n({turns} turns were left out without a summary.)\n"));
        }
        text
    }
}

/// Returns the length of an item in the list, in bytes: its mark, its content and the end of the
/// line.
fn line_bytes(item: &TodoItem) -> usize {
    item.content.len() + 5
}
