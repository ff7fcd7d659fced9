//! How fast replies are read, beside `eventsource-stream` and a `serde_json::Value` per event:
//! `cargo bench --bench parser`, or `cargo bench --bench parser -- --quick`.
//!
//! Both read the recordings of `$LOOPWRIGHT_SHARED/wire` (by default `shared` beside the
//! repository) in the same chunks, in turns: as packets of 1 to 4 KiB, and event by event. Ours
//! ends with model events, theirs with values nobody has looked into. One table comes of it, and
//! exit code 1 where we are less than three times as fast (twice with `--quick`, for busy
//! machines). The allocator is the default one, as a library's user has it; a faster one helps
//! theirs more, as ours hardly allocates. Words after `--` choose wire formats by their folders. To
//! look at ours alone, under a profiler: `parser ours FORMAT TIMES`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures::{FutureExt, StreamExt};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Endpoint, ReplyBody, WireFormat};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// A wire format's folder, and how we read its replies.
type Format = (&'static str, fn(&[Body]));

const FORMATS: [Format; 4] = [
    ("openai-chat", ours::<ChatCompletions>),
    ("openai-responses", ours::<Responses>),
    ("anthropic", ours::<Messages>),
    ("gemini", ours::<GenerateContent>),
];

/// A body in the chunks in which it comes.
type Body = Vec<Vec<u8>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name, times] = args.as_slice()
        && word == "ours"
    {
        return alone(name, times.parse().unwrap());
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let chosen: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let (rounds, round, least) = if quick { (9, 10, 2.0) } else { (41, 40, 3.0) };
    let mut slow = Vec::new();
    println!(
        "| medians of {rounds} rounds | MB/s | µs per event | theirs: MB/s | µs per event | times as fast |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, ours) in
        FORMATS.iter().filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|one| one == name))
    {
        let bodies = recordings(name);
        for (how, split) in [("packets", packets as fn(&[u8]) -> Body), ("events", events)] {
            let bodies: Vec<Body> = bodies.iter().map(|body| split(body)).collect();
            let times = measure(*ours, &bodies, rounds, Duration::from_millis(round));
            let size: usize = bodies.iter().flatten().map(Vec::len).sum();
            let events_read = theirs(&bodies);
            let speed = |time: f64| {
                format!("{:.0} | {:.2}", size as f64 / time / 1e6, time * 1e6 / events_read as f64)
            };
            println!(
                "| {name}, {how} | {} | {} | {:.2} |",
                speed(times.ours),
                speed(times.theirs),
                times.ratio
            );
            if times.ratio < least {
                slow.push(format!(
                    "{name}, {how}: {:.2} times as fast, less than {least}",
                    times.ratio
                ));
            }
        }
    }
    slow.iter().for_each(|line| println!("{line}"));
    if slow.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ours without theirs, and without the clock.
fn alone(format: &str, times: usize) -> ExitCode {
    let bodies: Vec<Body> = recordings(format).iter().map(|body| events(body)).collect();
    let (_, ours) = FORMATS.iter().find(|(name, _)| *name == format).unwrap();
    (0..times).for_each(|_| ours(&bodies));
    ExitCode::SUCCESS
}

/// Reads all bodies as a model does.
fn ours<F: WireFormat>(bodies: &[Body]) {
    let endpoint = Arc::new(Endpoint::default());
    for chunks in bodies {
        let (mut body, mut out) = (ReplyBody::new(F::decoder(endpoint.clone())), VecDeque::new());
        for chunk in chunks {
            body.push(black_box(chunk), &mut out);
            while let Some(event) = out.pop_front() {
                drop(black_box(event));
            }
        }
        body.finish(&mut out);
        black_box(out);
    }
}

/// Reads all bodies with the common crates. Gives the number of events.
fn theirs(bodies: &[Body]) -> usize {
    let mut events_read = 0;
    for chunks in bodies {
        let chunks = chunks.iter().map(|chunk| Ok::<_, Infallible>(black_box(chunk)));
        let mut events = futures::stream::iter(chunks).eventsource();
        while let Some(Ok(event)) = events.next().now_or_never().flatten() {
            events_read += 1;
            drop(black_box(serde_json::from_str::<Value>(&event.data)));
        }
    }
    events_read
}

/// Medians, in seconds for all bodies once.
struct Times {
    ours: f64,
    theirs: f64,
    /// Of the ratios within a round, which what else the machine does disturbs least.
    ratio: f64,
}

/// Both in turns, each for about half of `round`, after a round that does not count.
fn measure(ours: fn(&[Body]), bodies: &[Body], rounds: usize, round: Duration) -> Times {
    let time = |work: &dyn Fn(), times: u32| {
        let start = cpu();
        (0..times).for_each(|_| work());
        (cpu() - start).as_secs_f64() / f64::from(times)
    };
    let (ours, theirs) = (|| ours(bodies), || assert!(theirs(bodies) > 0));
    let times = |work: &dyn Fn()| ((round.as_secs_f64() / 2.0 / time(work, 3)) as u32).max(1);
    let (n, m) = (times(&ours), times(&theirs));
    let mut all: Vec<(f64, f64)> =
        (0..=rounds).map(|_| (time(&ours, n), time(&theirs, m))).collect();
    all.remove(0);
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Times { ours: median(|t| t.0), theirs: median(|t| t.1), ratio: median(|t| t.1 / t.0) }
}

/// The processor time that this thread has had: what else the machine does counts little.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The recorded bodies of a wire format.
fn recordings(format: &str) -> Vec<Vec<u8>> {
    let shared =
        std::env::var_os("LOOPWRIGHT_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(shared).join("wire").join(format);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sse"));
    paths.sort();
    assert!(!paths.is_empty(), "there is no recording in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Chunks of 1 to 4 KiB, of lengths that are the same each time.
fn packets(mut body: &[u8]) -> Body {
    let mut chunks = Vec::new();
    for length in (0..).map(|n| 1024 + n * 1021 % 3073) {
        if body.is_empty() {
            break;
        }
        let (chunk, rest) = body.split_at(length.min(body.len()));
        chunks.push(chunk.to_vec());
        body = rest;
    }
    chunks
}

/// A chunk for each event, with its blank line.
fn events(body: &[u8]) -> Body {
    let mut chunks = vec![Vec::new()];
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        chunks.last_mut().unwrap().extend_from_slice(line);
        if line.trim_ascii().is_empty() {
            chunks.push(Vec::new());
        }
    }
    chunks.retain(|chunk| !chunk.is_empty());
    chunks
}
