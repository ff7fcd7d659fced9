//! Kinds of standard output and standard error: a pipe, a file, a full disk, a pipe without a
//! reader, a terminal.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use loopwright_test_support::process::{Exit, STORE, project};

use crate::BIN;

/// The commands that run with each output, and their exit codes if no text can be written at all.
const ALL: [(&[&str], i32, i32); 10] = [
    (&["run", "--model", "offline", "--session", "s", "Read Cargo.toml"], 130, 130),
    (&["run", "--quiet", "--model", "offline", "Read Cargo.toml"], 130, 130),
    (&["run", "--json", "--model", "offline", "Read Cargo.toml"], 130, 130),
    (&["chat", "--model", "offline"], 5, 5),
    (&["sessions", "list"], 2, 0),
    (&["sessions", "show", "s"], 2, 0),
    (&["models"], 2, 0),
    (&["tools", "list"], 2, 0),
    (&["config"], 2, 0),
    (&["completions", "bash"], 2, 0),
];

/// Runs the binary with this standard output and `Read Cargo.toml` as its standard input.
fn to(project: &tempfile::TempDir, args: &[&str], out: impl Into<Stdio>) -> (i32, String) {
    let prompt = project.path().join("prompt");
    std::fs::write(&prompt, "Read Cargo.toml\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright"));
    command.args(args).current_dir(project.path()).env_clear();
    command.env("LOOPWRIGHT_STORE", project.path().join(STORE));
    command.stdin(File::open(prompt).unwrap()).stdout(out).stderr(Stdio::piped());
    let done = command.output().unwrap();
    (done.status.code().unwrap_or(-1), String::from_utf8(done.stderr).unwrap())
}

/// C123: every kind of standard output receives plain text. If it cannot be written, one message
/// and an exit code report that; a closed pipe is not an error of commands that only list.
#[test]
fn every_command_minds_where_its_output_goes() {
    let project = project();
    let first =
        BIN.run(&project, &["run", "--model", "offline", "--session", "s", "Read Cargo.toml"]);
    assert_eq!(first.code, 0);
    for (args, full, closed) in ALL {
        let file = project.path().join("out");
        let (code, err) = to(&project, args, File::create(&file).unwrap());
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(code, 0, "{args:?}: {err}");
        assert!(
            !text.is_empty() && text.ends_with('\n') && !text.contains('\u{1b}'),
            "{args:?}: {text}"
        );
        assert!(!err.contains('\u{1b}'), "{args:?}: {err:?}");

        let (code, err) =
            to(&project, args, File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(code, full, "{args:?}: {err}");
        assert_eq!(err.matches("cannot be written").count(), 1, "{args:?}: {err}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, err) = to(&project, args, writer);
        assert_eq!(code, closed, "{args:?}: {err}");
        assert!(!err.contains("panicked"), "{args:?}: {err}");

        let shut =
            BIN.start_as(&project, &["sh", "-c", "exec \"$@\" <prompt >&-", "sh"], args, &[]).end();
        assert_eq!(shut.code, 0, "{args:?}: {shut:?}");
    }
}

/// Runs the binary in a terminal.
fn in_terminal(project: &tempfile::TempDir, args: &[&str], vars: &[(&str, &str)]) -> Exit {
    let vars =
        [&[("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/sh"), ("TERM", "xterm-256color")], vars]
            .concat();
    BIN.start_as(project, &["sh", "-c", "exec script -qec \"$*\" /dev/null", "sh"], args, &vars)
        .close()
}

/// A terminal receives the same JSON, with its control characters escaped.
#[test]
fn json_is_harmless_on_a_terminal() {
    let exit = in_terminal(
        &project(),
        &["run", "--json", "--model", "offline", "Hello\u{9b}31m\u{61c}"],
        &[],
    );
    assert!(
        exit.out.contains(r"Hello\u009b31m\u061c") && !exit.out.contains(['\u{9b}', '\u{61c}']),
        "{exit:?}"
    );
    let exit = BIN.run(&project(), &["run", "--json", "--model", "offline", "Hello\u{9b}31m"]);
    assert!(exit.out.contains("Hello\u{9b}31m"), "{exit:?}");
}

/// C124: a pipe can end at a terminal, as with `less -R`, so it gets no control characters that a
/// model or a file contains, except in JSON.
#[test]
fn text_is_harmless_in_a_pipe() {
    let project = project();
    let evil = "\u{1b}]0;title\u{7}\u{9b}31m\u{202e}";
    fs::write(project.path().join("evil.txt"), evil).unwrap();
    let (hello, create) = (format!("Hello {evil}"), format!("Create a.txt with \"hi {evil}\""));
    let run = ["run", "--model", "offline", "--session"];
    for (args, code) in [
        ([&run[..], &["s", &hello]].concat(), 0),
        ([&run[..], &["t", &create]].concat(), 3),
        (vec!["actions"], 0),
        (vec!["sessions", "list"], 0),
        (vec!["sessions", "show", "s"], 0),
        (vec!["sessions", "search", "Hello"], 0),
        (vec!["sessions", "export", "s", "--format", "markdown"], 0),
        (vec!["tools", "call", "read_file", "{\"path\": \"evil.txt\"}"], 0),
    ] {
        let exit = BIN.run(&project, &args);
        assert_eq!(exit.code, code, "{args:?}: {exit:?}");
        let printed = format!("{}{}", exit.out, exit.err);
        let is_harmful = |c: char| evil.contains(c) && (c.is_control() || c == '\u{202e}');
        assert!(!printed.contains(is_harmful), "{args:?}: {printed:?}");
    }
    let exported = BIN.run(&project, &["sessions", "export", "s", "--format", "jsonl"]).out;
    assert!(exported.contains('\u{202e}'), "JSON is not changed: {exported:?}");
}

/// C124: a terminal receives colours, unless `NO_COLOR` is set and not empty. The same holds for
/// help and errors of the command line.
#[test]
fn no_color_is_honoured_everywhere() {
    let project = project();
    assert_eq!(
        BIN.run(&project, &["run", "--model", "offline", "--session", "s", "Hello"]).code,
        0
    );
    let run = ["run", "--model", "offline", "Hello"];
    assert!(in_terminal(&project, &run, &[]).out.contains("\u{1b}[2m"));
    assert!(in_terminal(&project, &run, &[("NO_COLOR", "")]).out.contains("\u{1b}[2m"));
    let all: [&[&str]; 12] = [
        &run,
        &["run", "-v", "--model", "offline", "Hello"],
        &["run", "--model", "nonsense", "Hello"],
        &["run", "--max-turns", "0", "Hello"],
        &["sessions", "list"],
        &["sessions", "show", "s"],
        &["models"],
        &["tools", "list"],
        &["config"],
        &["actions"],
        &["--help"],
        &["run", "--help"],
    ];
    for args in all {
        let exit = in_terminal(&project, args, &[("NO_COLOR", "1")]);
        assert!(!exit.out.contains('\u{1b}') && exit.err.is_empty(), "{args:?}: {exit:?}");
        assert!(!exit.out.is_empty() || args == ["actions"], "{args:?}");
    }
}
