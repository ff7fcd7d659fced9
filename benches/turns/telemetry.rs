//! The work with loopwright, exported to a collector in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Bytes;
use loopwright_core::GenericAgent;
use loopwright_otel::Telemetry;
use tokio::net::TcpListener;

use crate::client::{self, Done, Work};
use crate::ours;

/// Runs the client. Panics unless the collector has received the spans.
pub(crate) fn run(base: &str, work: Work) -> Done {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let command = command.arg("collect").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut collector = command.spawn().expect("a collector");
    let mut output = BufReader::new(collector.stdout.take().expect("an output"));
    let mut port = String::new();
    output.read_line(&mut port).expect("a port");
    let endpoint = format!("http://127.0.0.1:{}", port.trim());

    let agent: GenericAgent = ours::agent(base);
    let done = client::run(work, move |tally, telemetry: Option<Telemetry>| {
        let (agent, endpoint) = (agent.clone(), endpoint.clone());
        async move {
            let telemetry = telemetry.unwrap_or_else(|| {
                Telemetry::builder().endpoint(endpoint).build().expect("telemetry")
            });
            ours::converse(agent, Some(&telemetry), tally).await;
            telemetry
        }
    });
    drop(collector.stdin.take());
    let mut received = String::new();
    output.read_to_string(&mut received).expect("a count");
    collector.wait().expect("a collector");
    let received: u64 = received.trim().parse().expect("a count");
    assert!(received > 100 * done.turns, "the collector received {received} bytes");
    done
}

/// Receives what is exported, and prints how many bytes when standard input closes.
pub(crate) fn collect() {
    let received = Arc::new(AtomicUsize::new(0));
    let until = received.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        println!("{}", until.load(Relaxed));
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address").port());
        let routes = axum::Router::new().fallback(async move |body: Bytes| {
            received.fetch_add(body.len(), Relaxed);
        });
        axum::serve(listener, routes).await.expect("a server");
    });
}
