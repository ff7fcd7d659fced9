//! [`Connection`]: a running server and the session with it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    PaginatedRequestParams, ProtocolVersion, ServerNotification, ServerPeerInfo,
    SubscriptionFilter, Tool,
};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, Peer, RoleClient};
use tokio_util::task::AbortOnDropHandle;

use super::config::{Endpoint, ServerConfig, Transport, expand};
use super::credentials::OfServer;
use super::crypto::install_crypto_provider;
use super::handler::{Handler, Routes};
use super::launch::Launch;
use super::oauth::authorized_client;

/// The timeout of a server's start, including the handshake.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a message of a server.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// The limits of a list: tools, and pages.
const MAX_TOOLS: usize = 1000;
const MAX_PAGES: usize = 100;

/// The reason why a server cannot be used.
pub(super) struct OpenError {
    /// A sentence without a full stop.
    pub(super) why: String,
    /// `true` if the user must authorize the server first.
    pub(super) needs_authorization: bool,
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        OpenError { why, needs_authorization: false }
    }
}

/// A running server and the session with it. Dropping it ends the session and kills the server's
/// command.
pub(super) struct Connection {
    service: RunningService<RoleClient, Handler>,
    pub(super) routes: Arc<Routes>,
    /// The guard of the command, which is killed when the guard is dropped.
    _guard: Option<Box<dyn Any + Send + Sync>>,
    _listener: Option<AbortOnDropHandle<()>>,
}

impl Connection {
    /// Starts the server, or connects to it.
    pub(super) fn open(
        config: ServerConfig,
        launch: Arc<dyn Launch>,
        tokens: Option<OfServer>,
        handler: Handler,
    ) -> BoxFuture<'static, Result<Self, OpenError>> {
        Box::pin(async move {
            let started = start(config, launch, tokens, handler);
            let opened = tokio::time::timeout(START_TIMEOUT, started).await;
            opened.unwrap_or_else(|_| {
                let seconds = START_TIMEOUT.as_secs();
                Err(format!("it has not answered within {seconds} seconds").into())
            })
        })
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    pub(super) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.service.peer().peer_info()
    }

    /// Lists the tools: at most 1,000, each name once.
    pub(super) async fn list(&self) -> Result<Vec<Tool>, String> {
        let listed = tokio::time::timeout(LIST_TIMEOUT, self.list_pages()).await;
        listed.unwrap_or_else(|_| {
            let seconds = LIST_TIMEOUT.as_secs();
            Err(format!("it has not listed its tools within {seconds} seconds"))
        })
    }

    async fn list_pages(&self) -> Result<Vec<Tool>, String> {
        if self.info().is_none_or(|info| info.capabilities.tools.is_none()) {
            return Ok(Vec::new());
        }
        let mut tools: Vec<Tool> = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.peer().list_tools(Some(params)).await;
            let page = page.map_err(|why| format!("its tools cannot be listed: {why}"))?;
            for tool in page.tools {
                if tools.len() < MAX_TOOLS && !tools.iter().any(|known| known.name == tool.name) {
                    tools.push(tool);
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MAX_TOOLS {
                break;
            }
        }
        Ok(tools)
    }
}

async fn start(
    config: ServerConfig,
    launch: Arc<dyn Launch>,
    tokens: Option<OfServer>,
    handler: Handler,
) -> Result<Connection, OpenError> {
    let routes = handler.routes.clone();
    routes.set_changed(); // nothing was listed on this connection
    let (service, guard) = match &config.transport {
        Transport::Stdio(command) => {
            let launched = launch.launch(command).await;
            let pipes = launched
                .map_err(|why| format!("`{}` cannot be started: {why}", command.program))?;
            let transport = AsyncRwTransport::new_client(pipes.stdout, pipes.stdin)
                .with_max_line_length(MAX_MESSAGE_BYTES);
            let service = handler.serve_with_lifecycle(transport, lifecycle()).await;
            (service.map_err(|why| format!("it does not speak MCP: {why}"))?, Some(pipes.guard))
        }
        Transport::Http(endpoint) => {
            let (client, config) = http_client(endpoint)?;
            let authorized = authorized_client(&endpoint.url, tokens, client.clone()).await;
            let authorized = authorized.map_err(|why| unauthorized(&endpoint.url, &why))?;
            let service = match authorized {
                Some(client) => {
                    let transport = StreamableHttpClientTransport::with_client(client, config);
                    handler.serve_with_lifecycle(transport, lifecycle()).await
                }
                None => {
                    let transport = StreamableHttpClientTransport::with_client(client, config);
                    handler.serve_with_lifecycle(transport, lifecycle()).await
                }
            };
            let service = service.map_err(|why| match why.is_authorization_required() {
                true => {
                    unauthorized(&endpoint.url, &"set its headers, or call its tool `authorize`")
                }
                false => format!("{} cannot be reached: {why}", endpoint.url).into(),
            });
            (service?, None)
        }
    };
    let listener = listen(service.peer().clone(), routes.clone());
    Ok(Connection { service, routes, _guard: guard, _listener: listener })
}

/// Returns the lifecycle: the current version of the protocol, else the last one with a handshake.
fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Subscribes to changes of the tools. Servers of earlier versions announce them unasked.
fn listen(peer: Peer<RoleClient>, routes: Arc<Routes>) -> Option<AbortOnDropHandle<()>> {
    let info = peer.peer_info()?;
    let announces = info.capabilities.tools.as_ref().is_some_and(|t| t.list_changed == Some(true));
    if info.protocol_version.has_initialize() || !announces {
        return None;
    }
    Some(AbortOnDropHandle::new(tokio::spawn(async move {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut subscription) = peer.listen(filter).await else { return };
        while let Ok(Some(notification)) = subscription.next().await {
            if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                routes.set_changed();
            }
        }
        routes.set_changed(); // what changes from now on is not announced
    })))
}

fn unauthorized(url: &str, why: &dyn std::fmt::Display) -> OpenError {
    let why = format!("{url} requires authorization: {why}");
    OpenError { why, needs_authorization: true }
}

fn http_client(
    endpoint: &Endpoint,
) -> Result<(reqwest::Client, StreamableHttpClientTransportConfig), String> {
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
    Ok((client, config))
}
