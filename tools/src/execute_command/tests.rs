//! Commands as they are run, with real processes: what they are told, may reach, and leave behind.

#![allow(clippy::disallowed_methods, reason = "a test looks at files and processes from outside")]

mod confined;
mod kept;

use std::fs;
use std::path::Path;
use std::time::Instant;

use loopwright_core::message::Content;
use loopwright_core::tool::Approval;
use tempfile::TempDir;

use super::*;
use crate::process::Confinement;

type Told = Result<(String, Value), String>;

/// `outer/root` is the workspace, `outer/secret` is not in it.
struct Place {
    outer: TempDir,
    tool: Box<dyn Tool>,
}

impl Place {
    fn new() -> Self {
        Self::with(Commands::new())
    }

    fn with(commands: Commands) -> Self {
        let outer = outer();
        let tool = Box::new(execute_command(
            Workspace::open(&outer.path().join("root")).unwrap(),
            commands,
        ));
        Place { outer, tool }
    }

    fn confined_by(confinement: Confinement) -> Self {
        let outer = outer();
        let workspace = Workspace::open(&outer.path().join("root")).unwrap();
        let shell = Shell::with(&workspace, Commands::new(), confinement);
        Place { outer, tool: Box::new(tool(State { workspace, shell })) }
    }

    fn root(&self) -> std::path::PathBuf {
        self.outer.path().join("root")
    }

    async fn call(&self, arguments: Value) -> Told {
        let output =
            self.tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    async fn run(&self, command: &str) -> String {
        self.call(json!({ "command": command })).await.unwrap().0
    }
}

fn outer() -> TempDir {
    let outer = tempfile::tempdir().unwrap();
    fs::create_dir_all(outer.path().join("root/sub")).unwrap();
    fs::write(outer.path().join("secret"), "the secret").unwrap();
    outer
}

/// A word that only one test's processes have on their command line.
fn marker(test: &str) -> String {
    format!("{test}-{}-{:?}", std::process::id(), Instant::now())
        .replace(|c: char| !c.is_ascii_alphanumeric(), "")
}

/// How many processes have the marker on their command line.
fn alive(marker: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let line = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
    processes.filter(|process| String::from_utf8_lossy(&line(process)).contains(marker)).count()
}

/// Waits until as many processes have the marker.
fn until_alive(marker: &str, wanted: impl Fn(usize) -> bool) {
    let start = Instant::now();
    while !wanted(alive(marker)) {
        assert!(start.elapsed() < Duration::from_secs(20), "{} processes", alive(marker));
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn what_it_prints_comes_as_it_came_with_the_exit_code() {
    let place = Place::new();
    let (text, details) =
        place.call(json!({ "command": "echo a; echo b >&2; echo c; exit 3" })).await.unwrap();
    assert_eq!(text, "Exit code 3.\na\nb\nc\n");
    assert_eq!((&details["exit_code"], &details["signal"]), (&json!(3), &Value::Null));
    assert_eq!((&details["output_bytes"], &details["output_file"]), (&json!(6), &Value::Null));
    assert_eq!(place.run("true").await, "Exit code 0. It printed nothing.");
    let (text, details) = place.call(json!({ "command": "kill -9 $$" })).await.unwrap();
    assert_eq!(text, "Ended by signal 9 (SIGKILL). It printed nothing.");
    assert_eq!((&details["exit_code"], &details["signal"]), (&Value::Null, &json!(9)));
    let told = place.run("kill -SYS $$").await;
    assert!(
        told.starts_with(
            "Ended by signal 31 (SIGSYS: a system call was refused, by the confinement"
        ),
        "{told}"
    );
    assert_eq!(
        place.run("read line; echo \"<$line>\"; echo 'a  b'").await,
        "Exit code 0.\n<>\na  b\n"
    );
    assert_eq!(place.run("exec >&- 2>&-; true").await, "Exit code 0. It printed nothing.");
}

#[tokio::test]
async fn what_it_leaves_in_the_background_ends_with_it() {
    for (name, confinement) in [("Signals", None), ("Traces", Some(Confinement::old_landlock()))] {
        let place = confinement.map_or_else(Place::new, Place::confined_by);
        let mark = marker(name);
        for background in [
            format!("sh -c ': >begun; sleep 1000; : {mark}' &"),
            format!("setsid nohup sh -c ': >begun; sleep 1000; : {mark}' >/dev/null 2>&1 &"),
            format!("(setsid env -i sh -c ': >begun; sleep 1000; : {mark}' <&- >&- 2>&- & ) &"),
            format!(
                "setsid sh -c 'trap \"\" TERM HUP INT; : >begun; while :; do sleep 1000; done; : {mark}' &"
            ),
        ] {
            // It goes on only when the background has begun.
            let command =
                format!("rm -f begun; {background} until [ -e begun ]; do :; done; echo x");
            let start = Instant::now();
            let (text, details) =
                place.call(json!({ "command": command, "timeout": 10 })).await.unwrap();
            assert!(
                text.contains("left in the background") && text.ends_with("\nx\n"),
                "{background}: {text}"
            );
            assert!(details["processes_ended"].as_u64().unwrap() >= 1, "{background}: {details}");
            assert_eq!(alive(&mark), 0, "{name} {background}");
            assert!(start.elapsed() < Duration::from_secs(9));
        }
    }
}

#[tokio::test]
async fn its_time_ends_all_of_it() {
    let (place, mark) = (Place::new(), marker("time"));
    let command = format!("echo begun; trap '' TERM; setsid sleep 1000 & sleep 1000; : {mark}");
    let start = Instant::now();
    let why = place.call(json!({ "command": command, "timeout": 1 })).await.unwrap_err();
    // How late at the most, `--test commands` measures, which has the machine for itself.
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    assert!(why.starts_with("The command was ended because its time of 1 s was up."), "{why}");
    assert!(why.ends_with("\nbegun\n"), "{why}");
    assert_eq!(alive(&mark), 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_dropped_leaves_nothing() {
    let (place, mark) = (Place::new(), marker("cancel"));
    let arguments =
        json!({ "command": format!("setsid sh -c 'sleep 1000; : {mark}' & sleep 1000") });
    let cx = ToolContext::detached();
    let cancel = cx.cancellation();
    let (told, ()) = tokio::join!(place.tool.call(&arguments, cx), async {
        tokio::task::spawn_blocking({
            let mark = mark.clone();
            move || until_alive(&mark, |count| count >= 2)
        })
        .await
        .unwrap();
        cancel.cancel();
    });
    assert_eq!(told, Err(ToolError::Cancelled));
    assert_eq!(alive(&mark), 0);
    {
        let mut call = place.tool.call(&arguments, ToolContext::detached());
        assert!(futures_once(&mut call).await.is_none());
        until_alive(&mark, |count| count >= 2);
    } // dropped
    until_alive(&mark, |count| count == 0);
}

/// Polls a future once.
async fn futures_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn output_comes_while_it_runs() {
    let place = Place::new();
    let workspace = Workspace::open(&place.root()).unwrap();
    let shell = Shell::new(&workspace, Commands::new());
    let mut running =
        shell.start("echo one; until [ -e go ]; do :; done; echo two", None, TIME).unwrap();
    assert_eq!(running.live.recv().await.as_deref(), Some("one\n"));
    fs::write(place.root().join("go"), "").unwrap();
    assert_eq!(running.live.recv().await.as_deref(), Some("two\n"));
    assert_eq!(running.live.recv().await, None);
    assert_eq!(running.ended().await.unwrap().how, How::Exited(0));
}

#[tokio::test]
async fn too_many_processes_are_ended() {
    let (place, mark) = (Place::with(Commands::new().max_processes(20)), marker("many"));
    let command = format!(
        "i=0; while [ $i -lt 60 ]; do setsid sh -c 'sleep 1000; : {mark}' & i=$((i+1)); done; wait"
    );
    let why = place.call(json!({ "command": command })).await.unwrap_err();
    assert!(why.contains("processes at the same time, which are too many"), "{why}");
    assert_eq!(alive(&mark), 0);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let place = Place::with(Commands::new().max_timeout(Duration::from_secs(60)));
    for (arguments, says) in [
        (json!({ "command": " " }), "`command` is empty"),
        (json!({ "command": "a\u{0}b" }), "NUL"),
        (json!({ "command": "true", "timeout": 0 }), "`timeout` is 0"),
        (
            json!({ "command": "true", "timeout": -1 }),
            "`timeout` is -1, but it is a number of seconds",
        ),
        (json!({ "command": "true", "timeout": i64::MAX }), "but 60 are the most"),
        (
            json!({ "command": "true", "timeout": 61 }),
            "`timeout` is 61 seconds, but 60 are the most",
        ),
    ] {
        let why = place.call(arguments).await.unwrap_err();
        assert!(why.contains(says), "{why}");
    }
    let short = Place::with(Commands::new().max_timeout(Duration::from_secs(1)));
    assert!(
        short.call(json!({ "command": "sleep 5" })).await.unwrap_err().contains("its time of 1 s")
    );
}

#[test]
fn it_asks_first_and_says_how_it_is_confined() {
    let place = Place::new();
    let spec = place.tool.spec();
    assert_eq!(
        (spec.effect, spec.sequential, spec.interruptible),
        (Effect::AtMostOnce, true, true)
    );
    assert!(matches!(spec.needs_approval, Approval::ByEffect));
    assert!(spec.timeout.unwrap() > Commands::new().max_timeout);
    let properties = spec.schema["properties"].as_object().unwrap();
    assert!(properties.values().all(|p| p["description"].is_string()), "{properties:?}");
    assert_eq!(spec.schema["required"], json!(["command"]));
    let description = &spec.description;
    assert!(
        description.contains("confined by Landlock") && description.contains("have no network"),
        "{description}"
    );
    let open = Place::with(Commands::new().network());
    assert!(open.tool.spec().description.contains("have the network of this machine"));
}

/// A call that was ended tells front ends what one that ended by itself tells.
#[tokio::test]
async fn an_ended_call_has_details_too() {
    let outer = outer();
    let tool =
        execute_command(Workspace::open(&outer.path().join("root")).unwrap(), Commands::new());
    let ended =
        tool.call(&json!({ "command": "sleep 9", "timeout": 1 }), ToolContext::detached()).await;
    let Err(ToolError::FailedWith { why, details }) = ended else { panic!("{ended:?}") };
    assert!(why.contains("its time of 1 s was up"), "{why}");
    assert!(details["confinement"].is_object() && details["exit_code"].is_null(), "{details}");
}

/// A directory that is swapped for a link after it was opened.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_workspace_below_another_stays_what_was_opened() {
    let outer = outer();
    let (root, moved) = (outer.path().join("root"), outer.path().join("root/moved"));
    std::fs::create_dir(root.join("below")).unwrap();
    let whole = Workspace::open(&root).unwrap();
    let below = whole.below("below").unwrap();
    for path in ["..", "/", "missing", "below/../.."] {
        assert!(whole.below(path).is_err(), "{path}");
    }
    std::fs::rename(root.join("below"), &moved).unwrap();
    std::os::unix::fs::symlink(outer.path(), root.join("below")).unwrap();
    let tool = execute_command(below, Commands::new());
    let command = format!("echo in > made; echo out > {}/made", outer.path().display());
    tool.call(&json!({ "command": command }), ToolContext::detached()).await.unwrap();
    assert!(moved.join("made").exists() && !outer.path().join("made").exists());
    assert!(whole.below("below").is_err(), "the link leads out");
}
