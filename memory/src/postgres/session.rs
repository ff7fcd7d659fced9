//! An open session.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopwright_core::Memory;
use loopwright_core::log::{
    InputReceipt, LogEntry, Mailbox, MemoryError, PostedInput, SearchHit, SessionInfo, Snapshot,
    Snapshots,
};
use loopwright_core::message::{InputId, Message};
use tokio::sync::oneshot;

use super::append::Append;
use super::handle::StoreHandle;
use super::owners::Claim;
use super::store::{Signals, Store};
use crate::{Durability, codec};

/// An open session. `claim`, which releases it, is dropped first; `handle`, which waits, last.
pub(super) struct OpenSession {
    claim: Claim,
    signals: Signals,
    name: Arc<str>,
    /// The description, which follows the log. It does not include the mailbox.
    info: Arc<Mutex<SessionInfo>>,
    durability: Durability,
    handle: StoreHandle,
}

impl OpenSession {
    pub(super) fn new(
        handle: StoreHandle,
        durability: Durability,
        claim: Claim,
        signals: Signals,
        info: SessionInfo,
    ) -> Self {
        let (name, info) = (info.id.clone(), Arc::new(Mutex::new(info)));
        OpenSession { claim, signals, name, info, durability, handle }
    }
}

#[async_trait]
impl Memory for OpenSession {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let json = entries.iter().map(codec::encode).collect::<Result<_, _>>()?;
        let Claim { number, epoch, .. } = self.claim;
        let (done, result) = oneshot::channel();
        let durable = self.durability.must_flush(&entries);
        let info = self.info.clone();
        self.handle.append(Append { number, epoch, at, entries, json, info, durable, done })?;
        result.await.unwrap_or(Err(MemoryError::Lost))
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let number = self.claim.number;
        let rows = self.handle.run(async move |store| store.load(number, from).await).await?;
        rows.decode().map_err(|error| self.handle.store().error(error))
    }

    async fn recall(&self, query: &str, limit: usize) -> Result<Vec<Arc<Message>>, MemoryError> {
        let (number, query) = (self.claim.number, query.to_owned());
        let search = async move |store: Arc<Store>| store.search(&query, limit, Some(number)).await;
        let hits: Vec<SearchHit> = self.handle.run(search).await?;
        Ok(hits.into_iter().map(|hit| hit.message).collect())
    }

    async fn lost(&self) {
        // The sender lives as long as `self`, so it is not closed before the value is true.
        let _ = self.signals.lost.subscribe().wait_for(|is_lost| *is_lost).await;
    }

    async fn close(&self) {
        let (done, released) = oneshot::channel();
        self.claim.release(Some(done));
        let _ = released.await; // an error means that it was released before
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }
}

#[async_trait]
impl Snapshots for OpenSession {
    async fn latest(&self) -> Result<Option<Snapshot>, MemoryError> {
        let number = self.claim.number;
        self.handle.run(async move |store| store.snapshot(number).await).await
    }

    async fn store(&self, snapshot: Snapshot) -> Result<(), MemoryError> {
        let number = self.claim.number;
        self.handle.run(async move |store| store.store_snapshot(number, snapshot).await).await
    }
}

#[async_trait]
impl Mailbox for OpenSession {
    async fn unread(&self) -> Result<Vec<PostedInput>, MemoryError> {
        let number = self.claim.number;
        self.handle.run(async move |store| store.unread(number).await).await
    }

    async fn now(&self) -> Result<u64, MemoryError> {
        let name = self.name.clone();
        self.handle.run(async move |store| store.now(&name).await).await
    }

    async fn receipt(&self, input: &InputId) -> Result<Option<InputReceipt>, MemoryError> {
        let (number, input) = (self.claim.number, input.clone());
        self.handle.run(async move |store| store.receipt(number, &input).await).await
    }

    async fn acknowledge(
        &self,
        input: &InputId,
        receipt: &InputReceipt,
    ) -> Result<(), MemoryError> {
        let is_accepted = *receipt == InputReceipt::Accepted;
        let (key, input, receipt) =
            ((self.claim.number, self.claim.epoch), input.clone(), codec::encode(receipt)?);
        let write = async move |store: Arc<Store>| {
            store.acknowledge(key, input, receipt, is_accepted).await
        };
        self.handle.run(write).await
    }

    async fn posted(&self) {
        self.signals.posted.notified().await
    }
}
