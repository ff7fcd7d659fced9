//! [`ShownReplies`], the detached replies in progress that front ends see.

use std::sync::Arc;

use crate::error::ModelError;
use crate::event::AgentEvent;
use crate::event::hub::Hub;
use crate::message::{AssistantMessage, MessageId, StopReason, Usage};
use crate::model::{ModelEvent, ModelInfo, Update};
use crate::session::request::reply::{Partial, ReplyHooks};

/// The detached replies in progress that are shown. The session owns them, so that late subscribers
/// get them from their start, and so that they end with the run if the future that sent them is
/// dropped.
#[derive(Default)]
pub(crate) struct ShownReplies(Vec<ShownReply>);

/// The name under which a reply is shown, and the hooks that see its text first.
pub(crate) struct Speaker {
    pub(crate) name: Arc<str>,
    pub(crate) hooks: ReplyHooks,
}

struct ShownReply {
    speaker: Speaker,
    partial: Partial,
}

impl ShownReplies {
    /// Starts a reply.
    pub(crate) fn start(&mut self, id: MessageId, model: Arc<ModelInfo>, speaker: Speaker) {
        self.0.push(ShownReply { speaker, partial: Partial::new(id, model) });
    }

    /// Adds an event of the model to a reply and emits the resulting updates.
    pub(crate) fn take_event(
        &mut self,
        id: MessageId,
        event: ModelEvent,
        hub: &mut Hub,
    ) -> Result<(), ModelError> {
        let Some(shown) = self.0.iter_mut().find(|shown| shown.partial.id == id) else {
            return Ok(());
        };
        let ShownReply { speaker: Speaker { name, hooks }, partial } = shown;
        partial.take_event(event, hooks, &mut |update| {
            hub.emit_transient(changed(id, name, update));
        })
    }

    /// Ends a reply. Returns its message, if it has content, and the model that gave it. A reply
    /// that was cut off or failed is withdrawn, and has no message.
    pub(crate) fn end(
        &mut self,
        id: MessageId,
        (stop, usage): (StopReason, Usage),
        is_whole: bool,
        hub: &mut Hub,
    ) -> Option<(Option<AssistantMessage>, Arc<ModelInfo>)> {
        let at = self.0.iter().position(|shown| shown.partial.id == id)?;
        let ShownReply { speaker: Speaker { name, .. }, partial } = self.0.swap_remove(at);
        let model = partial.model.clone();
        let mut emit = |update| hub.emit_transient(changed(id, &name, update));
        let reply = if is_whole { partial.finish(stop, usage, &mut emit) } else { None };
        if reply.is_none() {
            emit(Update::Withdrawn);
        }
        Some((reply, model))
    }

    /// Withdraws all replies: the run has ended.
    pub(crate) fn withdraw_all(&mut self, hub: &mut Hub) {
        for ShownReply { speaker, partial } in self.0.drain(..) {
            hub.emit_transient(changed(partial.id, &speaker.name, Update::Withdrawn));
        }
    }

    /// Returns the updates that have been emitted, merged.
    pub(crate) fn updates_so_far(&self) -> impl Iterator<Item = AgentEvent> {
        self.0.iter().flat_map(|ShownReply { speaker, partial }| {
            let updates = partial.updates_so_far().into_iter();
            updates.map(|update| changed(partial.id, &speaker.name, update))
        })
    }
}

fn changed(message_id: MessageId, speaker: &Arc<str>, update: Update) -> AgentEvent {
    AgentEvent::DetachedUpdate { message_id, speaker: speaker.clone(), update }
}
