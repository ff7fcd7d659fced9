//! [`Server`]: a server with its restarts, and the calls that wait for the user.

// SEP-2577 has deprecated roots; servers of earlier versions use them.
#![allow(deprecated)]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use loopwright_core::message::CallId;
use loopwright_core::{ChatModel, ToolContext, ToolError, ToolOutput};
use rmcp::model::{CallToolRequestParams, Root};
use serde_json::Value;
use tokio::time::Instant;

use super::config::{ServerConfig, Transport};
use super::connection::{Connection, Listed};
use super::decode::definition_of;
use super::definitions::Definitions;
use super::exchange::{Exchange, Host, Step, failure};
use super::handler::{Handler, Routes};
use super::http_client::OpenError;
use super::launch::Launch;
use super::oauth::Authorization;
use super::processes::{Process, ProcessLimit};

/// The maximum number of calls that wait for the user.
const MAX_WAITING: usize = 64;
/// The pause before a failed server is started again: the first, and the longest.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// The options of a connection.
pub(super) struct Options {
    pub(super) config: ServerConfig,
    pub(super) launch: Arc<dyn Launch>,
    pub(super) roots: Vec<Root>,
    pub(super) model: Option<Arc<dyn ChatModel>>,
    /// `true` if the server may ask the user.
    pub(super) asks: bool,
    pub(super) definitions: Arc<Definitions>,
    pub(super) authorization: Authorization,
    /// The process limit, and the owner of the server's process.
    pub(super) processes: Option<(ProcessLimit, Option<String>)>,
}

/// A server and the connection to it, if any.
pub(super) struct Server {
    pub(super) options: Options,
    own: Weak<Server>,
    state: tokio::sync::Mutex<State>,
    /// The definitions of the tools in the last list, by name.
    current: Mutex<BTreeMap<String, String>>,
    /// The reason why the server cannot be used; `None` if it can.
    failure: Mutex<Option<String>>,
    waiting: Mutex<HashMap<CallKey, (Instant, Exchange)>>,
}

/// The id of a session, and of a call in it.
type CallKey = (Arc<str>, CallId);

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    delay: Duration,
    retry_at: Option<Instant>,
    /// The time of the connection's last use.
    used: Option<Instant>,
}

impl State {
    fn is_open(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_closed())
    }
}

impl Server {
    pub(super) fn new(options: Options, own: Weak<Server>) -> Self {
        Server {
            options,
            own,
            state: tokio::sync::Mutex::default(),
            current: Mutex::default(),
            failure: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.options.config.name()
    }

    pub(super) fn prefix(&self) -> String {
        format!("{}__", self.name())
    }

    /// Returns whether the server is connected. It is not while it starts.
    pub(super) fn is_connected(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.is_open())
    }

    fn is_idle(&self, state: &State) -> bool {
        let is_unused = |connection: &Arc<Connection>| {
            Arc::strong_count(connection) == 1 && connection.routes.is_idle()
        };
        state.connection.as_ref().is_some_and(is_unused) && lock(&self.waiting).is_empty()
    }

    pub(super) fn last_failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Lets the server be started without a pause. A run waits for it as for a new one.
    #[cfg(feature = "oauth")]
    pub(super) async fn forget_failure(&self) {
        *self.state.lock().await = State::default();
        self.options.authorization.set_needed(false);
        *lock(&self.failure) = None;
    }

    /// Returns the connection, and starts the server if it is not running. A failed server is
    /// started again only after a pause. The error is a sentence without a full stop.
    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut state = self.state.lock().await;
        state.used = Some(Instant::now());
        if let Some(connection) = state.connection.as_ref().filter(|known| !known.is_closed()) {
            return Ok(connection.clone());
        }
        state.connection = None;
        if state.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(self.last_failure().unwrap_or_else(|| "it has failed".into()));
        }
        let Options { config, launch, roots, model, asks, authorization, processes, .. } =
            &self.options;
        if let (Transport::Stdio(_), Some((limit, owner))) = (&config.transport, processes) {
            limit.admit(owner.as_deref(), self.own.clone()).inspect_err(|why| {
                *lock(&self.failure) = Some(why.clone());
            })?;
        }
        let handler = Handler {
            routes: Arc::new(Routes::default()),
            roots: roots.clone(),
            can_sample: model.is_some() && *asks,
            can_ask: *asks,
        };
        let tokens = authorization.tokens(config);
        let opened = Connection::open(config.clone(), launch.clone(), tokens, handler).await;
        // Also after a successful start: a server may die at once.
        state.delay = (state.delay * 2).clamp(FIRST_DELAY, MAX_DELAY);
        state.retry_at = Some(Instant::now() + state.delay);
        match opened {
            Ok(connection) => {
                *lock(&self.failure) = None;
                authorization.set_needed(false);
                Ok(state.connection.insert(Arc::new(connection)).clone())
            }
            Err(OpenError { why, needs_authorization }) => {
                tracing::warn!(server = self.name(), why, "an MCP server cannot be used");
                authorization.set_needed(needs_authorization);
                *lock(&self.failure) = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Returns the connection for a call. The error is for the model.
    pub(super) async fn connect(&self) -> Result<Arc<Connection>, ToolError> {
        self.connection().await.map_err(|why| self.unavailable(&why))
    }

    /// Lists the tools.
    pub(super) async fn list_tools(&self) -> Result<(Arc<Connection>, Listed), String> {
        let connection = self.connection().await?;
        connection.routes.take_change();
        let listed = connection.list().await.inspect_err(|why| {
            connection.routes.set_changed();
            *lock(&self.failure) = Some(why.clone());
        })?;
        self.state.lock().await.delay = Duration::ZERO; // it works
        let current = listed.tools.iter().map(|tool| (tool.name.to_string(), definition_of(tool)));
        *lock(&self.current) = current.collect();
        *lock(&self.failure) = None;
        Ok((connection, listed))
    }

    /// Fails if the server has changed or removed the tool since it was listed.
    pub(super) async fn check_definition(
        &self,
        name: &str,
        definition: &str,
    ) -> Result<(), ToolError> {
        let connection = self.connect().await?;
        if connection.routes.take_change() {
            connection.routes.set_changed(); // until they are listed
            self.list_tools().await.map_err(|why| self.unavailable(&why))?;
        }
        match lock(&self.current).get(name).is_some_and(|current| current == definition) {
            true => Ok(()),
            false => Err(ToolError::failed(format!(
                "The MCP server `{}` has changed or removed this tool. Nothing was called. What it \
                 offers now can be called after the user's next message.",
                self.name()
            ))),
        }
    }

    fn unavailable(&self, why: &str) -> ToolError {
        ToolError::failed(format!("The MCP server `{}` cannot be used: {why}.", self.name()))
    }

    /// Returns whether the tool was last called under another definition.
    pub(super) fn is_changed(&self, tool: &str, definition: &str) -> bool {
        let accepted = self.options.definitions.get(&self.key(tool));
        accepted.is_some_and(|accepted| accepted != definition)
    }

    /// Records the definition under which a tool is called.
    pub(super) async fn accept(&self, tool: &str, definition: &str) {
        let definitions = self.options.definitions.clone();
        let (key, definition) = (self.key(tool), definition.to_owned());
        let accepted = tokio::task::spawn_blocking(move || definitions.accept(&key, &definition));
        if let Ok(Err(why)) = accepted.await {
            tracing::warn!(%why, "the definition of a tool cannot be recorded");
        }
    }

    fn key(&self, tool: &str) -> String {
        format!("{}/{}/{tool}", self.name(), self.options.config.digest())
    }

    fn host(&self) -> Host<'_> {
        let Options { config, roots, model, .. } = &self.options;
        Host { server: config.name(), roots, model: model.as_deref() }
    }

    /// Calls a tool.
    pub(super) async fn call_tool(
        &self,
        params: CallToolRequestParams,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let connection = self.connect().await?;
        let routes = connection.routes.clone();
        let started = Exchange::start(connection.peer().clone(), routes, params).await;
        let exchange = started.map_err(|why| failure(self.name(), why))?;
        self.continue_call(exchange, cx).await
    }

    /// Continues a call with the user's answer.
    pub(super) async fn resume_call(
        &self,
        answer: Value,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let waiting = lock(&self.waiting).remove(&key_of(cx));
        let Some((_, mut exchange)) = waiting else {
            return Err(ToolError::failed(format!(
                "The call of the MCP server `{}` was lost while it waited for the user, and may \
                 have had effects. Check before you call it again.",
                self.name()
            )));
        };
        let host = self.host();
        tokio::select! {
            biased;
            () = cx.cancelled() => return Err(ToolError::Cancelled),
            () = exchange.answer(cx, &host, answer) => {}
        }
        self.continue_call(exchange, cx).await
    }

    async fn continue_call(
        &self,
        mut exchange: Exchange,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        match exchange.run(cx, &self.host()).await {
            Step::Finished(result) => result,
            Step::Asks(question) => {
                let mut waiting = lock(&self.waiting);
                if waiting.len() >= MAX_WAITING {
                    let oldest = waiting.iter().min_by_key(|(_, (since, _))| *since);
                    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                        waiting.remove(&key);
                    }
                }
                waiting.insert(key_of(cx), (Instant::now(), exchange));
                Err(question.suspend())
            }
        }
    }
}

impl Process for Server {
    fn has_process(&self) -> bool {
        self.state.try_lock().map_or(true, |state| state.is_open())
    }

    fn idle_since(&self) -> Option<Instant> {
        let state = self.state.try_lock().ok()?;
        state.used.filter(|_| self.is_idle(&state))
    }

    fn close_idle(&self) {
        if let Ok(mut state) = self.state.try_lock()
            && self.is_idle(&state)
        {
            *state = State::default();
        }
    }
}

fn key_of(cx: &ToolContext) -> CallKey {
    (cx.session_id().into(), cx.call_id().clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
