//! The modes of a session, which decide the calls that the user is asked about.

use serde_json::{Value, json};

use crate::session::Scope;

/// A mode of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    id: &'static str,
    name: &'static str,
    description: &'static str,
    /// The calls that run without approval.
    pub(super) scope: Scope,
    /// `true` if prompts are planned first.
    pub(super) plans: bool,
}

/// The mode of a session whose settings approve at most single tools.
pub(super) const ASK: Mode = Mode {
    id: "ask",
    name: "Ask",
    description: "Asks before it changes a file or runs a command",
    scope: Scope::Tools,
    plans: false,
};

/// The mode that asks only about changes of protected files.
pub(super) const ACCEPT_ALL: Mode = Mode {
    id: "accept_all",
    name: "Accept all",
    description: "Runs every tool without asking; protected files are asked for",
    scope: Scope::All,
    plans: false,
};

const ACCEPT_EDITS: Mode = Mode {
    id: "accept_edits",
    name: "Accept edits",
    description: "Changes files without asking, and asks before it runs a command",
    scope: Scope::Edits,
    plans: false,
};

const PLAN: Mode = Mode {
    id: "plan",
    name: "Plan",
    description: "Plans each request first: nothing is changed before you accept the plan",
    scope: Scope::Tools,
    plans: true,
};

/// Returns the modes of an agent with these commands. Only the coding agent plans and edits.
pub(super) fn modes(commands: &[&str]) -> Vec<Mode> {
    match commands.contains(&"/plan") {
        true => vec![ASK, ACCEPT_EDITS, ACCEPT_ALL, PLAN],
        false => vec![ASK, ACCEPT_ALL],
    }
}

impl Mode {
    /// Returns the mode with this id.
    pub(super) fn of(id: &str, modes: &[Mode]) -> Option<Mode> {
        modes.iter().find(|mode| mode.id == id).copied()
    }

    /// Returns the state of the modes in the protocol's form, with `self` as the current mode.
    pub(super) fn state(self, modes: &[Mode]) -> Value {
        let available = modes.iter().map(
            |mode| json!({ "id": mode.id, "name": mode.name, "description": mode.description }),
        );
        json!({ "currentModeId": self.id, "availableModes": available.collect::<Vec<_>>() })
    }
}
