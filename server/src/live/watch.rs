//! The task that observes an open session.

use std::sync::{Arc, Weak};

use loopwright_core::{AgentEvent, EventStream};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{IDLE_TIMEOUT, Inner};
use crate::inbox::ActionWatch;
use crate::observer::Observer;

/// Observes all events of a session until it ends, and closes the session when it is unused.
pub(super) async fn watch(
    sessions: Weak<Inner>,
    id: Arc<str>,
    mut events: EventStream,
    mut observer: Observer,
    actions: ActionWatch,
) {
    let mut tick = interval_at(Instant::now() + IDLE_TIMEOUT, IDLE_TIMEOUT);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                observer.observe(&event);
                if matches!(
                    event.event,
                    AgentEvent::ExternalAction(_)
                        | AgentEvent::ExternalActionApproval { .. }
                        | AgentEvent::ExternalActionEnd { .. }
                ) {
                    actions.hint();
                }
            },
            _ = tick.tick() => {
                let Some(sessions) = sessions.upgrade() else { continue };
                let id = id.clone();
                // In a separate task, since closing waits for this one.
                tokio::spawn(async move { sessions.close_unused(&id, IDLE_TIMEOUT).await });
            },
        }
    }
}
