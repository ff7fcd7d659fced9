//! [`Recorded`]: records the exchanges with a model in a file, and replays them.

mod file;
mod request;

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures::stream::{self, BoxStream, Stream, StreamExt};
use loopwright_core::ChatModel;
use loopwright_core::model::{ChatRequest, ModelError, ModelEvent, ModelInfo};

use file::{Exchange, Recording, Tape};

/// A model that records its exchanges in a file, or replays them from one. Tests can replay the
/// replies of a real model without a key or a network.
///
/// `Recorded` records one model. In a test of a whole agent, with its tools, all its models and its
/// sub-agents, use `loopwright_core::testing::Cassette`. A cassette also finds requests that are
/// sent at the same time, and shows differences as a diff. `Recorded` needs no test feature and can
/// be part of a program.
///
/// The file has one line of JSON per exchange, in the order in which replies end. A line contains
/// the changes of the request and every event of the reply. The file contains the whole
/// conversation, but neither keys nor headers. Each line is written in one write, before the
/// reply's last event is returned. If the write fails, the reply fails.
///
/// During replay, requests must arrive in the recorded order, with the same system prompt,
/// messages, tools and settings. Message ids, the session and a tool's details may differ. A
/// request that differs, or comes after the last exchange, fails with an error that describes the
/// difference. A reply that its caller dropped ends there with an error.
///
/// ```
/// use futures::{StreamExt, executor::block_on};
/// use loopwright_core::{ChatModel, Message};
/// use loopwright_core::message::{MessageId, UserMessage};
/// use loopwright_core::model::{ChatRequest, ModelEvent};
/// use loopwright_providers::{Offline, Recorded};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("greeting.jsonl");
/// let mut request = ChatRequest::default();
/// request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hello")).into()].into();
///
/// // The file does not exist, so this records. The model is only built for recording.
/// let model = Recorded::auto(&path, || Ok(Offline::new()))?;
/// let said: Vec<ModelEvent> = block_on(model.stream(request.clone()).collect());
///
/// let model = Recorded::replay(&path)?;
/// let again: Vec<ModelEvent> = block_on(model.stream(request).collect());
/// assert_eq!(again, said);
/// assert_eq!(model.remaining(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorded<M> {
    info: ModelInfo,
    mode: Mode<M>,
}

enum Mode<M> {
    Record { model: M, tape: Mutex<Tape> },
    Replay(Mutex<Recording>),
}

impl<M: ChatModel> Recorded<M> {
    /// Records the replies of `model` in a new file. Creates missing folders.
    ///
    /// # Errors
    /// Returns [`ModelErrorKind::InvalidRequest`] if the file already exists or cannot be written.
    ///
    /// [`ModelErrorKind::InvalidRequest`]: loopwright_core::model::ModelErrorKind::InvalidRequest
    pub fn record(model: M, path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let info = model.info().clone();
        let tape = Mutex::new(Tape::create(path.as_ref(), &info)?);
        Ok(Recorded { info, mode: Mode::Record { model, tape } })
    }

    /// Replays the file if it exists. Otherwise records the model's replies in it. Delete the file
    /// to record again.
    ///
    /// # Errors
    /// Returns the errors of [`Recorded::record`], [`Recorded::replay`] and `model`.
    pub fn auto(
        path: impl AsRef<Path>,
        model: impl FnOnce() -> Result<M, ModelError>,
    ) -> Result<Self, ModelError> {
        let path = path.as_ref();
        if path.exists() { Self::play(path) } else { Self::record(model()?, path) }
    }

    /// Returns the number of exchanges that have not been replayed; 0 while recording.
    pub fn remaining(&self) -> usize {
        match &self.mode {
            Mode::Record { .. } => 0,
            Mode::Replay(recording) => lock(recording).remaining(),
        }
    }

    fn play(path: &Path) -> Result<Self, ModelError> {
        let (info, recording) = Recording::read(path)?;
        Ok(Recorded { info, mode: Mode::Replay(Mutex::new(recording)) })
    }
}

impl Recorded<Box<dyn ChatModel>> {
    /// Replays the recording in this file.
    ///
    /// # Errors
    /// Returns [`ModelErrorKind::InvalidRequest`] if the file cannot be read, is not a recording,
    /// was written by a later version, or was cut off.
    ///
    /// [`ModelErrorKind::InvalidRequest`]: loopwright_core::model::ModelErrorKind::InvalidRequest
    pub fn replay(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        Self::play(path.as_ref())
    }
}

impl<M: ChatModel> ChatModel for Recorded<M> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        match &self.mode {
            Mode::Record { model, tape } => {
                let exchange = lock(tape).begin(&request);
                Take { tape, events: model.stream(request), exchange: Some(exchange) }.boxed()
            }
            Mode::Replay(recording) => stream::iter(lock(recording).answer(&request)).boxed(),
        }
    }
}

impl<M> fmt::Debug for Recorded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if matches!(self.mode, Mode::Record { .. }) { "record" } else { "replay" };
        f.debug_struct("Recorded")
            .field("model", &self.info.id)
            .field("mode", &mode)
            .finish_non_exhaustive()
    }
}

/// A reply that is being recorded.
struct Take<'a> {
    tape: &'a Mutex<Tape>,
    events: BoxStream<'a, ModelEvent>,
    /// The exchange so far; `None` once it is written.
    exchange: Option<Exchange>,
}

impl Stream for Take<'_> {
    type Item = ModelEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ModelEvent>> {
        let this = &mut *self;
        let event = ready!(this.events.poll_next_unpin(cx));
        if let (Some(exchange), Some(event)) = (&mut this.exchange, &event) {
            exchange.events.push(event.clone());
        }
        if matches!(event, None | Some(ModelEvent::Done { .. } | ModelEvent::Error(_)))
            && let Some(exchange) = this.exchange.take()
            && let Err(error) = lock(this.tape).write(&exchange)
        {
            return Poll::Ready(Some(ModelEvent::Error(error)));
        }
        Poll::Ready(event)
    }
}

impl Drop for Take<'_> {
    /// Records a dropped reply as far as it was received, so that the numbers of the others stay
    /// right.
    fn drop(&mut self) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.abandoned = true;
            if let Err(error) = lock(self.tape).write(&exchange) {
                tracing::error!(%error, "a reply was not recorded");
            }
        }
    }
}

/// Locks a mutex that is never held across an await.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offline;

    #[test]
    fn a_reply_that_cannot_be_written_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.jsonl");
        std::fs::write(&path, "").unwrap();
        let model = Offline::new();
        let tape = Mutex::new(Tape::unwritable(&path));
        let recorded = Recorded { info: model.info().clone(), mode: Mode::Record { model, tape } };
        let events: Vec<_> =
            futures::executor::block_on(recorded.stream(ChatRequest::default()).collect());
        let Some(ModelEvent::Error(error)) = events.last() else { panic!("{events:?}") };
        assert!(error.message.contains("full.jsonl cannot be written"), "{error}");
        assert!(!events.iter().any(|event| matches!(event, ModelEvent::Done { .. })), "{events:?}");
    }
}
