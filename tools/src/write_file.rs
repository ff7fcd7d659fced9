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
use crate::text::{BYTE_ORDER_MARK, FileChange, MAX_FILE_BYTES, Text};
use crate::workspace::Workspace;

const NAME: &str = "write_file";
const DESCRIPTION: &str = "Writes a file of the workspace: creates it, with missing directories, \
    or replaces its whole content. A replaced file keeps its byte order mark and CRLF line ends; \
    apart from that, the content is written as given. Read an existing file before you replace it.";

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
    let content = match workspace.check_write(&args.path)? {
        true => like_before(workspace, &args.path, &args.content),
        false => args.content.clone(),
    };
    let written = workspace.write(&args.path, content.as_bytes(), None)?;
    let bytes = content.len();
    let lines = args.content.lines().count();
    let size = format!("{bytes} byte{}, {lines} line{}", plural(bytes), plural(lines));
    let path = printable(&args.path);
    let mut text = match written.replaced {
        None => format!("Created `{path}`: {size}."),
        Some(old) => {
            format!("Overwrote `{path}`: {size}; it had {old} byte{} before.", plural(old as usize))
        }
    };
    if content.starts_with(BYTE_ORDER_MARK) && !args.content.starts_with(BYTE_ORDER_MARK) {
        text.push_str(" It has kept its byte order mark.");
    }
    if content.contains('\r') && !args.content.contains('\r') {
        text.push_str(" It has kept its CRLF line ends; a command such as `sed` can change them.");
    }
    text.push_str(&written.note());
    let created = written.replaced.is_none();
    let details = json!({ "path": args.path, "created": created, "bytes": bytes, "lines": lines });
    Ok(ToolOutput::text(text).details(details))
}

/// Returns the content with the byte order mark and the line ends of the file, if it is a text.
fn like_before(workspace: &Workspace, path: &str, content: &str) -> String {
    let old = workspace.read(path, MAX_FILE_BYTES).ok();
    let old = old.and_then(|(bytes, _)| Text::new(path, bytes).ok());
    old.map_or_else(|| content.to_owned(), |old| old.like_this(content))
}

/// Returns the change that a call with these arguments would make, without making it.
pub(crate) fn dry_run(workspace: &Workspace, arguments: &Value) -> Result<FileChange, ToolError> {
    let args = Args::deserialize(arguments)
        .map_err(|e| ToolError::Failed(format!("the arguments are invalid: {e}")))?;
    let (old, new) = match workspace.check_write(&args.path)? {
        true => {
            let file = Text::new(&args.path, workspace.read(&args.path, MAX_FILE_BYTES)?.0)?;
            let new = file.like_this(&args.content);
            // What has not changed is not shown.
            let new = match file.has_bom {
                true => new.trim_start_matches(BYTE_ORDER_MARK).to_owned(),
                false => new,
            };
            (file.text, new)
        }
        false => (String::new(), args.content),
    };
    Ok(FileChange { path: args.path, old, new })
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

    /// C462: The other names are replaced one by one.
    #[cfg(unix)]
    #[tokio::test]
    async fn the_other_names_of_a_file_in_the_workspace_lead_to_the_new_content() {
        use std::os::unix::fs::MetadataExt;
        let (outer, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::create_dir_all(at(".git")).unwrap();
        fs::write(at("f"), "old").unwrap();
        for name in ["g", "a/b/h"] {
            fs::hard_link(at("f"), at(name)).unwrap();
        }
        let (text, _) = write(&dir, "a/b/h", "new").await.unwrap();
        assert_eq!(text, "Overwrote `a/b/h`: 3 bytes, 1 line; it had 3 bytes before.");
        for name in ["f", "g", "a/b/h"] {
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "new", "{name}");
            assert_eq!(fs::metadata(at(name)).unwrap().nlink(), 3);
        }
        // No write goes through a link that leaves the workspace or leads to a protected file.
        fs::hard_link(at("f"), outer.path().join("out")).unwrap();
        let (text, _) = write(&dir, "f", "newer").await.unwrap();
        assert!(text.ends_with(" Another name of the file (a hard link) keeps the old content."));
        fs::hard_link(at("f"), at(".git/config")).unwrap();
        fs::hard_link(at("f"), outer.path().join("more")).unwrap();
        let (text, _) = write(&dir, "f", "newest").await.unwrap();
        assert!(text.ends_with(" 2 other names of the file (hard links) keep the old content."));
        let read = |path| fs::read_to_string(path).unwrap();
        assert_eq!(read(at("g")), "newest");
        assert_eq!(read(at(".git/config")) + &read(outer.path().join("out")), "newernew");
        assert_eq!(names(&dir).len(), 4, "temporary files");
    }

    /// C462: So are access control lists.
    #[cfg(unix)]
    #[tokio::test]
    async fn the_extended_attributes_of_a_file_are_kept() {
        use rustix::fs::{XattrFlags, getxattr, setxattr};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "old").unwrap();
        let set = |name: &str, value: &[u8]| setxattr(&path, name, value, XattrFlags::empty());
        if set("user.tag", b"kept").is_err() {
            return; // this file system has none
        }
        // The owner and the user 1 may read it, the group may not. The mask is read-only.
        let entry = |tag: u16, allowed: u16, id: u32| {
            [&tag.to_le_bytes()[..], &allowed.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let list = [
            2_u32.to_le_bytes().to_vec(),
            entry(1, 6, none),
            entry(2, 4, 1),
            entry(4, 0, none),
            entry(16, 4, none),
            entry(32, 0, none),
        ];
        let has_list = set("system.posix_acl_access", &list.concat()).is_ok();
        write(&dir, "f", "new").await.unwrap();
        let mut value = [0; 100];
        let length = getxattr(&path, "user.tag", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept");
        if has_list {
            let length = getxattr(&path, "system.posix_acl_access", &mut value[..]).unwrap();
            assert_eq!(value[..length], list.concat());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    /// C464: The content of the model has neither.
    #[tokio::test]
    async fn a_replaced_file_keeps_its_byte_order_mark_and_line_ends() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "\u{feff}a\r\n").unwrap();
        let (text, _) = write(&dir, "f", "x\ny\n").await.unwrap();
        for kept in ["It has kept its byte order mark.", "It has kept its CRLF line ends"] {
            assert!(text.contains(kept), "{text}");
        }
        assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "\u{feff}x\r\ny\r\n");
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
