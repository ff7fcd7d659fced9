//! Overhead of telemetry per turn: `cargo bench -p loopwright-otel`, with `-- --quick` or with
//! `-- --instructions`, which needs valgrind.
//!
//! The turns are the same as in `benches/turns`, with replies of 500 deltas: ten with a call, and
//! one without, from a model server in its own process. Nearly all of the work is for the spans and
//! the measurements at the end of a turn, so its share is larger in turns with shorter replies.
//! Clients with and without telemetry run alternately, each in its own process; the collector is
//! another one.
//!
//! The bench measures the CPU time of all threads of a client, including exporters, or the
//! instructions that they execute. The exit code is 1 if telemetry adds more than 3 % of the
//! instructions, or if the median of the ratios of times is more than 1.10. Times vary by several
//! percent from run to run, instructions do not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

#[path = "../../../benches/turns/client.rs"]
#[allow(dead_code)]
mod client;
mod collector;
#[path = "../../../benches/turns/mock.rs"]
mod mock;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use client::{Done, Tally, Work};
use loopwright_core::event::{InputEvent, Role, RunStatus};
use loopwright_core::limits::Budget;
use loopwright_core::model::Update;
use loopwright_core::tool::Effect;
use loopwright_core::{AgentEvent, GenericAgent, RunContext, ToolError, tool_fn};
use loopwright_otel::Telemetry;
use loopwright_patterns::PiPattern;
use loopwright_providers::OpenAiChat;
use mock::Script;

/// The allocator of the binary `loopwright`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of turns of a conversation, besides the last one.
const TURNS: u64 = 10;
/// The number of deltas of a reply.
const DELTAS: u64 = 500;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(0);
    match args.first().map(String::as_str) {
        Some("serve") => {
            mock::serve(Script { turns: TURNS, deltas: DELTAS, pause: Duration::ZERO })
        }
        Some("collect") => collector::collect(),
        Some("run") => {
            let work = Work { agents: 1, rounds: number(1), warm: number(1) / 10 + 2 };
            let done = run(&args[2], args.get(3).cloned(), work);
            println!("{}", serde_json::to_string(&done).unwrap());
        }
        _ if args.iter().any(|arg| arg == "--instructions") => return count(),
        _ => return compare(args.iter().any(|arg| arg == "--quick")),
    }
    ExitCode::SUCCESS
}

fn compare(quick: bool) -> ExitCode {
    let (rounds, pairs, max) = if quick { (20, 5, 1.10) } else { (60, 25, 1.10) };
    let mut servers = Servers::start();
    let mut ratios = Vec::new();
    for _ in 0..pairs {
        let cost = |endpoint: &[&str]| {
            let rounds_text = rounds.to_string();
            let mut client =
                Process::start(&[&["run", &rounds_text, &servers.base], endpoint].concat());
            let done: Done = serde_json::from_str(&client.line()).unwrap();
            done.measured_cpu_ns as f64 / 1e3 / (rounds * (TURNS + 1)) as f64
        };
        let (without, with) = (cost(&[]), cost(&[&servers.endpoint]));
        println!("CPU µs per turn: {without:.1} without telemetry, {with:.1} with it");
        ratios.push(with / without);
    }
    let received: u64 = servers.collector.end().trim().parse().unwrap();
    let spans = pairs * rounds * (2 * TURNS + 2);
    assert!(received > 100 * spans, "the collector received {received} bytes");
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("telemetry: {median:.3} times the CPU time of a turn, at most {max}");
    if median <= max { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Counts the instructions of a turn with callgrind. The startup is left out: it is the same in
/// runs of all lengths.
fn count() -> ExitCode {
    let servers = Servers::start();
    let per_turn = |endpoint: Option<&String>| {
        let run = |rounds: u64| {
            let rounds = rounds.to_string();
            let mut command = Command::new("valgrind");
            command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
            command.arg(std::env::current_exe().unwrap()).args(["run", &rounds, &servers.base]);
            command.args(endpoint).env("LOOPWRIGHT_NO_CPU_TIME", "1");
            let output = command.output().expect("valgrind is installed");
            assert!(output.status.success(), "{output:?}");
            let report = String::from_utf8_lossy(&output.stderr).into_owned();
            let count = report.lines().find_map(|line| line.split_once("Collected : "));
            count.unwrap_or_else(|| panic!("no count: {report}")).1.trim().parse::<u64>().unwrap()
        };
        // A tenth more rounds are for warming up.
        (run(110) - run(10)) as f64 / (110 * (TURNS + 1)) as f64
    };
    let (without, with) = (per_turn(None), per_turn(Some(&servers.endpoint)));
    let ratio = with / without;
    println!("instructions per turn: {without:.0} without telemetry, {with:.0} with it");
    println!("telemetry: {ratio:.3} times the instructions of a turn, at most 1.03");
    if ratio <= 1.03 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The model server and the collector.
struct Servers {
    base: String,
    endpoint: String,
    collector: Process,
    _model: Process,
}

impl Servers {
    fn start() -> Servers {
        let mut model = Process::start(&["serve"]);
        let base = format!("http://127.0.0.1:{}/v1", model.line());
        let mut collector = Process::start(&["collect"]);
        let endpoint = format!("http://127.0.0.1:{}", collector.line());
        Servers { base, endpoint, collector, _model: model }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// Runs conversations, one after the other. The exporters live as long as the process.
fn run(base: &str, endpoint: Option<String>, work: Work) -> Done {
    let model = OpenAiChat::builder("mock").base_url(base).api_key("none").build().unwrap();
    let add = tool_fn("add", "Add two integers.", async |args: Add, _cx| {
        Ok::<_, ToolError>((args.a + args.b).to_string())
    });
    let agent = GenericAgent::builder(model, PiPattern)
        .system("You add numbers with the tool.")
        .tool(add.effect(Effect::ReadOnly))
        .limits(Budget::default().turns(u32::MAX))
        .build()
        .unwrap();
    client::run(work, |tally, kept: Option<Option<Telemetry>>| {
        let (agent, endpoint) = (agent.clone(), endpoint.clone());
        async move {
            let telemetry = kept.unwrap_or_else(|| {
                let build = |endpoint| Telemetry::builder().endpoint(endpoint).build().unwrap();
                endpoint.map(build)
            });
            converse(agent, telemetry.as_ref(), tally).await;
            telemetry
        }
    })
}

/// Sends one prompt, and reads all events until the end.
async fn converse(agent: GenericAgent, telemetry: Option<&Telemetry>, tally: Arc<Tally>) {
    let mut cx = RunContext::new();
    if let Some(telemetry) = telemetry {
        cx = cx.with(telemetry.trace_context(None, None));
    }
    let (handle, mut events) = agent.run(cx).await.unwrap();
    let state = handle.state().await.unwrap();
    let mut exported = telemetry.map(|telemetry| telemetry.session("adder", &state));
    let prompt = InputEvent::UserRequest("Add numbers until done.".into());
    handle.send(prompt).await.unwrap();
    let (mut deltas, mut chars) = (0, 0);
    while let Some(event) = events.next().await {
        if let Some(exported) = &mut exported {
            exported.apply(&event);
        }
        match &event.event {
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                deltas += 1;
                chars += delta.len() as u64;
            }
            AgentEvent::MessageEnd { message } if message.role() == Role::Assistant => {
                tally.turn(std::mem::take(&mut deltas), std::mem::take(&mut chars));
            }
            AgentEvent::AgentEnd(outcome) => {
                assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
                return;
            }
            _ => {}
        }
    }
    panic!("the session ended before its run");
}

/// A process of this program.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(args: &[&str]) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Process { child, output }
    }

    /// Returns the next line that it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Closes its standard input, and returns its further output.
    fn end(&mut self) -> String {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
