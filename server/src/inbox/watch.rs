//! [`ActionWatch`]: looks for new and resolved actions while somebody wants to know.
//!
//! The store is the source: an action can become pending, and be resolved, in any process. The
//! sessions that are open here say when it is time to look; for others it is looked every second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::log::{AuditQuery, DecisionRecord, MemoryError, PendingAction, PendingQuery};
use loopwright_core::message::CallId;
use tokio::sync::{Mutex, Notify, broadcast};

use super::change::ActionChange;
use crate::drain::Drain;

/// How often the store is searched for what other processes have changed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How many changes a slow reader may miss before its subscription ends.
const MAX_UNREAD_CHANGES: usize = 1_024;
/// How many actions are read at a time.
const PAGE_ACTIONS: usize = 500;
/// How many decisions of a session are searched for the one that resolved an action.
const RECENT_DECISIONS: usize = 100;

/// Looks for changes. Clones are the same watch.
#[derive(Clone)]
pub(crate) struct ActionWatch(Arc<Inner>);

struct Inner {
    store: Arc<dyn SessionStore>,
    drain: Drain,
    /// Notified when the actions of a session that is open here have changed.
    hint: Notify,
    changes: broadcast::Sender<Arc<ActionChange>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: BTreeMap<(Arc<str>, CallId, u64), PendingAction>,
    /// A task looks for changes.
    is_running: bool,
}

/// The actions that are pending, and the changes from there on.
pub(crate) struct Subscription {
    pub(crate) pending: Vec<PendingAction>,
    pub(crate) changes: broadcast::Receiver<Arc<ActionChange>>,
}

impl ActionWatch {
    pub(crate) fn new(store: Arc<dyn SessionStore>, drain: Drain) -> Self {
        let (changes, _) = broadcast::channel(MAX_UNREAD_CHANGES);
        let (hint, state) = (Notify::new(), Mutex::default());
        ActionWatch(Arc::new(Inner { store, drain, hint, changes, state }))
    }

    /// Says that the actions of a session have changed.
    pub(crate) fn hint(&self) {
        self.0.hint.notify_one();
    }

    /// Returns the pending actions, and the changes from there on. The store is watched until the
    /// last receiver is dropped.
    pub(crate) async fn subscribe(&self) -> Result<Subscription, MemoryError> {
        let mut state = self.0.state.lock().await;
        self.0.look(&mut state).await?;
        let changes = self.0.changes.subscribe();
        let pending = state.known.values().cloned().collect();
        if !state.is_running {
            state.is_running = true;
            tokio::spawn(self.0.clone().run());
        }
        Ok(Subscription { pending, changes })
    }
}

impl Inner {
    async fn run(self: Arc<Self>) {
        let mut ended = Box::pin(self.drain.finished());
        loop {
            tokio::select! {
                () = self.hint.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = &mut ended => return,
            }
            let mut state = self.state.lock().await;
            if self.changes.receiver_count() == 0 {
                *state = State::default();
                return;
            }
            if let Err(error) = self.look(&mut state).await {
                tracing::warn!(%error, "the pending actions cannot be looked for");
            }
        }
    }

    /// Compares the pending actions with those that are known, and reports the difference.
    async fn look(&self, state: &mut State) -> Result<(), MemoryError> {
        let mut now = BTreeMap::new();
        let mut next = Some(PendingQuery::new(PAGE_ACTIONS));
        while let Some(query) = next.take() {
            let page = self.store.pending(&query).await?;
            for action in page.actions {
                let key = (action.session.clone(), action.action.call.clone(), action.since);
                now.insert(key, action);
            }
            next = page.next.map(|cursor| PendingQuery::new(PAGE_ACTIONS).after(cursor));
        }
        let mut changes = Vec::new();
        for (key, action) in &state.known {
            if !now.contains_key(key) {
                let (session, call) = (action.session.clone(), action.action.call.clone());
                let decision = decision(&*self.store, action).await;
                changes.push(ActionChange::Resolved { session, call, decision });
            }
        }
        let is_new = |(key, action): &(&_, &PendingAction)| state.known.get(*key) != Some(action);
        let new = now.iter().filter(is_new).map(|(_, action)| action.clone());
        changes.extend(new.map(|action| ActionChange::Pending { action }));
        for change in changes {
            let _ = self.changes.send(Arc::new(change)); // an error means that nobody listens
        }
        state.known = now;
        Ok(())
    }
}

/// Returns the decision that has resolved an action, if there is one.
async fn decision(store: &dyn SessionStore, action: &PendingAction) -> Option<DecisionRecord> {
    let query = AuditQuery::new(RECENT_DECISIONS).session(action.session.clone());
    // The session may have been deleted.
    let recent = store.decisions(&query.since(action.since)).await.ok()?.decisions;
    recent.into_iter().find(|record| record.resolved && record.call == action.action.call)
}
