//! Commands: lines that begin with `/`.

use loopwright_core::message::MessageId;
use loopwright_core::model::ThinkingLevel;

use super::effect::{Choice, Effect, Scroll, Tone};
use super::{Run, State};

/// A command, and what it is for.
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// What may follow it.
    pub(crate) takes: &'static str,
    pub(crate) help: &'static str,
}

const fn command(name: &'static str, takes: &'static str, help: &'static str) -> Command {
    Command { name, takes, help }
}

/// All of them, as they are offered.
pub(crate) const COMMANDS: [Command; 12] = [
    command("model", "NAME", "choose another model"),
    command("thinking", "LEVEL", "how much the model thinks"),
    command("sessions", "NAME", "open another conversation"),
    command("new", "", "begin a conversation"),
    command("fork", "[mN]", "go on from here, or from message N, in a new session"),
    command("compact", "[TEXT]", "have older turns summarised, with TEXT in mind"),
    command("continue", "", "go on with what was interrupted or has failed"),
    command("later", "TEXT", "say TEXT when the agent would otherwise stop"),
    command("tools", "", "what the agent can do"),
    command("export", "[FILE]", "write the conversation to a Markdown file"),
    command("help", "", "keys and commands"),
    command("quit", "", "leave"),
];

/// Whether there is a command of this name.
pub(super) fn is_command(name: &str) -> bool {
    COMMANDS.iter().any(|command| command.name == name)
}

const KEYS: [(&str, &str); 16] = [
    ("Enter", "send; while the agent works, steer it"),
    ("Alt+Enter", "while it works: say it when the agent is done; otherwise a new line"),
    ("Shift+Enter", "a new line, as Ctrl+J, or \\ and Enter"),
    ("Up, Down", "what was sent before and after; Up takes back what waits in the queue"),
    ("@, /", "complete a file, a command"),
    ("Tab", "take what is offered; go back to a call that waits"),
    ("Esc", "interrupt the agent"),
    ("Ctrl+C", "clear the line or interrupt; twice: leave"),
    ("Ctrl+D", "leave, where nothing is written"),
    ("Ctrl+Z", "back to the shell, where fg goes on"),
    ("Ctrl+O", "open or close results; Alt+Up and Alt+Down choose one"),
    ("Ctrl+T", "open or close thoughts"),
    ("PgUp, PgDn", "scroll; by lines with Shift+Up and Shift+Down"),
    ("Home, End", "scroll to the beginning, to the end; with Ctrl also while something is written"),
    ("Ctrl+U", "delete what is before the cursor"),
    ("Ctrl+L", "draw everything anew"),
];

impl State {
    /// Does what a line with a `/` asks for.
    pub(super) fn command(&mut self, name: &str, rest: &str) -> Vec<Effect> {
        let text = (!rest.is_empty()).then(|| rest.to_owned());
        match (name, text) {
            ("help", _) => {
                self.help();
                let help = self
                    .transcript
                    .entries()
                    .last()
                    .map(|entry| Effect::Scroll(Scroll::Show(entry.id)));
                help.into_iter().collect()
            }
            ("quit", _) => vec![Effect::Quit],
            ("tools", _) => vec![Effect::Tools],
            ("export", file) => vec![Effect::Export(file.map(Into::into))],
            ("compact", instructions) => vec![Effect::Compact(instructions)],
            ("later", Some(text)) if self.is_working() => vec![Effect::FollowUp(text)],
            ("later", Some(text)) => self.ask(text),
            ("later", None) => self.say("Write what is to be said after `/later`."),
            ("continue", _) if self.is_working() => self.say("It goes on already."),
            ("continue", _) => vec![Effect::Continue],
            ("model", None) => {
                self.say("Write a model after `/model`, such as anthropic/claude-sonnet-4-5.")
            }
            ("sessions", None) => self.say("Write the name of a session after `/sessions`."),
            ("model" | "thinking" | "sessions" | "new" | "fork", _) if self.is_working() => {
                self.say("The agent works: interrupt it with Esc first, or wait until it is done.")
            }
            ("model" | "thinking" | "sessions" | "new" | "fork", _) if self.run == Run::Opening => {
                self.say("A conversation is being opened: wait until it is there.")
            }
            ("model", Some(name)) => self.opening(Effect::SwitchModel(name)),
            ("thinking", level) => match level.as_deref().and_then(level_of) {
                Some(level) => self.opening(Effect::SwitchThinking(level)),
                None => self
                    .say("The levels of thinking are off, minimal, low, medium, high and xhigh."),
            },
            ("sessions", name) => self.opening(Effect::Open(name)),
            ("new", _) => self.opening(Effect::Open(None)),
            ("fork", None) => self.opening(Effect::Fork(None)),
            ("fork", Some(id)) => match id.trim_start_matches('m').parse() {
                Ok(number) => self.opening(Effect::Fork(Some(MessageId(number)))),
                Err(_) => self.say("Write the number of a message after `/fork`, such as m7."),
            },
            _ => Vec::new(), // there are no others: `is_command`
        }
    }

    fn help(&mut self) {
        let keys = KEYS.map(|(key, what)| Choice::new(key, what));
        let commands = COMMANDS.iter().map(|command| {
            Choice::new(format!("/{} {}", command.name, command.takes).trim_end(), command.help)
        });
        self.transcript
            .table(keys.into_iter().chain([Choice::new("", "")]).chain(commands).collect());
    }

    pub(super) fn say(&mut self, text: &str) -> Vec<Effect> {
        self.transcript.notice(Tone::Loud, text);
        vec![Effect::Scroll(Scroll::Bottom)]
    }
}

fn level_of(name: &str) -> Option<ThinkingLevel> {
    Some(match name {
        "off" => ThinkingLevel::Off,
        "minimal" => ThinkingLevel::Minimal,
        "low" => ThinkingLevel::Low,
        "medium" => ThinkingLevel::Medium,
        "high" => ThinkingLevel::High,
        "xhigh" => ThinkingLevel::XHigh,
        _ => return None,
    })
}
