//! `loopwright serve` under load: `cargo bench -p loopwright-cli --bench serve`, about eight
//! minutes on a quiet machine.
//!
//! Each delta contains the time when the mock model server sent it, from which the client computes
//! its latency. Every delta counts, including deltas sent while runs still start. Mock, server and
//! client are separate processes on the same machine; mock and client have one thread each.
//!
//! The words select parts:
//!
//! - `runs`: runs that are not stored, in turns with a relay, which is axum without loopwright that
//!   reads the same mock and sends a frame for each delta.
//! - `burst`: the same, but all runs start at once.
//! - `search`: the rate at which 99 of 100 deltas no longer arrive in time.
//! - `sessions`: runs of as many sessions, which are stored, with a reader each.
//! - `readers`: many readers of one session, in turns with a broadcast, which is axum without
//!   loopwright that sends the same deltas to as many readers.
//! - `idle`: event streams in silence.
//! - `list`: the list of many sessions.
//!
//! The exit code is 1 if one of these bounds is exceeded. Of repeated measurements, the median
//! counts.
//!
//! | | | `--quick` |
//! |---|---:|---:|
//! | runs at a time, of 10 deltas per second | 1,000 | 250 |
//! | of which fail | 0 | 0 |
//! | 99 of 100 deltas arrive, also in a burst and in sessions, within | 50 ms | 250 ms |
//! | deltas arrive at least at this share of the rate | 95 % | 80 % |
//! | CPU time per delta of a run, compared with the relay | 2 × | 3 × |
//! | readers of one session, of 10 deltas per second | 2,000 | 500 |
//! | of which miss a delta | 0 | 0 |
//! | 99 of 100 deltas arrive at readers within | 100 ms | 250 ms |
//! | CPU time per delta and reader, compared with the broadcast | 1.3 × | 2 × |
//! | idle event streams held | 10,000 | 1,000 |
//! | of which end, or lack a heartbeat in any 15 s | 0 | 0 |
//! | resident memory of an idle stream | 16 KiB | 24 KiB |
//! | sessions in the list | 10,000 | 1,000 |
//! | first page, of 100 sessions | 64 KiB, 20 ms | 64 KiB, 100 ms |
//! | all pages, of 1,000 sessions each | 512 bytes per session, 1 s | 512 bytes per session, 1 s |
//!
//! `--quick` is for busy machines, takes a minute, and skips the search. The limit on open files
//! (`ulimit -Hn`) must be 100 above the number of streams.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

mod bounds;
mod client;
mod idle;
mod list;
mod mock;
mod parts;
mod process;
mod reference;
mod runs;
mod sessions;

use std::io::Read;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};

use bounds::{FULL, QUICK};

/// The allocator of the binary `loopwright`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["mock"] => mock::serve(),
        ["relay", mock] => reference::relay(mock.parse().unwrap()),
        ["broadcast", mock] => reference::broadcast(mock.parse().unwrap()),
        _ => return measure(&args),
    }
    ExitCode::SUCCESS
}

fn measure(args: &[&str]) -> ExitCode {
    let quick = args.contains(&"--quick");
    let parts: Vec<&str> = args.iter().filter(|arg| !arg.starts_with('-')).copied().collect();
    let bounds = if quick { QUICK } else { FULL };
    let limit = files();
    assert!(
        limit >= bounds.streams + 100,
        "{limit} files may be open, too few for {} streams",
        bounds.streams
    );
    let broken = runtime().block_on(parts::all(&bounds, |part| {
        if parts.is_empty() { part != "search" || !quick } else { parts.contains(&part) }
    }));
    broken.iter().for_each(|what| println!("Not held: {what}"));
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// Ends this process when its standard input closes.
fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
}

/// Raises the limit on open files of this process and its children to the maximum, and returns it.
fn files() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}
