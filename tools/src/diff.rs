//! `diff`: compares two files.

use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::printable;
use crate::schema::strict;
use crate::text::{MAX_FILE_BYTES, Text, UnifiedDiff};
use crate::workspace::Workspace;

const NAME: &str = "diff";
const DESCRIPTION: &str = "Compares two text files of the workspace and returns a unified diff: \
    lines with `-` are only in `file_a`, lines with `+` only in `file_b`. For binary files it \
    returns only whether they are the same.";

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The first file, the old one, as a path relative to the workspace.
    file_a: String,
    /// The second file, the new one, as a path relative to the workspace.
    file_b: String,
}

/// Creates the tool `diff`, which compares two files of the workspace.
pub fn diff(workspace: Workspace) -> impl Tool {
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, _: ToolContext| {
            workspace.off_thread(move |workspace| compare(workspace, &args)).await
        },
    )
    .effect(Effect::ReadOnly)
    .spec(|spec| strict(spec).title("Compare two files"))
}

fn compare(workspace: &Workspace, args: &Args) -> Result<ToolOutput, ToolError> {
    let (a, _) = workspace.read(&args.file_a, MAX_FILE_BYTES)?;
    let (b, _) = workspace.read(&args.file_b, MAX_FILE_BYTES)?;
    let sizes = (a.len(), b.len());
    let same = a == b;
    let names = (printable(&args.file_a), printable(&args.file_b));
    let details = json!({ "file_a": args.file_a, "file_b": args.file_b, "same": same });
    if same {
        let text = format!("`{}` and `{}` are the same, {} bytes.", names.0, names.1, sizes.0);
        return Ok(ToolOutput::text(text).details(details));
    }
    let (Ok(a), Ok(b)) = (Text::new(&args.file_a, a), Text::new(&args.file_b, b)) else {
        let text = format!(
            "`{}` ({} bytes) and `{}` ({} bytes) differ; at least one of them is not UTF-8 text, \
             so there is no diff.",
            names.0, sizes.0, names.1, sizes.1
        );
        return Ok(ToolOutput::text(text).details(details));
    };
    if a.text.replace("\r\n", "\n") == b.text.replace("\r\n", "\n") {
        let text = format!(
            "`{}` ({}) and `{}` ({}) have the same lines and differ only in their line ends or a \
             byte order mark.",
            names.0,
            line_ends(&a),
            names.1,
            line_ends(&b)
        );
        return Ok(ToolOutput::text(text).details(details));
    }
    let diff = UnifiedDiff::new((&args.file_a, &a.text), (&args.file_b, &b.text));
    let mut text = diff.text.clone();
    if diff.cut {
        text.push_str(&format!(
            "\n… the diff is cut: in total {} lines are only in `{}`, {} only in `{}`\n",
            diff.added, names.1, diff.removed, names.0
        ));
    }
    let details = json!({
        "file_a": args.file_a,
        "file_b": args.file_b,
        "same": false,
        "diff": diff.text,
        "cut": diff.cut,
        "added": diff.added,
        "removed": diff.removed,
    });
    Ok(ToolOutput::text(text).details(details))
}

/// Returns the kinds of line ends in a text.
fn line_ends(text: &Text) -> String {
    let all = text.text.matches('\n').count();
    let crlf = text.text.matches("\r\n").count();
    let ends = match (all - crlf, crlf) {
        (_, 0) => "LF",
        (0, _) => "CRLF",
        _ => "LF and CRLF",
    };
    if text.has_bom { format!("{ends}, byte order mark") } else { ends.to_owned() }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test creates its files from outside")]
mod tests {
    use std::fs;

    use loopwright_core::message::Content;
    use serde_json::Value;

    use super::*;

    async fn diff_of(a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) -> Result<(String, Value), String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), a).unwrap();
        fs::write(dir.path().join("b"), b).unwrap();
        let tool = diff(Workspace::open(dir.path()).unwrap());
        let arguments = json!({ "file_a": "a", "file_b": "b" });
        let output =
            tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    #[tokio::test]
    async fn lines_that_differ_are_shown_with_three_lines_of_context() {
        let numbered = |n: std::ops::Range<u32>| n.map(|n| format!("{n}\n")).collect::<String>();
        let a = numbered(1..20);
        let b = numbered(1..10) + "ten\n" + &numbered(11..20);
        let (text, details) = diff_of(a, b).await.unwrap();
        assert_eq!(text, "--- a\n+++ b\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n");
        assert_eq!(
            (&details["added"], &details["removed"], &details["diff"]),
            (&json!(1), &json!(1), &json!(text))
        );
    }

    #[tokio::test]
    async fn a_missing_line_end_is_printable() {
        let (text, _) = diff_of("a\nb", "a\nb\n").await.unwrap();
        assert_eq!(
            text,
            "--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
        );
    }

    #[tokio::test]
    async fn files_without_a_diff_are_described_in_a_sentence() {
        let table: [(&[u8], &[u8], &str); 4] = [
            (b"x\n", b"x\n", "`a` and `b` are the same, 2 bytes."),
            (
                b"x\0",
                b"y\0z",
                "`a` (2 bytes) and `b` (3 bytes) differ; at least one of them is not UTF-8 text",
            ),
            (
                b"x\ny\n",
                b"x\r\ny\r\n",
                "`a` (LF) and `b` (CRLF) have the same lines and differ only",
            ),
            (b"x\n", b"\xef\xbb\xbfx\n", "`b` (LF, byte order mark) have the same lines"),
        ];
        for (a, b, wanted) in table {
            let (text, details) = diff_of(a, b).await.unwrap();
            assert!(text.contains(wanted), "{text}");
            assert_eq!(details["same"], a == b);
        }
    }

    #[tokio::test]
    async fn a_long_diff_is_cut_and_counted() {
        let (text, details) = diff_of("", "line\n".repeat(20_000)).await.unwrap();
        assert!(
            text.len() < 51_500 && text.ends_with("20000 lines are only in `b`, 0 only in `a`\n"),
            "{}",
            text.len()
        );
        assert_eq!((&details["cut"], &details["added"]), (&json!(true), &json!(20_000)));
    }

    #[test]
    fn it_needs_no_approval() {
        let dir = tempfile::tempdir().unwrap();
        let tool = diff(Workspace::open(dir.path()).unwrap());
        let spec = tool.spec();
        assert_eq!((spec.effect, spec.sequential), (Effect::ReadOnly, false));
        assert_eq!(spec.schema["required"], json!(["file_a", "file_b"]));
    }
}
