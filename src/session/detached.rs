//! Detached requests: their reply stays out of the conversation.

use std::sync::Arc;

use crate::error::{MemoryError, ModelError};
use crate::log::entry::LogEntry;
use crate::message::{AssistantMessage, Message, StopReason};
use crate::model::assemble::Assembler;
use crate::model::{ChatModel, ChatRequest, ModelEvent};
use crate::session::Session;
use crate::session::stream;

/// The outcome of a detached request.
pub(crate) struct DetachedReply {
    /// The entry for the log. A request that failed or was interrupted is logged and counted too,
    /// so that a loop over failing requests ends at the limit.
    pub(crate) entry: LogEntry,
    /// The reply, unless it failed or was interrupted.
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) error: Option<ModelError>,
}

/// Sends a request without emitting events. The caller writes the entry.
pub(crate) async fn send(
    session: &mut Session,
    model: &dyn ChatModel,
    request: ChatRequest,
) -> Result<DetachedReply, MemoryError> {
    let mut assembler = Assembler::default();
    let mut info = Arc::new(model.info().clone());
    let id = session.journal.next_message_id();
    let streamed = stream::read(session, model.stream(request), |_, event| match event {
        ModelEvent::AnsweredBy(other) => {
            info = other;
            Ok(())
        }
        event => assembler.take(event).map(drop),
    });
    let stream::Streamed { stop, usage, error } = streamed.await?;
    let empty = AssistantMessage { stop, model: info.id.clone(), ..AssistantMessage::default() };
    let is_whole = error.is_none() && stop != StopReason::Interrupted;
    let reply = assembler.finish(stop, info.id.clone(), usage).filter(|_| is_whole);
    let is_reply = reply.is_some();
    let message = Arc::new(Message::new(id, reply.unwrap_or(empty)));
    let entry = LogEntry::Detached { message: message.clone(), cost: info.cost(&usage) };
    Ok(DetachedReply { entry, message: is_reply.then_some(message), error })
}
