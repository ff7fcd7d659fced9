//! `list_directory`: what is in one directory, by name.

use std::fmt::Write;

use globset::{Glob, GlobMatcher};
use loopwright::{Effect, Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::shown;
use crate::workspace::{Entry, EntryKind, Listing, Workspace};

const NAME: &str = "list_directory";
const DESCRIPTION: &str = "Lists one directory of the workspace, hidden names too, sorted by name: directories end \
    with `/`, symbolic links are shown as `name@ -> target`, files with their size. It does not go into subdirectories.";

/// The most entries that are shown.
const ENTRIES: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The directory, as a path relative to the workspace; `.` is the workspace itself.
    path: String,
    /// Show only names that match this glob, such as `*.rs` or `test_*.{py,toml}`. It is matched against
    /// names in this directory, not against paths.
    #[serde(default)]
    pattern: Option<String>,
}

/// The tool that lists a directory of this workspace.
pub fn list_directory(workspace: Workspace) -> impl Tool {
    tool_with(workspace, NAME, DESCRIPTION, async |workspace: Workspace, args: Args, _: ToolContext| {
        workspace.off_thread(move |workspace| list(workspace, &args)).await
    })
    .effect(Effect::ReadOnly)
    .spec(|spec| spec.title("List a directory"))
}

fn list(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    let pattern = args.pattern.as_deref().filter(|pattern| !pattern.is_empty()).map(glob).transpose()?;
    let listing = workspace.list(&args.path, ENTRIES, |name| pattern.as_ref().is_none_or(|p| p.is_match(name)))?;
    let details = json!({ "path": args.path, "entries": listing.entries, "total": listing.total });
    Ok(ToolOutput::text(told(args, &listing)).details(details))
}

fn glob(pattern: &str) -> Result<GlobMatcher, ToolError> {
    Glob::new(pattern)
        .map(|glob| glob.compile_matcher())
        .map_err(|e| ToolError::Failed(format!("the pattern `{}` is not a glob: {}", shown(pattern), e.kind())))
}

fn told(args: &Args, listing: &Listing) -> String {
    match (listing.total, &args.pattern) {
        (0, None) => return format!("`{}` is an empty directory.", shown(&args.path)),
        (0, Some(pattern)) => {
            return format!("No name in `{}` matches `{}`.", shown(&args.path), shown(pattern));
        }
        _ => {}
    }
    let mut text = String::new();
    for entry in &listing.entries {
        let _ = writeln!(text, "{}", line(entry)); // writing to a String cannot fail
    }
    if listing.total > ENTRIES {
        let _ = writeln!(text, "… the first {ENTRIES} of {} entries: narrow it with a pattern", listing.total);
    }
    text
}

fn line(entry: &Entry) -> String {
    let name = shown(&entry.name);
    match &entry.kind {
        EntryKind::Directory => format!("{name}/"),
        EntryKind::File { bytes: 1 } => format!("{name}  1 byte"),
        EntryKind::File { bytes } => format!("{name}  {bytes} bytes"),
        EntryKind::Symlink { target } => format!("{name}@ -> {}", shown(target)),
        EntryKind::Other { what } => format!("{name}  ({what})"),
    }
}
