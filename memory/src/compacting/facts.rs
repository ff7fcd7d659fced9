//! Which files were read and edited: kept word for word, whatever a summary says.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{MessageKind, ResultStatus, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a tool does to the file that an argument of it names.
#[derive(Debug, Clone)]
struct Rule {
    argument: String,
    edits: bool,
}

/// By the tools' names.
#[derive(Debug, Clone)]
pub(super) struct Rules(BTreeMap<String, Rule>);

impl Default for Rules {
    fn default() -> Self {
        let mut rules = Rules(BTreeMap::new());
        rules.reads("read_file".into(), "path".into());
        rules.edits("write_file".into(), "path".into());
        rules.edits("edit_file".into(), "path".into());
        rules
    }
}

impl Rules {
    pub(super) fn reads(&mut self, tool: String, argument: String) {
        self.0.insert(tool, Rule { argument, edits: false });
    }

    pub(super) fn edits(&mut self, tool: String, argument: String) {
        self.0.insert(tool, Rule { argument, edits: true });
    }

    /// The file that the call is about, and whether it changes it.
    fn file(&self, call: &ToolCall) -> Option<(String, bool)> {
        let rule = self.0.get(&*call.name)?;
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        Some((arguments.get(&rule.argument)?.as_str()?.to_owned(), rule.edits))
    }
}

/// The files, those touched last at the end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Facts {
    edited: Vec<String>,
    read: Vec<String>,
    /// Names that there was no room for.
    forgotten: usize,
}

impl Facts {
    /// Takes in what these messages tell: the calls that have succeeded, and edits that were cut
    /// off, since they may have changed the file.
    pub(super) fn add(&mut self, rules: &Rules, messages: &[Arc<Message>]) {
        let mut called = BTreeMap::new();
        for message in messages {
            match &message.body {
                MessageKind::Assistant(reply) => {
                    called.extend(reply.calls().map(|call| (&call.id, call)))
                }
                MessageKind::ToolResult(result) => {
                    let is_cut = matches!(
                        result.status,
                        ResultStatus::OutcomeUnknown | ResultStatus::Aborted
                    );
                    if let Some((file, edits)) =
                        called.get(&result.call).and_then(|call| rules.file(call))
                        && (!result.is_error() || is_cut && edits)
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

    /// Forgets names until the others fit into so many tokens: those that were only read first, the
    /// oldest first.
    pub(super) fn bound(&mut self, tokens: u64) {
        let size = |names: &[String]| names.iter().map(|name| name.len() + 3).sum::<usize>();
        let most = 3 * tokens as usize;
        let edited = drop_oldest(&mut self.edited, most);
        let left = most.saturating_sub(size(&self.edited));
        self.forgotten += edited + drop_oldest(&mut self.read, left);
    }

    pub(super) fn write(&self, text: &mut String) {
        for (title, names) in [("Files edited", &self.edited), ("Files read", &self.read)] {
            if !names.is_empty() {
                text.push_str(&format!("\n{title}:\n- {}\n", names.join("\n- ")));
            }
        }
        if self.forgotten > 0 {
            text.push_str(&format!("(and {} more that were touched before)\n", self.forgotten));
        }
    }
}

/// Keeps the last names that fit into so many bytes; gives how many went.
fn drop_oldest(names: &mut Vec<String>, bytes: usize) -> usize {
    let mut size = 0;
    let kept = names.iter().rev().take_while(|name| {
        size += name.len() + 3;
        size <= bytes
    });
    let gone = names.len() - kept.count();
    names.drain(..gone);
    gone
}
