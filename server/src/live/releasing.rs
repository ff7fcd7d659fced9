//! Sessions that another process has open, and that this process needs to delete or to reopen with
//! other settings.

use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::agent::InputError;
use loopwright_core::event::InputEvent;
use loopwright_core::log::{InputReceipt, MemoryError, PostedInput, SessionLog};
use loopwright_core::message::new_input_id;
use tokio::time::Instant;

use super::sending::RECEIPT_TIMEOUT;
use crate::error::{ApiError, ErrorKind};

/// The interval between attempts at the operation that needs the session.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Requests to the process that has a session open to release it. The caller holds the session's
/// lock, so the session is not open here.
pub(super) struct Releasing<'a> {
    store: &'a dyn SessionStore,
    session: &'a str,
    /// The operation that must not happen during a run.
    what: &'a str,
    start: Instant,
    /// The epoch of the last owner asked, and the request to it.
    asked: Option<(u64, PostedInput)>,
}

impl<'a> Releasing<'a> {
    pub(super) fn new(store: &'a dyn SessionStore, session: &'a str, what: &'a str) -> Self {
        Releasing { store, session, what, start: Instant::now(), asked: None }
    }

    /// Waits briefly after an operation has failed because the session `in_use` is open, so that
    /// the caller can retry. Asks each new owner of the session once.
    ///
    /// # Errors
    /// Fails if a run is in progress, and if the owner has not released the session in time.
    pub(super) async fn wait(&mut self, in_use: &str) -> Result<(), ApiError> {
        let Releasing { store, session, what, .. } = *self;
        if self.start.elapsed() >= RECEIPT_TIMEOUT {
            let why = format!(
                "The process that has the session open was asked to close it, and has not done so \
                 for {} seconds: try again later.",
                RECEIPT_TIMEOUT.as_secs()
            );
            return Err(ApiError::new(ErrorKind::Unanswered, why));
        }
        if in_use == session {
            let epoch = SessionLog::of(&store.read(session, 0).await?).epoch();
            let asked = match self.asked.take().filter(|(asked, _)| *asked == epoch) {
                Some(asked) => asked,
                None => (epoch, release(epoch)?),
            };
            let (_, input) = self.asked.insert(asked);
            match store.post(session, input).await {
                Err(MemoryError::NoMailbox) => {
                    return Err(MemoryError::InUse(session.into()).into());
                }
                Ok(Some(InputReceipt::Refused(InputError::Busy))) => {
                    return Err(during_a_run(what));
                }
                Ok(Some(InputReceipt::Refused(why))) => return Err(why.into()),
                // The owner is about to leave, or has not read its mailbox yet.
                posted => drop(posted?),
            }
        } // else a sub-agent's, which its root closes
        tokio::time::sleep(RETRY_INTERVAL).await;
        Ok(())
    }
}

/// Returns the request to the owner of this epoch to release its session.
fn release(epoch: u64) -> Result<PostedInput, InputError> {
    PostedInput::new(new_input_id(), InputEvent::Release { epoch })
}

/// Returns the error for an operation that must not happen during a run.
pub(super) fn during_a_run(what: &str) -> ApiError {
    let why = format!(
        "A run is in progress in this session: wait for its end or abort it, and then {what}."
    );
    ApiError::new(ErrorKind::RunInProgress, why)
}
