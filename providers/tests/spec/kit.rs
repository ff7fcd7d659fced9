//! Helpers for the tests of wrappers.

use futures::StreamExt;
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::model::{ChatRequest, ModelEvent, ModelInfo};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{ChatModel, Message};
use std::sync::Arc;

/// Returns a model with this id and these replies.
pub(crate) fn scripted(id: &str, replies: impl IntoIterator<Item = Script>) -> ScriptedModel {
    ScriptedModel::new(replies).info(ModelInfo::new(id))
}

/// Returns a request with one message.
pub(crate) fn request(text: &str) -> ChatRequest {
    let mut request = ChatRequest::default();
    request.messages =
        Arc::new(vec![Arc::new(Message::new(MessageId(1), UserMessage::from(text)))]);
    request
}

/// Returns all events of one reply.
pub(crate) async fn events(model: &impl ChatModel) -> Vec<ModelEvent> {
    model.stream(request("Hello")).collect().await
}

/// Returns the events in short form: `+` a block, its deltas, `.` its end, `<` withdrawn, `~` a
/// retry, `@id` the replying model, `!` an error, `$` done.
pub(crate) async fn transcript(model: &impl ChatModel) -> String {
    let short = |event: &ModelEvent| match event {
        ModelEvent::BlockStart { .. } => "+".to_owned(),
        ModelEvent::Delta { delta, .. } => delta.clone(),
        ModelEvent::BlockEnd { .. } => ".".to_owned(),
        ModelEvent::Withdrawn => "<".to_owned(),
        ModelEvent::Retry(_) => "~".to_owned(),
        ModelEvent::AnsweredBy(info) => format!("@{} ", info.id),
        ModelEvent::Error(_) => "!".to_owned(),
        ModelEvent::Done { .. } => "$".to_owned(),
        other => format!("{other:?}"),
    };
    events(model).await.iter().map(short).collect()
}
