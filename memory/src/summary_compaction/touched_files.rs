//! Files that tool calls have read and edited. They survive every summary verbatim.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{MessageKind, ResultStatus, ToolCall};
use serde::{Deserialize, Serialize};

/// The argument of a tool that names a file, and whether the tool changes that file.
#[derive(Debug, Clone)]
struct FileRule {
    argument: String,
    edits: bool,
}

/// The rules of tools, by the tools' names.
#[derive(Debug, Clone)]
pub(super) struct FileRules(BTreeMap<String, FileRule>);

impl Default for FileRules {
    fn default() -> Self {
        let mut rules = FileRules(BTreeMap::new());
        rules.reads("read_file".into(), "path".into());
        rules.edits("write_file".into(), "path".into());
        rules.edits("edit_file".into(), "path".into());
        rules
    }
}

impl FileRules {
    /// Declares that `tool` reads the file named by `argument`.
    pub(super) fn reads(&mut self, tool: String, argument: String) {
        self.0.insert(tool, FileRule { argument, edits: false });
    }

    /// Declares that `tool` changes the file named by `argument`.
    pub(super) fn edits(&mut self, tool: String, argument: String) {
        self.0.insert(tool, FileRule { argument, edits: true });
    }

    /// Returns the file that the call names, and whether the call changes it.
    fn file(&self, call: &ToolCall) -> Option<(String, bool)> {
        let rule = self.0.get(&*call.name)?;
        let arguments = call.parse_arguments()?;
        Some((arguments.get(&rule.argument)?.as_str()?.to_owned(), rule.edits))
    }
}

/// The files, most recently touched last.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TouchedFiles {
    edited: Vec<String>,
    read: Vec<String>,
    /// The number of names that were dropped for lack of space.
    dropped: usize,
}

impl TouchedFiles {
    /// Adds the files of these messages: of successful calls, and of interrupted edits, which may
    /// have changed the file.
    pub(super) fn add(&mut self, rules: &FileRules, messages: &[Arc<Message>]) {
        let mut called = BTreeMap::new();
        for message in messages {
            match &message.body {
                MessageKind::Assistant(reply) => {
                    called.extend(reply.calls().map(|call| (&call.id, call)))
                }
                MessageKind::ToolResult(result) => {
                    let is_cut_off = matches!(
                        result.status,
                        ResultStatus::OutcomeUnknown | ResultStatus::Aborted
                    );
                    if let Some((file, edits)) =
                        called.get(&result.call).and_then(|call| rules.file(call))
                        && (!result.is_error() || is_cut_off && edits)
                    {
                        self.touch(file, edits);
                    }
                }
                _ => {}
            }
        }
    }

    fn touch(&mut self, file: String, edits: bool) {
        let edits = edits || self.edited.contains(&file);
        self.edited.retain(|known| *known != file);
        self.read.retain(|known| *known != file);
        if edits { self.edited.push(file) } else { self.read.push(file) }
    }

    /// Drops names until the rest fits into `max_tokens`: files that were only read before files
    /// that were edited, and the oldest first.
    pub(super) fn limit(&mut self, max_tokens: u64) {
        let max_bytes = 3 * max_tokens as usize;
        let dropped_edited = drop_oldest(&mut self.edited, max_bytes);
        let edited_bytes: usize = self.edited.iter().map(|name| line_bytes(name)).sum();
        let dropped_read = drop_oldest(&mut self.read, max_bytes.saturating_sub(edited_bytes));
        self.dropped += dropped_edited + dropped_read;
    }

    /// Appends the lists of files, with a title each.
    pub(super) fn write(&self, text: &mut String) {
        for (title, names) in [("Files edited", &self.edited), ("Files read", &self.read)] {
            if !names.is_empty() {
                text.push_str(&format!("\n{title}:\n- {}\n", names.join("\n- ")));
            }
        }
        if self.dropped > 0 {
            text.push_str(&format!("(and {} more that were touched before)\n", self.dropped));
        }
    }
}

/// Returns the length of a name in the list, in bytes: `- `, the name and the end of the line.
fn line_bytes(name: &str) -> usize {
    name.len() + 3
}

/// Drops the oldest names until the rest fits into `max_bytes`, and returns how many were dropped.
fn drop_oldest(names: &mut Vec<String>, max_bytes: usize) -> usize {
    let mut bytes = 0;
    let fitting = names.iter().rev().take_while(|name| {
        bytes += line_bytes(name);
        bytes <= max_bytes
    });
    let dropped = names.len() - fitting.count();
    names.drain(..dropped);
    dropped
}
