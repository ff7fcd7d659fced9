//! The chat on a pseudo-terminal, whose other end the test holds.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Instant;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{LockedStore, Output, STORE, project};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;
use crate::questions::waits_for_a_secret;

const TAKEN: &str = "\x1b[?1049h";
const LEAVE_ALTERNATE_SCREEN: &str = "\x1b[?1049l";
/// The start of a frame.
const FRAME: &str = "\x1b[?2026h";

/// `loopwright` on a terminal.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Output,
    /// The screen as a user sees it.
    seen: vt100::Parser,
    /// The terminal's end, to read its modes after the process has exited.
    other: OwnedFd,
}

impl Terminal {
    fn start(dir: &TempDir, args: &[&str]) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let other = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        tcsetwinsize(&other, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", env!("CARGO_BIN_EXE_loopwright")])
            .args(args)
            .current_dir(dir.path())
            .env_clear();
        command.env("LOOPWRIGHT_STORE", dir.path().join(STORE)).env("TERM", "xterm");
        command.env("EDITOR", "sed -i s/Alpha/OMEGA/").env("PATH", "/usr/bin:/bin");
        let end = || other.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        let screen = Output::of(File::from(ours.try_clone().unwrap()));
        let seen = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
        Terminal { child, keyboard: ours.into(), screen, seen, other: other.into() }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the screen shows `text`: the output has only the cells that changed.
    fn until_seen(&mut self, text: &str) {
        while !self.seen.screen().contents().contains(text) {
            self.seen.process(self.screen.more());
        }
    }

    /// Returns whether the terminal is in line mode, as a shell expects.
    fn is_cooked(&self) -> bool {
        tcgetattr(&self.other).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    fn signal(&self, signal: &str) {
        let sent =
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    fn ends(&mut self) -> i32 {
        let status = self.child.wait().unwrap();
        status.code().unwrap_or_else(|| 1000 + status.signal().unwrap_or_default())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

/// C156: What is typed for a secret is not shown, and the terminal shows what is typed afterwards.
#[test]
fn a_secret_is_not_shown_while_it_is_typed() {
    for interrupts in [false, true] {
        let project = project();
        waits_for_a_secret(&project);
        let listed = BIN.run(&project, &["actions", "--json"]);
        let action: Value = serde_json::from_str(&listed.out).unwrap();
        let call = action["call"].as_str().unwrap();
        let mut terminal = Terminal::start(&project, &["answer", "s", call, "--model", "offline"]);
        terminal.screen.until("The password?");
        terminal.screen.until("it is not shown:");
        assert!(!terminal.is_cooked());
        terminal.types(if interrupts { "\x03" } else { "hunter2\r" });
        assert_eq!(terminal.ends(), if interrupts { 130 } else { 0 });
        assert!(terminal.is_cooked());
        assert!(!terminal.screen.so_far().contains("hunter2"));
        let log = BIN.run(&project, &["sessions", "export", "s"]);
        assert_eq!(log.out.contains("hunter2"), !interrupts);
    }
}

/// C131: the first frame appears before a session or a model is opened. If one cannot be opened,
/// the screen shows the error, and another can be chosen.
#[test]
fn the_first_frame_is_drawn_first_and_failures_are_shown_in_it() {
    let project = project();
    let mut terminal = Terminal::start(&project, &["--model", "nobody/knows"]);
    terminal.screen.until(TAKEN);
    terminal.screen.until("Opening");
    terminal.screen.until("nobody");
    terminal.types("/model offline\r");
    terminal.screen.until("offline/rules");
    terminal.types("Read Cargo.toml\r");
    terminal.screen.until("sheep");
    terminal.types("\x03\x03");
    terminal.screen.until(LEAVE_ALTERNATE_SCREEN);
    terminal.screen.until("--session");
    assert_eq!(terminal.ends(), 0);
    assert!(terminal.is_cooked());
}

/// C132: SIGTERM and SIGHUP restore the terminal and exit with the usual code. The session can be
/// continued; its run is marked as interrupted.
#[test]
fn signals_give_the_terminal_back_and_leave_a_session_to_go_on_with() {
    let project = project();
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let server = Server::start();
        let mut terminal = Terminal::start(
            &project,
            &["--session", "a", "--model", "openai/x", "--base-url", &server.url],
        );
        terminal.screen.until("openai/x");
        terminal.types("Hello\r");
        let mut request = server.request();
        request.begin();
        request.text("Beginning");
        terminal.screen.until("Beginning");
        assert!(!terminal.is_cooked());
        terminal.signal(signal);
        terminal.screen.until(LEAVE_ALTERNATE_SCREEN);
        terminal.screen.until("--session a");
        assert_eq!(terminal.ends(), code);
        assert!(terminal.is_cooked());
    }
    let shown = BIN.run(&project, &["sessions", "list", "--json"]);
    assert!(shown.out.contains("\"run\":"), "{shown:?}");
    let mut terminal = Terminal::start(&project, &["--session", "a", "--model", "offline"]);
    terminal.screen.until("interrupted:");
}

/// C133: a call is approved on the screen, unchanged or edited in `$EDITOR`, which gets the
/// terminal; an edit is shown as the diff that it would make.
#[test]
fn an_edit_is_shown_and_confirmed() {
    let project = project();
    std::fs::write(project.path().join("a.txt"), "alpha\nbeta\n").unwrap();
    let server = Server::start();
    let mut terminal =
        Terminal::start(&project, &["--model", "openai/x", "--base-url", &server.url]);
    terminal.until_seen("openai/x");
    terminal.types("Shout\r");
    let edit = json!({ "path": "a.txt", "old_string": "beta", "new_string": "BETA" });
    server.request().call(&[("edit_file", edit)]);
    terminal.until_seen("edit_file?");
    terminal.until_seen("alpha");
    terminal.until_seen("BETA");
    assert!(!std::fs::read_to_string(project.path().join("a.txt")).unwrap().contains("BETA"));
    terminal.until_seen("› y yes"); // keys are accepted
    terminal.types("y");
    let request = server.request();
    assert_eq!(std::fs::read_to_string(project.path().join("a.txt")).unwrap(), "alpha\nBETA\n");
    let edit = json!({ "path": "a.txt", "old_string": "alpha", "new_string": "Alpha" });
    request.call(&[("edit_file", edit)]);
    terminal.until_seen("Alpha");
    terminal.until_seen("› y yes");
    terminal.types("e"); // the editor is `sed`
    terminal.until_seen("your changes?");
    assert_eq!(std::fs::read_to_string(project.path().join("a.txt")).unwrap(), "alpha\nBETA\n");
    terminal.until_seen("› y yes");
    terminal.types("y");
    let request = server.request();
    assert_eq!(std::fs::read_to_string(project.path().join("a.txt")).unwrap(), "OMEGA\nBETA\n");
    request.say("Done.");
    terminal.until_seen("Done.");
}

/// C133: of two edits in one reply, the second is shown as its change after the first.
#[test]
fn an_edit_is_shown_as_of_when_its_turn_comes() {
    let project = project();
    std::fs::write(project.path().join("a.txt"), "alpha\n").unwrap();
    let server = Server::start();
    let mut terminal =
        Terminal::start(&project, &["--model", "openai/x", "--base-url", &server.url]);
    terminal.until_seen("openai/x");
    terminal.types("Rename\r");
    let edit =
        |old: &str, new: &str| json!({ "path": "a.txt", "old_string": old, "new_string": new });
    server
        .request()
        .call(&[("edit_file", edit("alpha", "beta")), ("edit_file", edit("beta", "gamma"))]);
    terminal.until_seen("1 of 2");
    terminal.until_seen("+ beta");
    terminal.until_seen("› y yes");
    terminal.types("y");
    terminal.until_seen("2 of 2");
    terminal.until_seen("1 + gamma"); // with its number: a diff of the file
    terminal.until_seen("› y yes");
    terminal.types("y");
    server.request().say("Done.");
    terminal.until_seen("Done.");
    assert_eq!(std::fs::read_to_string(project.path().join("a.txt")).unwrap(), "gamma\n");
}

/// C485: an approval of a change that is no longer the one shown does not run the call; the model
/// makes it again, and the user sees the change that it would make now.
#[test]
fn a_change_that_is_not_the_one_shown_is_not_made() {
    let project = project();
    let file = project.path().join("a.txt");
    std::fs::write(&file, "alpha\nbeta\n").unwrap();
    let server = Server::start();
    let mut terminal =
        Terminal::start(&project, &["--model", "openai/x", "--base-url", &server.url]);
    terminal.until_seen("openai/x");
    terminal.types("Shout\r");
    let edit = json!({ "path": "a.txt", "old_string": "beta", "new_string": "BETA" });
    server.request().call(&[("edit_file", edit.clone())]);
    terminal.until_seen("+ BETA");
    std::fs::write(&file, "alpha\nbeta, theirs\n").unwrap();
    terminal.until_seen("› y yes");
    terminal.types("y");
    let request = server.request();
    assert!(request.last().contains("It has not run"), "{}", request.last());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "alpha\nbeta, theirs\n");
    request.call(&[("edit_file", edit)]);
    terminal.until_seen("+ BETA, theirs");
    terminal.until_seen("› y yes");
    terminal.types("y");
    server.request().say("Done.");
    terminal.until_seen("Done.");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "alpha\nBETA, theirs\n");
}

/// C134: at most sixty frames a second are drawn, however fast the model streams.
#[test]
fn a_flood_of_text_is_drawn_at_no_more_than_sixty_frames_a_second() {
    let project = project();
    let server = Server::start();
    let mut terminal =
        Terminal::start(&project, &["--model", "openai/x", "--base-url", &server.url]);
    terminal.screen.until("openai/x");
    terminal.types("Speak\r");
    let mut request = server.request();
    request.begin();
    let began = Instant::now();
    let before = terminal.screen.so_far().matches(FRAME).count();
    for _ in 0..5_000 {
        request.text("word after word ");
    }
    request.text("\n\nTHE-END");
    request.end("stop");
    terminal.screen.until("THE-END");
    let max_frames = began.elapsed().as_secs_f64() * 60.0 + 5.0; // a few may have been in flight
    let frames = terminal.screen.so_far().matches(FRAME).count() - before;
    assert!(frames as f64 <= max_frames && frames > 0, "{frames} frames, {max_frames} are allowed");
}

#[test]
fn a_repair_is_reported_once() {
    let project = project();
    let kept = ["--store", "kept/", "--session", "a", "--model", "offline"];
    BIN.run(&project, &[&["run"], &kept[..], &["Hello"]].concat());
    let log = project.path().join("kept/a.jsonl");
    let log = File::options().write(true).open(log).unwrap();
    log.set_len(log.metadata().unwrap().len() - 6).unwrap(); // the last append is cut off
    let mut terminal = Terminal::start(&project, &kept);
    terminal.until_seen("offline/rules");
    terminal.types("Read Cargo.toml\r");
    terminal.until_seen("sheep");
    let seen = terminal.seen.screen().contents();
    assert_eq!(seen.matches("bytes of").count(), 1, "{seen}");
}

/// A terminal that waits for another process, which has locked the store, can be left.
#[test]
fn ctrl_c_leaves_a_terminal_that_waits_for_a_lock() {
    let project = project();
    let locked = LockedStore::new(&project);
    let args = ["--model", "offline", "--store", "locked/", "--session", "s"];
    let mut terminal = Terminal::start(&project, &args);
    terminal.screen.until(TAKEN);
    locked.until_tried();
    terminal.types("\x03\x03");
    assert_eq!(terminal.ends(), 0, "it would end with an error after the wait");
}
