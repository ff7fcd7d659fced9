//! Opening of the journal: its state comes from a snapshot and the log.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Journal;
use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::state::{Restored, SessionState};
use crate::message::RunId;
use crate::principal::Principal;
use crate::session::journal::write_behind::Unwritten;
use crate::session::panics::without_panic;

/// Number of new entries after which a session stores a snapshot of its state when it is closed.
const SNAPSHOT_INTERVAL: u64 = 1_000;
/// Maximum wait for storing a snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

impl Journal {
    /// Reads the log and takes ownership of the session. The host's settings are logged if they are
    /// new. A new session belongs to `owner`. `time` is in milliseconds since 1970.
    pub(crate) async fn open(
        &mut self,
        settings: Option<Arc<Value>>,
        owner: Option<Principal>,
        time: u64,
    ) -> Result<(), MemoryError> {
        self.restore().await;
        let opened = self.take_ownership(settings.clone(), owner.clone(), time).await;
        if matches!(opened, Err(MemoryError::Conflict { .. })) && self.in_snapshot > 0 {
            // The log is shorter than the snapshot says: an error of the store.
            tracing::warn!(session = &**self.session(), "the snapshot of a session is wrong");
            self.hub.continue_from(0, RunId::default());
            (self.state, self.in_snapshot, self.is_lost) = (SessionState::default(), 0, false);
            return self.take_ownership(settings, owner, time).await;
        }
        opened
    }

    /// Reads the entries after the current state, and takes ownership.
    async fn take_ownership(
        &mut self,
        settings: Option<Arc<Value>>,
        owner: Option<Principal>,
        time: u64,
    ) -> Result<(), MemoryError> {
        for entry in without_panic(self.memory.load(self.state.info.entries)).await? {
            if let LogEntry::RunStarted { run, .. } = &entry {
                self.hub.set_run(*run);
            }
            let hub = &mut self.hub;
            self.state.apply(&entry, &mut |_| hub.skip_seq());
        }
        self.written = self.state.info.entries;
        let root = self.state.info.sub_agent_of.as_ref().and_then(|parent| parent.root.clone());
        if let (Some(root), None) = (root, self.hub.parent()) {
            let session = self.hub.session().clone();
            return Err(MemoryError::SubAgent { session, root });
        }
        let (epoch, parent) = (self.state.epoch + 1, self.hub.parent().cloned());
        let owner = owner.filter(|_| self.state.epoch == 0);
        self.stage(LogEntry::Opened { epoch, time, parent, owner });
        let old = self.state.info.settings.as_deref().unwrap_or(&Value::Null);
        if let Some(settings) = settings.filter(|new| **new != *old) {
            self.stage(LogEntry::Settings { settings });
        }
        self.flush().await
    }

    /// Restores the state from the latest snapshot, if the memory has a readable one.
    async fn restore(&mut self) {
        let Some(snapshots) = self.memory.snapshots() else { return };
        match without_panic(snapshots.latest()).await {
            Ok(Some(snapshot)) => {
                let Some(Restored { state, seq, run }) = SessionState::restore(&snapshot) else {
                    let session = &**self.session();
                    tracing::info!(session, "a snapshot of another version is ignored");
                    return;
                };
                self.hub.continue_from(seq, run);
                (self.in_snapshot, self.state) = (state.info.entries, state);
            }
            Ok(None) => {}
            Err(error) => {
                let session = &**self.session();
                tracing::warn!(session, %error, "the snapshot of a session cannot be read");
            }
        }
    }

    /// Stores a snapshot if the log has grown enough since the last one.
    pub(crate) async fn store_snapshot(&mut self) {
        self.take_back();
        let is_due = self.written.saturating_sub(self.in_snapshot) >= SNAPSHOT_INTERVAL;
        let is_log =
            self.state.info.entries == self.written && self.failed.is_none() && !self.is_lost;
        let Some(snapshots) = self.memory.snapshots().filter(|_| is_due && is_log) else { return };
        let (seq, run) = self.hub.position();
        let Some(snapshot) = self.state.snapshot(seq, run) else { return };
        let store = without_panic(snapshots.store(snapshot));
        let stored = tokio::time::timeout(SNAPSHOT_TIMEOUT, store).await;
        let error = match stored {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(timeout) => timeout.to_string(),
        };
        let session = &**self.session();
        tracing::warn!(session, error, "the snapshot of a session cannot be stored");
    }

    /// Rebuilds the state if it differs from the log, and lets writes succeed again. Returns the
    /// earlier failure, if there was one.
    pub(crate) async fn recover(&mut self) -> Result<Option<MemoryError>, MemoryError> {
        self.rebuild_state().await?;
        Ok(self.failed.take().map(|failure| failure.error))
    }

    /// Rebuilds the state if it differs from the log, and emits the events that were not emitted.
    /// Returns whether that was necessary.
    pub(crate) async fn rebuild_state(&mut self) -> Result<bool, MemoryError> {
        self.take_back();
        if !self.failed.as_ref().is_some_and(|failure| failure.is_stale) {
            return Ok(false);
        }
        let entries = without_panic(self.memory.load(0)).await?;
        // An append may have been written although it failed.
        let mut unknown = entries.iter().skip(self.written as usize);
        if unknown.any(|entry| matches!(entry, LogEntry::Opened { .. })) {
            self.is_lost = true;
            return Err(MemoryError::Lost);
        }
        let SessionState { inputs, .. } = std::mem::take(&mut self.state);
        inputs.clear();
        self.state.inputs = inputs; // a run's task shares it
        self.unwritten = Unwritten::default();
        let (emitted, _) = self.hub.position();
        let (hub, mut seq) = (&mut self.hub, 0);
        for entry in &entries {
            if let LogEntry::RunStarted { run, .. } = entry {
                hub.set_run(*run);
            }
            self.state.apply(entry, &mut |event| {
                seq += 1;
                if seq > emitted {
                    hub.emit(event);
                }
            });
        }
        self.written = self.state.info.entries;
        self.failed.iter_mut().for_each(|failure| failure.is_stale = false);
        self.note_wake();
        Ok(true)
    }
}
