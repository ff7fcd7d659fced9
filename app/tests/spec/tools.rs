//! `tools list` and `tools call`: the tools from a shell.

use std::fs;

use loopwright_test_support::process::{Process, project};
use serde_json::{Value, json};

use crate::BIN;

const TOOLS: [&str; 10] = [
    "ask_user",
    "write_todos",
    "read_file",
    "write_file",
    "edit_file",
    "list_directory",
    "search_files",
    "glob_files",
    "execute_command",
    "diff",
];

#[test]
fn the_tools_are_listed() {
    let exit = BIN.run(&project(), &["tools", "list"]);
    assert_eq!(exit.code, 0, "{exit:?}");
    for tool in TOOLS {
        assert!(exit.out.contains(tool), "{tool}: {exit:?}");
    }
    assert!(
        exit.out.contains("write_file (needs approval)\n") && exit.out.contains("read_file\n"),
        "{exit:?}"
    );
    let exit = BIN.run(&project(), &["tools", "list", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&exit.out).unwrap();
    for tool in TOOLS {
        let tool = all.iter().find(|spec| spec["name"] == tool).unwrap();
        assert!(
            tool["description"].is_string()
                && tool["schema"]["type"] == "object"
                && tool["effect"].is_string()
        );
    }
}

/// Each listed tool can be run: without arguments it reports which are missing.
#[test]
fn every_tool_can_be_called() {
    let project = project();
    let listed = BIN.run(&project, &["tools", "list", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    for name in all.iter().map(|spec| spec["name"].as_str().unwrap()) {
        let exit = BIN.run(&project, &["tools", "call", name, "{}"]);
        assert_eq!((exit.code, exit.out.as_str()), (2, ""), "{name}: {exit:?}");
        assert!(exit.err.contains("The arguments do not fit the schema:\n- /"), "{name}: {exit:?}");
        assert!(exit.err.contains(": is required, but missing"), "{name}: {exit:?}");
    }
}

/// Without a session nobody can answer.
#[test]
fn a_question_needs_a_session() {
    let exit = BIN.run(&project(), &["tools", "call", "ask_user", r#"{"question": "Which?"}"#]);
    assert_eq!((exit.code, exit.out.as_str()), (1, ""), "{exit:?}");
    assert!(exit.err.contains("only a session can carry the answer"), "{exit:?}");
}

#[test]
fn a_tool_prints_its_text_or_json_with_details() {
    let project = project();
    let exit = BIN
        .run(&project, &["tools", "call", "read_file", r#"{"path": "Cargo.toml", "limit": "1"}"#]);
    assert_eq!(exit.code, 0, "{exit:?}");
    assert!(exit.out.starts_with("     1\t[package]\n") && exit.err.is_empty(), "{exit:?}");
    let arguments = json!({ "path": "new/a.txt", "content": "hi" }).to_string();
    let exit = BIN.run(&project, &["tools", "call", "write_file", &arguments, "--json"]);
    let result: Value = serde_json::from_str(&exit.out).unwrap();
    assert_eq!(
        (exit.code, &result["status"], &result["details"]["bytes"]),
        (0, &json!("ok"), &json!(2))
    );
    assert_eq!(fs::read_to_string(project.path().join("new/a.txt")).unwrap(), "hi");
}

#[test]
fn a_tool_that_fails_is_1_and_bad_usage_2() {
    let project = project();
    let exit = BIN.run(&project, &["tools", "call", "read_file", r#"{"path": "../x"}"#]);
    assert_eq!((exit.code, exit.out.as_str()), (1, ""), "{exit:?}");
    assert!(exit.err.contains("`../x` leads out of the workspace"), "{exit:?}");
    let exit = BIN.run(&project, &["tools", "call", "read_file", r#"{"path": "none"}"#, "--json"]);
    let result: Value = serde_json::from_str(&exit.out).unwrap();
    assert_eq!((exit.code, &result["status"]), (1, &json!("error")));
    assert!(result["error"].as_str().unwrap().contains("does not exist"), "{result}");
    for (args, says) in [
        (&["tools", "call", "nothing", "{}"][..], "There is no tool `nothing`; the tools are: "),
        (&["tools", "call", "read_file", "{"], "not valid JSON"),
        (&["tools", "call", "read_file", r#"{"path": 7}"#], "- /path: 7 is not of type"),
        (&["tools", "call", "read_file"], "JSON"),
        (
            &["tools", "call", "read_file", "{}", "--root", "nowhere"],
            "the workspace `nowhere` cannot be opened",
        ),
        (&["tools"], "list"),
    ] {
        let exit = BIN.run(&project, args);
        assert_eq!((exit.code, exit.out.as_str()), (2, ""), "{args:?} {exit:?}");
        assert!(exit.err.contains(says), "{args:?} {exit:?}");
    }
}

/// Commands, and what terminates them.
#[cfg(target_os = "linux")]
mod commands {
    use std::path::Path;
    use std::process::Command;
    use std::time::Instant;

    use super::*;
    use loopwright_test_support::TEST_TIMEOUT;
    use loopwright_test_support::model_server::Server;
    use loopwright_test_support::process::Exit;

    fn execute(project: &tempfile::TempDir, command: &str, more: &[&str]) -> Exit {
        let arguments = json!({ "command": command }).to_string();
        BIN.run(project, &[&["tools", "call", "execute_command", &arguments][..], more].concat())
    }

    /// Returns the number of processes with `marker` on their command line, except `loopwright`.
    fn alive(marker: &str) -> usize {
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let line = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
        let ours = |line: Vec<u8>| {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(marker) && !line.contains("loopwright\0tools")
        };
        processes.filter(|process| ours(line(process))).count()
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < TEST_TIMEOUT, "{what}");
            std::thread::yield_now();
        }
    }

    /// Starts a command with a daemon that has no environment and its own process session.
    fn begin(project: &tempfile::TempDir, marker: &str) -> Process {
        let command = format!(
            "(setsid env -i sh -c 'sleep 1000; : {marker}' &) ; sh -c 'sleep 1000; : {marker}'"
        );
        let arguments = json!({ "command": command, "timeout": 60 }).to_string();
        let run = BIN.start(project, &["tools", "call", "execute_command", &arguments]);
        until("it begins", || alive(marker) >= 3);
        run
    }

    fn marker(test: &str) -> String {
        format!("{test}{}", std::process::id())
    }

    #[test]
    fn a_command_is_confined_by_default() {
        let (project, outside) = (project(), tempfile::tempdir().unwrap());
        let path = outside.path().join("f");
        let write = format!("echo x > {0} && cat {0}", path.display());
        let exit = execute(&project, &write, &[]);
        assert_eq!(exit.code, 0, "a command that fails is no tool that does: {exit:?}");
        assert!(
            exit.out.contains("Exit code 2.") && exit.out.contains("Permission denied"),
            "{exit:?}"
        );
        assert!(!path.exists());
        let writable = outside.path().display().to_string();
        assert_eq!(execute(&project, &write, &["--writable", &writable]).out, "Exit code 0.\nx\n");
        assert_eq!(execute(&project, &write, &["--unconfined"]).out, "Exit code 0.\nx\n");
        let exit =
            execute(&project, &format!("cat {}", path.display()), &["--readable", &writable]);
        assert_eq!(exit.out, "Exit code 0.\nx\n");
        assert_eq!(execute(&project, "true", &["--unconfined", "--readable", "/"]).code, 2);
        let network = BIN.run(&project, &["tools", "list", "--network"]);
        assert!(network.out.contains("have the network of this machine"), "{network:?}");
    }

    /// Runs as the current user, and also as another user if that is root.
    #[test]
    fn a_key_in_the_environment_stays_there() {
        let project = project();
        let command = "env; cat /proc/$PPID/environ; cat /proc/[0-9]*/environ; \
                       cat /proc/[0-9]*/task/*/environ; echo looked";
        let arguments = json!({ "command": command }).to_string();
        // Other users cannot enter the directory of the test binary. A separate process copies it:
        // a binary that this process writes cannot be executed while another thread starts a
        // process.
        let open = tempfile::tempdir().unwrap();
        assert!(
            Command::new("cp")
                .arg(env!("CARGO_BIN_EXE_loopwright"))
                .arg(open.path())
                .status()
                .unwrap()
                .success()
        );
        fs::set_permissions(open.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let binary = open.path().join("loopwright");
        let call = [binary.to_str().unwrap(), "tools", "call", "execute_command", &arguments];
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let as_user = is_root.then(|| [&user[..], &call].concat());
        for line in [Some(call.to_vec()), as_user].into_iter().flatten() {
            fs::set_permissions(
                project.path(),
                std::os::unix::fs::PermissionsExt::from_mode(0o755),
            )
            .unwrap();
            let mut command = Command::new(line[0]);
            command
                .args(&line[1..])
                .env("OPENAI_API_KEY", "sk-very-secret")
                .current_dir(project.path());
            let done = command.output().unwrap();
            let (out, err) =
                (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            assert!(out.contains("looked") && out.contains("TMPDIR="), "{line:?} {out} {err}");
            assert!(!out.contains("sk-very-secret") && !err.contains("sk-very-secret"), "{line:?}");
        }
    }

    /// A file outside and a socket that the parent process left open cannot be reached through any
    /// file descriptor.
    #[test]
    fn descriptors_of_the_agent_are_not_inherited() {
        let (project, outside) = (project(), tempfile::tempdir().unwrap());
        let file = outside.path().join("outside.txt");
        fs::write(&file, "the secret\n").unwrap();
        // A shell with high descriptor numbers, which its children inherit.
        let start = r#"exec 5<"$1" 6>>"$1" 77<>"$1" {wide}<"$1"; shift; exec "$@""#;
        let look = "cat <&5; echo pwned >&6; echo pwned >/proc/self/fd/77; \
            for fd in /proc/self/fd/*; do [ ${fd##*/} -gt 2 ] && readlink $fd; done; echo looked";
        for unconfined in [&[][..], &["--unconfined"]] {
            let arguments = json!({ "command": look }).to_string();
            let mut shell = Command::new("bash");
            shell.args(["-c", start, "bash"]).arg(&file).arg(env!("CARGO_BIN_EXE_loopwright"));
            shell.args(["tools", "call", "execute_command", &arguments]).args(unconfined);
            let done = shell.current_dir(project.path()).output().unwrap();
            let out = String::from_utf8_lossy(&done.stdout);
            assert!(out.contains("looked"), "{done:?}");
            assert!(!out.contains("the secret") && !out.contains("outside.txt"), "{out}");
            assert_eq!(fs::read_to_string(&file).unwrap(), "the secret\n");
        }
    }

    #[test]
    fn ctrl_c_is_130_and_ends_the_command_with_its_daemon() {
        let (project, marker) = (project(), marker("interrupted"));
        let run = begin(&project, &marker);
        run.interrupt();
        let exit = run.end();
        assert_eq!((exit.code, exit.err.as_str()), (130, "Aborted.\n"), "{exit:?}");
        assert_eq!(alive(&marker), 0);
    }

    /// The watchdog, which the command cannot reach, ends it.
    #[test]
    fn killing_the_agent_kills_what_it_runs() {
        let (project, marker) = (project(), marker("killed"));
        drop(begin(&project, &marker)); // by SIGKILL
        until("all end", || alive(&marker) == 0);
    }

    /// If no watchdog runs between two commands, the next agent removes the temporary files.
    #[test]
    fn what_a_killed_agent_left_goes_at_the_next_start() {
        let (server, project, temporary) =
            (Server::start(), project(), tempfile::tempdir().unwrap());
        let vars = [("TMPDIR", temporary.path().to_str().unwrap())];
        let options = [
            "run",
            "--model",
            "openai/x",
            "--base-url",
            &server.url,
            "--approve",
            "execute_command",
            "Go",
        ];
        let begin = || {
            let run = BIN.start_with(&project, &options, &vars);
            server.request().call(&[("execute_command", json!({ "command": "echo $TMPDIR" }))]);
            let asked = server.request();
            let result: String = serde_json::from_str(&asked.last()).unwrap();
            (
                run,
                asked,
                Path::new(result.strip_prefix("Exit code 0.\n").unwrap().trim()).to_owned(),
            )
        };
        let (killed, asked, left) = begin();
        drop((killed, asked)); // by SIGKILL
        assert!(left.is_dir(), "it still exists");
        let (living, asked, its) = begin();
        assert!(!left.exists() && its.is_dir());
        let other = json!({ "command": "true" }).to_string();
        let exit =
            BIN.start_with(&project, &["tools", "call", "execute_command", &other], &vars).end();
        assert_eq!(exit.code, 0, "{exit:?}");
        assert!(its.is_dir(), "its owner lives");
        asked.say("Done.");
        assert_eq!(living.end().code, 0);
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    }

    /// The complete sequence: a model that calls, a user who approves, and no process left over.
    #[test]
    fn a_run_uses_it_when_it_is_approved() {
        let (server, project) = (Server::start(), project());
        let options =
            ["--model", "openai/x", "--base-url", &server.url, "--approve", "execute_command"];
        let run = BIN.start(&project, &[&["run"], &options[..], &["Go"]].concat());
        server.request().call(&[("execute_command", json!({ "command": "echo $TMPDIR" }))]);
        let asked = server.request();
        let result: String = serde_json::from_str(&asked.last()).unwrap();
        let temporary = result.strip_prefix("Exit code 0.\n").unwrap().trim().to_owned();
        assert!(Path::new(&temporary).is_dir(), "{result}");
        asked.say("Done.");
        let exit = run.end();
        assert_eq!((exit.code, exit.out.as_str()), (0, "Done.\n"), "{exit:?}");
        assert!(!Path::new(&temporary).exists(), "what is temporary is gone");
    }
}
