//! [`Reporter`]: passes changes of actions to the host and to webhooks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use loopwright_core::log::{AuditQuery, MemoryError, PendingAction};
use loopwright_core::{Environment, SessionStore, SystemEnvironment};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::change::ActionChange;
use super::outbox::{Entry, Outbox};
use super::watch::{
    self, ActionKey, ActionWatch, CLOCK_TOLERANCE_MS, PAGE_DECISIONS, Subscription,
};
#[cfg(feature = "webhooks")]
use super::webhook::WebhookSender;

/// The age up to which decisions are reported at the start, if the earlier reports are unknown. The
/// retries of a webhook take less time.
const CATCH_UP: Duration = Duration::from_secs(72 * 60 * 60);
/// The delay before the store is read again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The host's function for changes.
pub(crate) type OnAction = Arc<dyn Fn(&ActionChange) + Send + Sync>;

/// The receivers of changes.
pub(crate) struct Reporter<'a> {
    pub(crate) on_action: &'a [OnAction],
    #[cfg(feature = "webhooks")]
    pub(crate) webhooks: &'a [WebhookSender],
}

/// One receiver of changes, or the host's functions together.
enum Target<'a> {
    Functions(&'a [OnAction]),
    #[cfg(feature = "webhooks")]
    Webhook(&'a WebhookSender),
}

impl Reporter<'_> {
    /// Reports pending actions, unreported decisions, and then changes, for ever. Resolves at once
    /// if there are no receivers.
    pub(crate) async fn run(&self, store: &dyn SessionStore, watch: &ActionWatch) {
        let mut targets = Vec::new();
        if !self.on_action.is_empty() {
            targets.push(Target::Functions(self.on_action));
        }
        #[cfg(feature = "webhooks")]
        targets.extend(self.webhooks.iter().map(Target::Webhook));
        join_all(targets.iter().map(|target| target.run(store, watch))).await;
    }
}

impl Target<'_> {
    async fn run(&self, store: &dyn SessionStore, watch: &ActionWatch) {
        let mut outbox = self.outbox().await;
        let mut deliveries = FuturesUnordered::new();
        deliveries.extend(outbox.unsent().into_iter().map(|entry| self.deliver(entry)));
        loop {
            let (changes, mut receiver) = match catch_up(&outbox, store, watch).await {
                Ok(start) => start,
                Err(error) => {
                    tracing::warn!(%error, "the pending actions cannot be reported");
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            };
            let new = outbox.add(changes).await;
            deliveries.extend(new.into_iter().map(|entry| self.deliver(entry)));
            let mut is_complete = true;
            while is_complete {
                tokio::select! {
                    change = receiver.recv() => {
                        let mut changes = match change {
                            Ok(change) => vec![change],
                            Err(RecvError::Lagged(_)) => break, // everything is read again
                            Err(RecvError::Closed) => return,
                        };
                        loop {
                            match receiver.try_recv() {
                                Ok(change) => changes.push(change),
                                Err(TryRecvError::Lagged(_)) => is_complete = false,
                                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                            }
                        }
                        let new = outbox.add(changes).await;
                        deliveries.extend(new.into_iter().map(|entry| self.deliver(entry)));
                    }
                    Some(number) = deliveries.next() => outbox.sent(number).await,
                }
            }
        }
    }

    /// Opens the outbox. Waits while another process has it open.
    async fn outbox(&self) -> Outbox {
        match self {
            Target::Functions(_) => Outbox::default(),
            #[cfg(feature = "webhooks")]
            Target::Webhook(webhook) => webhook.outbox().await,
        }
    }

    /// Reports a change. Resolves when it was accepted or given up.
    async fn deliver(&self, Entry { number, change }: Entry) -> u64 {
        match self {
            Target::Functions(functions) => functions.iter().for_each(|report| report(&change)),
            #[cfg(feature = "webhooks")]
            Target::Webhook(webhook) => webhook.deliver(&change).await,
        }
        number
    }
}

/// Returns the changes since the last report, and a receiver of later ones.
async fn catch_up(
    outbox: &Outbox,
    store: &dyn SessionStore,
    watch: &ActionWatch,
) -> Result<(Vec<Arc<ActionChange>>, Receiver<Arc<ActionChange>>), MemoryError> {
    let Subscription { pending, changes: receiver } = watch.subscribe().await?;
    let now = SystemEnvironment.now();
    let since = match outbox.last_decision() {
        Some(last) => last.min(now).saturating_sub(CLOCK_TOLERANCE_MS),
        None => now.saturating_sub(CATCH_UP.as_millis() as u64),
    };
    let query = AuditQuery::new(PAGE_DECISIONS).since(since);
    let (mut changes, mut resolved) = (Vec::new(), HashSet::new());
    for record in watch::decisions(store, query).await?.into_iter().rev() {
        if record.resolved {
            let action = watch::action_of(outbox.pending(), &record);
            let since = action.as_ref().map(|(.., since)| *since);
            changes.push(ActionChange::decided(since, record).into());
            resolved.extend(action);
        }
    }
    let key = |action: &PendingAction| -> ActionKey {
        (action.session.clone(), action.action.call.clone(), action.since)
    };
    resolved.extend(pending.iter().map(key));
    for (session, call, since) in outbox.pending().filter(|key| !resolved.contains(*key)) {
        let decision = watch::decision(store, (session, call, *since), |_| false).await;
        let (session, call, since) = (session.clone(), call.clone(), Some(*since));
        let decision = decision.unwrap_or(None); // the session may be deleted
        changes.push(ActionChange::Resolved { session, call, since, decision }.into());
    }
    changes.extend(pending.into_iter().map(|action| ActionChange::Pending { action }.into()));
    Ok((changes, receiver))
}
