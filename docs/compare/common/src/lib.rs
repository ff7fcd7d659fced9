//! Shared parts of the Rust drivers: arguments, the effects of tools, and figures of the process.

use std::fs;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Number of turns in the row `turns`.
pub const TURNS: usize = 100;
/// Number of measured conversations in the row `agents`, after `WARM_UP` others.
pub const AGENTS: usize = 200;
/// Number of conversations that run before the measured ones.
pub const WARM_UP: usize = 20;
/// Returns the maximum time that a row waits for the end of a run: the seconds in `WAIT_SECONDS`,
/// or 20.
pub fn wait_limit() -> Duration {
    Duration::from_secs(seconds("WAIT_SECONDS").unwrap_or(20))
}

fn seconds(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The arguments of a driver: the row, a directory for its files, and the address of the model.
pub struct Setup {
    pub row: String,
    pub dir: PathBuf,
    pub url: String,
}

impl Setup {
    /// Reads `ROW DIRECTORY` and the environment variable `MOCK`.
    pub fn read() -> io::Result<Setup> {
        let mut args = std::env::args().skip(1);
        let row = args.next().ok_or_else(|| io::Error::other("usage: ROW DIRECTORY"))?;
        let dir = args.next().ok_or_else(|| io::Error::other("usage: ROW DIRECTORY"))?;
        let url = std::env::var("MOCK").map_err(io::Error::other)?;
        Ok(Setup { row, dir: dir.into(), url })
    }
}

/// Records an effect of a tool outside the process, as a line of the file `effects`.
pub fn record(dir: &Path, euros: i64) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(dir.join("effects"))?;
    writeln!(file, "{euros}")
}

/// Waits for the first effect.
pub async fn wait_for_effect(dir: &Path) {
    while !fs::read_to_string(dir.join("effects")).is_ok_and(|text| text.ends_with('\n')) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the duration of `charge`: the seconds in the environment variable `SLOW`, or zero.
pub fn slow() -> Duration {
    Duration::from_secs(seconds("SLOW").unwrap_or(0))
}

/// Returns the time after which the agent of the row `sleep` reports: the seconds in `SLEEP`, or 5.
pub fn sleep() -> Duration {
    Duration::from_secs(seconds("SLEEP").unwrap_or(5))
}

/// Maximum cost of the notes on the [`documents`], in US dollars: 11 notes cost 0.02475, 12 cost
/// 0.0270.
pub const DOLLARS: f64 = 0.025;
/// Maximum number of tokens of the notes: 11 notes take 6,600 tokens, 12 take 7,200.
pub const TOKENS: u64 = 6_700;

/// Returns 20 documents of about 500 tokens. A note on one takes 150 to 250 ms and 100 tokens.
pub fn documents() -> Vec<String> {
    let text = "The parties agree on the following. ".repeat(56);
    let document = |n| format!("HOLD {} 500 100 Document {n}: {text}", 150 + n * 37 % 100);
    (1..=20).map(document).collect()
}

/// The prompt of the row `tests`.
pub const TASK: &str = "Write the code. CALL write_code {\"code\": \"1\"}";

/// Replaces the code of the row `tests`.
pub fn write_code(dir: &Path, code: &str) -> io::Result<&'static str> {
    fs::write(dir.join("code"), code)?;
    Ok("written")
}

/// Runs the tests of the row `tests`: the third version of the code passes, unless the environment
/// variable `BROKEN` is set.
pub fn run_tests(dir: &Path) -> Result<String, String> {
    let code = fs::read_to_string(dir.join("code")).unwrap_or_default().parse().unwrap_or(0);
    record(dir, code).map_err(|error| error.to_string())?;
    if code >= 3 && std::env::var_os("BROKEN").is_none() {
        return Ok("3 tests passed".into());
    }
    Err(format!("Version {code} is wrong. CALL write_code {{\"code\": \"{}\"}}", code + 1))
}

/// Returns the CPU time that the process has used, in milliseconds.
pub fn cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Returns the resident memory of the process, in KiB.
pub fn rss_kib() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Returns the end of a run as JSON: its text, its error, or a note that it did not end.
pub async fn end_of<E: std::fmt::Display>(run: impl Future<Output = Result<String, E>>) -> Value {
    let start = Instant::now();
    let end = tokio::time::timeout(wait_limit(), run).await;
    let seconds = start.elapsed().as_secs_f64();
    match end {
        Ok(Ok(text)) => json!({"end": text, "seconds": seconds}),
        Ok(Err(error)) => json!({"error": error.to_string(), "seconds": seconds}),
        Err(_) => json!({"end": null, "seconds": seconds}),
    }
}

/// Measures each turn of a conversation.
pub async fn turns<E>(mut turn: impl AsyncFnMut(String) -> Result<(), E>) -> Result<Value, E> {
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for number in 1..=TURNS {
        let (start, used) = (Instant::now(), cpu_ms());
        turn(format!("Turn {number}. CALL echo {{\"text\": \"{number}\"}}")).await?;
        wall.push(start.elapsed().as_secs_f64() * 1e3);
        cpu.push(cpu_ms() - used);
    }
    Ok(json!({"wall_ms": wall, "cpu_ms": cpu}))
}

/// Measures conversations of one turn. The value that `start` returns keeps each of them alive.
pub async fn agents<T, E>(
    mut start: impl AsyncFnMut(usize, String) -> Result<T, E>,
) -> Result<Value, E> {
    let prompt = || "Hello. CALL echo {\"text\": \"hello\"}".to_owned();
    let mut live = Vec::with_capacity(WARM_UP + AGENTS);
    for number in 0..WARM_UP {
        live.push(start(number, prompt()).await?);
    }
    let (rss, cpu) = (rss_kib(), cpu_ms());
    for number in 0..AGENTS {
        live.push(start(WARM_UP + number, prompt()).await?);
    }
    let kib = (rss_kib() - rss) as f64 / AGENTS as f64;
    let cpu_ms_per_turn = (cpu_ms() - cpu) / AGENTS as f64;
    drop(live);
    Ok(json!({"agents": AGENTS, "cpu_ms_per_turn": cpu_ms_per_turn, "kib_per_agent": kib}))
}
