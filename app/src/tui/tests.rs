//! The loop itself, on a terminal of its own.

use std::process::{Command, Stdio};

use clap::Parser;
use loopwright_core::SessionStore;

use super::*;
use crate::args::Cli;

/// Where the next test says that sessions are kept.
const PLACE: &str = "TEST_SESSIONS";

/// Not a test by itself: what the next one runs.
#[tokio::test]
#[ignore = "needs a terminal"]
async fn panics() {
    let place = std::env::var(PLACE).unwrap();
    let args = ["loopwright", "--session", "a b", "--store", &place, "--model", "offline"];
    let (complaints, complained) = Complaints::new().unwrap();
    let mut ui = Ui::new(Screen::take(complaints).unwrap());
    let (hands, mut news) = Hands::start(Cli::parse_from(args).chat);
    let (tell, told) = mpsc::unbounded_channel();
    let fail = async {
        while let Some(what) = news.recv().await {
            let opened = matches!(what, News::Opened(..));
            let _ = tell.send(what);
            if opened {
                tokio::task::yield_now().await; // the loop takes it in
                panic!("the view has failed");
            }
        }
    };
    tokio::select! { biased;
        _ = ui.live(&hands, told, complained, Signals::listen().unwrap()) => {}
        () = fail => {}
    }
}

/// C171: after a panic of the terminal app its message comes first and then how to go on; the exit
/// code is not 0, and the session can be opened.
#[tokio::test]
async fn after_a_panic_one_is_told_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("sessions.db");
    let this = std::env::current_exe().unwrap();
    let run = format!(
        "stty cols 80 rows 24; {} --exact tui::tests::panics --ignored --nocapture",
        this.display()
    );
    let mut script = Command::new("script");
    script
        .args(["-qec", &run, "/dev/null"])
        .env("TERM", "xterm")
        .env(PLACE, &place)
        .current_dir(dir.path());
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let _keyboard = script.stdin.take(); // whose end would be a Ctrl-D
    let done = script.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let at =
        |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is missing: {text:?}"));
    let order =
        ["\x1b[?1049h", "\x1b[?1049l", "the view has failed", "loopwright --session 'a b'"].map(at);
    assert!(order.is_sorted(), "{text:?}");
    assert!(!done.status.success());
    let store = loopwright_memory::Sqlite::open(&place).unwrap();
    store.session("a b").await.unwrap();
    store.open("a b").await.unwrap();
}
