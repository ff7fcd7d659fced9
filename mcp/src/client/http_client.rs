//! [`HttpClient`]: how sessions with HTTP servers start.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::ProtocolVersion;
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig,
};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};

use super::config::{Endpoint, expand};
use super::crypto::install_crypto_provider;
use super::frames::Frames;
use super::handler::Handler;
use super::http_frames::FramedHttp;
use crate::lines::MAX_MESSAGE_BYTES;

/// A session with a server.
pub(super) type Service = RunningService<RoleClient, Handler>;

/// The reason why a server cannot be used.
pub(super) struct OpenError {
    /// A sentence without a full stop.
    pub(super) why: String,
    /// `true` if the user must authorize the server first.
    pub(super) needs_authorization: bool,
}

impl OpenError {
    pub(super) fn unauthorized(url: &str, why: &dyn Display) -> Self {
        let why = format!("{url} requires authorization: {why}");
        OpenError { why, needs_authorization: true }
    }
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        OpenError { why, needs_authorization: false }
    }
}

/// Returns the lifecycle: the current version of the protocol, else the last one with a handshake.
pub(super) fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// A client of an HTTP server, with the configured headers.
pub(super) struct HttpClient<C = reqwest::Client> {
    pub(super) client: C,
    frames: Frames,
    config: StreamableHttpClientTransportConfig,
}

impl HttpClient {
    pub(super) fn new(endpoint: &Endpoint, frames: Frames) -> Result<Self, String> {
        let mut headers: HashMap<HeaderName, HeaderValue> = HashMap::new();
        for (name, value) in &endpoint.headers {
            let value = expand(value, |name| std::env::var(name).ok())
                .map_err(|why| format!("the header `{name}` cannot be sent: {why}"))?;
            let invalid = |_| format!("the header `{name}` is not a valid HTTP header");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid(()))?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| invalid(()))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        install_crypto_provider();
        // A redirect would send the headers to another server.
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(20))
            .build()
            .map_err(|why| format!("no HTTP client can be built: {why}"))?;
        let config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
            .custom_headers(headers)
            .max_sse_event_size(MAX_MESSAGE_BYTES)
            .max_json_response_size(MAX_MESSAGE_BYTES);
        Ok(HttpClient { client, frames, config })
    }

    /// Replaces the client, and keeps the headers.
    #[cfg(feature = "oauth")]
    pub(super) fn with<C>(self, client: C) -> HttpClient<C> {
        HttpClient { client, frames: self.frames, config: self.config }
    }
}

impl<C: StreamableHttpClient + Sync> HttpClient<C> {
    /// Starts a session. `how` tells how the server is authorized, if it requires that.
    pub(super) async fn serve(
        self,
        url: &str,
        handler: Handler,
        how: &str,
    ) -> Result<Service, OpenError> {
        let client = FramedHttp { client: self.client, frames: self.frames };
        let transport = StreamableHttpClientTransport::with_client(client, self.config);
        let service = handler.serve_with_lifecycle(transport, lifecycle()).await;
        service.map_err(|why| match why.is_authorization_required() {
            true => OpenError::unauthorized(url, &how),
            false => format!("{url} cannot be reached: {why}").into(),
        })
    }
}
