//! [`ServerBuilder`]: the configuration of a server.

mod build;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::limits::Budget;
use loopwright_core::{Principal, SessionStore};
use loopwright_host::{
    AgentFactory, Agents, ConfigError, CustomSetting, Models, OperatorRules, SessionSettings,
    SystemPrompt,
};
#[cfg(feature = "long-term")]
use loopwright_memory::long_term::LongTerm;

#[cfg(feature = "jwt")]
use crate::access::JwtUsers;
use crate::access::{AccessPolicy, Caller, OwnerPolicy, Proxies, TokenDigest, Users};
#[cfg(feature = "cluster")]
use crate::cluster::ClusterSettings;
#[cfg(feature = "webhooks")]
use crate::inbox::Webhook;
use crate::inbox::{ActionChange, OnAction};
use crate::limits::bounded_reads::BoundedReads;
use crate::limits::{self, Limits};
use crate::server::Server;
use crate::telemetry::ServerTelemetry;

/// Builder for a [`Server`].
#[must_use = "call build()"]
pub struct ServerBuilder {
    agents: Agents,
    /// A name shared by two agents.
    duplicate: Option<String>,
    /// `true` if an agent has an empty name.
    has_unnamed: bool,
    users: Users,
    /// The first error in the tokens.
    bad_user: Option<ConfigError>,
    policy: Arc<dyn AccessPolicy>,
    daily_budget: Budget,
    daily_use: Option<PathBuf>,
    on_action: Vec<OnAction>,
    #[cfg(feature = "webhooks")]
    webhooks: Vec<Webhook>,
    hosts: Vec<String>,
    origins: Vec<String>,
    store: Arc<dyn SessionStore>,
    principal: Option<Principal>,
    #[cfg(feature = "long-term")]
    long_term: Option<LongTerm>,
    limits: Limits,
    telemetry: ServerTelemetry,
    has_rules: bool,
    proxies: Arc<Proxies>,
    #[cfg(feature = "cluster")]
    cluster: ClusterSettings,
}

impl Server {
    /// Returns a builder for a server whose live sessions are in this store.
    pub fn builder(store: impl SessionStore + 'static) -> ServerBuilder {
        ServerBuilder::new(Arc::new(store))
    }
}

impl ServerBuilder {
    fn new(store: Arc<dyn SessionStore>) -> Self {
        let mut agents = Agents::default();
        agents.set_run_budget(Budget::default().time(ServerBuilder::RUN_TIME));
        ServerBuilder {
            agents,
            duplicate: None,
            has_unnamed: false,
            users: Users::default(),
            bad_user: None,
            policy: Arc::new(OwnerPolicy),
            daily_budget: Budget::default(),
            daily_use: None,
            on_action: Vec::new(),
            #[cfg(feature = "webhooks")]
            webhooks: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            store: Arc::new(BoundedReads::new(store)),
            principal: None,
            #[cfg(feature = "long-term")]
            long_term: None,
            limits: Limits::default(),
            telemetry: ServerTelemetry::default(),
            has_rules: false,
            proxies: Arc::default(),
            #[cfg(feature = "cluster")]
            cluster: ClusterSettings::default(),
        }
    }

    /// Exports spans and metrics of all sessions. A run belongs to the trace in the headers
    /// `traceparent` and `tracestate` of its request.
    #[cfg(feature = "otel")]
    #[cfg_attr(docsrs, doc(cfg(feature = "otel")))]
    pub fn telemetry(mut self, telemetry: loopwright_otel::Telemetry) -> Self {
        self.telemetry.telemetry = Some(telemetry);
        self
    }

    /// Default maximum number of runs per client; see [`ServerBuilder::max_runs`].
    pub const RUNS_PER_CLIENT: usize = limits::RUNS_PER_CLIENT;
    /// Default maximum number of runs of all clients; see [`ServerBuilder::max_runs`].
    pub const RUNS: usize = limits::RUNS;
    /// Default maximum number of connections per client; see [`ServerBuilder::max_connections`].
    pub const CONNECTIONS_PER_CLIENT: usize = limits::CONNECTIONS_PER_CLIENT;
    /// Default maximum size of a body, 4 MiB; see [`ServerBuilder::max_body`].
    pub const BODY_BYTES: usize = limits::BODY_BYTES;
    /// Default maximum number of open sessions; see [`ServerBuilder::max_open_sessions`].
    pub const OPEN_SESSIONS: usize = limits::OPEN_SESSIONS;
    /// Default maximum time of a run, a day; see [`ServerBuilder::run_budget`].
    pub const RUN_TIME: Duration = Duration::from_secs(24 * 60 * 60);

    /// Sets the operator's token, which clients send as `Authorization: Bearer TOKEN` to a
    /// [served](crate::serve) server. Its owner may do everything.
    pub fn token(self, token: impl AsRef<str>) -> Self {
        self.user(token, Caller::operator())
    }

    /// Adds a caller with a token, which clients send as `Authorization: Bearer TOKEN` to a
    /// [served](crate::serve) server. The [policy](ServerBuilder::policy) decides what the caller
    /// may do.
    pub fn user(mut self, token: impl AsRef<str>, caller: Caller) -> Self {
        let added = self.users.add(token.as_ref(), caller);
        self.bad_user = self.bad_user.or(added.err());
        self
    }

    /// Adds a caller by the SHA-256 digest of the token, in hexadecimal digits, so that a settings
    /// file need not contain the token.
    pub fn user_digest(mut self, digest: &str, caller: Caller) -> Self {
        let added = match TokenDigest::from_hex(digest) {
            Some(digest) => self.users.add_digest(digest, caller),
            None => Err(ConfigError::new(format!(
                "The digest of the token of `{caller}` does not have 64 hexadecimal digits."
            ))),
        };
        self.bad_user = self.bad_user.or(added.err());
        self
    }

    /// Accepts the tokens of an OpenID Connect provider too, on a [served](crate::serve) server.
    #[cfg(feature = "jwt")]
    pub fn jwt(mut self, users: JwtUsers) -> Self {
        let set = self.users.set_jwt(users);
        self.bad_user = self.bad_user.or(set.err());
        self
    }

    /// Sets the policy that decides what callers may do. Defaults to [`OwnerPolicy`].
    pub fn policy(mut self, policy: impl AccessPolicy + 'static) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Adds a name, without a port, by which clients may address a [served](crate::serve) server,
    /// besides its address and `localhost`. An example is the name of a proxy in front of it.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Lets pages of another origin, such as `https://app.example.org`, use a
    /// [served](crate::serve) server. Their requests are accepted, and answered as CORS demands,
    /// preflights included. Such a page has to send the [token](ServerBuilder::token), which is
    /// therefore required.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Adds an agent with the name that its sessions are stored with. Sessions and requests that
    /// name no agent use the first one. At least one is required.
    ///
    /// A session whose agent this server does not have can only be read here, neither changed nor
    /// deleted.
    pub fn agent(
        mut self,
        name: impl Into<Arc<str>>,
        factory: impl AgentFactory + 'static,
    ) -> Self {
        let name = name.into();
        self.has_unnamed |= name.is_empty();
        if !self.agents.add(name.clone(), Arc::new(factory)) {
            self.duplicate = Some(name.to_string());
        }
        self
    }

    /// Sets the source of the models that sessions and requests name; see
    /// [`AgentSetup::model`](loopwright_host::AgentSetup::model).
    pub fn models(mut self, models: impl Models + 'static) -> Self {
        self.agents.set_models(Arc::new(models));
        self
    }

    /// Sets defaults for settings that sessions leave out, such as the model and its address. They
    /// are not stored with the sessions.
    pub fn defaults(mut self, settings: SessionSettings) -> Self {
        self.agents.set_defaults(settings);
        self
    }

    /// Gives the sessions of the store that have no settings to the first agent. A program makes
    /// such sessions with [`GenericAgent::open`](loopwright_core::GenericAgent::open), without a
    /// server. Without this they can only be read, because they may be another program's, with
    /// other tools.
    pub fn adopt_sessions(mut self) -> Self {
        self.agents.adopt_sessions();
        self
    }

    /// Adds one of the app's own settings to the settings of sessions. Agents read it with
    /// [`AgentSetup::custom`](loopwright_host::AgentSetup::custom). Clients choose its value under
    /// `custom` of a session's settings, unless it is [`host_only`](CustomSetting::host_only).
    pub fn setting(mut self, setting: CustomSetting) -> Self {
        self.agents.add_setting(setting);
        self
    }

    /// Sets the system prompt that [`AgentSetup::system`](loopwright_host::AgentSetup::system)
    /// returns for sessions without one of their own: a text, or a function of the setup. A coding
    /// agent without its own prompt uses it too.
    pub fn system(mut self, prompt: impl Into<SystemPrompt>) -> Self {
        self.agents.set_system(prompt.into());
        self
    }

    /// Sets the principal of the operator. Tools and hooks see it as the [`Principal`] of sessions
    /// without an owner, and of requests that neither a token nor a layer of the host names. It is
    /// unset by default. The operator's decisions do not contain it: they name `operator` if there
    /// are other [users](ServerBuilder::user), else nobody.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Lets clients see and delete the facts about their [principal](ServerBuilder::principal),
    /// under `/api/memory`. It does not give the facts to agents; use
    /// `CodingAgentBuilder::long_term` for that.
    #[cfg(feature = "long-term")]
    pub fn long_term(mut self, memory: LongTerm) -> Self {
        self.long_term = Some(memory);
        self
    }

    /// Sets the maximum size of a request's body, in bytes. Defaults to [`Self::BODY_BYTES`]. The
    /// limit on [all bodies](Self::max_bodies) is at least as large.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self.limits.bodies = self.limits.bodies.max(bytes);
        self
    }

    /// Sets the maximum total size, in bytes, of all bodies in memory while requests arrive and are
    /// handled. Defaults to 256 MiB.
    pub fn max_bodies(mut self, bytes: usize) -> Self {
        self.limits.bodies = bytes;
        self
    }

    /// Sets the maximum number of connections of one client's address to a [served](crate::serve)
    /// server. Defaults to [`Self::CONNECTIONS_PER_CLIENT`]. All clients together may have 16,384.
    ///
    /// Each stream of events is a connection. Over HTTP/2 each request in progress counts as
    /// another connection. Some more connections are reserved for requests to `/healthz` and
    /// `/readyz`.
    pub fn max_connections(mut self, per_client: usize) -> Self {
        self.limits.connections_per_client = per_client;
        self
    }

    /// Sets the maximum number of runs in progress, of requests and of live sessions: per client
    /// address (default: [`Self::RUNS_PER_CLIENT`]), and of all clients ([`Self::RUNS`]). A session
    /// that waits for a decision has no run in progress.
    pub fn max_runs(mut self, per_client: usize, total: usize) -> Self {
        self.limits.runs_per_client = per_client;
        self.limits.runs = total;
        self
    }

    /// Sets the budget of each run, whatever the agent, the session or the request allows. Defaults
    /// to [`Self::RUN_TIME`], with the agent's own limits for turns, tokens and cost. With a cost,
    /// requests to models without prices fail.
    pub fn run_budget(mut self, budget: Budget) -> Self {
        self.agents.set_run_budget(budget);
        self
    }

    /// Calls `report` for each action that becomes pending or is resolved, in this process or
    /// another one with the same store. It is called at least once per change while
    /// [`Server::report_actions`] runs. It must not block.
    pub fn on_action(mut self, report: impl Fn(&ActionChange) + Send + Sync + 'static) -> Self {
        self.on_action.push(Arc::new(report));
        self
    }

    /// Sends each action that becomes pending or is resolved to a URL.
    #[cfg(feature = "webhooks")]
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Sets the tokens and the cost that the sessions of a principal may use per day, in UTC. Turns
    /// and time of the budget are ignored. Unlimited by default. The operator is not limited.
    ///
    /// When the budget is used up, the principal's sessions accept no more prompts, steers,
    /// follow-ups, continuations and compactions. `/api/agent-chat` accepts no more requests to
    /// agents that have a model of their own. Decisions are still accepted.
    ///
    /// Each model request is reserved before it is sent. A run in progress ends with
    /// [`Limit::Shared`](loopwright_core::limits::Limit::Shared) instead of its next request. Near
    /// the end of the budget, the requests of a principal wait for each other, so each process
    /// exceeds the budget by at most one request. Requests in progress in other processes count
    /// with the estimates in their logs, which have no output.
    ///
    /// Usage is read from the logs of the sessions. The usage of deleted sessions and of requests
    /// without a session counts only in this process, until it ends, unless there is a
    /// [directory](Self::daily_use) for it.
    pub fn daily_budget(mut self, budget: Budget) -> Self {
        self.daily_budget = budget;
        self
    }

    /// Sets the directory for usage that counts for the [daily budget](Self::daily_budget) and is
    /// in no log. It then survives a restart, and servers with the same store and directory count
    /// it together. Each day has a file, and the files of earlier days are removed. The directory
    /// is created on demand.
    pub fn daily_use(mut self, directory: impl Into<PathBuf>) -> Self {
        self.daily_use = Some(directory.into());
        self
    }

    /// Sets the maximum number of live sessions that are open at a time. Defaults to
    /// [`Self::OPEN_SESSIONS`]. An unused session is closed to open another one. If all are in use,
    /// requests are refused.
    pub fn max_open_sessions(mut self, sessions: usize) -> Self {
        self.limits.open_sessions = sessions;
        self
    }

    /// Sets the grace period for runs in progress when a [served](crate::serve) server shuts down.
    /// Defaults to ten seconds.
    pub fn grace(mut self, time: Duration) -> Self {
        self.limits.grace = time;
        self
    }

    /// Makes the server a worker of a cluster: any number of servers with the same store, behind
    /// any proxy. Each accepts requests for every session. The placement decides which of them
    /// opens a session.
    ///
    /// If the workers have [addresses](ServerBuilder::cluster_address), streams of events contain
    /// the deltas of sessions that other workers have open. A shutdown hands sessions over between
    /// two turns.
    #[cfg(feature = "cluster")]
    pub fn cluster(mut self, placement: impl loopwright_durable::Placement) -> Self {
        self.cluster.placement = Some(Arc::new(placement));
        self
    }

    /// Sets the URL under which other workers of the [cluster](ServerBuilder::cluster) reach this
    /// server, such as `http://10.0.0.7:7777`, and the token that all workers share. The URL's host
    /// becomes a [name](ServerBuilder::host) of the server.
    #[cfg(feature = "cluster")]
    pub fn cluster_address(mut self, url: impl Into<String>, token: Option<String>) -> Self {
        let url = url.into();
        if let Ok(uri) = url.parse::<axum::http::Uri>()
            && let Some(host) = uri.host()
        {
            self.hosts.push(host.to_owned());
        }
        (self.cluster.address, self.cluster.token) = (Some(url), token);
        self
    }

    /// Sets the limits for clients: models, addresses, approvals, budgets of sessions. Defaults to
    /// [`OperatorRules::strict`] if there are [users](ServerBuilder::user), else to
    /// [`OperatorRules::open`]. An app whose own layer names other users than its operator should
    /// choose [`OperatorRules::strict`]. A server that [`serve`](crate::serve)s other machines must
    /// choose.
    pub fn rules(mut self, rules: OperatorRules) -> Self {
        self.agents.set_rules(rules);
        self.has_rules = true;
        self
    }

    /// Sets the proxies whose `X-Forwarded-For` header is trusted, each an IP address or a network
    /// such as `10.0.0.0/8`. The client's address is the last one in the header that is not a
    /// proxy's. The header of other senders is ignored. `Forwarded` is always ignored: a proxy that
    /// sets one of the two passes on the other as the client wrote it.
    ///
    /// The client's address counts for the quotas of clients and is logged. Connections from
    /// proxies are not bounded like a client's connections. Instead, each client's requests in
    /// progress are bounded. Others can reach the server through a proxy, so a
    /// [served](crate::serve) server with proxies needs a token and
    /// [rules](ServerBuilder::rules).
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a proxy is neither an IP address nor a network.
    pub fn trusted_proxies<T: AsRef<str>>(
        mut self,
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, ConfigError> {
        self.proxies = Arc::new(Proxies::parse(proxies)?);
        Ok(self)
    }
}
