//! `schedules` and `wake`: messages at certain times, and who sends them.

use std::time::{Duration, Instant};

use loopwright_test_support::process::project;
use serde_json::Value;

use crate::BIN;

/// C532: `schedules` lists messages with their next times, adds and removes them.
#[test]
fn schedules_are_added_listed_and_removed() {
    let project = project();
    let run = |args: &[&str]| BIN.run(&project, args);
    assert_eq!(run(&["run", "--model", "offline", "--session", "s", "Hello"]).code, 0);
    let none = run(&["schedules"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{none:?}");
    let at = ["schedules", "add", "s", "Good  morning", "--at", "2099-01-02T09:00", "--id", "x"];
    let added = run(&at);
    assert!(added.code == 0 && added.err.contains("on 2099-01-02 at 09:00"), "{added:?}");
    let cron = ["--cron", "0 9 * * 1-5", "--time-zone", "Europe/Berlin", "--json"];
    let added = run(&[&["schedules", "add", "s", "Report"][..], &cron].concat());
    let json: Value = serde_json::from_str(&added.out).unwrap();
    assert_eq!((json["session"].as_str(), json["cron"].as_str()), (Some("s"), Some("0 9 * * 1-5")));
    let listed = run(&["schedules"]);
    let lines: Vec<&str> = listed.out.lines().collect();
    let id = json["id"].as_str().unwrap();
    assert!(lines[0].starts_with(&format!("s  {id}  ")), "{listed:?}");
    assert!(lines[0].ends_with("  0 9 * * 1-5 (Europe/Berlin)  Report"), "{listed:?}");
    assert_eq!(lines[1], "s  x  2099-01-02 09:00:00  once  Good morning");
    assert_eq!(run(&["schedules", "remove", "s", "x"]).code, 0);
    let gone = run(&["schedules", "remove", "s", "x"]);
    assert!(gone.code == 2 && gone.err.contains("has no schedule `x`"), "{gone:?}");

    let new = ["schedules", "add", "--new", "Say hi", "--in", "2h", "--model", "offline", "--json"];
    let added = run(&new);
    let json: Value = serde_json::from_str(&added.out).unwrap();
    let shown = run(&["sessions", "show", json["session"].as_str().unwrap()]);
    assert_eq!(shown.code, 0, "{shown:?}");

    for (args, says) in [
        (&["s", "x", "--cron", "nine"][..], "`nine` is no cron expression"),
        (&["s", "x", "--cron", "0 9 * * *", "--time-zone", "Moon/Base"], "no time zone"),
        (&["s", "x", "--at", "2001-01-01"], "choose a later one"),
        (&["s", "x", "--in", "soon"], "The value of --in is no duration"),
        (&["s", "--in", "2h"], "Give a session and a message"),
        (&["s", "x", "--new", "--in", "2h"], "there is only a message"),
        (&["none", "x", "--in", "2h"], "There is no session `none`"),
        (&["s", "x"], "--cron"),
        (&["s", "x", "--in", "2h", "--time-zone", "UTC"], "a time zone needs a cron"),
    ] {
        let refused = run(&[&["schedules", "add"][..], args].concat());
        assert!(refused.code == 2 && refused.err.contains(says), "{args:?}: {refused:?}");
    }
}

/// C533: `wake` fails if work is left over, and says which session has it.
#[test]
fn work_that_is_left_over_is_named() {
    let project = project();
    let folder = project.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let run = |args: &[&str]| BIN.run(&project, args);
    let root = folder.to_str().unwrap();
    let first = ["run", "--model", "offline", "--session", "s", "--root", root, "Hello"];
    assert_eq!(run(&first).code, 0);
    std::fs::remove_dir(&folder).unwrap();
    assert_eq!(run(&["schedules", "add", "s", "Report", "--in", "1s"]).code, 0);
    let start = Instant::now();
    loop {
        let woken = run(&["wake"]);
        if woken.code == 5 {
            assert!(woken.err.contains("Session s has work left over."), "{woken:?}");
            return;
        }
        assert!(woken.code == 0 && start.elapsed() < Duration::from_secs(60), "{woken:?}");
    }
}

/// C533: `wake` sends the messages whose time has come, with the settings of their sessions, and
/// says when the next is due. With `--watch` it does so until Ctrl-C.
#[test]
fn messages_are_sent_without_a_server() {
    let project = project();
    let run = |args: &[&str]| BIN.run(&project, args);
    let until_sent = || {
        let start = Instant::now();
        while !run(&["sessions", "show", "s"]).out.contains("The first one") {
            assert!(start.elapsed() < Duration::from_secs(60), "it was not sent");
        }
    };
    assert_eq!(run(&["run", "--model", "offline", "--session", "s", "Hello"]).code, 0);
    let idle = run(&["wake"]);
    assert!(idle.code == 0 && idle.err.contains("No agent sleeps"), "{idle:?}");
    assert_eq!(run(&["schedules", "add", "s", "The second one", "--in", "1h"]).code, 0);
    let waits = run(&["wake"]);
    assert!(waits.code == 0 && waits.err.contains("The next is due "), "{waits:?}");
    let id = run(&["schedules"]).out.split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(run(&["schedules", "remove", "s", &id]).code, 0);

    let watch = BIN.start(&project, &["wake", "--watch"]);
    assert_eq!(run(&["schedules", "add", "s", "The first one", "--in", "1s"]).code, 0);
    until_sent();
    watch.interrupt();
    assert_eq!(watch.end().code, 0);
    let shown = run(&["sessions", "show", "s"]).out;
    assert_eq!(shown.matches("The first one").count(), 1, "{shown}");
    assert!(!shown.contains("The second one"), "{shown}");
}
