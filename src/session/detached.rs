//! Requests outside of the conversation, and the budgets that every request is held to.

use std::sync::Arc;

use futures::StreamExt;

use crate::error::{ModelError, StepError};
use crate::limits::Limit;
use crate::log::entry::LogEntry;
use crate::log::input::Urgency;
use crate::message::{AssistantMessage, Message, StopReason, Usage};
use crate::model::assemble::Assembler;
use crate::model::{ChatModel, ChatRequest, ModelEvent};
use crate::session::Session;
use crate::session::stream::unfinished;

/// What came of a request outside of the conversation.
pub(crate) struct Said {
    /// For the log. One that failed or was cut off is logged and counted too, so that nobody asks
    /// without end.
    pub(crate) item: LogEntry,
    /// The reply; nothing if it failed or a steer cut it off.
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) error: Option<ModelError>,
}

impl Session {
    /// Whether a request may go out, and so many more after it.
    pub(crate) fn check_limits(&self, model: &dyn ChatModel, more: u32) -> Result<(), StepError> {
        let (limits, spent) = (&self.config.limits, &self.fold.spent);
        let turn = self.fold.turn.number + u32::from(!self.fold.turn.open) + spent.detached;
        if turn.saturating_add(more) > limits.turns {
            return Err(StepError::Limit(Limit::Turns));
        }
        if limits.tokens.is_some_and(|most| spent.usage.total() >= most) {
            return Err(StepError::Limit(Limit::Tokens));
        }
        match limits.cost {
            Some(_) if model.info().prices.is_none() => {
                Err(StepError::NoPrices(model.info().id.clone()))
            }
            Some(most) if spent.cost >= most => Err(StepError::Limit(Limit::Cost)),
            _ => Ok(()),
        }
    }

    /// Asks without telling anybody, hearing all the while. The caller writes the item.
    pub(crate) async fn say_aside(
        &mut self,
        model: &dyn ChatModel,
        request: ChatRequest,
    ) -> Result<Said, StepError> {
        let (mut reply, mut info) = (Assembler::default(), Arc::new(model.info().clone()));
        let id = self.next_message();
        let mut stream = model.stream(request);
        let (stop, usage, error) = loop {
            let event = tokio::select! { biased;
                Some(mail) = self.mail.recv() => match self.hear(mail).await? {
                    Some(Urgency::Interrupt) => break (StopReason::Interrupted, Usage::default(), None),
                    _ => continue,
                },
                event = stream.next() => event,
            };
            let taken = match event.unwrap_or_else(unfinished) {
                ModelEvent::Done { stop, usage } => break (stop, usage, None),
                ModelEvent::Error(error) => Err(error),
                ModelEvent::AnsweredBy(other) => {
                    info = other;
                    Ok(None)
                }
                event => reply.take(event),
            };
            if let Err(error) = taken {
                break (StopReason::Error, Usage::default(), Some(error));
            }
            tokio::task::coop::consume_budget().await; // as in `stream`
        };
        let nothing =
            AssistantMessage { stop, model: info.id.clone(), ..AssistantMessage::default() };
        let said = reply
            .finish(stop, info.id.clone(), usage)
            .filter(|_| error.is_none() && stop != StopReason::Interrupted);
        let message = Arc::new(Message::new(id, said.clone().unwrap_or(nothing)));
        let item = LogEntry::Detached { message: message.clone(), cost: info.cost(&usage) };
        Ok(Said { item, message: said.map(|_| message), error })
    }
}
