//! Previews of calls: the change that a call would make, shown before the user decides.

use loopwright_core::event::ExternalAction;

use super::host::{Host, Open};
use super::msg::Msg;
use crate::tui::state::Outcome;

impl Host {
    /// Requests the diff from the agent's factory in the background, and sends it if one exists.
    pub(super) fn preview(&self, action: ExternalAction) {
        let Some(Open { previews, .. }) = &self.open else { return };
        let previews = previews.clone();
        let msgs = self.msgs.clone();
        tokio::spawn(async move {
            if let Some(diff) = previews.of(&action).await.transpose() {
                let _ = msgs.send(Msg::Outcome(Outcome::Preview(action, diff)));
            }
        });
    }
}
