//! `list_directory`: lists the entries of one directory.

use std::fmt::Write;

use globset::GlobMatcher;
use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::printable;
use crate::glob;
use crate::schema::strict;
use crate::workspace::{Entry, EntryKind, Listing, Workspace};

const NAME: &str = "list_directory";
const DESCRIPTION: &str = "Lists the entries of one directory of the workspace, including hidden \
    ones, sorted by name. Directories end with `/`, symbolic links are shown as `name@ -> target`, \
    files with their size. Subdirectories are not listed.";

/// The maximum number of entries in a result.
const MAX_ENTRIES: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The directory, as a path relative to the workspace; `.` is the workspace itself.
    path: String,
    /// Show only names that match this glob, such as `*.rs` or `test_*.{py,toml}`. It is matched
    /// against names in this directory, not against paths.
    pattern: Option<String>,
}

/// Creates the tool `list_directory`, which lists a directory of the workspace.
pub fn list_directory(workspace: Workspace) -> impl Tool {
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, _: ToolContext| {
            workspace.off_thread(move |workspace| list(workspace, &args)).await
        },
    )
    .effect(Effect::ReadOnly)
    .spec(|spec| strict(spec).title("List a directory"))
}

fn list(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    let pattern =
        args.pattern.as_deref().filter(|pattern| !pattern.is_empty()).map(matcher).transpose()?;
    let listing = workspace
        .list(&args.path, MAX_ENTRIES, |name| pattern.as_ref().is_none_or(|p| p.is_match(name)))?;
    let details = json!({ "path": args.path, "entries": listing.entries, "total": listing.total });
    Ok(ToolOutput::text(render(args, &listing)).details(details))
}

fn matcher(pattern: &str) -> Result<GlobMatcher, ToolError> {
    glob::compile(pattern, false).map_err(|why| {
        ToolError::Failed(format!("the pattern `{}` is not a glob: {why}", printable(pattern)))
    })
}

fn render(args: &Args, listing: &Listing) -> String {
    match (listing.total, &args.pattern) {
        (0, None) => return format!("`{}` is an empty directory.", printable(&args.path)),
        (0, Some(pattern)) => {
            return format!(
                "No name in `{}` matches `{}`.",
                printable(&args.path),
                printable(pattern)
            );
        }
        _ => {}
    }
    let mut text = String::new();
    for entry in &listing.entries {
        let _ = writeln!(text, "{}", render_entry(entry)); // writing to a String cannot fail
    }
    if listing.total > MAX_ENTRIES {
        let _ = writeln!(
            text,
            "… the first {MAX_ENTRIES} of {} entries: narrow it with a pattern",
            listing.total
        );
    }
    text
}

fn render_entry(entry: &Entry) -> String {
    let name = printable(&entry.name);
    match &entry.kind {
        EntryKind::Directory => format!("{name}/"),
        EntryKind::File { bytes: 1 } => format!("{name}  1 byte"),
        EntryKind::File { bytes } => format!("{name}  {bytes} bytes"),
        EntryKind::Symlink { target } => format!("{name}@ -> {}", printable(target)),
        EntryKind::Other { what } => format!("{name}  ({what})"),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test creates its files from outside")]
mod tests {
    use std::fs;

    use loopwright_core::message::Content;
    use serde_json::Value;

    use super::*;

    async fn list(dir: &tempfile::TempDir, arguments: Value) -> Result<(String, Value), String> {
        let tool = list_directory(Workspace::open(dir.path()).unwrap());
        let output =
            tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("src/deep")).unwrap();
        fs::create_dir_all(dir.path().join("empty")).unwrap();
        for (name, content) in
            [("b.rs", "12345"), ("a.txt", ""), (".hidden", "1"), ("src/lib.rs", "")]
        {
            fs::write(dir.path().join(name), content).unwrap();
        }
        dir
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn entries_are_sorted_and_marked() {
        let dir = tree();
        std::os::unix::fs::symlink("../target", dir.path().join("link")).unwrap();
        let (text, details) = list(&dir, json!({ "path": "." })).await.unwrap();
        let wanted =
            ".hidden  1 byte\na.txt  0 bytes\nb.rs  5 bytes\nempty/\nlink@ -> ../target\nsrc/\n";
        assert_eq!(text, wanted);
        assert_eq!(details["total"], 6);
        assert_eq!(details["entries"][2], json!({ "name": "b.rs", "kind": "file", "bytes": 5 }));
        assert_eq!(
            details["entries"][4],
            json!({ "name": "link", "kind": "symlink", "target": "../target" })
        );
        assert_eq!(details["entries"][5], json!({ "name": "src", "kind": "directory" }));
    }

    #[tokio::test]
    async fn a_pattern_chooses_by_name() {
        let dir = tree();
        let (text, details) =
            list(&dir, json!({ "path": "", "pattern": "*.{rs,txt}" })).await.unwrap();
        assert_eq!(
            (text.as_str(), &details["total"]),
            ("a.txt  0 bytes\nb.rs  5 bytes\n", &json!(2))
        );
        let (text, _) = list(&dir, json!({ "path": "src", "pattern": "*.py" })).await.unwrap();
        assert_eq!(text, "No name in `src` matches `*.py`.");
        let why = list(&dir, json!({ "path": "src", "pattern": "[a" })).await.unwrap_err();
        assert!(why.starts_with("the pattern `[a` is not a glob: "), "{why}");
    }

    #[tokio::test]
    async fn an_empty_directory_and_a_file_are_distinguished() {
        let dir = tree();
        assert_eq!(
            list(&dir, json!({ "path": "empty" })).await.unwrap().0,
            "`empty` is an empty directory."
        );
        assert!(
            list(&dir, json!({ "path": "a.txt" }))
                .await
                .unwrap_err()
                .starts_with("`a.txt` is not a directory")
        );
        assert!(
            list(&dir, json!({ "path": "none" })).await.unwrap_err().contains("does not exist")
        );
    }

    #[tokio::test]
    async fn only_the_first_of_many_entries_are_shown_with_the_total() {
        let dir = tempfile::tempdir().unwrap();
        for n in (0..MAX_ENTRIES + 7).rev() {
            fs::write(dir.path().join(format!("f{n:05}")), "").unwrap();
        }
        let (text, details) = list(&dir, json!({ "path": "." })).await.unwrap();
        assert!(text.starts_with("f00000  0 bytes\n"));
        assert!(text.ends_with(
            "f00999  0 bytes\n… the first 1000 of 1007 entries: narrow it with a pattern\n"
        ));
        assert_eq!(
            (details["entries"].as_array().unwrap().len(), &details["total"]),
            (1_000, &json!(1_007))
        );
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_name_cannot_forge_lines() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a\nb"), "").unwrap();
        assert_eq!(list(&dir, json!({ "path": "." })).await.unwrap().0, "a\\nb  0 bytes\n");
    }

    #[test]
    fn it_needs_no_approval_and_every_argument_is_described() {
        let dir = tempfile::tempdir().unwrap();
        let tool = list_directory(Workspace::open(dir.path()).unwrap());
        let spec = tool.spec();
        assert_eq!((spec.effect, spec.sequential), (Effect::ReadOnly, false));
        assert!(
            spec.schema["properties"]
                .as_object()
                .unwrap()
                .values()
                .all(|p| p["description"].is_string())
        );
    }
}
