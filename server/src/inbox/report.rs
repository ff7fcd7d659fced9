//! [`Reporter`]: passes changes of actions on to the host and to webhooks.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use loopwright_core::SessionStore;
use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::log::{AuditQuery, MemoryError};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::change::ActionChange;
use super::watch::{ActionWatch, Subscription};
#[cfg(feature = "webhooks")]
use super::webhook::WebhookSender;

/// How far the decisions reach back that are reported at the start.
const CATCH_UP: Duration = Duration::from_secs(24 * 60 * 60);
/// How many of them are read at a time.
const PAGE_DECISIONS: usize = 500;
/// When the store is read again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The host's function for changes.
pub(crate) type OnAction = Arc<dyn Fn(&ActionChange) + Send + Sync>;

/// Whom changes are reported to.
pub(crate) struct Reporter<'a> {
    pub(crate) on_action: &'a [OnAction],
    #[cfg(feature = "webhooks")]
    pub(crate) webhooks: &'a [WebhookSender],
}

impl Reporter<'_> {
    fn is_empty(&self) -> bool {
        #[cfg(feature = "webhooks")]
        if !self.webhooks.is_empty() {
            return false;
        }
        self.on_action.is_empty()
    }

    /// Reports what is pending, recent decisions, and changes, for ever.
    pub(crate) async fn run(&self, store: &dyn SessionStore, watch: &ActionWatch) {
        if self.is_empty() {
            return;
        }
        let mut deliveries = FuturesUnordered::new();
        loop {
            let (changes, mut receiver) = match self.start(store, watch).await {
                Ok(start) => start,
                Err(error) => {
                    tracing::warn!(%error, "the pending actions cannot be reported");
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            for change in changes {
                deliveries.push(self.report(change));
            }
            loop {
                tokio::select! {
                    change = receiver.recv() => match change {
                        Ok(change) => deliveries.push(self.report(change)),
                        Err(RecvError::Lagged(_)) => break, // all is read again
                        Err(RecvError::Closed) => return,
                    },
                    Some(()) = deliveries.next() => {}
                }
            }
        }
    }

    /// Returns what has to be reported first, and the changes after that.
    async fn start(
        &self,
        store: &dyn SessionStore,
        watch: &ActionWatch,
    ) -> Result<(Vec<Arc<ActionChange>>, Receiver<Arc<ActionChange>>), MemoryError> {
        let since = SystemEnvironment.now().saturating_sub(CATCH_UP.as_millis() as u64);
        let Subscription { pending, changes: receiver } = watch.subscribe().await?;
        let mut changes: Vec<Arc<ActionChange>> =
            pending.into_iter().map(|action| ActionChange::Pending { action }.into()).collect();
        let first = AuditQuery::new(PAGE_DECISIONS).since(since);
        let mut next = Some(first.clone());
        while let Some(query) = next.take() {
            let page = store.decisions(&query).await?;
            for decision in page.decisions.into_iter().filter(|decision| decision.resolved) {
                let (session, call) = (decision.session.clone(), decision.call.clone());
                let decision = Some(decision);
                changes.push(ActionChange::Resolved { session, call, decision }.into());
            }
            next = page.next.map(|cursor| first.clone().after(cursor));
        }
        Ok((changes, receiver))
    }

    /// Reports a change to all. Resolves when the webhooks have it, or are given up.
    async fn report(&self, change: Arc<ActionChange>) {
        self.on_action.iter().for_each(|report| report(&change));
        #[cfg(feature = "webhooks")]
        futures::future::join_all(self.webhooks.iter().map(|webhook| webhook.deliver(&change)))
            .await;
    }
}
