//! [`Server`]: what all routes share, and how it is set up.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::log::InMemoryStore;
use loopwright_tools::Commands;
use tokio::sync::Semaphore;

use crate::drain::Drain;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::roots::Roots;
use crate::shares::Shares;

/// What all routes share. Clones are the same server.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

/// The parts of a [`Server`].
pub(crate) struct Shared {
    pub(crate) models: Box<dyn Models>,
    /// The directories that work may be done in.
    pub(crate) roots: Roots,
    pub(crate) commands: Commands,
    /// Whether sessions read what projects say to agents.
    pub(crate) agents_md: bool,
    /// Digest of the token that clients must show.
    pub(crate) token: Option<[u8; 32]>,
    /// Names that clients may call it by, besides its address.
    pub(crate) hosts: Vec<String>,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) limits: Limits,
    /// For so many bytes of bodies there is room.
    pub(crate) bodies: Semaphore,
    pub(crate) runs: Shares,
    pub(crate) live: Live,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) drain: Drain,
}

/// What clients may take.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Bytes of a request's body.
    pub(crate) body: usize,
    /// Bytes of all bodies that are read or looked at.
    pub(crate) bodies: usize,
    /// Connections at a time, of one address.
    pub(crate) connections: usize,
    /// Runs at a time, of one address.
    pub(crate) runs_per_client: usize,
    /// Runs at a time, of all.
    pub(crate) runs: usize,
    /// Sessions that are open at a time.
    pub(crate) sessions: usize,
    /// How long what goes on may take to end when the server does.
    pub(crate) grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let grace = Duration::from_secs(10);
        let (body, bodies) = (4 * 1024 * 1024, 256 * 1024 * 1024);
        let (runs_per_client, runs) = (ServerBuilder::RUNS_PER_CLIENT, ServerBuilder::RUNS);
        Limits { body, bodies, connections: 1024, runs_per_client, runs, sessions: 4096, grace }
    }
}

impl Server {
    /// Its parts.
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Begins to set up a server whose models are these.
    pub fn builder(models: impl Models + 'static) -> ServerBuilder {
        ServerBuilder {
            models: Box::new(models),
            roots: Vec::new(),
            commands: Commands::new(),
            agents_md: true,
            token: None,
            hosts: Vec::new(),
            store: Arc::new(InMemoryStore::new()),
            limits: Limits::default(),
        }
    }
}

/// Sets up a [`Server`].
#[must_use = "call build()"]
pub struct ServerBuilder {
    models: Box<dyn Models>,
    roots: Vec<PathBuf>,
    commands: Commands,
    agents_md: bool,
    token: Option<String>,
    hosts: Vec<String>,
    store: Arc<dyn SessionStore>,
    limits: Limits,
}

impl ServerBuilder {
    /// The most runs at a time of one client's address, if [`ServerBuilder::max_runs`] says nothing
    /// else.
    pub const RUNS_PER_CLIENT: usize = 32;
    /// The most runs at a time of all clients together, if [`ServerBuilder::max_runs`] says nothing
    /// else.
    pub const RUNS: usize = 4096;

    /// A directory that clients may work in, and in those below it. May be repeated; without one it
    /// is the current one.
    pub fn root(mut self, dir: impl Into<PathBuf>) -> Self {
        self.roots.push(dir.into());
        self
    }

    /// What commands may do; confined and without network by default.
    pub fn commands(mut self, commands: Commands) -> Self {
        self.commands = commands;
        self
    }

    /// Leaves `AGENTS.md` in the directory of a live session out of its system prompt, where it is
    /// the end otherwise.
    pub fn no_agents_md(mut self) -> Self {
        self.agents_md = false;
        self
    }

    /// What clients must send as `Authorization: Bearer TOKEN` to a server that is
    /// [served](crate::serve).
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// A name that clients may call a [served](crate::serve) server by, besides its address and
    /// `localhost`: that of a proxy in front of it, for instance, without a port. May be repeated.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Where live sessions are kept; in RAM by default.
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = store;
        self
    }

    /// The most bytes of a request's body; 4 MiB by default.
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// The most bytes of all bodies together that are held while requests arrive and are looked at;
    /// 256 MiB by default.
    pub fn max_bodies(mut self, bytes: usize) -> Self {
        self.limits.bodies = bytes;
        self
    }

    /// The most connections of one client's address to a [served](crate::serve) server; 1,024 by
    /// default, and 16,384 of all together. Each stream of events is one.
    pub fn max_connections(mut self, per_client: usize) -> Self {
        self.limits.connections = per_client;
        self
    }

    /// The most runs at a time, of requests and of live sessions: of one client's address
    /// ([`Self::RUNS_PER_CLIENT`] by default), and of all together ([`Self::RUNS`]). A session that
    /// waits for an answer has none.
    pub fn max_runs(mut self, per_client: usize, all: usize) -> Self {
        (self.limits.runs_per_client, self.limits.runs) = (per_client, all);
        self
    }

    /// The most live sessions that are open at a time, 4,096 by default. Those that nobody uses
    /// make room for others; where all are in use or run, further ones are refused.
    pub fn max_open_sessions(mut self, sessions: usize) -> Self {
        self.limits.sessions = sessions;
        self
    }

    /// How long what goes on may take to end when a [served](crate::serve) server ends; ten seconds
    /// by default.
    pub fn grace(mut self, time: Duration) -> Self {
        self.limits.grace = time;
        self
    }

    /// The server. Nothing is listened to yet.
    ///
    /// # Errors
    /// [`ConfigError`] if a root is no directory, or the token has fewer than 16 characters.
    pub fn build(mut self) -> Result<Server, ConfigError> {
        if self.roots.is_empty() {
            self.roots.push(".".into());
        }
        let roots = Roots::open(&self.roots)?;
        if self.token.as_ref().is_some_and(|token| token.chars().count() < 16) {
            let why = "The token is too short: give one of at least 16 characters, such as `openssl rand -hex 16` makes.";
            return Err(ConfigError(why.into()));
        }
        let metrics = Arc::<Metrics>::default();
        Ok(Server(Arc::new(Shared {
            models: self.models,
            roots,
            commands: self.commands,
            agents_md: self.agents_md,
            token: self.token.as_deref().map(crate::guard::digest),
            hosts: self.hosts,
            store: self.store,
            runs: Shares::default(),
            live: Live::new(metrics.clone(), self.limits.sessions),
            metrics,
            bodies: Semaphore::new(self.limits.bodies.min(Semaphore::MAX_PERMITS)),
            drain: Drain::default(),
            limits: self.limits,
        })))
    }
}

/// The server could not be set up; a sentence for its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}
