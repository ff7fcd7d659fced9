//! Hostile commands. Each ends in time and leaves no process behind, memory stays bounded, and the
//! session continues.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use loopwright_core::message::{ResultStatus, ToolResult};
use loopwright_core::testing::Script;
use loopwright_tools::Commands;
use serde_json::json;

use crate::session::{Session, ok};

/// The maximum duration of a call after its timeout, on a busy machine too. Commands that are not
/// killed run longer.
const GRACE: Duration = Duration::from_secs(60);
/// A timeout in seconds that does not expire, on a busy machine either.
const ENOUGH: u64 = 600;

/// Returns a word that appears only on the command lines of one test's processes.
fn marker(test: &str) -> String {
    format!("{test}{}x", std::process::id())
}

/// Counts the processes that have the marker on their command line.
fn alive(marker: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let line = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
    processes.filter(|process| String::from_utf8_lossy(&line(process)).contains(marker)).count()
}

/// Returns the peak memory of this process since [`reset_peak`], in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn reset_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

struct Fixture {
    dir: tempfile::TempDir,
    session: Session,
}

impl Fixture {
    async fn new(commands: Commands) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let session = Session::new(dir.path(), commands, true).await;
        Fixture { dir, session }
    }

    /// Runs a command. Checks that it ends in time, that no process with the marker is left, and
    /// that the session still works.
    async fn run(&mut self, command: &str, seconds: u64, marker: &str) -> ToolResult {
        let start = Instant::now();
        let call = ("execute_command", json!({ "command": command, "timeout": seconds }));
        let result = self.session.run_calls(&[call]).await.remove(0);
        let took = start.elapsed();
        assert_eq!(alive(marker), 0, "{command}");
        assert!(took < Duration::from_secs(seconds) + GRACE, "{took:?}: {command}");
        eprintln!("{took:>10.2?}  {}", result.text().lines().next().unwrap_or_default());
        let next = self
            .session
            .run_calls(&[("execute_command", json!({ "command": "echo still here" }))])
            .await;
        assert_eq!(ok(&next[0]), "Exit code 0.\nstill here\n");
        result
    }
}

/// Every process starts two more, down to a limited depth: 1,023 processes and as many `sleep`s, if
/// they are not killed. Root has no other limit than the tested one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fork_bombs() {
    let mut fixture = Fixture::new(Commands::new()).await;
    // All in one process group, then each in its own session.
    for (name, starts) in [("bomb", "sh"), ("sessions", "setsid sh")] {
        let script = format!("{}.sh", marker(name));
        let text = format!(
            "[ $1 = 0 ] || for n in 1 2; do {starts} {script} $(($1-1)) & done\nsleep 1000\n"
        );
        fs::write(fixture.dir.path().join(&script), text).unwrap();
        let result = fixture.run(&format!("{starts} {script} 9; wait"), ENOUGH, &script).await;
        assert_eq!(result.status, ResultStatus::Error);
        assert!(
            result.text().contains("had too many processes at the same time"),
            "{}",
            result.text()
        );
    }
    // As many processes as allowed, each of which starts another as soon as one is killed.
    let mut fixture = Fixture::new(Commands::new().max_processes(2_000)).await;
    let script = format!("{}.sh", marker("hydra"));
    let text = format!(
        "trap '' TERM HUP INT\n[ $1 = 0 ] || for n in 1 2; do setsid sh {script} $(($1-1)) & done\n\
         while :; do sleep 1000; done\n"
    );
    fs::write(fixture.dir.path().join(&script), text).unwrap();
    let result = fixture.run(&format!("sh {script} 7"), 5, &script).await;
    assert!(result.text().contains("its timeout of 5 s expired"), "{}", result.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_of_output() {
    let mut fixture = Fixture::new(Commands::new()).await;
    let marker = marker("flood");
    ok(&fixture.run("true", ENOUGH, &marker).await);
    reset_peak();
    let before = peak();
    let result = fixture.run(&format!("yes {marker} | head -c 1000000000"), ENOUGH, &marker).await;
    assert!(
        ok(&result).contains("of 1000000000 bytes are left out here"),
        "{}",
        &result.text()[..200]
    );
    assert!(result.text().len() < 40_000);
    let result = fixture.run(&format!("yes {marker}"), 2, &marker).await;
    assert!(result.text().contains("its timeout of 2 s expired"), "{}", &result.text()[..200]);
    let grown = peak().saturating_sub(before);
    eprintln!("memory grew by at most {} MiB", grown >> 20);
    assert!(grown < 64 << 20, "{grown} bytes");
    let saved = fs::read_dir(fixture.dir.path().join(".loopwright/output")).unwrap();
    let largest = saved.map(|entry| entry.unwrap().metadata().unwrap().len()).max().unwrap();
    assert!(largest < 65 << 20, "{largest} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_resist_being_killed() {
    let mut fixture = Fixture::new(Commands::new()).await;
    let marker = marker("stays");
    let sleep = format!("sh -c 'sleep 1000; : {marker}'");
    let done = "Exit code 0.";
    let late = "The command was killed because its timeout of 2 s expired.";
    for (command, ends) in [
        (format!("{sleep} &"), done),
        (format!("setsid nohup {sleep} >/dev/null 2>&1 &"), done),
        (format!("(setsid env -i {sleep} <&- >&- 2>&- &) ; sleep 0.1"), done),
        (format!("trap '' TERM HUP INT; {sleep}"), late),
        (
            format!(
                "setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done; : {marker}' & wait"
            ),
            late,
        ),
        (format!("exec >&- 2>&-; {sleep}"), late),
        (format!("{sleep} & kill -STOP $$"), late),
        (format!("{sleep} & kill -KILL $$"), "Killed by signal 9 (SIGKILL)."),
        (format!("cat /dev/zero | {sleep}"), late),
    ] {
        let seconds = if ends == late { 2 } else { ENOUGH };
        let result = fixture.run(&command, seconds, &marker).await;
        assert!(result.text().starts_with(ends), "{command}: {}", result.text());
    }
}

/// An aborted run, and a run whose tasks are dropped, kill all processes.
#[test]
fn an_abort_and_a_dropped_run_kill_all_processes() {
    let marker = marker("aborted");
    let command =
        format!("setsid env -i sh -c 'sleep 1000; : {marker}' & sh -c 'sleep 1000; : {marker}'");
    for abort in [true, false] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let fixture = runtime.block_on(Fixture::new(Commands::new()));
        let calls = [("a", "execute_command", json!({ "command": command }))];
        fixture.session.model.push(Script::calls(calls));
        let events = runtime.block_on(fixture.session.handle.prompt_stream("Go.")).unwrap();
        until("the command starts", || alive(&marker) >= 3);
        if abort {
            runtime.block_on(fixture.session.handle.abort()).unwrap();
            runtime.block_on(fixture.session.handle.wait_for_idle());
            assert_eq!(alive(&marker), 0, "the command has ended when the run has");
        }
        runtime.shutdown_background();
        until("the command ends", || alive(&marker) == 0);
        drop(events);
    }
}

/// Waits until a condition holds; `what` describes it.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < GRACE, "{what}");
        std::thread::yield_now();
    }
}
