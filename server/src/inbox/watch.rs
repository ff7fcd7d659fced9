//! [`ActionWatch`]: detects new and resolved actions, as long as it has subscribers.
//!
//! The store is the source, since an action can become pending or be resolved in any process.
//! Sessions that are open here trigger a look at the store. Changes by other processes are found by
//! polling every second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::log::{AuditQuery, DecisionRecord, MemoryError, PendingAction, PendingQuery};
use loopwright_core::message::CallId;
use loopwright_core::{Environment, SessionStore, SystemEnvironment};
use tokio::sync::{Mutex, Notify, broadcast};

use super::change::ActionChange;
use crate::server::drain::Drain;

/// The interval of searches for changes by other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of changes that a slow reader may miss before its subscription ends.
const MAX_UNREAD_CHANGES: usize = 1_024;
/// The number of actions per page.
const PAGE_ACTIONS: usize = 500;
/// The number of decisions per page.
pub(super) const PAGE_DECISIONS: usize = 500;
/// The tolerated difference between the clocks of processes that record decisions, in milliseconds.
pub(super) const CLOCK_TOLERANCE_MS: u64 = 60_000;

/// The key of an action: its session, its call, and the time since which it is pending.
pub(super) type ActionKey = (Arc<str>, CallId, u64);
/// The key of a decision: its time, its session, and its position there.
type DecisionKey = (u64, Arc<str>, u64);

/// A watch for changes of actions. Clones share it.
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
    known: BTreeMap<ActionKey, PendingAction>,
    /// The recent decisions that were already reported or need no report.
    seen: BTreeSet<DecisionKey>,
    /// The start of the last look, in milliseconds since 1970.
    looked: Option<u64>,
    /// `true` while a task looks for changes.
    is_running: bool,
}

/// The pending actions, and a receiver of later changes.
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

    /// Notifies the watch that the actions of a session have changed.
    pub(crate) fn hint(&self) {
        self.0.hint.notify_one();
    }

    /// Returns the pending actions, and a receiver of later changes. The store is watched until the
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

    /// Compares the pending actions with the known ones. Reports the difference, and recent
    /// decisions that were not reported.
    async fn look(&self, state: &mut State) -> Result<(), MemoryError> {
        let store = &*self.store;
        let started = SystemEnvironment.now();
        let since = state.looked.unwrap_or(started).saturating_sub(CLOCK_TOLERANCE_MS);
        let mut now = pending_actions(store).await?;
        // Read after the actions, so that decisions made in between are reported now.
        let recent = decisions(store, AuditQuery::new(PAGE_DECISIONS).since(since)).await?;
        let (mut changes, mut seen) = (Vec::new(), BTreeSet::new());
        let mut gone = state.known.clone();
        for record in recent.into_iter().rev() {
            let is_new = !state.seen.contains(&key_of(&record)) && seen.insert(key_of(&record));
            if state.looked.is_some() && is_new && record.resolved {
                let key = action_of(gone.keys(), &record);
                if let Some(key) = &key {
                    gone.remove(key);
                    now.remove(key);
                }
                changes.push(ActionChange::decided(key.map(|(.., since)| since), record));
            }
        }
        gone.retain(|key, _| !now.contains_key(key));
        for (session, call, since) in gone.into_keys() {
            // Decided long ago, if at all: the decision waited for an owner.
            let is_seen = |record: &DecisionRecord| {
                state.seen.contains(&key_of(record)) || seen.contains(&key_of(record))
            };
            // The session may have been deleted from a store that does not keep its decisions.
            let decision = decision(store, (&session, &call, since), is_seen).await.unwrap_or(None);
            seen.extend(decision.as_ref().map(key_of));
            changes.push(ActionChange::Resolved { session, call, since: Some(since), decision });
        }
        let is_new = |(key, action): &(&_, &PendingAction)| state.known.get(*key) != Some(action);
        let new = now.iter().filter(is_new).map(|(_, action)| action.clone());
        changes.extend(new.map(|action| ActionChange::Pending { action }));
        for change in changes {
            let _ = self.changes.send(Arc::new(change)); // fails if nobody listens
        }
        state.known = now;
        state.seen.append(&mut seen);
        let cut = (started.saturating_sub(CLOCK_TOLERANCE_MS), "".into(), 0);
        state.seen = state.seen.split_off(&cut);
        state.looked = Some(started);
        Ok(())
    }
}

fn key_of(record: &DecisionRecord) -> DecisionKey {
    (record.time, record.session.clone(), record.position)
}

/// Returns the action, if any of these, that a decision has resolved.
pub(super) fn action_of<'a>(
    mut actions: impl DoubleEndedIterator<Item = &'a ActionKey>,
    record: &DecisionRecord,
) -> Option<ActionKey> {
    let is_resolved = |(session, call, since): &&ActionKey| {
        *session == record.session && *call == record.call && *since <= record.time
    };
    actions.rfind(is_resolved).cloned()
}

async fn pending_actions(
    store: &dyn SessionStore,
) -> Result<BTreeMap<ActionKey, PendingAction>, MemoryError> {
    let mut all = BTreeMap::new();
    let mut next = Some(PendingQuery::new(PAGE_ACTIONS));
    while let Some(query) = next.take() {
        let page = store.pending(&query).await?;
        for action in page.actions {
            all.insert((action.session.clone(), action.action.call.clone(), action.since), action);
        }
        next = page.next.map(|cursor| PendingQuery::new(PAGE_ACTIONS).after(cursor));
    }
    Ok(all)
}

/// Returns all decisions that match a query, the latest first.
pub(super) async fn decisions(
    store: &dyn SessionStore,
    query: AuditQuery,
) -> Result<Vec<DecisionRecord>, MemoryError> {
    let mut all = Vec::new();
    let mut next = Some(query.clone());
    while let Some(page_query) = next.take() {
        let page = store.decisions(&page_query).await?;
        all.extend(page.decisions);
        next = page.next.map(|cursor| query.clone().after(cursor));
    }
    Ok(all)
}

/// Returns the unseen decision that has resolved an action, if it exists.
pub(super) async fn decision(
    store: &dyn SessionStore,
    (session, call, since): (&Arc<str>, &CallId, u64),
    is_seen: impl Fn(&DecisionRecord) -> bool,
) -> Result<Option<DecisionRecord>, MemoryError> {
    let query = AuditQuery::new(PAGE_DECISIONS).session(session.clone()).since(since);
    let resolves = |record: &DecisionRecord| record.resolved && record.call == *call;
    let mut all = decisions(store, query).await?.into_iter();
    Ok(all.find(|record| resolves(record) && !is_seen(record)))
}
