//! `loopwright serve` under load: `cargo bench -p loopwright-cli --bench serve`, about four minutes
//! on a quiet machine.
//!
//! Runs stream through the server, and beside it of the mock model server directly; each delta says
//! when the mock sent it, so the client knows how long it was on its way, and every delta counts,
//! those sent while runs still begin too. Mock, server and client are processes of their own and
//! share the machine; mock and client have a thread each. Then the rate is looked for at which 99
//! of 100 deltas no longer come within 50 ms, and idle streams are held.
//!
//! Exit code 1 if one of these does not hold:
//!
//! | | | `--quick` |
//! |---|---:|---:|
//! | runs at a time, of 10 deltas per second | 1,000 | 250 |
//! | of which fail | 0 | 0 |
//! | 99 of 100 deltas come through the server within | 50 ms | 250 ms |
//! | deltas come at this part of the rate at least | 95 % | 80 % |
//! | idle event streams held | 10,000 | 1,000 |
//! | of which end, or lack a heartbeat in any 15 s | 0 | 0 |
//!
//! `--quick` is for machines that do other work too, takes half a minute, and looks for no rate.
//! The words `runs`, `search` and `idle` choose parts. It needs as many open files as streams, and
//! 100 more: `ulimit -Hn`.
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
use runs::{Asked, Load, Measured, measure};

/// The allocator of the binary `loopwright`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What must hold.
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
/// How long the runs of one step of the search stream.
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

/// Measures the parts that are wanted, and says which bounds do not hold.
async fn all(bounds: &Bounds, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mock = Process::mock();
    let mut broken = Vec::new();
    if wanted("runs") || wanted("search") {
        let server = Process::server(dir.path());
        let direct = Asked { server: None, mock: &mock };
        let through = Asked { server: Some((&server, dir.path().to_str().unwrap())), mock: &mock };
        // What is made once, at first use, is no run's.
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

/// The same load of the mock directly and through the server; what came through the server.
async fn both(direct: &Asked<'_>, through: &Asked<'_>, load: Load) -> Measured {
    let beside = measure(direct, load).await;
    row("direct", &beside);
    let measured = measure(through, load).await;
    row("server", &measured);
    measured
}

fn row(way: &str, measured: &Measured) {
    let Load { runs, rate, .. } = measured.load;
    let ([server, mock, client], delay) = (measured.cores, |part| measured.delay(part));
    // Only the first runs of a server take new memory; later ones use that again.
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
    if let Some(why) = &measured.why {
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

/// The highest rate of each run that holds the bounds, to an eighth: doubled until one breaks, then
/// halved in between.
async fn search(direct: &Asked<'_>, through: &Asked<'_>, bounds: &Bounds) -> f64 {
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

/// Nanoseconds of the machine's clock, which all processes share.
fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One thread.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A free port that many may ask for at the same time.
fn listen() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    socket.listen(4096).unwrap()
}

/// Lets this process, and those it starts, open as many files as it may; gives how many.
fn files() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}
