//! Inputs for a session that another process may have open.

use std::time::Duration;

use loopwright_core::agent::{InputError, attach};
use loopwright_core::event::InputEvent;
use loopwright_core::log::MemoryError;
use loopwright_core::message::{InputId, new_input_id};
use loopwright_core::{AgentHandle, EventStream};

use super::agent::Built;
use super::open::Session;
use crate::error::StartError;
use crate::output::{self, Verbosity};

/// Interval between attempts to open a session whose owner has not written anything yet.
const OPEN_INTERVAL: Duration = Duration::from_millis(50);

/// An input for a session that another process may have open.
pub(crate) struct Sending<'s> {
    session: &'s Session,
    pub(crate) event: InputEvent,
    /// Names the input in errors.
    what: &'static str,
    /// The id of the input, the same for each process that it is sent to.
    id: InputId,
}

impl<'s> Sending<'s> {
    pub(crate) fn new(session: &'s Session, event: InputEvent, what: &'static str) -> Self {
        Sending { session, event, what, id: new_input_id() }
    }

    /// Opens the session for the agent that `build` returns, or attaches to it while another
    /// process has it open. An attached handle has sent the input.
    pub(crate) async fn start(
        &self,
        verbosity: Verbosity,
        build: impl AsyncFnOnce() -> Result<Built, StartError>,
    ) -> Result<(AgentHandle, EventStream), StartError> {
        if self.session.info.is_some()
            && let Some(sent) = self.send_to_owner(verbosity).await?
        {
            return Ok(sent);
        }
        let built = build().await?;
        loop {
            if let Some(context) = self.session.context_if_free(&built).await? {
                let (handle, events) = built.agent.run(context).await?;
                built.telemetry.follow(&handle, &built.name).await;
                return Ok((handle, events));
            }
            if let Some(sent) = self.send_to_owner(verbosity).await? {
                return Ok(sent);
            }
            tokio::time::sleep(OPEN_INTERVAL).await;
        }
    }

    /// Sends the input to the process that has the session open. Returns `None` if there is none,
    /// or if it has left without an answer.
    async fn send_to_owner(
        &self,
        verbosity: Verbosity,
    ) -> Result<Option<(AgentHandle, EventStream)>, StartError> {
        let Session { store, name, .. } = self.session;
        if store.in_use(name).await? != Some(true) {
            return Ok(None);
        }
        let (handle, events) = match attach(store, name.clone()).await {
            // Its owner has not written anything yet.
            Err(MemoryError::NoSession(_)) => return Ok(None),
            attached => attached?,
        };
        if verbosity.notes() {
            output::info("Another process has the session open and handles it.");
        }
        self.send(&handle).await.map_err(|why| self.refused(&why))?;
        // The owner may have left without handling the input.
        let is_handled = !handle.has_ended() || {
            let log = store.read(name, 0).await?;
            log.iter().any(|entry| entry.input() == Some(&self.id))
        };
        Ok(is_handled.then_some((handle, events)))
    }

    /// Sends the input to the session that was opened.
    pub(crate) async fn send(&self, handle: &AgentHandle) -> Result<(), InputError> {
        handle.send(self.event.clone().with_id(self.id.clone())).await.map(drop)
    }

    /// Returns the error for an input that the session refuses.
    pub(crate) fn refused(&self, why: &InputError) -> StartError {
        StartError(format!("{} was not accepted: {why}.", self.what))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use loopwright_core::log::{InMemoryStore, InputReceipt, LogEntry, PostedInput, SessionInfo};
    use loopwright_core::testing::{Script, ScriptedModel};
    use loopwright_core::{AgentEvent, GenericAgent, Memory, SessionStore, async_trait};
    use loopwright_patterns::PiPattern;

    use super::*;

    /// A store whose session has an owner that handles the first input when it is checked for the
    /// second time, and is gone then.
    struct Leaving {
        store: InMemoryStore,
        agent: GenericAgent,
        checks: AtomicUsize,
    }

    #[async_trait]
    impl SessionStore for Leaving {
        async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
            self.store.open(session).await
        }

        async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
            self.store.read(session, from).await
        }

        async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
            self.store.sessions().await
        }

        async fn delete(&self, session: &str) -> Result<(), MemoryError> {
            self.store.delete(session).await
        }

        async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
            if self.checks.fetch_add(1, SeqCst) == 0 {
                return Ok(Some(true));
            }
            let owner = self.agent.open(&self.store, session).await.unwrap();
            owner.wait_for_idle().await;
            owner.close().await;
            Ok(Some(false))
        }

        async fn post(
            &self,
            session: &str,
            input: &PostedInput,
        ) -> Result<Option<InputReceipt>, MemoryError> {
            self.store.post(session, input).await
        }
    }

    /// An owner that has handled the input and left has done the work: it is not done once more.
    #[tokio::test]
    async fn the_run_of_an_owner_that_has_left_is_shown() {
        let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), PiPattern);
        let (store, agent) = (InMemoryStore::new(), agent.build().unwrap());
        let first = agent.open(&store, "s").await.unwrap();
        first.send(InputEvent::Steer("Be polite.".into())).await.unwrap();
        first.close().await;
        let info = Some(store.session("s").await.unwrap());
        let store = Arc::new(Leaving { store, agent, checks: AtomicUsize::new(0) });
        let session = Session { store, name: "s".into(), info, is_stored: true };
        let sending = Sending::new(&session, InputEvent::UserRequest("Hello".into()), "It");
        let build = async || panic!("the session is not opened here");
        let (handle, mut events) = sending.start(Verbosity::Quiet, build).await.unwrap();
        assert!(handle.is_attached() && handle.has_ended());
        let mut text = None;
        while let Some(event) = events.next().await {
            if let AgentEvent::AgentEnd(outcome) = &event.event {
                text = Some(outcome.text.to_string());
            }
        }
        assert_eq!(text.as_deref(), Some("Hi."));
    }
}
