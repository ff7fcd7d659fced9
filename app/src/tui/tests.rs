//! The event loop in a real terminal.

use std::process::{Command, Stdio};

use clap::Parser;
use loopwright_core::SessionStore;

use super::*;
use crate::args::Cli;
use crate::config::Config;

/// The variable that passes the path of the session store to the child process.
const STORE_VAR: &str = "TEST_SESSIONS";

/// Not a test: the program that the next test runs.
#[tokio::test]
#[ignore = "needs a terminal"]
async fn panics_in_the_view() {
    let store_path = std::env::var(STORE_VAR).unwrap();
    let args = ["loopwright", "--session", "a b", "--store", &store_path, "--model", "offline"];
    let (stderr, stderr_lines) = StderrCapture::new().unwrap();
    let mut ui = Ui::new(Screen::acquire(stderr).unwrap());
    let (runner, mut msgs) = EffectRunner::start(Cli::parse_from(args).chat, Config::loopwright());
    let (forward, forwarded) = mpsc::unbounded_channel();
    let fail = async {
        while let Some(msg) = msgs.recv().await {
            let opened = matches!(msg, Msg::Opened(..));
            let _ = forward.send(msg);
            if opened {
                tokio::task::yield_now().await; // the loop handles it
                panic!("the view has failed");
            }
        }
    };
    tokio::select! { biased;
        _ = ui.event_loop(&runner, forwarded, stderr_lines, Signals::listen().unwrap()) => {}
        () = fail => {}
    }
}

/// C136: after a panic of the terminal app its message comes first, then how to resume; the exit
/// code is not 0, and the session can be opened.
#[tokio::test]
async fn after_a_panic_the_resume_command_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let store_path = dir.path().join("sessions.db");
    let this = std::env::current_exe().unwrap();
    let run = format!(
        "stty cols 80 rows 24; {} --exact tui::tests::panics_in_the_view --ignored --nocapture",
        this.display()
    );
    let mut script = Command::new("script");
    script
        .args(["-qec", &run, "/dev/null"])
        .env("TERM", "xterm")
        .env(STORE_VAR, &store_path)
        .current_dir(dir.path());
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let _keyboard = script.stdin.take(); // closing it would send Ctrl-D
    let done = script.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let at = |msg: &str| text.find(msg).unwrap_or_else(|| panic!("{msg:?} is missing: {text:?}"));
    let order =
        ["\x1b[?1049h", "\x1b[?1049l", "the view has failed", "loopwright --session 'a b'"].map(at);
    assert!(order.is_sorted(), "{text:?}");
    assert!(!done.status.success());
    let store = loopwright_memory::Sqlite::open(&store_path).unwrap();
    store.session("a b").await.unwrap();
    store.open("a b").await.unwrap();
}
