//! The diff that a call would make to a file.

use loopwright_core::event::ExternalAction;
use loopwright_tools::{Workspace, preview};

use super::News;
use super::open::Host;
use crate::tui::state::Told;

impl Host {
    /// Tells the diff, beside whatever else is to be done.
    pub(super) fn preview(&self, action: ExternalAction) {
        let (news, root) = (self.news(), self.options().place.root_or_here());
        tokio::task::spawn_blocking(move || {
            let diff = match Workspace::open(&root) {
                Ok(workspace) => preview(&workspace, &action.name, &action.arguments),
                Err(why) => Err(format!("What it would do cannot be shown: {why}.")),
            };
            let told = Told::Preview(action, diff.map(Option::unwrap_or_default));
            let _ = news.send(News::Told(told));
        });
    }
}
