//! The task that observes an open session.

use std::time::Duration;

use loopwright_core::{AgentEvent, EventStream};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::inbox::ActionWatch;
use crate::telemetry::ExportedSession;
use crate::telemetry::observer::Observer;

/// Observes all events of a session until it ends. Calls `close_unused` at each interval.
pub(super) async fn watch(
    mut events: EventStream,
    mut observer: Observer,
    mut exported: ExportedSession,
    actions: ActionWatch,
    interval: Duration,
    close_unused: impl Fn(),
) {
    let mut tick = interval_at(Instant::now() + interval, interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                exported.apply(&event);
                if event.parent.is_some() {
                    continue; // a sub-agent's, only for telemetry
                }
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
            _ = tick.tick() => close_unused(),
        }
    }
}
