//! `write_file`: creates or replaces a whole file.

use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::printable;
use crate::file_diff;
use crate::protection;
use crate::schema::strict;
use crate::text::{FileChange, MAX_FILE_BYTES, Text};
use crate::workspace::Workspace;

const NAME: &str = "write_file";
const DESCRIPTION: &str = "Writes a file of the workspace: creates it, with missing directories, \
    or replaces its whole content. The content is written exactly as given. Read an existing file \
    before you replace it.";

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The file, as a path relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The whole content of the file, including the line end of its last line.
    content: String,
}

/// Creates the tool `write_file`, which creates or replaces a file of the workspace.
///
/// [Protected files](Workspace::unprotected) need approval, whatever the agent's rules are.
pub fn write_file(workspace: Workspace) -> impl Tool {
    let approval = protection::approval(&workspace);
    let preview = file_diff::preview(&workspace, dry_run);
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, _: ToolContext| {
            workspace.off_thread(move |workspace| write(workspace, &args)).await
        },
    )
    .effect(Effect::Idempotent)
    .approval(approval)
    .preview(preview)
    .spec(|spec| strict(spec).title("Write a file").sequential().uninterruptible())
}

fn write(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    let replaced = workspace.write(&args.path, args.content.as_bytes(), None)?;
    let bytes = args.content.len();
    let lines = args.content.lines().count();
    let size = format!("{bytes} byte{}, {lines} line{}", plural(bytes), plural(lines));
    let path = printable(&args.path);
    let text = match replaced {
        None => format!("Created `{path}`: {size}."),
        Some(old) => {
            format!("Overwrote `{path}`: {size}; it had {old} byte{} before.", plural(old as usize))
        }
    };
    let details =
        json!({ "path": args.path, "created": replaced.is_none(), "bytes": bytes, "lines": lines });
    Ok(ToolOutput::text(text).details(details))
}

/// Returns the change that a call with these arguments would make, without making it.
pub(crate) fn dry_run(workspace: &Workspace, arguments: &Value) -> Result<FileChange, ToolError> {
    let args = Args::deserialize(arguments)
        .map_err(|e| ToolError::Failed(format!("the arguments are invalid: {e}")))?;
    let old = match workspace.check_write(&args.path)? {
        true => {
            let file = Text::new(&args.path, workspace.read(&args.path, MAX_FILE_BYTES)?.0)?;
            // Includes the byte order mark, because the write replaces it, too.
            [if file.has_bom { "\u{feff}" } else { "" }, &file.text].concat()
        }
        false => String::new(),
    };
    Ok(FileChange { path: args.path, old, new: args.content })
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test inspects its files from outside")]
mod tests {
    use std::fs;

    use super::*;
    use loopwright_core::message::Content;
    use loopwright_core::tool::Approval;

    async fn write(
        dir: &tempfile::TempDir,
        path: &str,
        content: &str,
    ) -> Result<(String, Value), String> {
        let tool = write_file(Workspace::open(dir.path()).unwrap());
        let arguments = json!({ "path": path, "content": content });
        let output =
            tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn the_result_states_whether_the_file_was_created_or_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (text, details) = write(&dir, "f", "a\nb\n").await.unwrap();
        assert_eq!(text, "Created `f`: 4 bytes, 2 lines.");
        assert_eq!(details, json!({ "path": "f", "created": true, "bytes": 4, "lines": 2 }));
        let (text, details) = write(&dir, "f", "x").await.unwrap();
        assert_eq!(text, "Overwrote `f`: 1 byte, 1 line; it had 4 bytes before.");
        assert_eq!(details["created"], false);
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"x");
        assert_eq!(names(&dir), ["f"]);
    }

    #[tokio::test]
    async fn the_content_is_written_exactly() {
        let dir = tempfile::tempdir().unwrap();
        for content in ["", "\n", "a\r\nb\r\n", "\u{feff}ü\0\t", "no end"] {
            write(&dir, "f", content).await.unwrap();
            assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), content);
        }
    }

    #[tokio::test]
    async fn missing_directories_are_created() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "a/b/c.txt", "deep").await.unwrap();
        write(&dir, "a/b/../d.txt", "up").await.unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("a/b/c.txt")).unwrap(), "deep");
        assert_eq!(fs::read_to_string(dir.path().join("a/d.txt")).unwrap(), "up");
    }

    #[tokio::test]
    async fn a_directory_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("d")).unwrap();
        for path in ["d", "d/", "d/.", "d/..", ".", "", "new/"] {
            let why = write(&dir, path, "x").await.unwrap_err();
            assert!(why.contains("is a directory"), "{path}: {why}");
        }
        assert_eq!(names(&dir), ["d"]);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_mode_of_a_file_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for mode in [0o755, 0o600, 0o646] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&dir, "f", "new").await.unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(write(&dir, "f", "x").await.unwrap_err().contains("is a read-only file"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn it_is_atomic_so_a_hard_link_to_the_file_keeps_the_old_content() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "old").unwrap();
        fs::hard_link(dir.path().join("f"), dir.path().join("g")).unwrap();
        write(&dir, "f", "new").await.unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("g")).unwrap(), "old");
    }

    /// A concurrent reader sees the old content or the new, never a mixture or an empty file.
    #[tokio::test]
    async fn a_reader_never_sees_a_partial_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let contents = ["a".repeat(100_000), "b".repeat(50_000)];
        fs::write(&path, &contents[0]).unwrap();
        let wanted = contents.clone();
        let reader = std::thread::spawn(move || {
            (0..300).all(|_| fs::read_to_string(&path).is_ok_and(|seen| wanted.contains(&seen)))
        });
        for n in 0..50 {
            write(&dir, "f", &contents[n % 2]).await.unwrap();
        }
        assert!(reader.join().unwrap());
    }

    #[test]
    fn it_needs_approval_and_every_argument_is_described() {
        let dir = tempfile::tempdir().unwrap();
        let tool = write_file(Workspace::open(dir.path()).unwrap());
        let spec = tool.spec();
        assert_eq!((spec.effect, spec.sequential), (Effect::Idempotent, true));
        assert!(matches!(spec.approval, Approval::AlwaysIf(_)));
        assert!(
            spec.schema["properties"]
                .as_object()
                .unwrap()
                .values()
                .all(|p| p["description"].is_string())
        );
    }
}
