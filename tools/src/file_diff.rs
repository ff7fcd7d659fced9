//! The diff of a call's change of a file.

use std::pin::Pin;

use loopwright_core::ToolError;
use serde_json::Value;

use crate::text::{FileChange, UnifiedDiff};
use crate::workspace::Workspace;

/// The maximum size of a diff. The user who approves the change reads all of it, so it is not cut.
const MAX_DIFF_BYTES: usize = 1024 * 1024;

/// A preview that is being computed.
type Computed = Pin<Box<dyn Future<Output = Result<Option<String>, ToolError>> + Send>>;

/// Returns the diff of a change. An error is a sentence for the user.
pub(crate) fn of(change: Result<FileChange, ToolError>) -> Result<String, String> {
    let FileChange { path, old, new } = change.map_err(|why| sentence(&why))?;
    let diff = UnifiedDiff::with_limit(MAX_DIFF_BYTES, (&path, &old), (&path, &new));
    if diff.cut {
        let UnifiedDiff { added, removed, .. } = diff;
        return Err(format!(
            "The diff is too long to show: it adds {added} lines and removes {removed}."
        ));
    }
    Ok(diff.text)
}

/// Returns the preview of a workspace's tool. `dry_run` computes the change.
pub(crate) fn preview(
    workspace: &Workspace,
    dry_run: fn(&Workspace, &Value) -> Result<FileChange, ToolError>,
) -> impl Fn(Value) -> Computed + use<> {
    let workspace = workspace.clone();
    move |arguments| {
        let work = move |workspace: &Workspace| match of(dry_run(workspace, &arguments)) {
            Ok(diff) => Ok(Some(diff)),
            Err(why) => Err(ToolError::Failed(why)),
        };
        Box::pin(workspace.clone().off_thread(work))
    }
}

fn sentence(why: &ToolError) -> String {
    format!("The change cannot be previewed: {why}.")
}
