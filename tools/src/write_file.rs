//! `write_file`: puts a whole file in its place.

use loopwright::{Effect, Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::shown;
use crate::workspace::Workspace;

const NAME: &str = "write_file";
const DESCRIPTION: &str = "Writes a file of the workspace: makes it, with the directories it needs, or replaces all \
    that is in it. The content is written exactly as given. Read an existing file before you replace it.";

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The file, as a path relative to the workspace, such as `src/main.rs`.
    path: String,
    /// Everything that the file shall contain, with the line end of its last line.
    content: String,
}

/// The tool that writes a file of this workspace.
pub fn write_file(workspace: Workspace) -> impl Tool {
    tool_with(workspace, NAME, DESCRIPTION, async |workspace: Workspace, args: Args, _: ToolContext| {
        workspace.off_thread(move |workspace| write(workspace, &args)).await
    })
    .effect(Effect::Idempotent)
    .spec(|spec| spec.title("Write a file").sequential().uninterruptible())
}

fn write(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    let replaced = workspace.write(&args.path, args.content.as_bytes())?;
    let (bytes, lines) = (args.content.len(), args.content.lines().count());
    let size = format!("{bytes} byte{}, {lines} line{}", plural(bytes), plural(lines));
    let path = shown(&args.path);
    let text = match replaced {
        None => format!("Created `{path}`: {size}."),
        Some(old) => format!("Overwrote `{path}`: {size}; before, it had {old} byte{}.", plural(old as usize)),
    };
    let details = json!({ "path": args.path, "created": replaced.is_none(), "bytes": bytes, "lines": lines });
    Ok(ToolOutput::text(text).details(details))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
