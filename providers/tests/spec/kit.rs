//! What the tests of decorators share.

use futures::StreamExt;
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::model::{ChatRequest, ModelEvent, ModelInfo};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{ChatModel, Message};
use std::sync::Arc;

/// A model of this id with these replies.
pub(crate) fn scripted(id: &str, replies: impl IntoIterator<Item = Script>) -> ScriptedModel {
    ScriptedModel::new(replies).info(ModelInfo::new(id))
}

/// A request of one message.
pub(crate) fn request(text: &str) -> ChatRequest {
    let mut request = ChatRequest::default();
    request.messages =
        Arc::new(vec![Arc::new(Message::new(MessageId(1), UserMessage::from(text)))]);
    request
}

/// All events of one reply.
pub(crate) async fn events(model: &impl ChatModel) -> Vec<ModelEvent> {
    model.stream(request("Hello")).collect().await
}

/// Events in short: `+` a block, its deltas, `.` its end, `<` withdrawn, `@id` who answers, `!` an
/// error, `$` done.
pub(crate) async fn transcript(model: &impl ChatModel) -> String {
    let short = |event: &ModelEvent| match event {
        ModelEvent::BlockStart { .. } => "+".to_owned(),
        ModelEvent::Delta { delta, .. } => delta.clone(),
        ModelEvent::BlockEnd { .. } => ".".to_owned(),
        ModelEvent::Withdrawn => "<".to_owned(),
        ModelEvent::AnsweredBy(info) => format!("@{} ", info.id),
        ModelEvent::Error(_) => "!".to_owned(),
        ModelEvent::Done { .. } => "$".to_owned(),
        other => format!("{other:?}"),
    };
    events(model).await.iter().map(short).collect()
}
