//! Streaming a reply: model events into the message that grows, and out to the subscribers.

use std::future::poll_fn;
use std::task::Poll;

use futures::StreamExt;

use crate::error::{ModelError, ModelErrorKind, StepError};
use crate::log::event::AgentEvent;
use crate::log::input::Urgency;
use crate::message::{StopReason, Usage};
use crate::model::Update;
use crate::model::assemble::Assembler;
use crate::model::{ChatModel, ChatRequest, ModelEvent};
use crate::session::hooks::{FnHandleStepTextPart, TextAction, TextPart};
use crate::session::{Mail, Partial, Session};

/// What comes next while a reply streams.
enum Next {
    Mail(Mail),
    Event(ModelEvent),
}

/// How a stream ended.
pub(crate) struct Streamed {
    pub(crate) stop: StopReason,
    pub(crate) usage: Usage,
    pub(crate) error: Option<ModelError>,
}

impl Session {
    /// Streams a reply into `partial` and to the subscribers, hearing all the while.
    pub(crate) async fn stream(
        &mut self,
        model: &dyn ChatModel,
        request: ChatRequest,
        text_hook: Option<FnHandleStepTextPart>,
    ) -> Result<Streamed, StepError> {
        let mut stream = model.stream(request);
        loop {
            let next = match self.mail.try_recv() {
                Ok(mail) => Next::Mail(mail),
                // Where the stream has something to give, nobody waits for mail: to wait costs more
                // than to look.
                Err(_) => {
                    poll_fn(|cx| match stream.poll_next_unpin(cx) {
                        Poll::Ready(event) => {
                            Poll::Ready(Next::Event(event.unwrap_or_else(unfinished)))
                        }
                        Poll::Pending => match self.mail.poll_recv(cx) {
                            Poll::Ready(Some(mail)) => Poll::Ready(Next::Mail(mail)),
                            _ => Poll::Pending,
                        },
                    })
                    .await
                }
            };
            match next {
                Next::Mail(mail) => {
                    if self.hear(mail).await? == Some(Urgency::Interrupt) {
                        return Ok(Streamed {
                            stop: StopReason::Interrupted,
                            usage: Usage::default(),
                            error: None,
                        });
                    }
                }
                Next::Event(ModelEvent::Done { stop, usage }) => {
                    return Ok(Streamed { stop, usage, error: None });
                }
                Next::Event(ModelEvent::Error(error)) => {
                    return Ok(Streamed {
                        stop: StopReason::Error,
                        usage: Usage::default(),
                        error: Some(error),
                    });
                }
                Next::Event(event) => {
                    if let Err(error) = self.take_event(event, text_hook.as_ref()) {
                        return Ok(Streamed {
                            stop: StopReason::Error,
                            usage: Usage::default(),
                            error: Some(error),
                        });
                    }
                }
            }
            // A stream that is always ready must not deafen the session.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn take_event(
        &mut self,
        event: ModelEvent,
        hook: Option<&FnHandleStepTextPart>,
    ) -> Result<(), ModelError> {
        let Some(Partial { id, model, reply, held }) = &mut self.partial else {
            return Ok(());
        };
        let (id, hub) = (*id, &mut self.hub);
        let mut tell = |update| hub.overlay(AgentEvent::MessageUpdate { message_id: id, update });
        match (&event, hook) {
            (ModelEvent::Delta { block, delta }, Some(hook)) if reply.is_text(*block) => {
                let held = held.entry(*block).or_default();
                held.push_str(delta);
                return text_part(hook, reply, *block, held, false, &mut tell);
            }
            (ModelEvent::BlockEnd { block, .. }, Some(hook)) if reply.is_text(*block) => {
                text_part(hook, reply, *block, held.entry(*block).or_default(), true, &mut tell)?;
            }
            (ModelEvent::Withdrawn, _) => held.clear(),
            (ModelEvent::AnsweredBy(info), _) => *model = info.clone(),
            _ => {}
        }
        reply.take(event)?.into_iter().for_each(tell);
        Ok(())
    }
}

/// Lets the hook see what is held of a text block, and does what it says.
fn text_part(
    hook: &FnHandleStepTextPart,
    reply: &mut Assembler,
    block: u32,
    held: &mut String,
    last: bool,
    tell: &mut dyn FnMut(Update),
) -> Result<(), ModelError> {
    let action = hook(TextPart { text: held, last });
    let (text, calls) = match action {
        TextAction::Hold if !last => return Ok(()),
        TextAction::Show | TextAction::Hold => (std::mem::take(held), Vec::new()),
        TextAction::Replace(text) => (text, Vec::new()),
        TextAction::Calls { text, calls } => (text, calls),
    };
    held.clear();
    if !text.is_empty() {
        tell(reply.delta(block, text)?);
    }
    for (name, arguments) in calls {
        let (block, started) = reply.add_call(name.into(), arguments.clone());
        started.into_iter().for_each(&mut *tell);
        tell(Update::ToolCall { block, delta: arguments });
    }
    Ok(())
}

pub(crate) fn unfinished() -> ModelEvent {
    let why = "the model's stream ended before the reply was complete; send the request again";
    ModelEvent::Error(ModelError::new(ModelErrorKind::Network, why))
}
