//! Inputs for the owner of a session: [`post_and_wait`] and [`InputEvent::name_run`].

use std::time::Duration;

use crate::error::MemoryError;
use crate::event::input::{AbortRequest, InputEvent};
use crate::log::entry::LogEntry;
use crate::log::mailbox::{InputReceipt, PostedInput};
use crate::log::store::SessionStore;
use crate::message::RunId;

/// The first pause of [`post_and_wait`] before it looks for the receipt. Pauses double up to
/// [`MAX_PAUSE`]: an idle owner takes an input within milliseconds, but replacing a lost owner may
/// take seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(32);

/// Posts an input and waits for its receipt from the owner of the session. It waits while nobody
/// has the session open: open the session to have its inputs handled.
///
/// There is no timeout: `tokio::time::timeout` adds one. If the future is dropped, the input stays
/// posted once [`SessionStore::post`] has returned.
///
/// ```
/// use loopwright_core::event::InputEvent;
/// use loopwright_core::log::{InMemoryStore, InputReceipt, PostedInput, post_and_wait};
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::GenericAgent;
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?.finish()
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = InMemoryStore::new();
/// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
/// let handle = agent.open(&store, "s").await?;
///
/// let input = PostedInput::new("i", InputEvent::UserRequest("Hello".into()))?;
/// let receipt = post_and_wait(&store, "s", &input).await?;
/// assert_eq!(receipt, InputReceipt::Accepted);
/// handle.wait_for_idle().await;
/// assert_eq!(handle.state().await?.messages.len(), 2);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Fails like [`SessionStore::post`].
pub async fn post_and_wait(
    store: &(impl SessionStore + ?Sized),
    session: &str,
    input: &PostedInput,
) -> Result<InputReceipt, MemoryError> {
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(receipt) = store.post(session, input).await? {
            return Ok(receipt);
        }
        tokio::time::sleep(pause).await;
        pause = MAX_PAUSE.min(pause * 2);
    }
}

impl InputEvent {
    /// Makes an abort that names no run name the last run in the log of a session, so that it can
    /// be [posted](PostedInput::new). A later run, which may have started when the abort arrives,
    /// is not stopped. Other inputs do not change.
    ///
    /// A session without a run gets the number 0, and refuses the abort with
    /// [`InputError::NothingToAbort`](crate::error::InputError::NothingToAbort).
    ///
    /// # Errors
    ///
    /// Fails like [`SessionStore::read`].
    pub async fn name_run(
        &mut self,
        store: &(impl SessionStore + ?Sized),
        session: &str,
    ) -> Result<(), MemoryError> {
        let InputEvent::Abort(AbortRequest { run: run @ None, .. }) = self else { return Ok(()) };
        *run = store.session(session).await?.run;
        if run.is_none() {
            let started = |entry: &LogEntry| match entry {
                LogEntry::RunStarted { run, .. } => Some(*run),
                _ => None,
            };
            let entries = store.read(session, 0).await?;
            *run = entries.iter().rev().find_map(started).or(Some(RunId(0)));
        }
        Ok(())
    }
}
