//! [`Handler`]: routes a server's requests and notifications to the calls in progress.

// SEP-2577 has deprecated sampling and roots; servers of earlier versions use them.
#![allow(deprecated)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestMethod, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ListRootsResult,
    ProgressNotificationParam, ProgressToken, RequestId, Root, RootsCapabilities,
    SamplingCapability, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use tokio::sync::{mpsc, oneshot};

/// The maximum number of requests of a server that wait for one call.
const MAX_REQUESTS: usize = 4;
/// The maximum number of progress notifications that wait for one call. Further ones are dropped.
const MAX_PROGRESS: usize = 16;

/// A request of the server during a call. Dropping `reply` refuses the request.
pub(super) enum ServerRequest {
    Elicitation {
        params: Box<ElicitRequestParams>,
        reply: oneshot::Sender<ElicitResult>,
    },
    Sampling {
        params: Box<CreateMessageRequestParams>,
        reply: oneshot::Sender<Result<CreateMessageResult, ErrorData>>,
    },
}

/// The requests and progress notifications for a call in progress.
pub(super) struct Inbox {
    pub(super) requests: mpsc::Receiver<ServerRequest>,
    pub(super) progress: mpsc::Receiver<ProgressNotificationParam>,
}

struct Call {
    token: ProgressToken,
    requests: mpsc::Sender<ServerRequest>,
    progress: mpsc::Sender<ProgressNotificationParam>,
}

/// The state that the handler of a connection shares with its calls.
#[derive(Default)]
pub(super) struct Routes {
    calls: Mutex<HashMap<RequestId, Call>>,
    /// Set when the server announces a change of its tools, until they are listed.
    tools_changed: AtomicBool,
}

impl Routes {
    /// Registers a call, and returns what it receives.
    pub(super) fn add(&self, id: RequestId, token: ProgressToken) -> Inbox {
        let (requests, receiver) = mpsc::channel(MAX_REQUESTS);
        let (progress, of_progress) = mpsc::channel(MAX_PROGRESS);
        self.calls().insert(id, Call { token, requests, progress });
        Inbox { requests: receiver, progress: of_progress }
    }

    /// Removes a call that has ended.
    pub(super) fn remove(&self, id: &RequestId) {
        self.calls().remove(id);
    }

    /// Returns whether no call is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.calls().is_empty()
    }

    /// Returns whether the tools have changed, and clears the flag.
    pub(super) fn take_change(&self) -> bool {
        self.tools_changed.swap(false, Ordering::Relaxed)
    }

    /// Records that the tools have changed.
    pub(super) fn set_changed(&self) {
        self.tools_changed.store(true, Ordering::Relaxed);
    }

    /// Passes a request on to the call that it belongs to, or to any call if the transport does not
    /// report the origin. Refuses the request if there is no such call or too many requests wait.
    fn route(&self, origin: Option<&InboundStreamOrigin>, request: ServerRequest) {
        let calls = self.calls();
        let call = match origin {
            Some(InboundStreamOrigin::OutboundRequest(id)) => calls.get(id),
            _ => calls.values().next(),
        };
        if let Some(call) = call {
            let _ = call.requests.try_send(request);
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's side of a connection, for requests and notifications of the server.
pub(super) struct Handler {
    pub(super) routes: Arc<Routes>,
    pub(super) roots: Vec<Root>,
    pub(super) can_sample: bool,
    pub(super) can_ask: bool,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.sampling = self.can_sample.then(SamplingCapability::default);
        capabilities.elicitation = self.can_ask.then(|| {
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default())
        });
        let version = env!("CARGO_PKG_VERSION");
        ClientConfig::new(capabilities, Implementation::new("loopwright", version))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.clone()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let cancel = || ElicitResult::new(ElicitationAction::Cancel);
        if !self.can_ask {
            return Ok(cancel());
        }
        let (reply, answer) = oneshot::channel();
        let origin = context.extensions.get::<InboundStreamOrigin>();
        let params = Box::new(params);
        self.routes.route(origin, ServerRequest::Elicitation { params, reply });
        tokio::select! {
            answer = answer => Ok(answer.unwrap_or_else(|_| cancel())),
            () = context.ct.cancelled() => Ok(cancel()),
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        if !self.can_sample {
            return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
        }
        // MCP, *Sampling*: the code of a request that the user rejects.
        let rejected = || ErrorData::new(rmcp::model::ErrorCode(-1), "The user refused.", None);
        let (reply, answer) = oneshot::channel();
        let origin = context.extensions.get::<InboundStreamOrigin>();
        let params = Box::new(params);
        self.routes.route(origin, ServerRequest::Sampling { params, reply });
        tokio::select! {
            answer = answer => answer.unwrap_or_else(|_| Err(rejected())),
            () = context.ct.cancelled() => Err(rejected()),
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let calls = self.routes.calls();
        if let Some(call) = calls.values().find(|call| call.token == params.progress_token) {
            let _ = call.progress.try_send(params); // a flood is dropped
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.routes.set_changed();
    }
}
