//! Tests of `edit_file`, called as by a model.

#![allow(clippy::disallowed_methods, reason = "the test inspects its files from outside")]

use std::fs;

use loopwright_core::message::Content;
use loopwright_core::tool::Approval;
use serde_json::Value;

use super::*;
use crate::read_file::read_file;
use crate::write_file::write_file;

struct Attempt {
    /// The text of the result or error.
    text: Result<String, String>,
    details: Value,
    after: Vec<u8>,
}

async fn call(tool: &impl Tool, arguments: &Value) -> Result<ToolOutput, String> {
    tool.call(arguments, ToolContext::detached()).await.map_err(|e| e.to_string())
}

/// Makes the edit in a file with the content `before`.
async fn edit(before: impl AsRef<[u8]>, mut arguments: Value) -> Attempt {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), before).unwrap();
    arguments["path"] = "f".into();
    let output = call(&edit_file(Workspace::open(dir.path()).unwrap()), &arguments).await;
    let after = fs::read(dir.path().join("f")).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no other file is left");
    let details =
        output.as_ref().ok().and_then(|output| output.details.clone()).unwrap_or_default();
    let text = output.map(|output| match &output.content[..] {
        [Content::Text { text }] => text.clone(),
        other => panic!("{other:?}"),
    });
    Attempt { text, details, after }
}

fn replace(old: &str, new: &str) -> Value {
    json!({ "old_string": old, "new_string": new })
}

#[tokio::test]
async fn one_occurrence_is_replaced_and_the_diff_is_in_the_details() {
    let attempt = edit("a\nb\nc\n", replace("b", "x\ny")).await;
    assert_eq!(attempt.text.unwrap(), "Edited `f` at line 2.");
    assert_eq!(attempt.after, b"a\nx\ny\nc\n");
    let diff = "--- f\n+++ f\n@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n";
    let wanted = json!({
        "path": "f",
        "replacements": 1,
        "already_applied": false,
        "lines": [2],
        "diff": diff,
        "cut": false,
        "added": 2,
        "removed": 1,
    });
    assert_eq!(attempt.details, wanted);
}

#[tokio::test]
async fn line_ends_and_the_byte_order_mark_are_kept() {
    let attempt = edit("\u{feff}a\r\nb\r\n", replace("a\nb", "\u{feff}x\ny")).await;
    assert_eq!(attempt.after, "\u{feff}x\r\ny\r\n".as_bytes());
}

#[tokio::test]
async fn text_that_does_not_occur_exactly_once_is_refused_with_the_reason() {
    let text = "let a = 1;\n\tlet b = 1;\nlet c = 1;\n";
    let many = json!({ "old_string": " = 1;", "new_string": " = 2;" });
    let table = [
        (many, "old_string occurs 3 times in `f`, at lines 1, 2, 3: give more of the text around"),
        (
            replace("    let b = 1;", "x"),
            "with other white space starts at line 2. The file has `\\tlet b = 1;`",
        ),
        (
            replace("nothing", "x"),
            "old_string does not occur in `f`: read the file to see its text",
        ),
        (replace("nothing", ""), "old_string does not occur in `f`, or it was already deleted"),
        (
            replace("nonexistent_fn()", " c "),
            "does not occur in `f`, but new_string does, so the edit may already have been made",
        ),
        (replace("", "x"), "old_string is empty"),
        (replace("\u{feff}", "x"), "old_string is empty"),
        (replace("let a", "let a"), "the same as old_string"),
        (replace("1;\n\tlet", "1;\r\n\tlet"), "the same as old_string, apart from line ends"),
    ];
    for (arguments, wanted) in table {
        let attempt = edit(text, arguments.clone()).await;
        let why = attempt.text.unwrap_err();
        assert!(why.contains(wanted), "{arguments}: {why}");
        assert_eq!(attempt.after, text.as_bytes());
    }
    let attempt = edit("aab", replace("ab", "b")).await;
    assert!(attempt.text.unwrap_err().contains("would still occur in `f`, at line 1"));
    let many = "x\n".repeat(30);
    let why = edit(&many, replace("x", "y")).await.text.unwrap_err();
    assert!(
        why.contains("30 times in `f`, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others: "),
        "{why}"
    );
}

#[tokio::test]
async fn all_occurrences_are_replaced_when_that_is_asked_for() {
    let arguments = json!({ "old_string": "a", "new_string": "b", "replace_all": true });
    let attempt = edit("a\na a\n", arguments).await;
    assert_eq!(attempt.text.unwrap(), "Edited `f`: 3 occurrences replaced, at lines 1, 2, 2.");
    assert_eq!(attempt.after, b"b\nb b\n");
}

#[tokio::test]
async fn an_edit_that_makes_the_file_too_large_is_refused() {
    let arguments =
        json!({ "old_string": "a", "new_string": "b".repeat(2_000), "replace_all": true });
    let attempt = edit("a".repeat(100_000), arguments).await;
    assert!(
        attempt
            .text
            .unwrap_err()
            .contains("would have 200000000 bytes, but files of at most 33554432")
    );
    assert_eq!(attempt.after.len(), 100_000);
}

#[tokio::test]
async fn a_file_that_is_not_text_is_left_alone() {
    for bytes in [&b"a\0b"[..], b"a\xffb"] {
        let attempt = edit(bytes, replace("a", "x")).await;
        assert!(attempt.text.unwrap_err().contains("works on UTF-8 text only"));
        assert_eq!(attempt.after, bytes);
    }
    let dir = tempfile::tempdir().unwrap();
    let large = fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(MAX_FILE_BYTES + 1).unwrap();
    let tool = edit_file(Workspace::open(dir.path()).unwrap());
    let why = call(&tool, &json!({ "path": "large", "old_string": "a", "new_string": "b" }))
        .await
        .unwrap_err();
    assert!(why.contains("at most 33554432"), "{why}");
    let why = call(&tool, &json!({ "path": "gone", "old_string": "a", "new_string": "b" }))
        .await
        .unwrap_err();
    assert!(why.contains("does not exist"), "{why}");
    assert!(!dir.path().join("gone").exists());
}

/// Repeats the call, as after a crash before the result was logged.
#[tokio::test]
async fn a_repeated_call_is_recognised_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for (before, old, new) in [
        ("use a;\nfn f() {}\n", "use a;\n", "use a;\nuse b;\n"),
        ("let x = 1;\n", "let x = 1", "let x = 2"),
        ("one two\r\n", "one", "one\nand"),
    ] {
        fs::write(&path, before).unwrap();
        let arguments = json!({ "path": "f", "old_string": old, "new_string": new });
        call(&edit_file(Workspace::open(dir.path()).unwrap()), &arguments).await.unwrap();
        let once = fs::read(&path).unwrap();
        let output =
            call(&edit_file(Workspace::open(dir.path()).unwrap()), &arguments).await.unwrap();
        assert_eq!(output.details.unwrap()["already_applied"], true);
        assert_eq!(fs::read(&path).unwrap(), once);
    }
}

#[tokio::test]
async fn a_guarded_file_that_someone_else_changed_is_left_alone_until_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "one\n").unwrap();
    let workspace = Workspace::open(dir.path()).unwrap().guarded();
    let read = read_file(workspace.clone());
    let write = write_file(workspace.clone());
    let edit = edit_file(workspace.clone());
    let arguments = json!({ "path": "./f", "old_string": "one", "new_string": "two" });
    let whole = json!({ "path": "f", "content": "three\n" });
    // The file was never read, so it is not protected.
    call(&write, &json!({ "path": "f", "content": "one\n" })).await.unwrap();
    fs::write(&path, "one by them\n").unwrap();
    for why in [call(&edit, &arguments).await.unwrap_err(), call(&write, &whole).await.unwrap_err()]
    {
        assert!(why.contains("has changed on disk since it was last read, and was left"), "{why}");
        assert!(why.ends_with("read it again"), "{why}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "one by them\n");
    call(&read, &json!({ "path": "f" })).await.unwrap();
    call(&edit, &arguments).await.unwrap();
    call(&write, &whole).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
    // Without the guard, reads are not recorded.
    let open = Workspace::open(dir.path()).unwrap();
    call(&read_file(open.clone()), &json!({ "path": "f" })).await.unwrap();
    fs::write(&path, "theirs\n").unwrap();
    call(&write_file(open), &whole).await.unwrap();
}

#[tokio::test]
async fn a_guarded_file_that_was_removed_can_be_recreated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let workspace = Workspace::open(dir.path()).unwrap().guarded();
    let read = read_file(workspace.clone());
    let write = write_file(workspace);
    let whole = json!({ "path": "./f", "content": "ours\n" });
    call(&write, &whole).await.unwrap();
    fs::remove_file(&path).unwrap();
    call(&write, &whole).await.unwrap();
    fs::remove_file(&path).unwrap();
    assert!(call(&read, &json!({ "path": "./f" })).await.unwrap_err().contains("does not exist"));
    // A file that another program creates later was never read.
    fs::write(&path, "theirs\n").unwrap();
    call(&write, &whole).await.unwrap();
    fs::write(&path, "theirs\n").unwrap();
    assert!(call(&write, &whole).await.unwrap_err().contains("has changed on disk"));
}

#[cfg(unix)]
#[tokio::test]
async fn the_mode_is_kept_and_a_read_only_file_is_not_edited() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let tool = edit_file(Workspace::open(dir.path()).unwrap());
    let arguments = json!({ "path": "f", "old_string": "a", "new_string": "b" });
    for (mode, edited) in [(0o755, true), (0o600, true), (0o444, false)] {
        let _ = fs::remove_file(&path);
        fs::write(&path, "a").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(call(&tool, &arguments).await.is_ok(), edited);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        assert_eq!(fs::read_to_string(&path).unwrap(), if edited { "b" } else { "a" });
    }
}

#[test]
fn it_needs_approval() {
    let dir = tempfile::tempdir().unwrap();
    let tool = edit_file(Workspace::open(dir.path()).unwrap());
    let spec = tool.spec();
    assert_eq!(
        (spec.effect, spec.sequential, spec.interruptible),
        (Effect::Idempotent, true, false)
    );
    assert!(matches!(spec.approval, Approval::AlwaysIf(_)));
    assert_eq!(spec.schema["required"], json!(["path", "old_string", "new_string"]));
}
