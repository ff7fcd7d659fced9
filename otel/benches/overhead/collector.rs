//! The collector: a separate process that counts received bytes.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Bytes;
use tokio::net::TcpListener;

/// Listens on a free local port, which it prints. Prints the number of received bytes when standard
/// input closes.
pub(crate) fn collect() {
    let received = Arc::new(AtomicUsize::new(0));
    let until = received.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        println!("{}", until.load(Relaxed));
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        let routes = axum::Router::new().fallback(async move |body: Bytes| {
            received.fetch_add(body.len(), Relaxed);
        });
        axum::serve(listener, routes).await.unwrap();
    });
}
