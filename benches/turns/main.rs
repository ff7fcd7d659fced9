//! The cost of loopwright compared with the same work without a framework: `cargo bench`, or
//! `cargo bench -- --quick`.
//!
//! Three processes run: a model server with minimal cost, a *floor* client without a framework, and
//! a client with loopwright. The clients alternate. The output is one table. The exit code is 1 if
//! loopwright takes more than twice the floor (three times with `--quick`, for busy machines), or
//! if a sub-agent in the middle of a request takes more than 30 KiB.
//!
//! Words after `--` select parts: `turn`, `memory`, `throughput`, `growth`, `sub_agents`. To run
//! one client alone, for example under a profiler: `turns serve TURNS DELTAS PAUSE_MS` prints its
//! port, and `turns floor|ours BASE_URL AGENTS ROUNDS [WARM_ROUNDS]` prints its figures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

mod client;
mod floor;
mod mock;
mod ours;
mod sub_agents;
mod table;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use client::{Done, Work};
use mock::{Script, Seen};
use table::{Better, Row};

/// The allocator of the binary `loopwright`, which the floor uses too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(0);
    let work = || Work { agents: number(2), rounds: number(3), warm: number(4) };
    match args.first().map(String::as_str) {
        Some("serve") => {
            let pause = Duration::from_millis(number(3));
            mock::serve(Script { turns: number(1), deltas: number(2), pause });
        }
        Some("floor") => say(&floor::run(&args[1], work())),
        Some("ours") => say(&ours::run(&args[1], work())),
        Some("live") => println!("{}", sub_agents::run(number(1))),
        _ => return compare(&args),
    }
    ExitCode::SUCCESS
}

fn say(done: &Done) {
    println!("{}", serde_json::to_string(done).unwrap());
}

fn compare(args: &[String]) -> ExitCode {
    let quick = args.iter().any(|arg| arg == "--quick");
    let parts: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let bench = Bench { quick };
    let all: [(&str, Part); 4] = [
        ("turn", Bench::turn),
        ("memory", Bench::memory),
        ("throughput", Bench::throughput),
        ("growth", Bench::growth),
    ];
    let chosen = all.iter().filter(|(name, _)| parts.is_empty() || parts.contains(name));
    let rows: Vec<Row> = chosen.flat_map(|(_, part)| part(&bench)).collect();
    if !rows.is_empty() {
        table::print(&rows);
    }
    let max_ratio = if quick { 3.0 } else { 2.0 };
    let over: Vec<&Row> = rows.iter().filter(|row| row.ratio() > max_ratio).collect();
    for row in &over {
        println!("{}: {:.2} times the floor, more than {max_ratio}", row.figure, row.ratio());
    }
    let is_chosen = parts.is_empty() || parts.contains(&"sub_agents");
    let is_small = !is_chosen || bench.sub_agents();
    if over.is_empty() && is_small { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A part of the benchmark. It returns figures of both clients.
type Part = fn(&Bench) -> Vec<Row>;

/// The two clients.
const CLIENTS: [&str; 2] = ["floor", "ours"];

/// The maximum memory of a sub-agent in the middle of a request, in KiB.
const MAX_KIB_PER_SUB_AGENT: f64 = 30.0;

struct Bench {
    quick: bool,
}

/// One run of a client, with the figures of client and server.
struct Run {
    done: Done,
    seen: Seen,
    /// The number of turns in the measured rounds.
    measured: f64,
}

impl Run {
    fn cpu_us_per_turn(&self) -> f64 {
        self.done.measured_cpu_ns as f64 / 1e3 / self.measured
    }
}

impl Bench {
    /// Returns the number of repetitions of each run.
    fn reps(&self, max_runs: usize) -> usize {
        if self.quick { 3 } else { max_runs }
    }

    /// Measures both clients alternately.
    fn both<T>(&self, max_runs: usize, mut of: impl FnMut(&str) -> T) -> [Vec<T>; 2] {
        let mut values = [Vec::new(), Vec::new()];
        for _ in 0..self.reps(max_runs) {
            for (values, client) in values.iter_mut().zip(CLIENTS) {
                values.push(of(client));
            }
        }
        values
    }

    fn turn(&self) -> Vec<Row> {
        let run = |client: &str, deltas, rounds| {
            let script = Script { turns: 10, deltas, pause: Duration::ZERO };
            run(client, script, Work { agents: 1, rounds, warm: rounds / 10 + 2 }).cpu_us_per_turn()
        };
        let (short, long) = if self.quick { (60, 15) } else { (250, 60) };
        let costs = self.both(9, |client| (run(client, 50, short), run(client, 500, long)));
        let per_turn =
            costs.each_ref().map(|costs| costs.iter().map(|(short, _)| *short).collect());
        let per_delta =
            costs.map(|costs| costs.iter().map(|(short, long)| (long - short) / 450.0).collect());
        vec![
            Row::new("CPU µs per turn of 50 deltas", Better::Less, 1, per_turn),
            Row::new("CPU µs per delta", Better::Less, 2, per_delta),
        ]
    }

    fn memory(&self) -> Vec<Row> {
        const AGENTS: u64 = 1000;
        let peak = |client: &str, agents, pause| {
            let script = Script { turns: 1, deltas: 12, pause: Duration::from_millis(pause) };
            let run = run(client, script, Work { agents, rounds: 1, warm: 0 });
            assert!(
                run.seen.at_once >= agents,
                "only {} of {agents} streamed at once",
                run.seen.at_once
            );
            run.done.peak_kib as f64
        };
        let each =
            self.both(3, |client| (peak(client, AGENTS, 200) - peak(client, 1, 5)) / AGENTS as f64);
        vec![Row::new("KiB per live agent, 1,000 of them", Better::Less, 1, each)]
    }

    /// Prints the memory per sub-agent. Returns whether it is within its bound.
    fn sub_agents(&self) -> bool {
        const SUB_AGENTS: u64 = 1000;
        let kib = |count: u64| -> f64 {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let command = command.args(["live", &count.to_string()]).stdout(Stdio::piped());
            output(command.spawn().unwrap()).trim().parse().unwrap()
        };
        let each = || (kib(SUB_AGENTS + 1) - kib(1)) / SUB_AGENTS as f64;
        let mut each: Vec<f64> = (0..self.reps(5)).map(|_| each()).collect();
        each.sort_by(f64::total_cmp);
        let median = each[each.len() / 2];
        println!(
            "KiB per live sub-agent, {SUB_AGENTS} of one root: {median:.1} ({:.1}), at most \
             {MAX_KIB_PER_SUB_AGENT}",
            each[0]
        );
        median <= MAX_KIB_PER_SUB_AGENT
    }

    fn throughput(&self) -> Vec<Row> {
        let script = Script { turns: 10, deltas: 50, pause: Duration::ZERO };
        let rounds = if self.quick { 8 } else { 24 };
        let runs = self.both(7, |client| run(client, script, Work { agents: 64, rounds, warm: 2 }));
        let cpu = runs.each_ref().map(|runs| runs.iter().map(Run::cpu_us_per_turn).collect());
        let speed = runs.map(|runs| {
            runs.iter().map(|r| r.measured * 1e9 / r.done.measured_wall_ns as f64).collect()
        });
        vec![
            Row::new("turns/s, 64 agents", Better::More, 0, speed),
            Row::new("CPU µs per turn, 64 agents", Better::Less, 1, cpu),
        ]
    }

    fn growth(&self) -> Vec<Row> {
        let rows = [50, 100, 200, 400].map(|turns| {
            let script = Script { turns, deltas: 20, pause: Duration::ZERO };
            let rounds = if self.quick { 400 / turns } else { 2000 / turns };
            let cost = self.both(5, |client| {
                let run = run(client, script, Work { agents: 1, rounds, warm: 1 });
                run.done.measured_cpu_ns as f64 / 1e6 / rounds as f64
            });
            Row::new(&format!("CPU ms per run of {turns} turns"), Better::Less, 2, cost)
        });
        rows.into()
    }
}

/// Runs one client against a new server. Panics unless all turns were completed.
fn run(client: &str, script: Script, work: Work) -> Run {
    let myself = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    };
    let text = |n: u64| n.to_string();
    let pause = script.pause.as_millis() as u64;
    let mut server =
        myself().arg("serve").args([script.turns, script.deltas, pause].map(text)).spawn().unwrap();
    let mut server_output = BufReader::new(server.stdout.take().unwrap());
    let mut port = String::new();
    server_output.read_line(&mut port).unwrap();
    let base = format!("http://127.0.0.1:{}/v1", port.trim());

    let child = myself()
        .args([client, &base])
        .args([work.agents, work.rounds, work.warm].map(text))
        .spawn()
        .unwrap();
    let done: Done =
        serde_json::from_str(&output(child)).unwrap_or_else(|why| panic!("{client} failed: {why}"));

    drop(server.stdin.take());
    let mut rest = String::new();
    server_output.read_to_string(&mut rest).unwrap();
    server.wait().unwrap();
    let seen: Seen = serde_json::from_str(&rest).unwrap();

    let conversations = work.agents * (work.rounds + work.warm);
    let turns = conversations * (script.turns + 1);
    // Deltas have four characters. Deltas that arrive together are emitted as one.
    let wanted = (turns, turns * script.deltas * 4, turns, 0);
    let found = (done.turns, done.chars, seen.requests, seen.refused);
    assert_eq!(
        found, wanted,
        "{client}: (turns, characters, requests, refused) are not what they should be"
    );
    Run { done, seen, measured: (work.agents * work.rounds * (script.turns + 1)) as f64 }
}

fn output(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}
