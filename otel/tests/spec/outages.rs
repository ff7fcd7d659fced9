//! Collectors that are down, slow, or refuse.

use std::time::{Duration, Instant};

use loopwright_core::event::RunStatus;
use loopwright_core::testing::Script;
use loopwright_otel::Telemetry;
use tokio::net::TcpListener;

use crate::kit::{agent, run};

/// Timeout of an export: 20 runs that waited for one each would take twice as long as they may.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// C393: A collector that is down or does not answer fails no run and does not delay the end of the
/// process.
#[tokio::test]
async fn a_collector_that_is_down_fails_no_run() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    for address in [address, silent.local_addr().unwrap()] {
        let builder = Telemetry::builder().endpoint(format!("http://{address}"));
        let telemetry = builder.timeout(EXPORT_TIMEOUT).build().unwrap();
        let scripts = (0..20).map(|n| Script::text(&n.to_string()));
        let (agent, _) = agent(scripts, |builder| builder);
        let start = Instant::now();
        for n in 0..20 {
            let outcome = run(&telemetry, &agent, "Count.").await;
            assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, &*n.to_string()));
        }
        assert!(start.elapsed() < EXPORT_TIMEOUT * 10, "runs took {:?}", start.elapsed());
        let start = Instant::now();
        telemetry.shutdown().await;
        let took = start.elapsed();
        assert!(took < EXPORT_TIMEOUT * 10, "the shutdown took {took:?}");
    }
}

/// A builder without an endpoint says what to set.
#[tokio::test]
async fn without_an_endpoint_nothing_is_started() {
    let error = Telemetry::builder().build().unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1:4318"), "{error}");
}
