//! A benchmark of the terminal app: `cargo bench -p loopwright-cli --bench terminal`, about a
//! minute.
//!
//! The real binary runs in a terminal that this program provides. A model server sends a hundred
//! thousand deltas as fast as they are read, while keys are pressed; a session of ten thousand
//! messages is opened and scrolled; an empty one is started. Times are measured at the other end of
//! the terminal, so they contain nothing of a terminal emulator's own work.
//!
//! Exits with code 1 if one of these bounds is exceeded (with `--quick`, for machines under load,
//! times may be four times as long):
//!
//! | | |
//! |---|---:|
//! | from exec to the first frame, median | 50 ms |
//! | frames in a second | 60 |
//! | from a key to the frame that shows it, while a reply streams, 95 of 100 | 50 ms |
//! | growth of the peak RAM by a reply of half a MiB | 128 MiB |
//! | cores in use, agent and transport included | 1 |
//! | opening 10,000 messages | 300 ms |
//! | from Page Up to its frame, 95 of 100 | 50 ms |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

mod flood;
mod pty;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, RunContext};
use loopwright_memory::Sqlite;
use loopwright_patterns::PiPattern;
use serde_json::json;

use flood::Kind;
use pty::Terminal;

const DELTAS: u64 = 100_000;
const MESSAGES: usize = 10_000;
/// Time for one-off work after the first frame.
const SETTLE_TIME: Duration = Duration::from_millis(500);
/// Letters that occur in no reply and no escape sequence.
const LETTERS: &str = "αβγδεζηθικλμνξοπρστυφχψω";

fn main() -> ExitCode {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let slack = if quick { 4.0 } else { 1.0 };
    let mut failures = Vec::new();
    let mut check = |what: &str, value: f64, bound: f64, unit: &str| {
        println!("| {what} | {value:.1} {unit} | {bound:.0} {unit} |");
        if value > bound {
            failures.push(format!("{what}: {value:.1} {unit}, more than {bound:.0} {unit}"));
        }
    };
    println!("| | measured | at most |\n|---|---:|---:|");
    check("from exec to the first frame, median", start(), 50.0 * slack, "ms");
    let parts = [
        ("Markdown", Kind::Markdown, DELTAS, None),
        ("code", Kind::Code, DELTAS, None),
        ("one line", Kind::Line, DELTAS, None),
        ("Markdown, 2,000 a second", Kind::Markdown, 10_000, Some(2_000.0)),
    ];
    for (name, kind, deltas, rate) in parts {
        let flood = stream(kind, deltas, rate);
        println!(
            "| {name}: {deltas} deltas | {:.2} s, {:.2} cores, {} keys | |",
            flood.seconds, flood.cores, flood.keys
        );
        check(
            &format!("{name}: frames, of 60 a second"),
            flood.frames,
            flood.seconds * 60.0 + 2.0,
            "",
        );
        check(&format!("{name}: key to frame, 95 of 100"), flood.key_ms, 50.0 * slack, "ms");
        check(
            &format!("{name}: RAM it takes"),
            flood.bytes * deltas as f64 / 1048576.0,
            128.0,
            "MiB",
        );
        check(&format!("{name}: hundredths of a core"), flood.cores * 100.0, 100.0, "");
    }
    let long = long_session();
    check(
        &format!("{MESSAGES} messages: exec to the frame with the last"),
        long.open_ms,
        300.0 * slack,
        "ms",
    );
    check("Page Up to its frame, 95 of 100", long.page_ms, 50.0 * slack, "ms");
    println!(
        "| CPU per Page Up | {:.2} ms | |\n| its RAM | {:.0} MiB | |",
        long.page_cpu_ms, long.mib
    );
    failures.iter().for_each(|what| println!("Failed: {what}"));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures the median time to the first frame, in milliseconds.
fn start() -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let times = (0..21).map(|_| {
        let mut terminal = Terminal::start(dir.path(), &["--model", "offline"]);
        (terminal.until_frame() - terminal.started).as_secs_f64() * 1000.0
    });
    part(times.collect(), 0.5)
}

struct Flood {
    seconds: f64,
    keys: usize,
    cores: f64,
    frames: f64,
    key_ms: f64,
    bytes: f64,
}

/// Measures a reply at full speed, with a key every few milliseconds.
fn stream(kind: Kind, deltas: u64, rate: Option<f64>) -> Flood {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}/v1", flood::serve(kind, deltas, rate));
    let mut terminal = Terminal::start(dir.path(), &["--model", "local/flood", "--base-url", &url]);
    terminal.until_frame();
    terminal.press("Щ");
    terminal.until("Щ");
    // One-off work, such as loading the languages, is done by then.
    terminal.watch(SETTLE_TIME);
    let cpu = terminal.cpu();
    let frames = terminal.frames;
    let ram = terminal.peak_mib();
    let started = terminal.press("\r");
    let mut keys = Vec::new();
    let last = flood::LAST.to_string();
    for letter in LETTERS.chars().cycle().map(|letter| letter.to_string()) {
        let pressed = terminal.press(&letter);
        let came = terminal.wait(&[&last, &letter], Duration::from_secs(60));
        match came.expect("the reply ends") {
            (0, _) => break,
            (_, time) => keys.push((time - pressed).as_secs_f64() * 1000.0),
        }
        if terminal.wait(&[&last], Duration::from_millis(5)).is_some() {
            break;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Flood {
        seconds,
        keys: keys.len(),
        cores: (terminal.cpu() - cpu) / seconds,
        frames: (terminal.frames - frames) as f64,
        key_ms: part(keys, 0.95),
        bytes: (terminal.peak_mib() - ram) * 1024.0 * 1024.0 / deltas as f64,
    }
}

struct Long {
    open_ms: f64,
    page_ms: f64,
    page_cpu_ms: f64,
    mib: f64,
}

/// Measures opening and scrolling a session of many messages.
fn long_session() -> Long {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let mut terminal = Terminal::start(dir.path(), &["--model", "offline", "--session", "long"]);
    let open_ms =
        (terminal.until(&flood::LAST.to_string()) - terminal.started).as_secs_f64() * 1000.0;
    terminal.watch(SETTLE_TIME);
    let cpu = terminal.cpu();
    let pages = 200;
    let times = (0..pages).map(|_| {
        let pressed = terminal.press("\x1b[5~");
        (terminal.until_frame() - pressed).as_secs_f64() * 1000.0
    });
    let page_ms = part(times.collect(), 0.95);
    Long {
        open_ms,
        page_ms,
        page_cpu_ms: (terminal.cpu() - cpu) * 1000.0 / f64::from(pages),
        mib: terminal.peak_mib(),
    }
}

/// Writes the long session: questions, and answers with lists and code.
fn write(dir: &std::path::Path) {
    let started = Instant::now();
    let answer = "Some **words**, then:\n\n- one\n- two\n\n\
                  ```rust\nfn main() {\n    println!(\"hello\");\n}\n```\n";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(dir.join("sessions.db")).unwrap();
        let model = ScriptedModel::new([]).default_reply(Script::text(answer)).discard_requests();
        let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
        // Without settings, it would be another program's session, which the binary only shows.
        let cx = RunContext::new().settings(json!({ "model": "offline" }));
        let cx = cx.stored(&store, "long").await.unwrap();
        let (handle, events) = agent.run(cx).await.unwrap();
        drop(events);
        for number in 1..=MESSAGES / 2 {
            let mark = if number == MESSAGES / 2 { flood::LAST } else { '?' };
            handle.prompt(format!("question {number} {mark}")).await.unwrap();
        }
    });
    println!("| (writing {MESSAGES} messages took {:.1} s) | | |", started.elapsed().as_secs_f64());
}

/// Returns the value that this part of all values does not exceed.
fn part(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
