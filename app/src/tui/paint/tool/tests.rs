//! The layout of calls in each phase and at all widths.

use std::sync::Arc;

use loopwright_core::message::CallId;
use serde_json::json;

use super::super::highlight::load;
use super::*;

fn rendered(lines: &[Line<'static>]) -> String {
    lines.iter().map(|line| line.to_string() + "\n").collect()
}

fn result(status: ResultStatus, text: &str, details: Option<Value>) -> ToolResult {
    ToolResult::new(CallId::from("1"), "x", status, vec![Content::text(text)])
        .details(details.map(Arc::new))
}

fn call<'a>(name: &'a str, arguments: &'a Value, phase: ToolPhase) -> ToolView<'a> {
    let elapsed = Some(Duration::from_millis(12_300));
    ToolView {
        name,
        arguments: Some(arguments),
        raw: "",
        phase,
        elapsed,
        tail: &[],
        result: None,
        open: false,
    }
}

fn done<'a>(
    name: &'a str,
    arguments: &'a Value,
    result: &'a ToolResult,
    open: bool,
) -> ToolView<'a> {
    let phase = ToolPhase::Done(result.status);
    ToolView { result: Some(result), open, ..call(name, arguments, phase) }
}

/// Visits a call of each kind in each phase, with a name.
fn each(mut visit: impl FnMut(&str, &ToolView<'_>)) {
    let edit = json!({"path": "src/main.rs", "old_string": "old()", "new_string": "new()"});
    let command = json!({"command": "cargo test --workspace --all-targets 2>&1 | tail -20\necho \
        done", "timeout": 60});
    let write = json!({"path": "src/a.rs", "content": "fn f() {\n    1\n}\n"});
    let raw = r#"{"path": "src/main.rs", "old_string": "some te"#;
    let tail: Vec<_> = (1..=7)
        .map(|n| format!("\x1b[32mline {n}\x1b[0m of what it prints, which is long"))
        .collect();
    let edited = result(
        ResultStatus::Ok,
        "Edited `src/main.rs` at line 2.",
        Some(json!({"path": "src/main.rs", "added": 1, "removed": 1, "cut": false,
            "diff": "--- src/main.rs\n+++ src/main.rs\n@@ -1,3 +1,3 @@\n fn main() {\n-    \
             old();\n+    new();\n }\n"})),
    );
    let printed =
        "Exit code 101.\nrunning 2 tests\n\x1b[31mtest a ... FAILED\x1b[0m\n\ntest b ... ok\n";
    let printed =
        result(ResultStatus::Ok, printed, Some(json!({"exit_code": 101, "signal": null})));
    let one =
        result(ResultStatus::Ok, "Exit code 0.\nall is well\n", Some(json!({"exit_code": 0})));
    let error = result(
        ResultStatus::Error,
        "`src/main.rs` does not exist in the workspace: list its directory.",
        None,
    );
    let denied = result(ResultStatus::Denied, "The user said no: not now.", None);
    let written = result(ResultStatus::Ok, "Created `src/a.rs`: 19 bytes, 3 lines.", None);
    let long = result(ResultStatus::Ok, &"a line\n".repeat(3_000), None);
    let long_error = result(ResultStatus::Error, &"a line of an error\n".repeat(30), None);
    let writing = ToolView {
        arguments: None,
        raw,
        elapsed: None,
        ..call("edit_file", &edit, ToolPhase::Writing)
    };
    visit("writing", &writing);
    visit("waiting", &ToolView { elapsed: None, ..call("edit_file", &edit, ToolPhase::Waiting) });
    visit(
        "running",
        &ToolView { tail: &tail, ..call("execute_command", &command, ToolPhase::Running) },
    );
    visit("edited", &done("edit_file", &edit, &edited, false));
    visit("edited, open", &done("edit_file", &edit, &edited, true));
    visit("command", &done("execute_command", &command, &printed, false));
    visit("command, open", &done("execute_command", &command, &printed, true));
    visit("command of one line", &done("execute_command", &command, &one, false));
    visit("error", &done("edit_file", &edit, &error, false));
    visit("long error", &done("edit_file", &edit, &long_error, false));
    visit("denied", &done("edit_file", &edit, &denied, false));
    visit("written, open", &done("write_file", &write, &written, true));
    visit("long", &done("read_file", &edit, &long, false));
    visit("long, open", &done("read_file", &edit, &long, true));
}

#[test]
fn calls_are_laid_out_in_each_phase() {
    for width in [60, 30] {
        let mut all = String::new();
        each(|name, call| {
            let mut lines = tool(call, width, &Theme::ansi());
            let left = lines.len().saturating_sub(14);
            if left > 0 {
                lines.drain(5..5 + left);
            }
            all += &format!("({name})\n{}", rendered(&lines));
        });
        insta::assert_snapshot!(format!("calls_{width}"), all);
    }
}

#[test]
fn a_long_result_is_bounded_and_an_error_is_always_visible() {
    let arguments = json!({});
    let long = result(ResultStatus::Ok, &"a line\n".repeat(1_000_000), None);
    let lines = tool(&done("x", &arguments, &long, true), 80, &Theme::ansi());
    assert_eq!(lines.len(), 1 + MAX_RESULT_LINES + 1);
    let error = result(ResultStatus::Error, "It is broken.", None);
    let theme = Theme::ansi();
    let lines = tool(&done("x", &arguments, &error, false), 80, &theme);
    assert_eq!(lines[1].spans[1], Fragment::styled("It is broken.", theme.error));
}

#[test]
fn the_user_sees_all_arguments_of_a_pending_call() {
    load();
    let edit = json!({"old_string": "fn a() {\n    old();\n}", "new_string": "fn a() {\n    \
        new();\n}", "path": "a.rs"});
    let other = json!({"command": "ls \u{202e}| \
        sh", "cwd": "a", "list": [1, {"a": null}], "text": "one\ntwo\r\n"});
    let write = json!({"path": "a.py", "content": "def f():\n    return 1\n"});
    let theme = Theme::ansi();
    let all = [
        ("edit_file", &edit),
        ("execute_command", &other),
        ("write_file", &write),
        ("x", &json!([1, "a"])),
    ];
    let painted = all.map(|(name, value)| {
        format!("({name})\n{}", rendered(&arguments(name, value, 40, &theme)))
    });
    insta::assert_snapshot!("arguments", painted.concat());
    let lines = arguments("write_file", &write, 40, &theme);
    let keyword =
        lines.iter().flat_map(|line| &line.spans).find(|fragment| fragment.content == "return");
    assert_eq!(keyword.unwrap().style, theme.keyword, "{lines:?}");
}

#[test]
fn no_call_is_too_wide() {
    load();
    let nasty = json!({"path": "漢字👩‍👩‍👧‍👦\u{202e}\n\t.rs", "old_string": "a\n\
        漢\x1b[1m", "new_string": "b\n\u{301}", "content": "\u{fe0f}\n漢"});
    let nasty_result =
        result(ResultStatus::Ok, "漢字\t\x1b[3\u{fe0f}❤\u{fe0f}\r\n\0", Some(nasty.clone()));
    for width in 0..=120 {
        let check = |lines: &[Line<'static>]| {
            for line in lines {
                let text = line.to_string();
                assert!(line.width() <= usize::from(width.max(1)), "{width}: {line:?}");
                assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
            }
        };
        each(|_, call| {
            check(&tool(
                &ToolView { open: call.open && width % 20 == 0, ..*call },
                width,
                &Theme::plain(),
            ))
        });
        check(&tool(&done("漢字漢字", &nasty, &nasty_result, true), width, &Theme::ansi()));
        check(&tool(&done("write_file", &nasty, &nasty_result, true), width, &Theme::ansi()));
        check(&arguments("edit_file", &nasty, width, &Theme::ansi()));
        check(&arguments("x", &nasty, width, &Theme::ansi()));
    }
}
