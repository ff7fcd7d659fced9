//! Requests to a Restate server.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::key::key_of;
use super::object::OBJECT;
use crate::error::PlacementError;
use crate::http_client;

/// The default port of the admin API on the host of the ingress.
const ADMIN_PORT: u16 = 9070;
/// Time for which a request is repeated while Restate cannot be reached.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_PAUSE: Duration = Duration::from_millis(100);

/// A client of the nodes of a Restate server.
pub(super) struct Client {
    /// The addresses of the ingress. Each is used if the ones before it fail.
    ingress: Vec<Url>,
    admin: Url,
    http: reqwest::Client,
}

/// A call that is made later, once for each id.
pub(super) struct Delay {
    pub(super) time: Duration,
    pub(super) id: String,
}

impl Client {
    pub(super) fn new(
        ingress: &str,
        others: &[String],
        admin: Option<&str>,
    ) -> Result<Self, PlacementError> {
        let first = parse(ingress)?;
        let admin = match admin {
            Some(url) => parse(url)?,
            None => {
                let mut admin = first.clone();
                let _ = admin.set_port(Some(ADMIN_PORT)); // a URL with a host can have a port
                admin
            }
        };
        let mut ingress = vec![first];
        for url in others {
            ingress.push(parse(url)?);
        }
        let http = http_client::builder().timeout(REQUEST_TIMEOUT).build().map_err(|error| {
            PlacementError::new(format!("the HTTP client for Restate cannot be built: {error}"))
        })?;
        Ok(Client { ingress, admin, http })
    }

    /// Sends a one-way call of a handler to the object of a session.
    pub(super) async fn send(
        &self,
        session: &str,
        handler: &str,
        delay: Option<Delay>,
    ) -> Result<(), PlacementError> {
        let key = key_of(session);
        let mut urls = Vec::with_capacity(self.ingress.len());
        for ingress in &self.ingress {
            let mut url = extended(ingress, &[OBJECT, &key, handler, "send"])?;
            if let Some(Delay { time, .. }) = &delay {
                url.query_pairs_mut().append_pair("delay", &format!("{}ms", time.as_millis()));
            }
            urls.push(url);
        }
        self.request("wake a session", &urls, |url| {
            let request = self.http.post(url);
            match &delay {
                Some(Delay { id, .. }) => request.header("idempotency-key", id),
                None => request,
            }
        })
        .await
    }

    /// Registers the workers at an address.
    pub(super) async fn register(&self, address: &str) -> Result<(), PlacementError> {
        let url = extended(&self.admin, &["deployments"])?;
        let body = json!({ "uri": address, "force": true });
        self.request("register this worker", &[url], |url| self.http.post(url).json(&body)).await
    }

    /// Sends a request. Tries these addresses in turn while they cannot be reached or are not
    /// ready.
    async fn request(
        &self,
        what: &str,
        urls: &[Url],
        build: impl Fn(Url) -> RequestBuilder,
    ) -> Result<(), PlacementError> {
        let end = Instant::now() + REQUEST_LIMIT;
        let mut why = String::new();
        for url in urls.iter().cycle() {
            let may_repeat;
            (why, may_repeat) = match build(url.clone()).send().await {
                Ok(response) if response.status().is_success() => return Ok(()),
                Ok(response) => {
                    let status = response.status();
                    let is_busy = status.is_server_error() || status == StatusCode::NOT_FOUND;
                    (text_of(response).await, is_busy)
                }
                Err(error) => (chain(&error), true),
            };
            if !may_repeat || Instant::now() + REQUEST_PAUSE >= end {
                why = format!("{url}: {why}");
                break;
            }
            sleep(REQUEST_PAUSE).await;
        }
        Err(PlacementError::new(format!(
            "Restate could not {what}: {why}; check that the server runs at this address"
        )))
    }
}

fn parse(url: &str) -> Result<Url, PlacementError> {
    Url::parse(url).map_err(|why| {
        PlacementError::new(format!(
            "`{url}` is no URL of a Restate server: {why}; an example is `http://localhost:8080`"
        ))
    })
}

/// Returns a URL with added path segments.
fn extended(url: &Url, segments: &[&str]) -> Result<Url, PlacementError> {
    let mut extended = url.clone();
    match extended.path_segments_mut() {
        Ok(mut path) => drop(path.pop_if_empty().extend(segments)),
        Err(()) => return Err(PlacementError::new(format!("`{url}` can have no path"))),
    }
    Ok(extended)
}

async fn text_of(response: Response) -> String {
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    format!("{status}: {}", text.chars().take(300).collect::<String>())
}

/// Returns an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
