//! The built-in slash commands of all front ends.

/// A built-in slash command.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    /// The argument, in brackets if it is optional; empty if the command has none.
    pub(crate) argument: &'static str,
    pub(crate) help: &'static str,
    front_ends: &'static [FrontEnd],
}

/// A user interface with slash commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    Terminal,
    /// The chat line by line.
    Chat,
    /// An editor, over ACP.
    Editor,
}

use FrontEnd::{Chat, Editor, Terminal};

const TERMINAL: &[FrontEnd] = &[Terminal];
const TYPED: &[FrontEnd] = &[Terminal, Chat];
const ALL: &[FrontEnd] = &[Terminal, Chat, Editor];

/// The commands, in the order in which they are offered.
const COMMANDS: [BuiltIn; 15] = [
    command("model", "NAME", "switch to another model", TERMINAL),
    command("thinking", "LEVEL", "set how much the model thinks", TERMINAL),
    command("sessions", "NAME", "open another conversation", TERMINAL),
    command("new", "", "start a conversation", TERMINAL),
    command("fork", "[mN]", "continue from here, or from message N, in a new session", TERMINAL),
    command("plan", "TEXT", "send TEXT; nothing is changed before you accept a plan", ALL),
    command("compact", "[TEXT]", "summarise older turns; TEXT instructs the summary", ALL),
    command("continue", "", "continue a run that was interrupted or failed", ALL),
    command("decline", "[TEXT]", "decline to answer a question; TEXT is the reason", &[Chat]),
    command("later", "TEXT", "queue TEXT as a follow-up", TYPED),
    command(
        "memory",
        "[TEXT]",
        "list facts, or find WORDS, forget ID|all, distil, export FILE",
        TYPED,
    ),
    command("tools", "", "list the agent's tools", TERMINAL),
    command("export", "[FILE]", "write the conversation to a Markdown file", TERMINAL),
    command("help", "", "list keys and commands", TYPED),
    command("quit", "", "quit; a run of this process is aborted, pending calls stay open", TYPED),
];

const fn command(
    name: &'static str,
    argument: &'static str,
    help: &'static str,
    front_ends: &'static [FrontEnd],
) -> BuiltIn {
    BuiltIn { name, argument, help, front_ends }
}

impl BuiltIn {
    /// Returns the command as the user writes it, such as `/model NAME`.
    pub(crate) fn usage(&self) -> String {
        format!("/{} {}", self.name, self.argument).trim_end().to_owned()
    }
}

impl FrontEnd {
    /// Returns the built-in commands of this front end.
    pub(crate) fn commands(self) -> impl Iterator<Item = &'static BuiltIn> {
        COMMANDS.iter().filter(move |command| command.front_ends.contains(&self))
    }

    /// Returns whether this front end has a built-in command of this name.
    pub(crate) fn has(self, name: &str) -> bool {
        self.commands().any(|command| command.name == name)
    }
}

/// Returns whether a front end has a built-in command of this name.
pub(crate) fn is_built_in(name: &str) -> bool {
    COMMANDS.iter().any(|command| command.name == name)
}
