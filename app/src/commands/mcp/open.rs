//! A session that the MCP server has open.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use loopwright_core::agent::InputError;
use loopwright_core::event::{Envelope, ExternalAction, InputEvent, RunOutcome, StreamEnd};
use loopwright_core::log::Follower;
use loopwright_core::{AgentEvent, AgentHandle, EventStream, SessionStore, async_trait};
use loopwright_mcp::server::HostSession;

use crate::session::Previews;

/// A session that is open for a call.
pub(super) struct OpenSession {
    pub(super) id: Arc<str>,
    pub(super) handle: AgentHandle,
    pub(super) events: EventStream,
    pub(super) store: Arc<dyn SessionStore>,
    /// The previews of calls, or `None` if they have none.
    pub(super) previews: Option<Previews>,
    /// `true` if the session is deleted when no decision is pending any more.
    pub(super) is_temporary: bool,
}

#[async_trait]
impl HostSession for OpenSession {
    fn id(&self) -> &str {
        &self.id
    }

    async fn send(&self, input: InputEvent) -> Result<(), InputError> {
        self.handle.send(input).await.map(drop)
    }

    async fn next(&mut self) -> Option<Arc<Envelope>> {
        loop {
            match self.events.next().await {
                // The client reads slowly. The missed events are in the log.
                None if self.events.end() == Some(StreamEnd::Lagged) => {
                    self.events = self.handle.subscribe()
                }
                event => return event,
            }
        }
    }

    fn idle(&self) -> BoxFuture<'static, ()> {
        let handle = self.handle.clone();
        async move { handle.wait_for_idle().await }.boxed()
    }

    async fn pending(&self) -> Result<Vec<ExternalAction>, InputError> {
        self.handle.pending().await
    }

    async fn last_outcome(&self) -> Result<Option<Arc<RunOutcome>>, String> {
        let log = self.store.read(&self.id, 0).await;
        let log = log.map_err(|why| format!("The session cannot be read: {why}."))?;
        let events = Follower::new(self.id.clone()).take(&log);
        Ok(events.into_iter().rev().find_map(|event| match event.event {
            AgentEvent::AgentEnd(outcome) => Some(outcome),
            _ => None,
        }))
    }

    async fn preview(&self, action: &ExternalAction) -> Option<String> {
        self.previews.as_ref()?.of(action).await.ok().flatten()
    }

    async fn close(mut self: Box<Self>) {
        let is_done = self.handle.pending().await.is_ok_and(|pending| pending.is_empty());
        self.handle.close().await;
        if self.is_temporary && is_done {
            let _ = self.store.delete(&self.id).await; // in memory, which does not fail
        }
    }
}
