//! Many concurrent runs, through the server or of the mock directly.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{Reply, reply};
use crate::process::{Process, cpu};
use crate::{clock, mock};

/// The load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) runs: u64,
    /// Deltas per second, of each run.
    pub(crate) rate: f64,
    /// The time for which each run streams.
    pub(crate) time: Duration,
}

/// The target of the requests.
pub(crate) struct Target<'a> {
    /// The server and the working directory; `None` for the mock.
    pub(crate) server: Option<(&'a Process, &'a str)>,
    pub(crate) mock: &'a Process,
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
}

/// Returns the time in which runs start, one after the other: two seconds for a thousand.
fn ramp(runs: u64) -> Duration {
    Duration::from_millis(2 * runs)
}

pub(crate) async fn measure(target: &Target<'_>, load: Load) -> Measured {
    let Load { runs, rate, time } = load;
    let pause = Duration::from_secs_f64(1.0 / rate);
    // Long enough for the first run to stream still when the last has streamed for `time`.
    let deltas = ((time + ramp(runs)).as_secs_f64() * rate) as u64;
    let order = mock::order(pause, deltas);
    let (to, path, body, end) = http_request(target, &order);
    let used =
        || [target.server.map_or(0.0, |(server, _)| server.cpu()), target.mock.cpu(), cpu("self")];
    let rss = || target.server.map_or(0, |(server, _)| server.rss_kib());
    let before = rss();
    let mut replies = JoinSet::new();
    for number in 0..runs {
        let (path, body) = (path.to_owned(), body.clone());
        replies.spawn(async move {
            tokio::time::sleep(ramp(runs) * number as u32 / runs as u32).await;
            reply(to, path.as_str(), &body, end).await
        });
    }
    tokio::time::sleep(ramp(runs)).await;
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

/// Returns address, path and body of the request, and the start of its last line.
fn http_request(
    target: &Target<'_>,
    order: &str,
) -> (SocketAddr, &'static str, String, &'static str) {
    match target.server {
        Some((server, dir)) => {
            let model = json!({ "apiKey": "none", "model": "mock", "provider": "custom",
                "baseUrl": format!("http://{}/v1", target.mock.address) });
            let body = json!({ "message": order, "workDir": dir, "llmConfig": model });
            (server.address, "/api/agent-chat", body.to_string(), r#"{"type":"complete""#)
        }
        None => {
            let messages = json!([{ "role": "user", "content": order }]);
            let body = json!({ "model": "mock", "stream": true, "messages": messages });
            (target.mock.address, "/v1/chat/completions", body.to_string(), "[DONE]")
        }
    }
}
