//! The commands and keys, in the form of `/help` and the completions.

/// A command: a line that begins with `/`.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The argument as `/help` shows it.
    pub(crate) argument: &'static str,
    pub(crate) help: &'static str,
}

const fn command(name: &'static str, argument: &'static str, help: &'static str) -> Command {
    Command { name, argument, help }
}

/// The commands, in the order in which they are offered.
pub(crate) const COMMANDS: [Command; 14] = [
    command("model", "NAME", "switch to another model"),
    command("thinking", "LEVEL", "set how much the model thinks"),
    command("sessions", "NAME", "open another conversation"),
    command("new", "", "start a conversation"),
    command("fork", "[mN]", "continue from here, or from message N, in a new session"),
    command("plan", "TEXT", "send TEXT; nothing is changed before you accept a plan"),
    command("compact", "[TEXT]", "summarise older turns; TEXT instructs the summary"),
    command("continue", "", "continue a run that was interrupted or failed"),
    command("later", "TEXT", "queue TEXT as a follow-up"),
    command("memory", "[TEXT]", "list facts, or find WORDS, forget ID|all, distil, export FILE"),
    command("tools", "", "list the agent's tools"),
    command("export", "[FILE]", "write the conversation to a Markdown file"),
    command("help", "", "list keys and commands"),
    command("quit", "", "quit"),
];

/// Returns whether every app has a command of this name.
pub(crate) fn is_built_in(name: &str) -> bool {
    COMMANDS.iter().any(|command| command.name == name)
}

/// The keys and their effects.
pub(super) const KEYS: [(&str, &str); 16] = [
    ("Enter", "send; while the agent works, steer it"),
    ("Alt+Enter", "while the agent works: queue for when it is done; otherwise a new line"),
    ("Shift+Enter", "a new line; also Ctrl+J, or \\ and Enter"),
    ("Up, Down", "previous and next input; Up takes queued messages back"),
    ("@, /", "complete a file, a command"),
    ("Tab", "accept a completion; return to a pending call"),
    ("Esc", "interrupt the agent"),
    ("Ctrl+C", "clear the input or interrupt; twice: quit"),
    ("Ctrl+D", "quit, if the input is empty"),
    ("Ctrl+Z", "suspend; fg in the shell resumes"),
    ("Ctrl+O", "open or close results; Alt+Up and Alt+Down select one"),
    ("Ctrl+T", "open or close thoughts"),
    ("PgUp, PgDn", "scroll; by lines with Shift+Up and Shift+Down"),
    ("Home, End", "scroll to the beginning, to the end; with Ctrl also while typing"),
    ("Ctrl+U", "delete what is before the cursor"),
    ("Ctrl+L", "redraw the screen"),
];
