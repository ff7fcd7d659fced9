//! Many concurrent replies, and their measurement.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Marks, Reply, request};
use crate::process::{Process, cpu};
use crate::{clock, mock};

/// Maximum time of a run beyond the planned one.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// The load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) runs: u64,
    /// Deltas per second, of each run.
    pub(crate) rate: f64,
    /// The time for which all runs stream.
    pub(crate) time: Duration,
    /// The time in which they start, one after the other.
    pub(crate) ramp: Duration,
}

impl Load {
    /// Returns the load of these runs, which start in two seconds for each thousand.
    pub(crate) fn new(runs: u64, rate: f64, time: Duration) -> Self {
        Load { runs, rate, time, ramp: Duration::from_millis(2 * runs) }
    }

    /// Makes all runs start at the same time.
    pub(crate) fn at_once(self) -> Self {
        Load { ramp: Duration::ZERO, ..self }
    }

    /// Returns the number of deltas of a run: the first run still streams when the last one has
    /// streamed for `time`.
    fn deltas(&self) -> u64 {
        ((self.time + self.ramp).as_secs_f64() * self.rate) as u64
    }

    /// Returns the prompt for the reply of one run.
    pub(crate) fn order(&self) -> String {
        mock::order(Duration::from_secs_f64(1.0 / self.rate), self.deltas())
    }
}

/// The measured figures.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) load: Load,
    /// Received deltas per second while all runs streamed.
    pub(crate) rate: f64,
    pub(crate) failed: usize,
    /// The error of one failed run.
    pub(crate) failure: Option<String>,
    /// The latencies of all deltas in milliseconds, sorted.
    delays: Vec<f64>,
    /// The growth of the server's resident memory while all runs streamed, in KiB per run.
    pub(crate) kib_per_run: f64,
    /// Cores used while all runs streamed, by the server, the mock and the client.
    pub(crate) cores: [f64; 3],
}

impl Measured {
    /// Returns the latency that this share of all deltas does not exceed, in milliseconds; infinite
    /// without deltas.
    pub(crate) fn delay(&self, part: f64) -> f64 {
        let at = (self.delays.len() as f64 * part) as usize;
        self.delays
            .get(at.min(self.delays.len().saturating_sub(1)))
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    /// Returns the CPU time of the server for each received delta, in microseconds.
    pub(crate) fn cpu_per_delta(&self) -> f64 {
        self.cores[0] / self.rate * 1e6
    }
}

/// Puts a load on a process, if it is not the mock itself. `run` returns the future of a run, which
/// is given the run's number and begins when the run starts.
pub(crate) async fn measure<R>(
    load: Load,
    (process, mock): (Option<&Process>, &Process),
    mut run: impl FnMut(u64) -> R,
) -> Measured
where
    R: Future<Output = Reply> + Send + 'static,
{
    let Load { runs, time, ramp, .. } = load;
    let deltas = load.deltas();
    let used = || [process.map_or(0.0, Process::cpu), mock.cpu(), cpu("self")];
    let rss = || process.map_or(0, Process::rss_kib);
    let before = rss();
    let mut replies = JoinSet::new();
    for number in 0..runs {
        let run = run(number);
        replies.spawn(async move {
            tokio::time::sleep(ramp * number as u32 / runs as u32).await;
            let reply = timeout(ramp + time + MAX_DELAY, run).await;
            reply.unwrap_or_else(|_| Reply::failed("no end"))
        });
    }
    tokio::time::sleep(ramp).await;
    let (cpu_before, since) = (used(), clock());
    tokio::time::sleep(time.mul_f64(0.9)).await;
    let (cpu_after, until, during) = (used(), clock(), rss());
    let replies = replies.join_all().await;
    let seconds = (until - since) as f64 / 1e9;
    let good = |reply: &Reply| {
        reply.is_complete && reply.error.is_none() && reply.deltas.len() as u64 == deltas
    };
    let failed: Vec<&Reply> = replies.iter().filter(|reply| !good(reply)).collect();
    let failure = failed
        .first()
        .map(|reply| format!("{:?} after {} of {deltas}", reply.error, reply.deltas.len()));
    let all = replies.iter().flat_map(|reply| &reply.deltas);
    let at_once = all.clone().filter(|(at, _)| (since..until).contains(at)).count();
    let mut delays: Vec<f64> = all.map(|(_, delay)| *delay as f64 / 1e6).collect();
    delays.sort_by(f64::total_cmp);
    Measured {
        load,
        rate: at_once as f64 / seconds,
        failed: failed.len(),
        failure,
        delays,
        kib_per_run: during.saturating_sub(before) as f64 / runs as f64,
        cores: std::array::from_fn(|who| (cpu_after[who] - cpu_before[who]) / seconds),
    }
}

/// The way of the mock's replies to the client.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// From the mock directly.
    Direct,
    /// Through the [relay](crate::reference::relay).
    Relay(&'a Process),
    /// Through a server, as runs in this directory that are not stored.
    Server(&'a Process, &'a str),
}

/// The target of the requests.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) way: Way<'a>,
    pub(crate) mock: &'a Process,
}

impl Target<'_> {
    /// Returns the name of the way.
    pub(crate) fn name(&self) -> &'static str {
        match self.way {
            Way::Direct => "direct",
            Way::Relay(_) => "relay",
            Way::Server(..) => "server",
        }
    }

    /// Measures runs with a request each.
    pub(crate) async fn measure(&self, load: Load) -> Measured {
        let process = match self.way {
            Way::Direct => None,
            Way::Relay(process) | Way::Server(process, _) => Some(process),
        };
        let (to, path, body, marks) = self.http_request(&load.order());
        let run = |_| {
            let body = body.clone();
            async move { request(to, path, &body, marks).await }
        };
        measure(load, (process, self.mock), run).await
    }

    /// Returns the address, path and body of the request, and the marks of the parts of the reply.
    fn http_request(&self, order: &str) -> (SocketAddr, &'static str, String, Marks) {
        let complete = Marks { end: r#"data: {"type":"complete""#, delta: None };
        match self.way {
            Way::Direct => {
                let done = Marks { end: "data: [DONE]", delta: None };
                let body = model_request(order);
                (self.mock.address, "/v1/chat/completions", body, done)
            }
            Way::Relay(relay) => (relay.address, "/relay", model_request(order), complete),
            Way::Server(server, dir) => {
                let model = json!({ "apiKey": "none", "model": "mock", "provider": "custom",
                    "baseUrl": format!("http://{}/v1", self.mock.address) });
                let body = json!({ "message": order, "workDir": dir, "llmConfig": model });
                (server.address, "/api/agent-chat", body.to_string(), complete)
            }
        }
    }
}

/// Returns the body of a request to the mock.
pub(crate) fn model_request(order: &str) -> String {
    let messages = json!([{ "role": "user", "content": order }]);
    json!({ "model": "mock", "stream": true, "messages": messages }).to_string()
}
