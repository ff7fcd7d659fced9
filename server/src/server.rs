//! [`Server`]: the state shared by all routes. Below it are its builder, its readiness and its
//! shutdown.

pub(crate) mod builder;
pub(crate) mod drain;
mod origin;
pub(crate) mod readiness;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderValue;
use loopwright_core::{Principal, SessionStore};
use loopwright_host::Agents;
#[cfg(feature = "long-term")]
use loopwright_memory::long_term::LongTerm;
use tokio::sync::{Mutex, Semaphore};

use self::drain::Drain;
use self::readiness::Readiness;
use crate::access::{AccessPolicy, Proxies, Users};
use crate::cluster::ClusterLink;
#[cfg(feature = "webhooks")]
use crate::inbox::WebhookSender;
use crate::inbox::{ActionWatch, OnAction, Reporter};
use crate::limits::Limits;
use crate::limits::daily_budget::DailyBudget;
use crate::limits::run_quota::RunQuota;
use crate::live::LiveSessions;
use crate::streams::backlog::LogBacklogs;
use crate::streams::event_streams::EventStreams;
use crate::streams::histories::Histories;
use crate::telemetry::ServerTelemetry;
use crate::telemetry::metrics::Metrics;

/// The state shared by all routes: agents, sessions, limits and metrics. Clones share it.
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_core::log::InMemoryStore;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_patterns::PiPattern;
/// use loopwright_server::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Script::text("Nine.")]);
/// let agent = GenericAgent::builder(model, PiPattern).build()?;
/// let server = Server::builder(InMemoryStore::new())
///     .agent("shepherd", agent)
///     .max_runs(8, 100)
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Shared>);

/// The parts of a [`Server`].
pub(crate) struct Shared {
    pub(crate) agents: Agents,
    /// The tokens of clients; empty if no token is needed.
    pub(crate) users: Users,
    /// The policy that decides what callers may do.
    pub(crate) policy: Arc<dyn AccessPolicy>,
    pub(crate) daily_budget: Arc<DailyBudget>,
    /// The names of the server besides its address.
    pub(crate) hosts: Vec<String>,
    /// The origins of other pages that may use the server.
    pub(crate) origins: Vec<HeaderValue>,
    pub(crate) store: Arc<dyn SessionStore>,
    /// The operator's principal.
    pub(crate) principal: Option<Principal>,
    /// The facts that clients can see and delete.
    #[cfg(feature = "long-term")]
    pub(crate) long_term: Option<LongTerm>,
    pub(crate) limits: Limits,
    /// `true` if the operator has chosen rules.
    pub(crate) has_rules: bool,
    pub(crate) proxies: Arc<Proxies>,
    /// One permit for each byte of all bodies.
    pub(crate) bodies: Semaphore,
    pub(crate) runs: RunQuota,
    pub(crate) live: LiveSessions,
    /// Held by the task that looks for sessions with work to do.
    pub(crate) sweeps: Arc<Mutex<()>>,
    pub(crate) actions: ActionWatch,
    pub(crate) on_action: Vec<OnAction>,
    #[cfg(feature = "webhooks")]
    pub(crate) webhooks: Vec<WebhookSender>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) event_streams: EventStreams,
    pub(crate) histories: Histories,
    pub(crate) log_backlogs: LogBacklogs,
    /// The OpenAPI document, once it was requested.
    pub(crate) openapi: OnceLock<Bytes>,
    pub(crate) drain: Drain,
    pub(crate) cluster: ClusterLink,
    pub(crate) readiness: Readiness,
    pub(crate) telemetry: ServerTelemetry,
}

impl Shared {
    /// Returns whether the server remembers facts.
    pub(crate) fn remembers(&self) -> bool {
        #[cfg(feature = "long-term")]
        return self.long_term.is_some();
        #[cfg(not(feature = "long-term"))]
        false
    }
}

impl Server {
    /// Does the work that sessions have to do ([`SessionInfo::due`]), if their process was killed.
    /// It answers acknowledged requests, carries out decisions, and takes inputs posted by other
    /// processes. Interrupted runs are left alone, since `continue` resumes them. It also wakes
    /// sessions whose timer rings, and carries out due
    /// [schedules](loopwright_core::log::Schedules). Resolves when the runs have ended.
    ///
    /// [`serve`](crate::serve) and [`router`](crate::router) start it, once a minute; see
    /// [`keep_running_due`](Server::keep_running_due).
    ///
    /// # Cancellation
    /// If the future is dropped, runs that have started continue.
    ///
    /// [`SessionInfo::due`]: loopwright_core::log::SessionInfo::due
    pub async fn run_due(&self) {
        self.shared().live.run_due().await
    }

    /// Does the work that sessions have to do, like [`run_due`](Server::run_due), now, when a timer
    /// rings or a schedule is due, and once a minute. This covers inputs posted to sessions that no
    /// process has open, and the work of killed processes. A worker of a cluster has nothing to do.
    /// Never resolves.
    ///
    /// [`serve`](crate::serve) and [`router`](crate::router) start it. While one is in progress, a
    /// second one waits.
    ///
    /// # Cancellation
    /// If the future is dropped, runs that have started continue.
    pub async fn keep_running_due(&self) {
        self.in_background().await;
        std::future::pending().await
    }

    /// Returns what [`keep_running_due`](Server::keep_running_due) does, until the server and its
    /// routes are dropped.
    pub(crate) fn in_background(&self) -> impl Future<Output = ()> + Send + use<> {
        let (server, sweeps) = (Arc::downgrade(&self.0), self.0.sweeps.clone());
        let draining = self.0.drain.started();
        async move {
            let _sweeping = sweeps.lock().await;
            let sweep = LiveSessions::keep_running_due(|| {
                let shared = server.upgrade()?;
                // A placement does this itself.
                (!shared.cluster.is_configured()).then(|| shared.live.clone())
            });
            tokio::select! {
                () = sweep => {}
                () = draining => {} // runs that have started continue until the drain ends them
            }
        }
    }

    /// Reports new and resolved actions to [`on_action`](crate::ServerBuilder::on_action) and to
    /// webhooks until the server has shut down. It first reports the pending actions and the
    /// decisions of the last three days. If a webhook has an outbox (`Webhook::outbox`), it first
    /// reports the changes since the last report instead. Then it reports each change. Resolves at
    /// once if there are no receivers.
    ///
    /// [`serve`](crate::serve) calls it. An app that mounts [`router`](crate::router) should call
    /// it in a task.
    ///
    /// # Cancellation
    /// If the future is dropped, deliveries in progress end.
    pub async fn report_actions(&self) {
        let shared = self.shared();
        let reporter = Reporter {
            on_action: &shared.on_action,
            #[cfg(feature = "webhooks")]
            webhooks: &shared.webhooks,
        };
        tokio::select! {
            () = reporter.run(&*shared.store, &shared.actions) => {}
            () = shared.drain.finished() => {}
        }
    }

    /// Joins the cluster of [`ServerBuilder::cluster`](crate::ServerBuilder::cluster), if there is
    /// one. From here on, the server hosts sessions.
    ///
    /// [`serve`](crate::serve) calls it. An app that mounts [`router`](crate::router) must call it
    /// first.
    ///
    /// # Errors
    /// Fails if the placement cannot be started, or the store cannot be written to.
    #[cfg(feature = "cluster")]
    pub async fn join_cluster(&self) -> Result<(), loopwright_durable::ClusterError> {
        let shared = self.shared();
        shared.cluster.join(shared.store.clone(), shared.live.host()).await
    }

    /// Shuts the server down: refuses new runs, and waits up to `grace` for the runs in progress.
    /// Within that time, facts are distilled from the open sessions whose settings ask for it.
    ///
    /// After that, a run of a live session is interrupted. Its log records this, and `continue`
    /// resumes it in the next process. A run of `/api/agent-chat` is aborted, and its client gets
    /// an `error` frame. Then all streams of events end.
    ///
    /// A worker of a cluster hands its sessions over instead, each between two turns, and other
    /// workers continue them.
    ///
    /// [`serve`](crate::serve) calls it. An app that mounts [`router`](crate::router) should call
    /// it when it shuts down.
    ///
    /// # Cancellation
    /// If the future is dropped, new runs are still refused, but the streams stay open.
    pub async fn drain(&self, grace: Duration) {
        let shared = self.shared();
        // Before `/readyz` says that the server drains: its sessions start no turn from then on.
        #[cfg(feature = "cluster")]
        shared.cluster.leave();
        shared.drain.start();
        #[cfg(feature = "cluster")]
        if let Some(cluster) = shared.cluster.joined() {
            let unused = tokio::time::timeout(grace, shared.runs.unused());
            let _ = tokio::join!(cluster.drain(grace), unused); // the rest is interrupted
            return shared.drain.finish();
        }
        let idle = async {
            let Shared { live, runs, .. } = shared;
            tokio::join!(live.note_end(), live.wait_for_idle(), runs.unused());
            #[cfg(feature = "long-term")]
            {
                shared.live.distil_all().await;
                tokio::join!(shared.live.wait_for_idle(), shared.runs.unused());
            }
        };
        if tokio::time::timeout(grace, idle).await.is_err() {
            tracing::warn!(
                "the shutdown has interrupted runs; `continue` resumes those of live sessions"
            );
        }
        shared.drain.finish();
    }

    /// Returns the shared state.
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }
}
