//! [`ServerBuilder::build`]: the parts of a server, put together.

use std::sync::{Arc, OnceLock};

use axum::http::HeaderValue;
use loopwright_host::{ConfigError, OperatorRules};
use tokio::sync::Semaphore;

use super::ServerBuilder;
use crate::cluster::ClusterLink;
use crate::inbox::ActionWatch;
#[cfg(feature = "webhooks")]
use crate::inbox::WebhookSender;
use crate::limits::daily_budget::DailyBudget;
use crate::limits::run_quota::RunQuota;
use crate::live::{LiveSessions, Parts};
use crate::server::drain::Drain;
use crate::server::origin::read_origin;
use crate::server::readiness::Readiness;
use crate::server::{Server, Shared};
use crate::streams::backlog::LogBacklogs;
use crate::streams::event_streams::EventStreams;
use crate::streams::histories::Histories;
use crate::telemetry::metrics::Metrics;

impl ServerBuilder {
    /// Builds the server. It does not listen yet.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if:
    ///
    /// - there is no agent, two agents have the same name, or an agent has an empty name,
    /// - a token has fewer than 16 characters or belongs to two callers, or a digest is not 64
    ///   hexadecimal digits,
    /// - the address of an issuer is not https, or a webhook has an invalid address or secret,
    /// - an origin is invalid, or there are origins but no token,
    /// - one of the app's own settings or its default value is invalid.
    pub fn build(mut self) -> Result<Server, ConfigError> {
        if !self.has_rules && self.users.has_others() {
            self.agents.set_rules(OperatorRules::strict());
        }
        if let Some(name) = self.duplicate {
            let why = format!("Two agents are called `{name}`: give each a name of its own.");
            return Err(ConfigError::new(why));
        }
        if self.has_unnamed {
            let why = "An agent has an empty name: give it one.";
            return Err(ConfigError::new(why));
        }
        if self.agents.is_empty() {
            let why = "There is no agent: give one with `ServerBuilder::agent`.";
            return Err(ConfigError::new(why));
        }
        if let Some(error) = self.bad_user {
            return Err(error);
        }
        self.agents.check_settings()?;
        let origins: Vec<HeaderValue> =
            self.origins.iter().map(|origin| read_origin(origin)).collect::<Result<_, _>>()?;
        if !origins.is_empty() && self.users.is_empty() {
            // Without one, any script of that page, wherever it was loaded from, could run
            // commands.
            let why = "Pages of other origins need a token: give one besides the origins.";
            return Err(ConfigError::new(why));
        }
        #[cfg(feature = "webhooks")]
        let webhooks = self.webhooks.iter().map(WebhookSender::new).collect::<Result<_, _>>()?;
        let metrics = Arc::<Metrics>::default();
        let runs = RunQuota::new(self.limits.runs_per_client, self.limits.runs);
        let drain = Drain::default();
        #[cfg(feature = "cluster")]
        let cluster = ClusterLink::new(self.cluster);
        #[cfg(not(feature = "cluster"))]
        let cluster = ClusterLink;
        let actions = ActionWatch::new(self.store.clone(), drain.clone());
        let daily_budget = DailyBudget::new(self.daily_budget, self.store.clone(), self.daily_use);
        let daily_budget = Arc::new(daily_budget);
        let parts = Parts {
            daily_budget: daily_budget.clone(),
            actions: actions.clone(),
            agents: self.agents.clone(),
            store: self.store.clone(),
            principal: self.principal.clone(),
            runs: runs.clone(),
            metrics: metrics.clone(),
            drain: drain.clone(),
            cluster: cluster.clone(),
            telemetry: self.telemetry.clone(),
        };
        Ok(Server(Arc::new(Shared {
            agents: self.agents,
            has_rules: self.has_rules,
            proxies: self.proxies,
            users: self.users,
            policy: self.policy,
            daily_budget,
            hosts: self.hosts,
            origins,
            store: self.store,
            principal: self.principal,
            #[cfg(feature = "long-term")]
            long_term: self.long_term,
            actions,
            on_action: self.on_action,
            #[cfg(feature = "webhooks")]
            webhooks,
            live: LiveSessions::new(parts, self.limits.open_sessions),
            sweeps: Arc::default(),
            runs,
            metrics,
            event_streams: EventStreams::default(),
            histories: Histories::default(),
            log_backlogs: LogBacklogs::default(),
            bodies: Semaphore::new(self.limits.bodies.min(Semaphore::MAX_PERMITS)),
            openapi: OnceLock::new(),
            drain,
            cluster,
            readiness: Readiness::default(),
            telemetry: self.telemetry,
            limits: self.limits,
        })))
    }
}
