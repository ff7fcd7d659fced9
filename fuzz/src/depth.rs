//! Texts with deep nesting or many repetitions, for each kind of text that models, clients and
//! repositories send: a glob, a pattern, JSON, a schema, a file.

use std::fs;
use std::thread;

use loopwright_core::Tool;
use loopwright_core::ToolContext;
use loopwright_core::model::PartialJson;
use loopwright_providers::Catalogue;
use loopwright_tools::{
    Workspace, diff, edit_file, glob_files, list_directory, read_file, search_files,
};
use serde_json::{Value, json};

use crate::schemas::check_schema_text;
use crate::worker::{on_worker, run_task};

/// The stack size of a tokio thread.
const STACK_BYTES: usize = 2 << 20;
/// The maximum length of a generated text.
const MAX_TEXT_BYTES: usize = 1 << 17;
/// Fragments that nest, separate or repeat in one of the syntaxes.
const FRAGMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "(?:",
    "(?i)",
    "[^",
    "]]",
    "[[:alpha:]",
    "{2}",
    "{999}",
    "{1,",
    "*",
    "**/",
    "+",
    "?",
    "|",
    "&&",
    "!",
    ",",
    ":",
    "\"",
    "\\",
    "/",
    "a",
    "ab.c",
    "\n",
    "\r\n",
    " ",
    "\t",
    "> ",
    "- ",
    "1. ",
    "    ",
    "`",
    "```",
    "~~~\n",
    "# ",
    "* ",
    "**",
    "_",
    "<b>",
    "![",
    "](",
    "| a ",
    "|-|-|\n",
    "{\"a\":",
    "[1,",
    "null",
    "1",
    "-",
    "{\"not\":",
    "{\"items\":",
    "{\"$ref\":\"#\"",
    "a=",
    "a.b=",
    "[[a]]\n",
    "[a.",
    "\"\"\"",
    "<tool_call>",
    "</tool_call>",
    "\\p{L}",
    "\\w",
    "$",
    "^",
    ".",
    "..",
    "é",
    "🦀",
    "\u{200d}",
    "\u{301}",
    "\0",
    "--- a\n",
    "@@ -1 +1 @@\n",
];

/// Parses a text made from these bytes. Panics, or ends the process, if the parser does not bound
/// it.
pub fn check_depth(bytes: &[u8]) {
    let [kind, rest @ ..] = bytes else { return };
    let (kind, text) = (*kind, text_of(rest));
    let parsing = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || parse(kind, &text));
    parsing.expect("a thread").join().expect("no panic");
}

/// Makes a text of pairs of bytes: the index of a fragment and its repetitions. If the index is out
/// of range, the second byte itself is added.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::new();
    for pair in bytes.chunks(2) {
        let [fragment, times] = pair else { break };
        match FRAGMENTS.get(usize::from(*fragment)) {
            Some(fragment) => {
                let times = if *times < 8 { usize::from(*times) } else { 1 << (times % 16) };
                text.push_str(&fragment.repeat(times));
            }
            None => text.push(char::from(*times)),
        }
        if text.len() > MAX_TEXT_BYTES {
            break;
        }
    }
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

fn parse(kind: u8, text: &str) {
    match kind % 11 {
        0 => call(glob_files, text, &json!({ "pattern": text })),
        1 => call(search_files, text, &json!({ "pattern": text })),
        2 => call(search_files, text, &json!({ "pattern": "a", "include": text })),
        3 => call(list_directory, text, &json!({ "path": ".", "pattern": text })),
        4 => call(search_files, text, &json!({ "pattern": "needle" })), // with it as rules
        5 => call(read_file, text, &json!({ "path": "text" })),
        6 => call(diff, text, &json!({ "file_a": "text", "file_b": "other" })),
        7 => {
            let half = text.floor_char_boundary(text.len() / 2);
            let (new, old) = text.split_at(half);
            let edit = json!({ "path": "text", "old_string": old, "new_string": new });
            call(edit_file, text, &edit);
        }
        8 => on_worker("JSON", || {
            let mut partial = PartialJson::new();
            partial.push(text);
            drop(partial);
            drop(serde_json::from_str::<Value>(text));
        }),
        9 => check_schema_text(text),
        _ => on_worker("a list of models", || drop(Catalogue::new().add(text, "a list"))),
    }
}

/// Calls a tool in a directory whose files contain this text, as a file and as ignore rules.
fn call<T: Tool>(tool: impl FnOnce(Workspace) -> T, text: &str, arguments: &Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let reversed: String = text.chars().rev().collect();
    for (name, text) in [("text", text), ("other", &reversed), (".gitignore", text), ("a.rs", "a")]
    {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let tool = tool(Workspace::open(folder.path()).expect("a workspace"));
    let name = tool.spec().name.clone();
    drop(run_task(&name, tool.call(arguments, ToolContext::detached())));
}
