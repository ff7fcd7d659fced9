//! The parts, each with processes of its own.

use std::path::Path;
use std::time::Duration;

use crate::bounds::{Bounds, median};
use crate::process::{Process, STORE};
use crate::runs::{Load, Measured, Target, Way};
use crate::{idle, list, sessions};

/// Deltas per second of a run.
const RATE: f64 = 10.0;
/// The time for which the runs of one step of the search stream.
const STEP: Duration = Duration::from_secs(4);

/// Measures the selected parts, and returns the bounds that are exceeded.
pub(crate) async fn all(bounds: &Bounds, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut broken = Vec::new();
    let part = |name: &str| {
        let dir = wanted(name).then(|| dir.path().join(name));
        dir.inspect(|dir| std::fs::create_dir(dir).unwrap())
    };
    if let Some(dir) = part("runs") {
        broken.extend(runs(&dir, bounds).await);
    }
    if let Some(dir) = part("burst") {
        broken.extend(burst(&dir, bounds).await);
    }
    if let Some(dir) = part("search") {
        search(&dir, bounds).await;
    }
    if let Some(dir) = part("sessions") {
        broken.extend(stored(&dir, bounds).await);
    }
    if let Some(dir) = part("readers") {
        broken.extend(readers(&dir, bounds).await);
    }
    if let Some(dir) = part("idle") {
        broken.extend(idle_streams(&dir, bounds).await);
    }
    if let Some(dir) = part("list") {
        broken.extend(long_list(&dir, bounds).await);
    }
    broken
}

/// A server, the mock that its runs request replies from, and a relay to the same mock.
struct Servers {
    mock: Process,
    relay: Process,
    server: Process,
    dir: String,
}

impl Servers {
    async fn start(dir: &Path) -> Self {
        let mock = Process::mock();
        let relay = Process::reference("relay", &mock);
        let server = Process::server(dir, &mock);
        let servers = Servers { relay, server, mock, dir: dir.to_str().unwrap().to_owned() };
        // Excludes one-off allocations at first use.
        for target in [servers.through_relay(), servers.through_server()] {
            target.measure(Load::new(20, RATE, Duration::from_secs(1))).await;
        }
        servers
    }

    fn direct(&self) -> Target<'_> {
        Target { way: Way::Direct, mock: &self.mock }
    }

    fn through_relay(&self) -> Target<'_> {
        Target { way: Way::Relay(&self.relay), mock: &self.mock }
    }

    fn through_server(&self) -> Target<'_> {
        Target { way: Way::Server(&self.server, &self.dir), mock: &self.mock }
    }
}

async fn runs(dir: &Path, bounds: &Bounds) -> Vec<String> {
    let servers = Servers::start(dir).await;
    let load = Load::new(bounds.runs, RATE, bounds.time);
    title("Runs that are not stored");
    row("direct", &servers.direct().measure(load).await);
    let (mut relay, mut server) = (Vec::new(), Vec::new());
    for _ in 0..bounds.rounds {
        for (target, to) in
            [(servers.through_relay(), &mut relay), (servers.through_server(), &mut server)]
        {
            let measured = target.measure(load).await;
            row(target.name(), &measured);
            to.push(measured);
        }
    }
    let mut misses = bounds.misses("runs", &server, bounds.delay_ms);
    misses.extend(compare("the relay", &server, &relay, bounds.relay_factor));
    misses
}

async fn burst(dir: &Path, bounds: &Bounds) -> Vec<String> {
    let servers = Servers::start(dir).await;
    let load = Load::new(bounds.runs, RATE, bounds.time).at_once();
    title("Runs that start at once");
    let mut server = Vec::new();
    for target in [servers.direct(), servers.through_relay()] {
        row(target.name(), &target.measure(load).await);
    }
    for _ in 0..bounds.rounds {
        let measured = servers.through_server().measure(load).await;
        row("server", &measured);
        server.push(measured);
    }
    bounds.misses("burst", &server, bounds.delay_ms)
}

/// Prints the highest rate per run within the bounds, to an eighth: doubles it until a bound is
/// exceeded, then bisects.
async fn search(dir: &Path, bounds: &Bounds) {
    let servers = Servers::start(dir).await;
    title("Runs at higher rates");
    let step = async |rate| {
        let load = Load::new(bounds.runs, rate, STEP);
        row("direct", &servers.direct().measure(load).await);
        let measured = servers.through_server().measure(load).await;
        row("server", &measured);
        bounds.misses("search", &[measured], bounds.delay_ms).is_empty()
    };
    let (mut good, mut bad) = (0.0, 2.0 * RATE);
    while step(bad).await {
        (good, bad) = (bad, 2.0 * bad);
    }
    for _ in 0..3 {
        let rate = (good + bad) / 2.0;
        if step(rate).await { good = rate } else { bad = rate }
    }
    println!(
        "\n{} runs keep p99 under {} ms up to {good:.0} deltas/s of each, {:.0} in all.",
        bounds.runs,
        bounds.delay_ms,
        good * bounds.runs as f64
    );
}

async fn stored(dir: &Path, bounds: &Bounds) -> Vec<String> {
    let mock = Process::mock();
    let server = Process::server(dir, &mock);
    let load = Load::new(bounds.runs, RATE, bounds.time);
    title("Sessions that are stored, with a reader each");
    let mut rounds = Vec::new();
    for _ in 0..bounds.rounds {
        let measured = sessions::one_reader_each(&server, &mock, load).await;
        row("server", &measured);
        rounds.push(measured);
    }
    bounds.misses("sessions", &rounds, bounds.delay_ms)
}

async fn readers(dir: &Path, bounds: &Bounds) -> Vec<String> {
    let mock = Process::mock();
    let (broadcast, server) = (Process::reference("broadcast", &mock), Process::server(dir, &mock));
    let load = Load::new(bounds.readers, RATE, bounds.time).at_once();
    title("Readers of one session");
    let (mut reference, mut measured) = (Vec::new(), Vec::new());
    for _ in 0..bounds.rounds {
        let beside = sessions::broadcast(&broadcast, &mock, load).await;
        row("broadcast", &beside);
        reference.push(beside);
        let through = sessions::many_readers(&server, &mock, load).await;
        row("server", &through);
        measured.push(through);
    }
    let mut misses = bounds.misses("readers", &measured, bounds.reader_delay_ms);
    misses.extend(compare("the broadcast", &measured, &reference, bounds.broadcast_factor));
    misses
}

async fn idle_streams(dir: &Path, bounds: &Bounds) -> Vec<String> {
    let mock = Process::mock();
    let server = Process::server(dir, &mock);
    let held = idle::hold(&server, bounds.streams, bounds.heartbeats).await;
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
    bounds.idle_misses(&held)
}

async fn long_list(dir: &Path, bounds: &Bounds) -> Vec<String> {
    list::write(&dir.join(STORE), bounds.sessions).await;
    let mock = Process::mock();
    let server = Process::server(dir, &mock);
    let list = list::read(&server).await;
    println!("\n| sessions | first page: KiB | ms | all pages: bytes/session | ms | RSS MiB |");
    println!("|---:|---:|---:|---:|---:|---:|");
    println!(
        "| {} | {:.1} | {:.1} | {} | {:.0} | {} |",
        list.sessions,
        list.page_bytes as f64 / 1024.0,
        list.page_time.as_secs_f64() * 1e3,
        list.bytes / list.sessions.max(1),
        list.time.as_secs_f64() * 1e3,
        server.rss_kib() / 1024
    );
    bounds.list_misses(&list)
}

/// Prints the CPU time per delta in multiples of the reference's. Returns a message if it exceeds
/// the bound. Both are measured in turns, so that a change of the machine's load affects both.
fn compare(
    with: &str,
    measured: &[Measured],
    reference: &[Measured],
    bound: f64,
) -> Option<String> {
    let factor = |(one, other): (&Measured, &Measured)| one.cpu_per_delta() / other.cpu_per_delta();
    let factors: Vec<f64> = measured.iter().zip(reference).map(factor).collect();
    let factor = median(factors.clone());
    println!("\nCPU time per delta: {factor:.2} × that of {with} (median of {factors:.2?}).");
    (factor > bound).then(|| {
        format!(
            "A delta takes {factor:.2} × the CPU time of {with}, which must be {bound} at most."
        )
    })
}

fn title(part: &str) {
    println!(
        "\n{part}\n\n| streams × deltas/s | way | deltas/s | failed | p50 ms | p99 ms | max ms \
         | KiB/stream | µs/delta | cores: server | mock | client |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
}

fn row(way: &str, measured: &Measured) {
    let Load { runs, rate, .. } = measured.load;
    let ([server, mock, client], delay) = (measured.cores, |part| measured.delay(part));
    println!(
        "| {runs} × {rate:.0} | {way} | {:.0} | {} | {:.2} | {:.2} | {:.1} | {:.0} | {:.1} \
         | {server:.2} | {mock:.2} | {client:.2} |",
        measured.rate,
        measured.failed,
        delay(0.5),
        delay(0.99),
        delay(1.0),
        measured.kib_per_run,
        measured.cpu_per_delta(),
    );
    if let Some(why) = &measured.failure {
        println!("    the first that failed: {why}");
    }
}
