//! A session whose owners can be replaced, paused and kept from hints.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::kit::*;

/// A log and a mailbox. Only the last owner may write.
#[derive(Clone)]
pub(crate) struct SharedSession {
    state: Arc<Mutex<State>>,
    posted: Arc<Notify>,
    /// The time at which the clock of the store was zero.
    started: Instant,
}

#[derive(Default)]
struct State {
    entries: Vec<LogEntry>,
    mail: Vec<(InputId, Option<PostedInput>, Option<InputReceipt>)>,
    owners: u64,
    /// The number of appends that were paused.
    paused: usize,
}

impl SharedSession {
    /// Returns a session with one entry.
    pub(crate) fn opened() -> Self {
        let (state, posted) = Default::default();
        let shared = SharedSession { state, posted, started: Instant::now() };
        let opened = LogEntry::Opened { epoch: 1, time: 1, parent: None, owner: None };
        shared.state.lock().unwrap().entries.push(opened);
        shared
    }

    /// Returns a session with this log.
    pub(crate) fn with(entries: Vec<LogEntry>) -> Self {
        let shared = Self::opened();
        shared.state.lock().unwrap().entries = entries;
        shared
    }

    /// Opens the session, replacing its owner.
    pub(crate) fn owner(&self) -> Owner {
        let mut state = self.state.lock().unwrap();
        state.owners += 1;
        let number = state.owners;
        Owner {
            shared: self.clone(),
            number,
            hints: true,
            receipts: true,
            max_entries: u64::MAX,
            pause: None,
            lock: tokio::sync::Mutex::default(),
            receipt_time: Duration::ZERO,
            failing_reads: AtomicUsize::new(0),
        }
    }

    /// Returns the number of appends that were paused.
    pub(crate) fn paused(&self) -> usize {
        self.state.lock().unwrap().paused
    }

    /// Returns an environment with the clock of the store.
    pub(crate) fn clock(&self) -> PausedClock {
        PausedClock(self.started)
    }

    pub(crate) fn post(&self, mut input: PostedInput) {
        input.time = Some(self.clock().now());
        let mut state = self.state.lock().unwrap();
        if state.mail.iter().all(|(id, _, _)| *id != input.id) {
            state.mail.push((input.id.clone(), Some(input), None));
        }
        self.posted.notify_one();
    }

    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        self.state.lock().unwrap().entries.clone()
    }

    /// Returns the ids of the inputs in the log, in order, without generated ids.
    pub(crate) fn inputs(&self) -> Vec<String> {
        let entries = self.entries();
        let ids = entries.iter().filter_map(|entry| entry.input()).map(|id| id.to_string());
        ids.filter(|id| !id.starts_with("input-")).collect()
    }

    /// Returns the receipts of the posted inputs, in order.
    pub(crate) fn receipts(&self) -> Vec<Option<InputReceipt>> {
        let state = self.state.lock().unwrap();
        let posted = state.mail.iter().filter(|(_, input, _)| input.is_some());
        posted.map(|(_, _, receipt)| receipt.clone()).collect()
    }

    pub(crate) fn receipt(&self, id: &str) -> Option<InputReceipt> {
        let state = self.state.lock().unwrap();
        state.mail.iter().find(|(own, _, _)| **own == *id)?.2.clone()
    }
}

/// An owner of the session.
pub(crate) struct Owner {
    shared: SharedSession,
    number: u64,
    hints: bool,
    receipts: bool,
    max_entries: u64,
    /// The position of an append that is paused, and the signal that ends the pause.
    pause: Option<(u64, Arc<Notify>)>,
    lock: tokio::sync::Mutex<()>,
    receipt_time: Duration,
    failing_reads: AtomicUsize,
}

impl Owner {
    /// Drops the hints of posted inputs.
    pub(crate) fn without_hints(mut self) -> Self {
        self.hints = false;
        self
    }

    /// Makes writing receipts fail.
    pub(crate) fn without_receipts(mut self) -> Self {
        self.receipts = false;
        self
    }

    /// Makes the first `reads` reads of the mailbox fail.
    pub(crate) fn failing_reads(self, reads: usize) -> Self {
        self.failing_reads.store(reads, Ordering::Relaxed);
        self
    }

    /// Sets the time for writing a receipt.
    pub(crate) fn slow(mut self, receipt_time: Duration) -> Self {
        self.receipt_time = receipt_time;
        self
    }

    /// Pauses the append at position `entry` until `resume`.
    pub(crate) fn paused_at(mut self, entry: u64, resume: Arc<Notify>) -> Self {
        self.pause = Some((entry, resume));
        self
    }

    /// Makes appends fail once the log has this many entries.
    pub(crate) fn failing_after(mut self, entries: u64) -> Self {
        self.max_entries = entries;
        self
    }
}

#[async_trait]
impl Memory for Owner {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        if let Some((_, resume)) = self.pause.as_ref().filter(|(entry, _)| *entry == at) {
            self.shared.state.lock().unwrap().paused += 1;
            resume.notified().await;
        }
        let mut state = self.shared.state.lock().unwrap();
        let end = state.entries.len() as u64;
        if state.owners != self.number {
            return Err(MemoryError::Lost);
        }
        if at + entries.len() as u64 > self.max_entries {
            return Err(MemoryError::Failed("the disk is full".into()));
        }
        if end != at {
            return Err(MemoryError::Conflict { at, end });
        }
        state.entries.extend(entries.iter().cloned());
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        Ok(self.shared.entries().split_off(from as usize))
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }
}

#[async_trait]
impl Mailbox for Owner {
    async fn unread(&self) -> Result<Vec<PostedInput>, MemoryError> {
        let reads = self.failing_reads.load(Ordering::Relaxed);
        if reads > 0 {
            self.failing_reads.store(reads - 1, Ordering::Relaxed);
            return Err(MemoryError::Failed("the disk is asleep".into()));
        }
        let state = self.shared.state.lock().unwrap();
        let unread = state.mail.iter().filter(|(_, _, receipt)| receipt.is_none());
        Ok(unread.filter_map(|(_, input, _)| input.clone()).collect())
    }

    async fn now(&self) -> Result<u64, MemoryError> {
        Ok(self.shared.clock().now())
    }

    async fn receipt(&self, input: &InputId) -> Result<Option<InputReceipt>, MemoryError> {
        Ok(self.shared.receipt(input))
    }

    async fn acknowledge(
        &self,
        input: &InputId,
        receipt: &InputReceipt,
    ) -> Result<(), MemoryError> {
        let _lock = self.lock.lock().await;
        if !self.receipt_time.is_zero() {
            sleep(self.receipt_time).await;
        }
        let mut state = self.shared.state.lock().unwrap();
        if state.owners != self.number {
            return Err(MemoryError::Lost);
        }
        if !self.receipts {
            return Err(MemoryError::Failed("the disk is full".into()));
        }
        match state.mail.iter_mut().find(|(id, _, _)| id == input) {
            Some((_, _, known)) => drop(known.get_or_insert(receipt.clone())),
            None if *receipt == InputReceipt::Accepted => {}
            None => state.mail.push((input.clone(), None, Some(receipt.clone()))),
        }
        Ok(())
    }

    async fn posted(&self) {
        match self.hints {
            true => self.shared.posted.notified().await,
            false => std::future::pending().await,
        }
    }
}
