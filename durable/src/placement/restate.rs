//! [`Restate`]: sessions are placed, woken and retried by a Restate server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::agent::{Environment, SystemEnvironment};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::{Client, Response, StatusCode, Url};
use restate_sdk::endpoint::{Endpoint, ServiceOptions};
use restate_sdk::http_server::HttpServer;
use restate_sdk::prelude::*;
use restate_sdk::service::IntoServiceDefinition;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Placement;
use crate::driver::{Drive, Driver};
use crate::error::{ClusterError, PlacementError};
use crate::http_client;

/// The name of the virtual object.
const OBJECT: &str = "LoopwrightSession";
/// The characters of a session's name that its key has as they are.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
/// The port of the admin API on the host of the ingress, unless set otherwise.
const ADMIN_PORT: u16 = 9070;
/// How long a run may take before Restate asks another worker. The drive there waits for its end.
const INACTIVITY_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The pauses before Restate repeats a drive that has failed.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(2);
/// More than can be made.
const MAX_ATTEMPTS: u64 = 1 << 40;
/// How often a session that another worker has open is tried: the pause doubles.
const IN_USE_PAUSE: Duration = Duration::from_millis(100);
const MAX_IN_USE_PAUSE: Duration = Duration::from_secs(2);
/// The pause before a session without an agent is tried again.
const NO_AGENT_PAUSE: Duration = Duration::from_secs(60);
/// How much later timers are, so that what they are for is due by the clock of the store, too.
const CLOCK_MARGIN: Duration = Duration::from_millis(500);
/// The pause before a worker that shuts down passes a session on.
const DRAINING_PAUSE: Duration = Duration::from_millis(200);
/// How often inputs are looked for whose senders were killed before they could wake the session.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// The number of sessions that a sweep wakes.
const MAX_PER_SWEEP: usize = 256;
/// How long a request to Restate is repeated while it cannot be reached.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_PAUSE: Duration = Duration::from_millis(100);

/// Places sessions by a [Restate](https://restate.dev) server, version 1.7: each is a virtual
/// object, whose one exclusive handler hosts the session until it has nothing to do.
///
/// Restate calls the workers under one address, that of a balancer for TCP in front of all of them,
/// or of the only worker. When a worker dies, Restate repeats its calls at another one. It also
/// keeps the timers for deadlines and schedules. The data is in the store alone: Restate's journal
/// has one step for each call.
///
/// - **Code.** Workers with new code register at the same address, or at another one for
///   [versions](https://docs.restate.dev/services/versioning) side by side. A session that is
///   handed over goes to the address that was registered last, and continues its run there.
/// - **Clocks.** Deadlines and schedules are decided by the clock of the store; a clock of Restate
///   that is wrong delays them for 60 s at most.
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

/// Configures a [`Restate`] placement.
#[derive(Debug, Clone)]
pub struct RestateBuilder {
    ingress: Vec<String>,
    admin: Option<String>,
    listen: SocketAddr,
    address: Option<String>,
}

struct Shared {
    /// The addresses of the ingress; those after the first are for its failure.
    ingress: Vec<Url>,
    admin: Url,
    listen: SocketAddr,
    address: Option<String>,
    client: Client,
    /// Set from the start to the stop of the worker.
    driver: Mutex<Option<Arc<dyn Driver>>>,
    stopped: CancellationToken,
    tasks: TaskTracker,
}

impl Restate {
    /// Configures a placement by the server whose ingress has this URL, such as
    /// `http://localhost:8080`.
    pub fn builder(ingress: impl Into<String>) -> RestateBuilder {
        RestateBuilder {
            ingress: vec![ingress.into()],
            admin: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 9080)),
            address: None,
        }
    }
}

impl RestateBuilder {
    /// Adds the ingress of another node, which is used while the ones before cannot be reached.
    pub fn or_ingress(mut self, url: impl Into<String>) -> Self {
        self.ingress.push(url.into());
        self
    }

    /// Sets the URL of the admin API: by default that of the first ingress with the port 9070.
    pub fn admin(mut self, url: impl Into<String>) -> Self {
        self.admin = Some(url.into());
        self
    }

    /// Sets where this worker accepts the calls of Restate, `127.0.0.1:9080` by default. Whoever
    /// reaches the port can have sessions opened: it belongs into a network that only Restate
    /// reaches.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Sets the URL under which Restate reaches the workers: that of a balancer in front of all of
    /// them. By default that is the address at which this worker listens.
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
        let parse = |url: &str| {
            Url::parse(url).map_err(|why| {
                PlacementError::new(format!(
                    "`{url}` is no URL of a Restate server: {why}; an example is \
                     `http://localhost:8080`"
                ))
            })
        };
        let ingress = self.ingress.iter().map(|url| parse(url)).collect::<Result<Vec<Url>, _>>()?;
        let admin = match (&self.admin, ingress.first()) {
            (Some(url), _) => parse(url)?,
            (None, first) => {
                let mut admin = first.cloned().ok_or_else(|| PlacementError::new("no ingress"))?;
                let _ = admin.set_port(Some(ADMIN_PORT)); // a URL with a host can have a port
                admin
            }
        };
        let client = http_client::builder().timeout(REQUEST_TIMEOUT).build().map_err(|error| {
            PlacementError::new(format!("the HTTP client for Restate cannot be built: {error}"))
        })?;
        Ok(Restate(Arc::new(Shared {
            ingress,
            admin,
            listen: self.listen,
            address: self.address,
            client,
            driver: Mutex::default(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })))
    }
}

impl Shared {
    fn driver(&self) -> MutexGuard<'_, Option<Arc<dyn Driver>>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a one-way call of a handler to the object of a session.
    async fn send(
        &self,
        session: &str,
        handler: &str,
        delay: Option<(Duration, String)>,
    ) -> Result<(), PlacementError> {
        let key = utf8_percent_encode(session, KEY).to_string();
        let path = [OBJECT, &key, handler, "send"];
        let mut urls = Vec::with_capacity(self.ingress.len());
        for ingress in &self.ingress {
            let mut url = extended(ingress, &path)?;
            if let Some((delay, _)) = &delay {
                let delay = format!("{}ms", delay.as_millis());
                url.query_pairs_mut().append_pair("delay", &delay);
            }
            urls.push(url);
        }
        self.request("wake a session", &urls, |url| {
            let request = self.client.post(url);
            match &delay {
                Some((_, id)) => request.header("idempotency-key", id),
                None => request,
            }
        })
        .await
    }

    /// Sends a request, to these addresses in turn while they cannot be reached or are not ready.
    async fn request(
        &self,
        what: &str,
        urls: &[Url],
        build: impl Fn(Url) -> reqwest::RequestBuilder,
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

    /// Wakes sessions whose inputs no call was sent for, and carries out schedules whose timers
    /// were lost.
    async fn sweep(&self, driver: &Arc<dyn Driver>) -> Result<(), ClusterError> {
        let posted = driver.post_schedules(None).await;
        // Once in five minutes, whichever workers sweep.
        let period = SystemEnvironment.now() / 300_000;
        for due in driver.due(MAX_PER_SWEEP).await? {
            let key = utf8_percent_encode(&due.session, KEY);
            let id = format!("sweep:{key}:{}:{period}", due.entries);
            self.send(&due.session, "drive", Some((Duration::ZERO, id))).await?;
        }
        posted
    }
}

#[async_trait]
impl Placement for Restate {
    async fn wake(&self, session: &str) -> Result<(), PlacementError> {
        self.0.send(session, "drive", None).await
    }

    async fn wake_at(&self, session: &str, time: u64) -> Result<(), PlacementError> {
        let delay = Duration::from_millis(time.saturating_sub(SystemEnvironment.now()));
        let delay = delay + CLOCK_MARGIN;
        let id = format!("{}:{time}", utf8_percent_encode(session, KEY));
        self.0.send(session, "wake", Some((delay, id))).await
    }

    async fn start(&self, driver: Arc<dyn Driver>) -> Result<(), PlacementError> {
        let shared = &self.0;
        if shared.stopped.is_cancelled() {
            return Err(PlacementError::new("the placement was stopped: build a new one"));
        }
        if shared.driver().replace(driver.clone()).is_some() {
            return Err(PlacementError::new("the placement belongs to another cluster already"));
        }
        let listener = TcpListener::bind(shared.listen).await.map_err(|error| {
            PlacementError::new(format!(
                "Restate's calls cannot be accepted at {}: {error}",
                shared.listen
            ))
        })?;
        let listens_at = listener.local_addr().unwrap_or(shared.listen);
        let options = ServiceOptions::new()
            .inactivity_timeout(INACTIVITY_TIMEOUT)
            .journal_retention(Duration::ZERO)
            .idempotency_retention(Duration::from_secs(3600))
            .retry_policy_initial_interval(FIRST_RETRY)
            .retry_policy_max_interval(MAX_RETRY)
            .retry_policy_max_attempts(MAX_ATTEMPTS);
        let object = LoopwrightSession { driver: driver.clone() };
        let object = object.into_service_definition().options(options);
        let server = HttpServer::new(Endpoint::builder().bind(object).build());
        let stopped = shared.stopped.clone();
        shared.tasks.spawn(server.serve_with_cancel(listener, stopped.cancelled_owned()));
        let uri = shared.address.clone().unwrap_or_else(|| format!("http://{listens_at}"));
        let url = extended(&shared.admin, &["deployments"])?;
        let body = json!({ "uri": uri, "force": true });
        let registered = shared
            .request("register this worker", &[url], |url| shared.client.post(url).json(&body))
            .await;
        if let Err(error) = registered {
            self.stop().await;
            return Err(error);
        }
        let sweeping = self.0.clone();
        shared.tasks.spawn(async move {
            let sweeps = async {
                loop {
                    if let Err(error) = sweeping.sweep(&driver).await {
                        tracing::warn!(%error, "sessions with work to do could not be woken");
                    }
                    sleep(SWEEP_INTERVAL).await;
                }
            };
            sweeping.stopped.run_until_cancelled(sweeps).await;
        });
        Ok(())
    }

    async fn stop(&self) {
        self.0.stopped.cancel();
        *self.0.driver() = None;
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// The virtual object of a session.
struct LoopwrightSession {
    driver: Arc<dyn Driver>,
}

/// Says what follows when a session has been hosted.
#[derive(Debug, Serialize, Deserialize)]
enum Next {
    /// Another worker continues.
    Retry,
    /// It cannot be opened now.
    Later,
    /// Nothing until the next input, or the deadline at this time, after these milliseconds.
    Deadline(Option<(u64, u64)>),
}

#[restate_sdk::object]
impl LoopwrightSession {
    /// Hosts the session until it has nothing to do. It opens the session in any case: whether
    /// something is due, only its owner can tell.
    #[handler]
    async fn drive(&self, ctx: ObjectContext<'_>) -> Result<(), HandlerError> {
        let (driver, session) = (self.driver.clone(), session_of(ctx.key())?);
        let hosting = move || async move {
            let next = host(&*driver, &session).await?;
            Ok(Json((next, SystemEnvironment.now() / 60_000)))
        };
        let Json((next, minute)) = ctx.run(hosting).name("host").await?;
        let key = ctx.key().to_owned();
        match next {
            Next::Retry => {
                ctx.object_client::<LoopwrightSessionClient>(key).drive().send();
            }
            Next::Later => {
                // All that wait for this one are replaced by a single one.
                let drive = ctx.object_client::<LoopwrightSessionClient>(key.clone()).drive();
                drive.idempotency_key(format!("{key}:later:{minute}")).send_after(NO_AGENT_PAUSE);
            }
            Next::Deadline(Some((time, delay))) => {
                let id = format!("{key}:{time}");
                let wake = ctx.object_client::<LoopwrightSessionClient>(key).wake();
                wake.idempotency_key(id).send_after(Duration::from_millis(delay));
            }
            Next::Deadline(None) => {}
        }
        Ok(())
    }

    /// Has the session hosted, at a time for which a timer was set.
    #[handler]
    async fn wake(&self, ctx: SharedObjectContext<'_>) -> Result<(), HandlerError> {
        let driver = self.driver.clone();
        let session = session_of(ctx.key())?;
        let post = move || async move {
            if let Err(error) = driver.post_schedules(Some(&session)).await {
                tracing::warn!(session, %error, "its schedules could not be carried out");
            }
            Ok(())
        };
        ctx.run(post).name("post schedules").await?;
        ctx.object_client::<LoopwrightSessionClient>(ctx.key().to_owned()).drive().send();
        Ok(())
    }
}

async fn host(driver: &dyn Driver, session: &str) -> Result<Next, HandlerError> {
    let mut pause = IN_USE_PAUSE;
    loop {
        match driver.drive(session).await {
            Ok(Drive::Closed { next }) => {
                let now = SystemEnvironment.now();
                let margin = CLOCK_MARGIN.as_millis() as u64;
                let timer = |time: u64| (time, time.saturating_sub(now) + margin);
                return Ok(Next::Deadline(next.map(timer)));
            }
            Ok(Drive::HandedOver) => return Ok(Next::Retry),
            // Its owner may seem dead to Restate, and is not.
            Ok(Drive::InUse) => {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_IN_USE_PAUSE);
            }
            Err(ClusterError::Draining) => {
                sleep(DRAINING_PAUSE).await;
                return Ok(Next::Retry);
            }
            // Restate repeats the call.
            Err(error @ (ClusterError::Memory(_) | ClusterError::Full(_))) => {
                tracing::warn!(session, %error, "it cannot be opened");
                return Err(error.into());
            }
            Err(error) => {
                tracing::warn!(session, %error, "it cannot be opened");
                return Ok(Next::Later);
            }
        }
    }
}

/// Returns the session of an object's key.
fn session_of(key: &str) -> Result<String, TerminalError> {
    let decoded = percent_decode_str(key).decode_utf8();
    let session = decoded.map_err(|_| TerminalError::new("the key names no session"))?;
    Ok(session.into_owned())
}

/// Returns a URL with further segments.
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
