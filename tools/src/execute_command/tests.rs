//! Tests of `execute_command` with real processes.

#![allow(clippy::disallowed_methods, reason = "the tests inspect files and processes from outside")]

mod confined;
mod limits;
mod long_output;
mod protected;
mod protected_files;
mod user;

use std::fs;
use std::path::Path;
use std::time::Instant;

use loopwright_core::message::Content;
use loopwright_core::tool::Approval;
use tempfile::TempDir;

use super::*;
use crate::process::Confinement;

/// A workspace in `outer/root`, with `outer/secret` outside of it.
struct Fixture {
    outer: TempDir,
    tool: Box<dyn Tool>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Commands::new())
    }

    /// Confines by Landlock unless unconfined, even for a user for whom bubblewrap can do more.
    fn with(commands: Commands) -> Self {
        let confinement = match commands.unconfined {
            true => Confinement::Unconfined,
            false => Confinement::landlock().unwrap(),
        };
        Self::new_with(commands, confinement)
    }

    fn confined_by(confinement: Confinement) -> Self {
        Self::new_with(Commands::new(), confinement)
    }

    fn new_with(commands: Commands, confinement: Confinement) -> Self {
        let outer = outer();
        let workspace = Workspace::open(&outer.path().join("root")).unwrap();
        let shell = Shell::with_confinement(&workspace, commands, confinement);
        Fixture { outer, tool: Box::new(tool(State { workspace, shell })) }
    }

    fn root(&self) -> std::path::PathBuf {
        self.outer.path().join("root")
    }

    async fn call(&self, arguments: Value) -> Result<(String, Value), String> {
        let output =
            self.tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    async fn run(&self, command: &str) -> String {
        self.call(json!({ "command": command, "timeout": 500 })).await.unwrap().0
    }
}

fn outer() -> TempDir {
    let outer = tempfile::tempdir().unwrap();
    fs::create_dir_all(outer.path().join("root/sub")).unwrap();
    fs::write(outer.path().join("secret"), "the secret").unwrap();
    outer
}

/// Returns a word that only appears in the command lines of one test's processes.
fn marker(test: &str) -> String {
    format!("{test}-{}-{:?}", std::process::id(), Instant::now())
        .replace(|c: char| !c.is_ascii_alphanumeric(), "")
}

/// Counts the processes with the marker on their command line.
fn alive(marker: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let line = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
    processes.filter(|process| String::from_utf8_lossy(&line(process)).contains(marker)).count()
}

/// Waits until the number of processes with the marker is accepted.
fn wait_until_alive(marker: &str, wanted: impl Fn(usize) -> bool) {
    let start = Instant::now();
    while !wanted(alive(marker)) {
        assert!(start.elapsed() < Duration::from_secs(120), "{} processes", alive(marker));
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn output_is_returned_in_order_with_the_exit_code() {
    let fixture = Fixture::new();
    let (text, details) =
        fixture.call(json!({ "command": "echo a; echo b >&2; echo c; exit 3" })).await.unwrap();
    assert_eq!(text, "Exit code 3.\na\nb\nc\n");
    assert_eq!((&details["exit_code"], &details["signal"]), (&json!(3), &Value::Null));
    assert_eq!((&details["output_bytes"], &details["output_file"]), (&json!(6), &Value::Null));
    assert_eq!(fixture.run("true").await, "Exit code 0. It printed nothing.");
    let (text, details) = fixture.call(json!({ "command": "kill -9 $$" })).await.unwrap();
    assert_eq!(text, "Killed by signal 9 (SIGKILL). It printed nothing.");
    assert_eq!((&details["exit_code"], &details["signal"]), (&Value::Null, &json!(9)));
    let text = fixture.run("kill -SYS $$").await;
    assert!(
        text.starts_with(
            "Killed by signal 31 (SIGSYS: a system call was refused, by the confinement"
        ),
        "{text}"
    );
    assert_eq!(
        fixture.run("read line; echo \"<$line>\"; echo 'a  b'").await,
        "Exit code 0.\n<>\na  b\n"
    );
    assert_eq!(fixture.run("exec >&- 2>&-; true").await, "Exit code 0. It printed nothing.");
}

#[tokio::test]
async fn background_processes_are_killed_at_the_end() {
    for (name, confinement) in [("Signals", None), ("Traces", Some(Confinement::old_landlock()))] {
        let fixture = confinement.map_or_else(Fixture::new, Fixture::confined_by);
        let mark = marker(name);
        for background in [
            format!("sh -c ': >started; sleep 1000; : {mark}' &"),
            format!("setsid nohup sh -c ': >started; sleep 1000; : {mark}' >/dev/null 2>&1 &"),
            format!("(setsid env -i sh -c ': >started; sleep 1000; : {mark}' <&- >&- 2>&- & ) &"),
            format!(
                "setsid sh -c 'trap \"\" TERM HUP INT; : >started; while :; do sleep 1000; done; \
                 : {mark}' &"
            ),
        ] {
            // The command only continues after the background process has started.
            let command =
                format!("rm -f started; {background} until [ -e started ]; do :; done; echo x");
            let start = Instant::now();
            let (text, details) =
                fixture.call(json!({ "command": command, "timeout": 120 })).await.unwrap();
            assert!(
                text.contains("left in the background") && text.ends_with("\nx\n"),
                "{background}: {text}"
            );
            assert!(details["processes_ended"].as_u64().unwrap() >= 1, "{background}: {details}");
            assert_eq!(alive(&mark), 0, "{name} {background}");
            assert!(start.elapsed() < Duration::from_secs(110), "it has waited for the timeout");
        }
    }
}

#[tokio::test]
async fn a_timeout_kills_all_processes() {
    let fixture = Fixture::new();
    let mark = marker("time");
    let command = format!("echo started; trap '' TERM; setsid sleep 1000 & sleep 1000; : {mark}");
    let start = Instant::now();
    let why = fixture.call(json!({ "command": command, "timeout": 1 })).await.unwrap_err();
    // `--test commands`, which runs alone on the machine, checks the exact bound.
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    assert!(why.starts_with("The command was killed because its timeout of 1 s expired."), "{why}");
    assert!(why.ends_with("\nstarted\n"), "{why}");
    assert_eq!(alive(&mark), 0);
}

#[tokio::test]
async fn a_cancelled_or_dropped_call_leaves_no_process() {
    let fixture = Fixture::new();
    let mark = marker("cancel");
    let command = format!("echo begun; setsid sh -c 'sleep 1000; : {mark}' & sleep 1000");
    let arguments = json!({ "command": command });
    let cx = ToolContext::detached();
    let cancel = cx.cancellation();
    let (result, ()) = tokio::join!(fixture.tool.call(&arguments, cx), async {
        tokio::task::spawn_blocking({
            let mark = mark.clone();
            move || wait_until_alive(&mark, |count| count >= 2)
        })
        .await
        .unwrap();
        cancel.cancel();
    });
    let Err(ToolError::CancelledWith { output, details }) = result else { panic!("{result:?}") };
    assert!(output.starts_with("The command was killed."), "{output}");
    // A shell that has not started its `sleep` yet reports that it cannot fork.
    assert!(output.contains("\nbegun\n"), "what it printed is kept: {output}");
    assert_eq!(details["exit_code"], json!(null));
    assert!(details["output_bytes"].as_u64().unwrap() >= 6, "{details}");
    assert_eq!(alive(&mark), 0);
    {
        let mut call = fixture.tool.call(&arguments, ToolContext::detached());
        assert!(poll_once(&mut call).await.is_none());
        wait_until_alive(&mark, |count| count >= 2);
    } // dropped
    wait_until_alive(&mark, |count| count == 0);
}

/// Polls a future once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn output_is_streamed_while_the_command_runs() {
    let fixture = Fixture::new();
    let workspace = Workspace::open(&fixture.root()).unwrap();
    let shell = Shell::new(&workspace, Commands::new());
    let mut running = shell
        .start("echo one; until [ -e go ]; do :; done; echo two", None, DEFAULT_TIMEOUT)
        .unwrap();
    assert_eq!(running.live.recv().await.as_deref(), Some("one\n"));
    fs::write(fixture.root().join("go"), "").unwrap();
    assert_eq!(running.live.recv().await.as_deref(), Some("two\n"));
    assert_eq!(running.live.recv().await, None);
    assert_eq!(running.finished().await.unwrap().exit, Exit::Code(0));
}

#[tokio::test]
async fn too_many_processes_are_killed() {
    let fixture = Fixture::with(Commands::new().max_processes(20));
    let mark = marker("many");
    let command = format!(
        "i=0; while [ $i -lt 60 ]; do setsid sh -c 'sleep 1000; : {mark}' & i=$((i+1)); done; wait"
    );
    let why = fixture.call(json!({ "command": command })).await.unwrap_err();
    assert!(why.contains("had too many processes at the same time: "), "{why}");
    assert_eq!(alive(&mark), 0);
}

#[tokio::test]
async fn invalid_arguments_are_refused() {
    let fixture = Fixture::with(Commands::new().max_timeout(Duration::from_secs(60)));
    for (arguments, expected) in [
        (json!({ "command": " " }), "`command` is empty"),
        (json!({ "command": "a\u{0}b" }), "NUL"),
        (json!({ "command": "true", "timeout": 0 }), "`timeout` is 0"),
        (
            json!({ "command": "true", "timeout": -1 }),
            "`timeout` is -1, but must be a number of seconds",
        ),
        (json!({ "command": "true", "timeout": i64::MAX }), "but at most 60 are allowed"),
        (
            json!({ "command": "true", "timeout": 61 }),
            "`timeout` is 61 seconds, but at most 60 are allowed",
        ),
    ] {
        let why = fixture.call(arguments).await.unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    let short = Fixture::with(Commands::new().max_timeout(Duration::from_secs(1)));
    assert!(
        short
            .call(json!({ "command": "sleep 5" }))
            .await
            .unwrap_err()
            .contains("its timeout of 1 s")
    );
}

#[test]
fn it_needs_approval_and_states_how_it_is_confined() {
    let fixture = Fixture::new();
    let spec = fixture.tool.spec();
    assert_eq!(
        (spec.effect, spec.sequential, spec.interruptible),
        (Effect::AtMostOnce, true, true)
    );
    assert!(matches!(spec.approval, Approval::ByEffect));
    assert!(spec.timeout.unwrap() > Commands::new().max_timeout);
    let properties = spec.schema["properties"].as_object().unwrap();
    assert!(properties.values().all(|p| p["description"].is_string()), "{properties:?}");
    assert_eq!(spec.schema["required"], json!(["command"]));
    let description = &spec.description;
    assert!(
        description.contains("confined by Landlock") && description.contains("have no network"),
        "{description}"
    );
    let open = Fixture::with(Commands::new().network());
    assert!(open.tool.spec().description.contains("have the network of this machine"));
}

/// The error of a killed command has the same details as a result.
#[tokio::test]
async fn a_killed_command_has_details_too() {
    let outer = outer();
    let tool =
        execute_command(Workspace::open(&outer.path().join("root")).unwrap(), Commands::new());
    let result =
        tool.call(&json!({ "command": "sleep 9", "timeout": 1 }), ToolContext::detached()).await;
    let Err(ToolError::FailedWith { why, details }) = result else { panic!("{result:?}") };
    assert!(why.contains("its timeout of 1 s expired"), "{why}");
    assert!(details["confinement"].is_object() && details["exit_code"].is_null(), "{details}");
}

/// The opened directory is replaced by a link.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_subdirectory_stays_the_directory_that_was_opened() {
    let outer = outer();
    let root = outer.path().join("root");
    let moved = root.join("moved");
    std::fs::create_dir(root.join("below")).unwrap();
    let whole = Workspace::open(&root).unwrap();
    let below = whole.subdirectory("below").unwrap();
    for path in ["..", "/", "missing", "below/../.."] {
        assert!(whole.subdirectory(path).is_err(), "{path}");
    }
    std::fs::rename(root.join("below"), &moved).unwrap();
    std::os::unix::fs::symlink(outer.path(), root.join("below")).unwrap();
    let tool = execute_command(below, Commands::new());
    let command = format!("echo in > made; echo out > {}/made", outer.path().display());
    tool.call(&json!({ "command": command }), ToolContext::detached()).await.unwrap();
    assert!(moved.join("made").exists() && !outer.path().join("made").exists());
    assert!(whole.subdirectory("below").is_err(), "the link leads out");
}
