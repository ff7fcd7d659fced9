//! `edit_file`: replaces text in a file.

mod apply;
mod hint;
mod occurrences;
mod view;

use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::apply::{Edited, apply};
use self::view::normalized;
use crate::error::printable;
use crate::file_diff;
use crate::protection;
use crate::schema::strict;
use crate::text::{FileChange, MAX_FILE_BYTES, Text, UnifiedDiff};
use crate::workspace::{Stamp, Workspace, Written};

const NAME: &str = "edit_file";
const DESCRIPTION: &str = "Replaces text in a file of the workspace. `old_string` must occur \
    exactly once in the file, with exactly the same white space: give enough lines around the \
    change to make it unique, without the line numbers of read_file. The file keeps its kind of \
    line ends. If the edit is not possible, the file is left unchanged.";

/// The maximum number of line numbers in the details of a result.
const MAX_LINES_IN_DETAILS: usize = 1_000;
/// The maximum number of line numbers in a text for the model.
const MAX_LISTED_LINES: usize = 10;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The file, as a path relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The text to replace.
    old_string: String,
    /// The text that replaces it; empty to delete it.
    new_string: String,
    /// True to replace every occurrence instead of exactly one.
    replace_all: Option<bool>,
}

/// Creates the tool `edit_file`, which replaces text in a file of the workspace.
///
/// [Protected files](Workspace::unprotected) need approval, whatever the agent's rules are.
pub fn edit_file(workspace: Workspace) -> impl Tool {
    let approval = protection::approval(&workspace);
    let preview = file_diff::preview(&workspace, dry_run);
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, _: ToolContext| {
            workspace.off_thread(move |workspace| edit(workspace, &args)).await
        },
    )
    .effect(Effect::Idempotent)
    .approval(approval)
    .preview(preview)
    .spec(|spec| strict(spec).title("Edit a file").sequential().uninterruptible())
}

/// The outcome of an edit that can be made.
enum Plan {
    /// The file and its stamp when it was read, its new text, and the numbers (from 1) of the lines
    /// in which text is replaced.
    Change { file: Text, stamp: Stamp, text: String, lines: Vec<usize> },
    /// The edit was already made: the new text is at this line.
    AlreadyApplied { file: Text, line: usize },
}

fn edit(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    match plan(workspace, args)? {
        Plan::Change { file, stamp, text, lines } => {
            let bytes = file.bytes_with(&text);
            let written = workspace.write(&args.path, &bytes, Some(stamp))?;
            Ok(report(args, &written, &file.text, &text, &lines))
        }
        Plan::AlreadyApplied { line, .. } => {
            let path = printable(&args.path);
            let text = format!(
                "`{path}` was left unchanged: new_string is already there, at line {line}, and \
                 old_string does not occur otherwise. If another occurrence is meant, read the \
                 file and give more of the text around it."
            );
            let details = json!({
                "path": args.path,
                "replacements": 0,
                "already_applied": true,
                "lines": [line],
            });
            Ok(ToolOutput::text(text).details(details))
        }
    }
}

/// Returns the change that a call with these arguments would make, without making it.
pub(crate) fn dry_run(workspace: &Workspace, arguments: &Value) -> Result<FileChange, ToolError> {
    let args = Args::deserialize(arguments)
        .map_err(|e| ToolError::Failed(format!("the arguments are invalid: {e}")))?;
    Ok(match plan(workspace, &args)? {
        Plan::Change { file, text, .. } => {
            workspace.check_write(&args.path)?;
            FileChange { path: args.path, old: file.text, new: text }
        }
        Plan::AlreadyApplied { file, .. } => {
            FileChange { path: args.path, old: file.text.clone(), new: file.text }
        }
    })
}

/// Reads the file and computes the edit, without writing it.
fn plan(workspace: &Workspace, args: &Args) -> Result<Plan, ToolError> {
    let path = printable(&args.path);
    let all = args.replace_all.unwrap_or(false);
    let (bytes, stamp) = workspace.read(&args.path, MAX_FILE_BYTES)?;
    let file = Text::new(&args.path, bytes)?;
    if normalized(&args.old_string).is_empty() {
        let why = "old_string is empty: give the text to replace, or use write_file to write the \
                   whole file";
        return Err(ToolError::Failed(why.into()));
    }
    if normalized(&args.old_string) == normalized(&args.new_string) {
        let why = "new_string is the same as old_string, apart from line ends, which edits do not \
                   change: there is nothing to change";
        return Err(ToolError::Failed(why.into()));
    }
    // Without the size of the byte order mark, which is not part of the text.
    let max_bytes = MAX_FILE_BYTES - file.bytes_with("").len() as u64;
    let refused = match apply(&file.text, &args.old_string, &args.new_string, all, max_bytes) {
        Edited::Changed { text, lines } => {
            return Ok(Plan::Change { file, stamp, text, lines });
        }
        Edited::AlreadyApplied { line } => return Ok(Plan::AlreadyApplied { file, line }),
        Edited::NotFound => {
            let note = match normalized(&args.new_string) {
                new if new.is_empty() => ", or it was already deleted",
                new if normalized(&file.text).contains(&new) => {
                    ", but new_string does, so the edit may already have been made"
                }
                _ => "",
            };
            match hint::hint(&file.text, &args.old_string) {
                Some(hint) => format!("old_string does not occur in `{path}`: {hint}"),
                None => format!(
                    "old_string does not occur in `{path}`{note}: read the file to see its text"
                ),
            }
        }
        Edited::Ambiguous { count, lines } => {
            let lines = list(&lines, count);
            format!(
                "old_string occurs {count} times in `{path}`, at {lines}: give more of the text \
                 around the occurrence to replace, or set replace_all to replace all of them"
            )
        }
        Edited::TooLarge { bytes } => format!(
            "after this edit `{path}` would have {bytes} bytes, but files of at most \
             {MAX_FILE_BYTES} bytes can be edited"
        ),
        Edited::Unstable { line } => format!(
            "after this edit old_string would still occur in `{path}`, at line {line}, so that a \
             repeated call would change the file once more: give more of the text around it, or \
             use write_file to write the whole file"
        ),
    };
    Err(ToolError::Failed(format!("{refused}. The file was left unchanged")))
}

fn report(args: &Args, written: &Written, old: &str, new: &str, lines: &[usize]) -> ToolOutput {
    let path = printable(&args.path);
    let text = match lines {
        [line] => format!("Edited `{path}` at line {line}."),
        _ => format!(
            "Edited `{path}`: {} occurrences replaced, at {}.",
            lines.len(),
            list(lines, lines.len())
        ),
    };
    let diff = UnifiedDiff::new((&args.path, old), (&args.path, new));
    let details = json!({
        "path": args.path,
        "replacements": lines.len(),
        "already_applied": false,
        "lines": &lines[..lines.len().min(MAX_LINES_IN_DETAILS)],
        "diff": diff.text,
        "cut": diff.cut,
        "added": diff.added,
        "removed": diff.removed,
    });
    ToolOutput::text(text + &written.note()).details(details)
}

/// Formats line numbers: `lines 1, 5`, with ` and others` if `count` is larger than the list.
fn list(lines: &[usize], count: usize) -> String {
    let listed: Vec<String> = lines.iter().take(MAX_LISTED_LINES).map(usize::to_string).collect();
    let others = if count > listed.len() { " and others" } else { "" };
    format!("lines {}{others}", listed.join(", "))
}

#[cfg(test)]
mod tests;
