//! `edit_file`: replaces text in a file.

mod apply;
mod hint;

use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::apply::{Edited, apply, unix};
use crate::error::shown;
use crate::preview::Becomes;
use crate::schema::strict;
use crate::text::{Text, Unified, WHOLE};
use crate::workspace::{Stamp, Workspace};

const NAME: &str = "edit_file";
const DESCRIPTION: &str = "Replaces text in a file of the workspace. `old_string` must occur exactly once in the file, \
    with its white space exactly as it is there: give enough lines around the change to make it unique, without the \
    line numbers of read_file. Line ends are kept as the file has them. Nothing is changed if the edit is not possible.";

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The file, as a path relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The text to replace.
    old_string: String,
    /// The text to put in its place; empty to delete it.
    new_string: String,
    /// True to replace every occurrence instead of exactly one.
    replace_all: Option<bool>,
}

/// The tool that edits a file of this workspace.
pub fn edit_file(workspace: Workspace) -> impl Tool {
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, _: ToolContext| {
            workspace.off_thread(move |workspace| edit(workspace, &args)).await
        },
    )
    .effect(Effect::Idempotent)
    .spec(|spec| strict(spec).title("Edit a file").sequential().uninterruptible())
}

/// What an edit that is possible comes to.
enum Planned {
    /// The file, what it was when it was read, its new text, and the lines (from 1) at which
    /// something is replaced.
    Change { file: Text, stamp: Stamp, text: String, lines: Vec<usize> },
    /// It was made before: the new text is at this line.
    Already { file: Text, line: usize },
}

fn edit(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    match plan(workspace, args)? {
        Planned::Change { file, stamp, text, lines } => {
            workspace.write(&args.path, &file.bytes_with(&text), Some(stamp))?;
            Ok(told(args, &file.text, &text, &lines))
        }
        Planned::Already { line, .. } => {
            let path = shown(&args.path);
            let text = format!(
                "`{path}` was left as it is: new_string is there already, at line {line}, and old_string is nowhere \
                 else. If another place is meant, read the file and give more of the text around it."
            );
            let details = json!({ "path": args.path, "replacements": 0, "already_applied": true, "lines": [line] });
            Ok(ToolOutput::text(text).details(details))
        }
    }
}

/// How the file's text would become another by the call with these arguments; nothing is changed.
pub(crate) fn dry_run(workspace: &Workspace, arguments: &Value) -> Result<Becomes, ToolError> {
    let args = Args::deserialize(arguments)
        .map_err(|e| ToolError::Failed(format!("the arguments do not fit: {e}")))?;
    Ok(match plan(workspace, &args)? {
        Planned::Change { file, text, .. } => {
            workspace.could_write(&args.path)?;
            Becomes { path: args.path, old: file.text, new: text }
        }
        Planned::Already { file, .. } => {
            Becomes { path: args.path, old: file.text.clone(), new: file.text }
        }
    })
}

fn plan(workspace: &Workspace, args: &Args) -> Result<Planned, ToolError> {
    let (path, all) = (shown(&args.path), args.replace_all.unwrap_or(false));
    let (bytes, stamp) = workspace.read(&args.path, WHOLE)?;
    let file = Text::new(&args.path, bytes)?;
    if unix(&args.old_string).is_empty() {
        let why = "old_string is empty: name the text to replace, or use write_file to write the whole file";
        return Err(ToolError::Failed(why.into()));
    }
    if unix(&args.old_string) == unix(&args.new_string) {
        let why = "new_string is the same as old_string but for line ends, which edits keep: there is nothing to change";
        return Err(ToolError::Failed(why.into()));
    }
    // With the byte order mark, which is no part of the text.
    let largest = WHOLE - file.bytes_with("").len() as u64;
    let refused = match apply(&file.text, &args.old_string, &args.new_string, all, largest) {
        Edited::Changed { text, lines } => {
            return Ok(Planned::Change { file, stamp, text, lines });
        }
        Edited::Already { line } => return Ok(Planned::Already { file, line }),
        Edited::NotFound => {
            let made = match unix(&args.new_string) {
                new if new.is_empty() => ", or it has been deleted already",
                new if unix(&file.text).contains(&new) => {
                    ", but new_string does, so perhaps the edit was made before"
                }
                _ => "",
            };
            match hint::hint(&file.text, &args.old_string) {
                Some(hint) => format!("old_string does not occur in `{path}`: {hint}"),
                None => format!(
                    "old_string does not occur in `{path}`{made}: read the file to see what is there"
                ),
            }
        }
        Edited::Ambiguous { count, lines } => {
            let places = list(&lines, count);
            format!(
                "old_string occurs {count} times in `{path}`, at {places}: give more of the text around the one that is \
                 meant, or set replace_all to replace every one"
            )
        }
        Edited::TooLarge { bytes } => format!(
            "after this edit `{path}` would have {bytes} bytes, more than the {WHOLE} of the largest file that can be edited"
        ),
        Edited::Unstable { line } => format!(
            "after this edit old_string would occur in `{path}` again, at line {line}, so that making the edit twice \
             would not be the same as making it once: give more of the text around it, or write the whole of what is meant"
        ),
    };
    Err(ToolError::Failed(format!("{refused}. Nothing was changed")))
}

fn told(args: &Args, old: &str, new: &str, lines: &[usize]) -> ToolOutput {
    let path = shown(&args.path);
    let text = match lines {
        [line] => format!("Edited `{path}` at line {line}."),
        _ => format!(
            "Edited `{path}`: {} occurrences replaced, at {}.",
            lines.len(),
            list(lines, lines.len())
        ),
    };
    let diff = Unified::new((&args.path, old), (&args.path, new));
    let details = json!({
        "path": args.path, "replacements": lines.len(), "already_applied": false,
        "lines": &lines[..lines.len().min(1_000)], "diff": diff.text, "cut": diff.cut, "added": diff.added,
        "removed": diff.removed });
    ToolOutput::text(text).details(details)
}

/// `lines 1, 5 and others`, for people: the first of `count`.
fn list(lines: &[usize], count: usize) -> String {
    const NAMED: usize = 10;
    let named: Vec<String> = lines.iter().take(NAMED).map(usize::to_string).collect();
    let others = if count > named.len() { " and others" } else { "" };
    format!("lines {}{others}", named.join(", "))
}

#[cfg(test)]
mod tests;
