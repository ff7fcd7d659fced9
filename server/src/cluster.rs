//! [`ClusterLink`]: the cluster of the server, if it belongs to one.

use std::sync::Arc;

use futures::stream::BoxStream;
use loopwright_core::event::Envelope;
use loopwright_core::log::MemoryError;
use loopwright_core::{RunContext, SessionStore};

/// The events of a session that is open at another worker.
pub(crate) type PeerEvents = BoxStream<'static, Arc<Envelope>>;

#[cfg(not(feature = "cluster"))]
pub(crate) use self::alone::ClusterLink;
#[cfg(feature = "cluster")]
pub(crate) use self::worker::{ClusterLink, ClusterSettings};

/// Opens a session in a store.
async fn stored(store: &Arc<dyn SessionStore>, id: Arc<str>) -> Result<RunContext, MemoryError> {
    RunContext::new().stored(store, id).await
}

#[cfg(feature = "cluster")]
mod worker {
    use std::sync::{Arc, OnceLock};

    use axum::Router;
    use loopwright_core::log::MemoryError;
    use loopwright_core::{RunContext, SessionStore};
    use loopwright_durable::{Cluster, ClusterError, HandOver, Host, Placement};

    use super::{PeerEvents, stored};
    use crate::error::{ApiError, ErrorKind};

    /// The cluster settings of the server.
    #[derive(Clone, Default)]
    pub(crate) struct ClusterSettings {
        pub(crate) placement: Option<Arc<dyn Placement>>,
        pub(crate) address: Option<String>,
        pub(crate) token: Option<String>,
    }

    /// The cluster of the server. Clones share it.
    #[derive(Clone, Default)]
    pub(crate) struct ClusterLink(Arc<Link>);

    #[derive(Default)]
    struct Link {
        settings: ClusterSettings,
        /// Set when the server has joined.
        cluster: OnceLock<Cluster>,
        hand_over: HandOver,
    }

    impl ClusterLink {
        pub(crate) fn new(settings: ClusterSettings) -> Self {
            ClusterLink(Arc::new(Link { settings, ..Link::default() }))
        }

        /// Returns whether the server belongs to a cluster, so that a placement decides which
        /// sessions it opens.
        pub(crate) fn is_configured(&self) -> bool {
            self.0.settings.placement.is_some()
        }

        /// Returns whether other workers can read events of this server.
        pub(crate) fn is_reachable(&self) -> bool {
            self.is_configured() && self.0.settings.address.is_some()
        }

        /// Returns whether other workers need a token.
        pub(crate) fn has_token(&self) -> bool {
            self.0.settings.token.is_some()
        }

        /// Returns the signal that makes the sessions of this worker leave.
        pub(crate) fn hand_over(&self) -> &HandOver {
            &self.0.hand_over
        }

        /// Joins the cluster as a worker that hosts sessions.
        pub(crate) async fn join(
            &self,
            store: Arc<dyn SessionStore>,
            host: Arc<dyn Host>,
        ) -> Result<(), ClusterError> {
            let ClusterSettings { placement, address, token } = &self.0.settings;
            let Some(placement) = placement else { return Ok(()) };
            let mut builder = Cluster::with_host(store, host).placement(placement.clone());
            if let Some(address) = address {
                builder = builder.reachable_at(address.as_str());
            }
            if let Some(token) = token {
                builder = builder.token(token.as_str());
            }
            let cluster = builder.start().await?;
            let _ = self.0.cluster.set(cluster); // a placement is started once
            Ok(())
        }

        /// Signals the sessions to leave, if the server has joined a cluster.
        pub(crate) fn leave(&self) {
            if self.joined().is_some() {
                self.0.hand_over.start();
            }
        }

        /// Returns the cluster, once the server has joined it.
        pub(crate) fn joined(&self) -> Option<&Cluster> {
            self.0.cluster.get()
        }

        /// Returns the route for other workers, if the server has joined a cluster. It needs a
        /// token, unless the server is `open` to everybody.
        pub(crate) fn router(&self, open: bool) -> Router {
            let cluster = self.joined().filter(|_| open || self.has_token());
            cluster.map(Cluster::router).unwrap_or_default()
        }

        /// Returns whether this is the path of the route for workers, which checks its own token.
        pub(crate) fn serves(&self, path: &str) -> bool {
            self.is_configured() && path == loopwright_durable::EVENTS_PATH
        }

        /// Asks the cluster, if there is one, to host a session.
        pub(crate) async fn wake(&self, session: &str) -> Result<(), ApiError> {
            match self.joined() {
                None => Ok(()), // the placement finds it when the server joins
                Some(cluster) => cluster.wake(session).await.map_err(|error| {
                    ApiError::new(ErrorKind::Unanswered, format!("{error}: send it again."))
                }),
            }
        }

        /// Asks the cluster, if there is one, to host a session at a time, in milliseconds since
        /// 1970.
        pub(crate) async fn wake_at(&self, session: &str, time: u64) -> Result<(), ApiError> {
            match self.joined() {
                None => Ok(()), // the placement finds it when the server joins
                Some(cluster) => cluster
                    .wake_at(session, time)
                    .await
                    .map_err(|error| ApiError::new(ErrorKind::Unanswered, format!("{error}."))),
            }
        }

        /// Returns the events of a session that is open at another worker, and the length of its
        /// log before them.
        pub(crate) async fn join_peer(
            &self,
            session: &str,
            tree: bool,
        ) -> Option<(u64, PeerEvents)> {
            self.joined()?.join_peer(session, tree).await.ok()?
        }

        /// Returns whether a session is open at another worker that can be reached.
        pub(crate) async fn is_open_at_peer(&self, session: &str) -> bool {
            let Some(cluster) = self.joined() else { return false };
            cluster.is_open_at_peer(session).await.unwrap_or(false)
        }

        /// Opens a session. It leaves between two turns when the server shuts down.
        pub(crate) async fn context(
            &self,
            store: &Arc<dyn SessionStore>,
            id: Arc<str>,
        ) -> Result<RunContext, MemoryError> {
            if !self.is_configured() {
                return stored(store, id).await;
            }
            let memory = self.0.hand_over.open(store, &id).await?;
            let cx = RunContext::new().session(id).memory(memory).sub_agents_in(store.clone());
            Ok(cx.continue_interrupted())
        }
    }
}

#[cfg(not(feature = "cluster"))]
mod alone {
    use axum::Router;

    use super::*;
    use crate::error::ApiError;

    /// The link of a server without a cluster.
    #[derive(Clone)]
    pub(crate) struct ClusterLink;

    impl ClusterLink {
        pub(crate) fn is_configured(&self) -> bool {
            false
        }

        pub(crate) fn router(&self, _open: bool) -> Router {
            Router::new()
        }

        pub(crate) fn serves(&self, _path: &str) -> bool {
            false
        }

        pub(crate) async fn wake(&self, _session: &str) -> Result<(), ApiError> {
            Ok(())
        }

        pub(crate) async fn wake_at(&self, _session: &str, _time: u64) -> Result<(), ApiError> {
            Ok(())
        }

        pub(crate) async fn join_peer(
            &self,
            _session: &str,
            _tree: bool,
        ) -> Option<(u64, PeerEvents)> {
            None
        }

        pub(crate) async fn is_open_at_peer(&self, _session: &str) -> bool {
            false
        }

        pub(crate) async fn context(
            &self,
            store: &Arc<dyn SessionStore>,
            id: Arc<str>,
        ) -> Result<RunContext, MemoryError> {
            stored(store, id).await
        }
    }
}
