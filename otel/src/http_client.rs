//! The HTTP client of the exporters.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

/// A client that sends requests in a runtime, for exporters on their own threads.
pub(crate) struct Client {
    http: reqwest::Client,
    runtime: Handle,
    /// `true` if the last request failed: a collector that is down is logged once.
    is_down: AtomicBool,
}

impl Client {
    /// Builds a client with this timeout for its requests.
    pub(crate) fn new(runtime: Handle, timeout: Duration) -> Result<Self, reqwest::Error> {
        let _ = rustls::crypto::ring::default_provider().install_default(); // unless there is one
        let http = reqwest::Client::builder().timeout(timeout).build()?;
        Ok(Client { http, runtime, is_down: AtomicBool::new(false) })
    }

    fn note(&self, problem: Option<String>) {
        let was_down = self.is_down.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(problem) if !was_down => {
                tracing::warn!(problem, "telemetry could not be exported; it is lost until it can");
            }
            None if was_down => tracing::warn!("telemetry is exported again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move {
            let request = reqwest::Request::try_from(request)?;
            let response = http.execute(request).await?;
            let mut answer = Response::builder().status(response.status());
            if let Some(headers) = answer.headers_mut() {
                headers.extend(response.headers().clone());
            }
            Ok::<_, HttpError>(answer.body(response.bytes().await?)?)
        });
        let result = sent.await.unwrap_or_else(|ended| Err(ended.into()));
        self.note(match &result {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector answered {}", response.status())),
            Err(error) => Some(error.to_string()),
        });
        result
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
