//! [`Restate`]: a Restate server places, wakes and retries sessions.

mod client;
mod key;
mod object;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::{Environment, SystemEnvironment};
use restate_sdk::endpoint::Endpoint;
use restate_sdk::http_server::HttpServer;
use tokio::net::TcpListener;

use self::client::{Client, Delay};
use self::key::key_of;
use super::Placement;
use super::background::Background;
use crate::driver::Driver;
use crate::error::{ClusterError, PlacementError};

/// Interval of sweeps for inputs whose senders were killed before waking the session.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of sessions that a sweep wakes.
const MAX_PER_SWEEP: usize = 256;
/// Sweeps wake a due session once in this period, in milliseconds.
const SWEEP_PERIOD: u64 = 300_000;

/// A placement with a [Restate](https://restate.dev) server, version 1.7. Each session is a virtual
/// object, whose one exclusive handler hosts the session until it has nothing to do.
///
/// Restate calls the workers under one address: of a TCP balancer in front of all of them, or of
/// the only worker. When a worker dies, Restate repeats its calls at another one. It also keeps the
/// timers for deadlines, schedules and sleeping agents. The data is only in the store: Restate's
/// journal has one step for each call.
///
/// - **Code.** Workers with new code register at the same address, or at another one for
///   [versions](https://docs.restate.dev/services/versioning) side by side. A session that is
///   handed over goes to the address that was registered last, and continues its run there.
/// - **Clocks.** The clock of the store decides deadlines and schedules. A wrong clock of Restate
///   delays them for at most 60 s.
/// - **Licence.** Restate's server is under the Business Source License, which allows its use in
///   production, but not to offer Restate itself as a service. The SDK is under the MIT licence.
///
/// ```no_run
/// # use loopwright_core::GenericAgent;
/// # async fn start(agent: GenericAgent) -> Result<(), Box<dyn std::error::Error>> {
/// use loopwright_durable::{Cluster, Restate};
/// use loopwright_memory::Postgres;
///
/// let restate = Restate::builder("http://restate.internal:8080")
///     .listen("0.0.0.0:9080".parse()?)
///     .reachable_at("http://workers.internal:9080")
///     .build()?;
/// let store = Postgres::connect("postgres://db.internal/agents").await?;
/// let cluster = Cluster::builder(store, agent).placement(restate).start().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Restate(Arc<Shared>);

/// The settings of a [`Restate`] placement.
#[derive(Debug, Clone)]
pub struct RestateBuilder {
    ingress: String,
    other_ingress: Vec<String>,
    admin: Option<String>,
    listen: SocketAddr,
    address: Option<String>,
}

struct Shared {
    client: Client,
    listen: SocketAddr,
    address: Option<String>,
    background: Background,
}

impl Restate {
    /// Returns a builder for the server whose ingress has this URL, such as
    /// `http://localhost:8080`.
    pub fn builder(ingress: impl Into<String>) -> RestateBuilder {
        RestateBuilder {
            ingress: ingress.into(),
            other_ingress: Vec::new(),
            admin: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 9080)),
            address: None,
        }
    }
}

impl RestateBuilder {
    /// Adds the ingress of another node, which is used while the earlier ones cannot be reached.
    pub fn or_ingress(mut self, url: impl Into<String>) -> Self {
        self.other_ingress.push(url.into());
        self
    }

    /// Sets the URL of the admin API. Defaults to the first ingress with the port 9070.
    pub fn admin(mut self, url: impl Into<String>) -> Self {
        self.admin = Some(url.into());
        self
    }

    /// Sets the address at which this worker accepts the calls of Restate, `127.0.0.1:9080` by
    /// default. Calls need no token, so only Restate may be able to reach the port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Sets the URL under which Restate reaches the workers, such as a balancer in front of all of
    /// them. Defaults to the address at which this worker listens.
    pub fn reachable_at(mut self, url: impl Into<String>) -> Self {
        self.address = Some(url.into());
        self
    }

    /// Builds the placement. Nothing is connected before the cluster starts.
    ///
    /// # Errors
    ///
    /// Fails if an address is invalid.
    pub fn build(self) -> Result<Restate, PlacementError> {
        let RestateBuilder { ingress, other_ingress, admin, listen, address } = self;
        let client = Client::new(&ingress, &other_ingress, admin.as_deref())?;
        let background = Background::default();
        Ok(Restate(Arc::new(Shared { client, listen, address, background })))
    }
}

impl Shared {
    /// Wakes sessions with inputs for which no call was sent, and carries out schedules whose
    /// timers were lost.
    async fn sweep(&self, driver: &dyn Driver) -> Result<(), ClusterError> {
        let posted = driver.post_schedules(None).await;
        // The same for all workers that sweep.
        let period = SystemEnvironment.now() / SWEEP_PERIOD;
        for due in driver.due(MAX_PER_SWEEP).await? {
            let id = format!("sweep:{}:{}:{period}", key_of(&due.session), due.entries);
            let once = Delay { time: Duration::ZERO, id };
            self.client.send(&due.session, object::DRIVE, Some(once)).await?;
        }
        posted
    }
}

#[async_trait]
impl Placement for Restate {
    async fn wake(&self, session: &str) -> Result<(), PlacementError> {
        self.0.client.send(session, object::DRIVE, None).await
    }

    async fn wake_at(&self, session: &str, time: u64) -> Result<(), PlacementError> {
        let timer = Delay { time: object::delay_until(time), id: object::timer_id(session, time) };
        self.0.client.send(session, object::WAKE, Some(timer)).await
    }

    async fn start(&self, driver: Arc<dyn Driver>) -> Result<(), PlacementError> {
        let Shared { client, listen, address, background } = &*self.0;
        background.start()?;
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            PlacementError::new(format!("Restate's calls cannot be accepted at {listen}: {error}"))
        })?;
        let listens_at = listener.local_addr().unwrap_or(*listen);
        let endpoint = Endpoint::builder().bind(object::definition(driver.clone())).build();
        let server = HttpServer::new(endpoint);
        background.spawn(server.serve_with_cancel(listener, background.stopped()));
        let address = address.clone().unwrap_or_else(|| format!("http://{listens_at}"));
        if let Err(error) = client.register(&address).await {
            background.stop().await;
            return Err(error);
        }
        let shared = self.0.clone();
        background.repeat(SWEEP_INTERVAL, move || {
            let (shared, driver) = (shared.clone(), driver.clone());
            async move {
                if let Err(error) = shared.sweep(&*driver).await {
                    tracing::warn!(%error, "sessions with work to do could not be woken");
                }
            }
        });
        Ok(())
    }

    async fn stop(&self) {
        self.0.background.stop().await;
    }
}
