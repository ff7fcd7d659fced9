//! `loopwright serve` under load: `cargo bench -p loopwright-cli --bench serve`, about four minutes
//! on a quiet machine.
//!
//! Runs stream through the server, and for comparison directly from the mock model server. Each
//! delta contains the time when the mock sent it, from which the client computes its latency; every
//! delta counts, including those sent while runs still start. Mock, server and client are separate
//! processes on the same machine; mock and client have one thread each. Further parts search for
//! the rate at which 99 of 100 deltas no longer arrive within 50 ms, and hold idle streams.
//!
//! The exit code is 1 if one of these bounds is exceeded:
//!
//! | | | `--quick` |
//! |---|---:|---:|
//! | runs at a time, of 10 deltas per second | 1,000 | 250 |
//! | of which fail | 0 | 0 |
//! | 99 of 100 deltas arrive through the server within | 50 ms | 250 ms |
//! | deltas arrive at least at this share of the rate | 95 % | 80 % |
//! | idle event streams held | 10,000 | 1,000 |
//! | of which end, or lack a heartbeat in any 15 s | 0 | 0 |
//!
//! `--quick` is for busy machines, takes half a minute, and skips the search. The words `runs`,
//! `search` and `idle` select parts. The limit on open files (`ulimit -Hn`) must be 100 above the
//! number of streams.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

mod client;
mod idle;
mod mock;
mod process;
mod runs;

use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

use process::Process;
use runs::{Load, Measured, Target, measure};

/// The allocator of the binary `loopwright`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The bounds of the figures.
struct Bounds {
    runs: u64,
    time: Duration,
    delay_ms: f64,
    part_of_rate: f64,
    streams: u64,
    heartbeats: u32,
}

const FULL: Bounds = Bounds {
    runs: 1_000,
    time: Duration::from_secs(10),
    delay_ms: 50.0,
    part_of_rate: 0.95,
    streams: 10_000,
    heartbeats: 2,
};
const QUICK: Bounds = Bounds {
    runs: 250,
    time: Duration::from_secs(4),
    delay_ms: 250.0,
    part_of_rate: 0.8,
    streams: 1_000,
    heartbeats: 1,
};
/// Deltas per second of a run.
const RATE: f64 = 10.0;
/// The time for which the runs of one step of the search stream.
const STEP: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "mock") {
        mock::serve();
        return ExitCode::SUCCESS;
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let parts: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let bounds = if quick { QUICK } else { FULL };
    let limit = files();
    assert!(
        limit >= bounds.streams + 100,
        "{limit} files may be open, too few for {} streams",
        bounds.streams
    );
    let broken = runtime().block_on(all(&bounds, |part| {
        if parts.is_empty() { part != "search" || !quick } else { parts.contains(&part) }
    }));
    broken.iter().for_each(|what| println!("Not held: {what}"));
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures the selected parts, and returns the bounds that are exceeded.
async fn all(bounds: &Bounds, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mock = Process::mock();
    let mut broken = Vec::new();
    if wanted("runs") || wanted("search") {
        let server = Process::server(dir.path());
        let direct = Target { server: None, mock: &mock };
        let through = Target { server: Some((&server, dir.path().to_str().unwrap())), mock: &mock };
        // Excludes one-off allocations at first use.
        measure(&through, Load { runs: 20, rate: RATE, time: Duration::from_secs(1) }).await;
        println!(
            "| runs × deltas/s | way | deltas/s | failed | p50 ms | p99 ms | max ms | KiB/run \
             | cores: server | mock | client |"
        );
        println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
        if wanted("runs") {
            let load = Load { runs: bounds.runs, rate: RATE, time: bounds.time };
            let measured = both(&direct, &through, load).await;
            broken.extend(misses(&measured, bounds));
        }
        if wanted("search") {
            let max_rate = search(&direct, &through, bounds).await;
            println!(
                "\n{} runs keep p99 under {} ms up to {max_rate:.0} deltas/s of each, \
                 {:.0} in all.",
                bounds.runs,
                bounds.delay_ms,
                max_rate * bounds.runs as f64
            );
        }
    }
    if wanted("idle") {
        let server = Process::server(dir.path());
        broken.extend(hold(&server, bounds).await);
    }
    broken
}

/// Puts the same load on the mock directly and on the server; returns the figures of the server.
async fn both(direct: &Target<'_>, through: &Target<'_>, load: Load) -> Measured {
    let beside = measure(direct, load).await;
    row("direct", &beside);
    let measured = measure(through, load).await;
    row("server", &measured);
    measured
}

fn row(way: &str, measured: &Measured) {
    let Load { runs, rate, .. } = measured.load;
    let ([server, mock, client], delay) = (measured.cores, |part| measured.delay(part));
    // Only the first runs of a server allocate new memory; later ones reuse it.
    let first = way == "server" && rate == RATE;
    let kib = if first { format!("{:.0}", measured.kib_per_run) } else { String::new() };
    println!(
        "| {runs} × {rate:.0} | {way} | {:.0} | {} | {:.2} | {:.2} | {:.1} | {kib} \
         | {server:.2} | {mock:.2} | {client:.2} |",
        measured.rate,
        measured.failed,
        delay(0.5),
        delay(0.99),
        delay(1.0),
    );
    if let Some(why) = &measured.failure {
        println!("    the first that failed: {why}");
    }
}

fn misses(measured: &Measured, bounds: &Bounds) -> Vec<String> {
    let (p99, wanted) = (measured.delay(0.99), measured.load.rate * measured.load.runs as f64);
    let mut misses = Vec::new();
    if measured.failed > 0 {
        misses.push(format!("{} of {} runs failed.", measured.failed, measured.load.runs));
    }
    if p99 > bounds.delay_ms {
        misses.push(format!(
            "99 of 100 deltas came within {p99:.1} ms, which must be {} at most.",
            bounds.delay_ms
        ));
    }
    if measured.rate < wanted * bounds.part_of_rate {
        misses.push(format!("{:.0} deltas came per second of {wanted:.0}.", measured.rate));
    }
    misses
}

/// Returns the highest rate per run within the bounds, to an eighth: doubles it until a bound is
/// exceeded, then bisects.
async fn search(direct: &Target<'_>, through: &Target<'_>, bounds: &Bounds) -> f64 {
    let step = async |rate| {
        let measured = both(direct, through, Load { runs: bounds.runs, rate, time: STEP }).await;
        misses(&measured, bounds).is_empty()
    };
    let (mut good, mut bad) = (0.0, 2.0 * RATE);
    while step(bad).await {
        (good, bad) = (bad, 2.0 * bad);
    }
    for _ in 0..3 {
        let rate = (good + bad) / 2.0;
        if step(rate).await { good = rate } else { bad = rate }
    }
    good
}

async fn hold(server: &Process, bounds: &Bounds) -> Vec<String> {
    let held = idle::hold(server, bounds.streams, bounds.heartbeats).await;
    println!(
        "\n| idle streams | opened in s | lost | without heartbeat | heartbeats | KiB/stream \
         | KiB/session | cores: server | client |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    println!(
        "| {} | {:.1} | {} | {} | {} | {:.1} | {:.1} | {:.2} | {:.2} |",
        held.streams,
        held.opened_in.as_secs_f64(),
        held.lost,
        held.silent,
        held.heartbeats,
        held.kib_per_stream,
        held.kib_per_session,
        held.cores,
        held.client
    );
    let bad = |count, what| {
        (count > 0).then(|| format!("{count} of {} idle streams {what}.", bounds.streams))
    };
    [bad(held.lost, "were refused or ended"), bad(held.silent, "lacked a heartbeat")]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns the nanoseconds of the machine's monotonic clock, which all processes share.
fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns a single-threaded runtime.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Listens on a free port with a long backlog.
fn listen() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    socket.listen(4096).unwrap()
}

/// Raises the limit on open files of this process and its children to the maximum, and returns it.
fn files() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}
