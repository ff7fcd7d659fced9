//! [`Postgres`]: the sessions of any number of machines in a PostgreSQL database.

mod append;
mod background;
mod branches;
mod config;
mod error;
mod handle;
mod link;
mod listing;
mod mailbox;
mod owners;
mod reading;
mod rows;
mod schedules;
mod schema;
mod session;
mod snapshots;
mod store;
mod text;
mod tls;
mod workers;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::error::Failure;
use loopwright_core::log::{
    AuditPage, AuditQuery, InputReceipt, LogEntry, MemoryError, PendingPage, PendingQuery,
    PostedInput, Schedules, SearchHit, SessionInfo, SessionLog, SessionPage, SessionQuery, Workers,
};
use loopwright_core::{Memory, SessionStore};
use tokio::sync::mpsc;

use crate::{Durability, codec};
use background::Background;
use branches::Fork;
use config::Options;
use handle::StoreHandle;
use link::{Link, Order};
use mailbox::Posted;
use session::OpenSession;
use store::{Signals, Store};

/// The default lease of a store.
const DEFAULT_LEASE: Duration = Duration::from_secs(10);
/// The default maximum of connections, besides the two that every store has.
const DEFAULT_CONNECTIONS: usize = 8;

/// A store of sessions in a PostgreSQL database, version 13 or newer, for any number of processes
/// on any number of machines. Clones share the store.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), loopwright_core::log::MemoryError> {
/// use loopwright_core::SessionStore;
/// use loopwright_memory::Postgres;
///
/// let store = Postgres::connect("postgres://ann:secret@localhost/agents").await?;
/// // An agent opens the session itself: `agent.run(RunContext::new().stored(&store, "s").await?)`.
/// let memory = store.open("s").await?;
/// # drop(memory);
/// # Ok(()) }
/// ```
///
/// - **Address.** It has the form `postgres://USER:PASSWORD@HOST:5432/DATABASE`. If it has no
///   password, the environment variable `PGPASSWORD` is used.
/// - **Tables.** The store creates its tables in the schema `loopwright`, or in the builder's, and
///   adds what a newer version needs. The role of the address needs the privilege `CREATE` of the
///   database for that.
/// - **Ownership.** A store has a lease, 10 s by default, which it renews, and an advisory lock.
///   When its process or its connection ends, the server frees the lock at once, and other stores
///   can open its sessions; a store whose connection has ended connects again at once. When its
///   machine or its network fails, others can open its sessions after the lease. Each opening gives
///   the session a new epoch, and a write of an older epoch changes nothing. So the lease only
///   decides how long others wait, never whether a write is correct.
/// - **Writing.** Appends of all sessions that arrive at the same time are one transaction, which
///   waits for one flush of the server's log: a crash of the server loses nothing.
/// - **Failures.** While the server cannot be reached, operations are repeated for 10 s, except
///   forks and deletions. An append whose connection breaks is repeated too, and is written once.
///   If its result remains unknown, the session ends as
///   [moved](loopwright_core::event::StreamEnd::Moved), since only its log shows what was written.
/// - **Replicas.** After a fail-over to a standby that is not synchronous, acknowledged writes can
///   be missing. The store warns of such a configuration when it connects.
/// - **Mailboxes.** Posted inputs are announced to the owners of their sessions every 10 ms.
/// - **Searching.** Searches use an index, with the extension `pg_trgm`. The store creates both
///   with its tables, if its role may; without them, searches read all messages.
/// - **Encryption.** `sslmode=prefer`, the default, encrypts if the server can, and checks no
///   certificate. `require`, `verify-ca` and `verify-full` check the certificate and its name
///   against the certificates in `sslrootcert=FILE`, or else the system's.
/// - **Poolers.** A pooler that hands out connections for single transactions, such as PgBouncer in
///   its mode `transaction`, cannot be used.
///
/// The connections live on a thread of the store, so any runtime can use it. When a session's
/// memory is dropped, the session is free for this store at once, and shortly afterwards for
/// others. When the last clone and the last session are dropped, the drop blocks until others know
/// that the sessions are free, for at most a second.
#[derive(Clone)]
pub struct Postgres {
    handle: StoreHandle,
    durability: Durability,
}

/// The settings of a [`Postgres`] store.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), loopwright_core::log::MemoryError> {
/// use std::time::Duration;
///
/// use loopwright_memory::Postgres;
///
/// let store = Postgres::builder("postgres://ann@db.example/agents?sslmode=require")
///     .schema("support_agents")
///     .lease(Duration::from_secs(5))
///     .connect()
///     .await?;
/// # drop(store);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresBuilder(Options);

impl PostgresBuilder {
    /// Sets the schema of the tables, `loopwright` by default. The name has at most 63 characters:
    /// lower-case letters, digits and underscores.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.0.schema = name.into();
        self
    }

    /// Sets the lease: the time for which a store that does not renew it keeps its sessions. 10 s
    /// by default, at least 500 ms. The store renews it four times in that period.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.0.lease = lease;
        self
    }

    /// Sets the maximum number of connections, 8 by default, besides one for appends and one for
    /// the lease.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.0.max_connections = connections;
        self
    }

    /// Sets a PEM file with the root certificates for checking the server's certificate, instead of
    /// the system's. Encryption is then required. It takes precedence over `sslrootcert` in the
    /// address.
    pub fn root_certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.0.root_certificates = Some(file.into());
        self
    }

    /// Connects to the server, and creates or migrates the tables.
    ///
    /// # Errors
    ///
    /// Returns [`MemoryError::Newer`] if a newer version has created the tables, and
    /// [`MemoryError::Failed`] if the address or an option is invalid, or if the server cannot be
    /// reached, refuses the role, is too old, is a standby, or has another encoding than UTF-8.
    pub async fn connect(self) -> Result<Postgres, MemoryError> {
        let connections = self.0.connections()?;
        let server = connections.server.clone();
        let mut background = Background::start().map_err(|error| {
            let why = format!("the thread of the store cannot be started: {error}");
            MemoryError::Failed(Failure::new(why).with_source(error))
        })?;
        let (orders, ordered) = mpsc::unbounded_channel();
        let Options { schema, lease, .. } = self.0;
        let connect = async move {
            let mut client = connections.pool.get().await?;
            schema::migrate(&mut client, &schema).await?;
            let worker = link::register(&client).await?;
            drop(client);
            let store = Arc::new(Store::new(connections, worker));
            let mut link = Link::new(store.clone(), schema, lease, ordered);
            let connected = link.connect().await?;
            Ok((store, link, connected))
        };
        let connected = background.run(connect).await;
        let (store, link, connected) =
            connected.map_err(|error| error.into_memory_error(&server))?;
        let (appends, appended) = mpsc::unbounded_channel();
        background.spawn(link.run(connected));
        background.spawn(writer::run(store.clone(), appended));
        let handle = StoreHandle::new(appends, orders, store, background);
        // Readers of events outlive a crash of the server.
        Ok(Postgres { handle, durability: Durability::Every })
    }
}

impl Postgres {
    /// Connects to the server of an address such as `postgres://USER:PASSWORD@HOST:5432/DATABASE`,
    /// and creates or migrates the tables. If the address has several hosts, the first usable one
    /// is taken; `target_session_attrs=read-write` finds the primary among them.
    ///
    /// # Errors
    ///
    /// Same as [`PostgresBuilder::connect`].
    pub async fn connect(url: impl Into<String>) -> Result<Self, MemoryError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder for a store at this address.
    pub fn builder(url: impl Into<String>) -> PostgresBuilder {
        PostgresBuilder(Options {
            url: url.into(),
            schema: "loopwright".into(),
            lease: DEFAULT_LEASE,
            max_connections: DEFAULT_CONNECTIONS,
            root_certificates: None,
        })
    }

    /// Sets which appends wait for the server's disk, for sessions that this clone opens: all by
    /// default. With [`Durability::Effects`], a crash of the server can lose the other appends,
    /// whose events readers may have seen.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

#[async_trait]
impl SessionStore for Postgres {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let (name, signals) = (session.to_owned(), Signals::default());
        let (own_signals, orders) = (signals.clone(), self.handle.orders());
        let open =
            async move |store: Arc<Store>| owners::open(&store, &orders, &name, &own_signals).await;
        let (claim, info) = self.handle.run(open).await?;
        Ok(Arc::new(OpenSession::new(self.handle.clone(), self.durability, claim, signals, info)))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let name = session.to_owned();
        let rows =
            self.handle.run(async move |store: Arc<Store>| store.read(&name, from).await).await?;
        rows.decode().map_err(|error| self.handle.store().error(error))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.handle.run(async |store: Arc<Store>| store.sessions().await).await
    }

    async fn sessions_page(&self, query: &SessionQuery) -> Result<SessionPage, MemoryError> {
        let query = query.clone();
        self.handle.run(async move |store: Arc<Store>| store.sessions_page(&query).await).await
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let name = session.to_owned();
        self.handle.run(async move |store: Arc<Store>| store.info(&name).await).await
    }

    async fn post(
        &self,
        session: &str,
        input: &PostedInput,
    ) -> Result<Option<InputReceipt>, MemoryError> {
        let (name, id): (Arc<str>, _) = (session.into(), input.id.clone());
        let mut input = input.clone();
        input.time = None; // the server's clock decides
        let json = codec::encode(&input)?;
        let post = async move |store: Arc<Store>| store.post(name, id, json).await;
        match self.handle.run(post).await? {
            Posted::Has(receipt) => Ok(Some(receipt)),
            Posted::Waits(number) => {
                if !self.handle.store().notify(number) {
                    self.handle.order(Order::Posted(number));
                }
                Ok(None)
            }
        }
    }

    async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
        let name = session.to_owned();
        self.handle.run(async move |store: Arc<Store>| store.in_use(&name).await).await.map(Some)
    }

    async fn check_writable(&self) -> Result<(), MemoryError> {
        let check = async |store: Arc<Store>| {
            let client = store.client().await?;
            let write = "UPDATE worker SET expires = expires WHERE id = $1";
            client.execute(write, &[&store.worker]).await?;
            Ok(())
        };
        self.handle.run(check).await
    }

    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        let entries = self.read(session, 0).await?;
        SessionInfo::of(session, &entries).require_root()?;
        let branch = SessionLog::branch(&entries, at);
        let shared = branch.shared;
        let own = branch.entries.clone();
        let mut info = SessionInfo::of(to, &branch.log(entries));
        let parent: Arc<str> = session.into();
        info.parent = Some((parent.clone(), shared)).filter(|(_, shared)| *shared > 0);
        let fork = Fork { parent, info, shared, entries: own };
        self.handle.run(async move |store: Arc<Store>| store.fork(fork).await).await?;
        Ok(shared)
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        let name: Arc<str> = session.into();
        self.handle.run(async move |store: Arc<Store>| store.delete(name).await).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, MemoryError> {
        let query = query.clone();
        self.handle.run(async move |store: Arc<Store>| store.pending(&query).await).await
    }

    async fn decisions(&self, query: &AuditQuery) -> Result<AuditPage, MemoryError> {
        let query = query.clone();
        self.handle.run(async move |store: Arc<Store>| store.decisions(&query).await).await
    }

    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        let query = query.to_owned();
        self.handle
            .run(async move |store: Arc<Store>| store.search(&query, limit, None).await)
            .await
    }

    fn workers(&self) -> Option<&dyn Workers> {
        Some(&self.handle)
    }

    fn schedules(&self) -> Option<&dyn Schedules> {
        Some(&self.handle)
    }
}
