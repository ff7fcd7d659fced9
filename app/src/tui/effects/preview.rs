//! The diff that a call would make to a file.

use loopwright_core::event::ExternalAction;
use loopwright_tools::{Workspace, preview};

use super::msg::Msg;
use super::open::Host;
use crate::tui::state::Outcome;

impl Host {
    /// Computes the diff in the background and sends it.
    pub(super) fn preview(&self, action: ExternalAction) {
        let msgs = self.msgs();
        let root = self.options().workspace.root_or_here();
        tokio::task::spawn_blocking(move || {
            let diff = match Workspace::open(&root) {
                Ok(workspace) => preview(&workspace, &action.name, &action.arguments),
                Err(why) => Err(format!("The diff cannot be shown: {why}.")),
            };
            let outcome = Outcome::Preview(action, diff.map(Option::unwrap_or_default));
            let _ = msgs.send(Msg::Outcome(outcome));
        });
    }
}
