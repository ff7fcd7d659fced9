//! [`Connection`]: a running server and the session with it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    PaginatedRequestParams, ServerNotification, ServerPeerInfo, SubscriptionFilter, Tool,
};
use rmcp::{ClientServiceExt as _, Peer, RoleClient};
use tokio_util::task::AbortOnDropHandle;

use super::config::{ServerConfig, Transport};
use super::frames::Frames;
use super::handler::{Handler, Routes};
use super::http_client::{HttpClient, OpenError, Service, lifecycle};
use super::launch::Launch;
use super::oauth::{self, Tokens};
use super::repair;
use crate::lines::Lines;

/// The timeout of a server's start, including the handshake.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a list.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// The limits of a list: tools, and pages.
const MAX_TOOLS: usize = 1000;
const MAX_PAGES: usize = 100;

/// A running server and the session with it. Dropping it ends the session and kills the server's
/// command.
pub(super) struct Connection {
    service: Service,
    frames: Frames,
    pub(super) routes: Arc<Routes>,
    /// The guard of the command, which is killed when the guard is dropped.
    _guard: Option<Box<dyn Any + Send + Sync>>,
    _listener: Option<AbortOnDropHandle<()>>,
}

/// A list of tools.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) tools: Vec<Tool>,
    /// The tools that cannot be read or used: the name and the reason of each.
    pub(super) left_out: Vec<String>,
}

impl Connection {
    /// Starts the server, or connects to it.
    pub(super) fn open(
        config: ServerConfig,
        launch: Arc<dyn Launch>,
        tokens: Tokens,
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
        self.service.is_closed()
            || self.service.peer().is_transport_closed()
            || self.frames.is_refused()
    }

    pub(super) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.service.peer().peer_info()
    }

    /// Lists the tools: at most 1,000, each name once.
    pub(super) async fn list(&self) -> Result<Listed, String> {
        let listed = tokio::time::timeout(LIST_TIMEOUT, self.list_pages()).await;
        listed.unwrap_or_else(|_| {
            let seconds = LIST_TIMEOUT.as_secs();
            Err(format!("it has not listed its tools within {seconds} seconds"))
        })
    }

    async fn list_pages(&self) -> Result<Listed, String> {
        if self.info().is_none_or(|info| info.capabilities.tools.is_none()) {
            return Ok(Listed::default());
        }
        let Listed { mut tools, mut left_out } = Listed::default();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.peer().list_tools(Some(params)).await;
            let page = page.map_err(|why| format!("its tools cannot be listed: {why}"))?;
            left_out.extend(repair::left_out(page.meta));
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
        repair::bound(&mut left_out);
        Ok(Listed { tools, left_out })
    }
}

async fn start(
    config: ServerConfig,
    launch: Arc<dyn Launch>,
    tokens: Tokens,
    handler: Handler,
) -> Result<Connection, OpenError> {
    let routes = handler.routes.clone();
    routes.set_changed(); // nothing was listed on this connection
    let frames = Frames::default();
    let (service, guard) = match &config.transport {
        Transport::Stdio(command) => {
            let launched = launch.launch(command).await;
            let pipes = launched
                .map_err(|why| format!("`{}` cannot be started: {why}", command.program))?;
            let transport = Lines::new(pipes.stdout, pipes.stdin, frames.clone());
            let service = handler.serve_with_lifecycle(transport, lifecycle()).await;
            (service.map_err(|why| format!("it does not speak MCP: {why}"))?, Some(pipes.guard))
        }
        Transport::Http(endpoint) => {
            let client = HttpClient::new(endpoint, frames.clone())?;
            (oauth::connect(endpoint, tokens, client, handler).await?, None)
        }
    };
    let listener = listen(service.peer().clone(), routes.clone());
    Ok(Connection { service, frames, routes, _guard: guard, _listener: listener })
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
