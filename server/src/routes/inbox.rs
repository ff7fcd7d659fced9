//! `/api/inbox/events`: the pending actions that the caller may see, and their changes.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use futures::stream;
use loopwright_core::message::CallId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::sync::broadcast;

use crate::access::{Caller, may_audit, may_see};
use crate::error::ApiError;
use crate::inbox::{ActionChange, Subscription};
use crate::server::Server;
use crate::streams::sse_frames::{DrainedFrames, SseFrame};

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/inbox/events", get(events))
}

/// The data of a frame.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum InboxFrame {
    /// A change of an action.
    Change(Arc<ActionChange>),
    /// All actions that were pending have been sent. Changes follow.
    Ready(Ready),
}

/// The end of the initial pending actions.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename = "ready")]
pub(crate) struct Ready {}

/// A reader of the inbox.
struct Reader {
    server: Server,
    caller: Caller,
    /// The frames to send before further changes.
    first: VecDeque<InboxFrame>,
    changes: broadcast::Receiver<Arc<ActionChange>>,
    /// The actions sent to the reader as pending.
    seen: HashSet<(Arc<str>, CallId)>,
}

async fn events(State(server): State<Server>, caller: Caller) -> Result<Response, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let Subscription { pending, changes } = shared.actions.subscribe().await?;
    let pending = pending.into_iter();
    let first = pending.map(|action| InboxFrame::Change(ActionChange::Pending { action }.into()));
    let first = first.chain([InboxFrame::Ready(Ready {})]).collect();
    let reader = Reader { server: server.clone(), caller, first, changes, seen: HashSet::new() };
    let next = async |mut reader: Reader| {
        let frame = reader.next().await?;
        Some((frame.encoded(), reader))
    };
    let notice = SseFrame::new(Some("draining"), &json!({}));
    Ok(DrainedFrames::new(shared, Box::pin(stream::unfold(reader, next)), notice).response())
}

impl Reader {
    /// Returns the next frame for this reader, or `None` if it reads too slowly.
    async fn next(&mut self) -> Option<InboxFrame> {
        loop {
            let frame = match self.first.pop_front() {
                Some(frame) => frame,
                None => InboxFrame::Change(self.changes.recv().await.ok()?),
            };
            if self.may_have(&frame).await {
                return Some(frame);
            }
        }
    }

    /// Returns whether the caller may see a frame, and records that it was sent.
    async fn may_have(&mut self, frame: &InboxFrame) -> bool {
        let InboxFrame::Change(change) = frame else { return true };
        match &**change {
            ActionChange::Pending { action } => {
                let is_seen = self.caller.named().is_none() || {
                    // The session may have been deleted.
                    let session = self.server.shared().store.session(&action.session).await;
                    match session {
                        Ok(session) => may_see(&self.server, &self.caller, &session, action).await,
                        Err(_) => false,
                    }
                };
                if is_seen {
                    self.seen.insert((action.session.clone(), action.action.call.clone()));
                }
                is_seen
            }
            ActionChange::Resolved { session, call, decision, .. } => {
                let was_seen = self.seen.remove(&(session.clone(), call.clone()));
                was_seen
                    || match decision {
                        Some(decision) => may_audit(&self.server, &self.caller, decision).await,
                        None => false,
                    }
            }
        }
    }
}

impl InboxFrame {
    fn encoded(&self) -> SseFrame {
        let name = match self {
            InboxFrame::Ready(_) => "ready",
            InboxFrame::Change(change) => match &**change {
                ActionChange::Pending { .. } => "pending",
                ActionChange::Resolved { .. } => "resolved",
            },
        };
        SseFrame::new(Some(name), self)
    }
}
