//! Inputs for a session that another process may have open.

use loopwright_core::agent::{InputError, attach};
use loopwright_core::event::InputEvent;
use loopwright_core::message::{InputId, new_input_id};
use loopwright_core::{AgentHandle, EventStream};

use super::agent::Built;
use super::open::Session;
use crate::error::StartError;
use crate::output::{self, Verbosity};

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
        if let Some(sent) = self.send_to_owner(verbosity).await? {
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
        }
    }

    /// Sends the input to the process that has the session open. Returns `None` if there is none,
    /// or if it has left without an answer.
    async fn send_to_owner(
        &self,
        verbosity: Verbosity,
    ) -> Result<Option<(AgentHandle, EventStream)>, StartError> {
        let Session { store, name, info, .. } = self.session;
        if info.is_none() || store.in_use(name).await? != Some(true) {
            return Ok(None);
        }
        if verbosity.notes() {
            output::info("Another process has the session open and handles it.");
        }
        let (handle, events) = attach(store, name.clone()).await?;
        self.send(&handle).await.map_err(|why| self.refused(&why))?;
        Ok((!handle.has_ended()).then_some((handle, events)))
    }

    /// Sends the input to the session that was opened.
    pub(crate) async fn send(&self, handle: &AgentHandle) -> Result<(), InputError> {
        handle.send_as(self.id.clone(), self.event.clone()).await.map(drop)
    }

    /// Returns the error for an input that the session refuses.
    pub(crate) fn refused(&self, why: &InputError) -> StartError {
        StartError(format!("{} was not accepted: {why}.", self.what))
    }
}
