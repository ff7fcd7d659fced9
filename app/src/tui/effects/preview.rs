//! The diff that a call would make to a file.

use std::path::{Path, PathBuf};

use loopwright::ExternalAction;
use serde_json::Value;

use super::News;
use super::open::Host;
use crate::tui::paint::unified;
use crate::tui::state::Told;

/// The largest file that is compared, in bytes.
const LARGEST: u64 = 1024 * 1024;

impl Host {
    /// Tells the diff, beside whatever else is to be done.
    pub(super) fn preview(&self, action: ExternalAction) {
        let (news, root) = (self.news(), self.options().place.root_or_here());
        tokio::task::spawn_blocking(move || {
            let diff = preview(&root, &action.name, &action.arguments);
            let _ = news.send(News::Told(Told::Preview(action, diff)));
        });
    }
}

/// What this call would do, as a unified diff, or why that cannot be told.
fn preview(root: &Path, tool: &str, arguments: &Value) -> Result<String, String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let old = read(root, text("path"))?;
    let new = match tool {
        "write_file" => text("content").to_owned(),
        _ => edited(
            old.as_deref().ok_or("The file is not there, so the edit will fail.")?,
            text("old_string"),
            text("new_string"),
            arguments.get("replace_all").and_then(Value::as_bool).unwrap_or_default(),
        )?,
    };
    let old = unix(&old.unwrap_or_default());
    Ok(unified(&old, &unix(&new), 3))
}

/// As `edit_file` does it; it has the last word.
fn edited(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
    let (text, old, new) = (unix(text), unix(old), unix(new));
    match text.matches(old.as_str()).count() {
        _ if old.is_empty() => Err("old_string is empty, so the edit will fail.".into()),
        0 => Err("old_string does not occur in the file, so the edit will fail.".into()),
        1 => Ok(text.replacen(&old, &new, 1)),
        _ if all => Ok(text.replace(&old, &new)),
        n => Err(format!("old_string occurs {n} times in the file, so the edit will fail.")),
    }
}

/// The file's text; nothing if it is not there.
fn read(root: &Path, path: &str) -> Result<Option<String>, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("What it would change cannot be shown: {why}.");
    let root = root.canonicalize().map_err(|why| cannot(&why))?;
    let file: PathBuf = match root.join(path).canonicalize() {
        Ok(file) => file,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(cannot(&why)),
    };
    if !file.starts_with(&root) {
        return Err(cannot(&"the file is outside of the directory"));
    }
    let known = file.metadata().map_err(|why| cannot(&why))?;
    if !known.is_file() || known.len() > LARGEST {
        return Err(cannot(&"it is no file, or a very large one"));
    }
    let bytes = std::fs::read(&file).map_err(|why| cannot(&why))?;
    String::from_utf8(bytes).map(Some).map_err(|_| cannot(&"the file is no text"))
}

fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}
