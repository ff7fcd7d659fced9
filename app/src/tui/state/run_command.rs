//! The execution of commands.

use loopwright_core::message::MessageId;
use loopwright_core::model::ThinkingLevel;
use loopwright_memory::long_term::DISTIL_COMMAND;

use super::core::State;
use super::effect::{Choice, Effect, Scroll};
use super::status::Run;
use crate::facts::{self, MemoryCommand};
use crate::slash::FrontEnd;

/// The keys and their effects.
const KEYS: [(&str, &str); 16] = [
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

impl State {
    /// Runs a command, or shows why it cannot run.
    pub(super) fn command(&mut self, name: &str, rest: &str) -> Vec<Effect> {
        let text = (!rest.is_empty()).then(|| rest.to_owned());
        match (name, text) {
            ("help", _) => {
                self.help();
                let help = self.transcript.entries().last();
                help.map(|entry| Effect::Scroll(Scroll::Show(entry.id))).into_iter().collect()
            }
            ("quit", _) => vec![Effect::Quit],
            ("tools", _) => vec![Effect::Tools],
            ("memory", Some(text)) if MemoryCommand::is_distil(&text) => self.distil(),
            ("memory", text) => match MemoryCommand::read(&text.unwrap_or_default()) {
                Ok(command) => vec![Effect::Memory(command)],
                Err(why) => self.notice(why),
            },
            ("export", file) => vec![Effect::Export(file.map(Into::into))],
            ("compact", instructions) => vec![Effect::Compact(instructions)],
            (
                "plan" | "later" | "continue" | "model" | "thinking" | "sessions" | "new" | "fork",
                _,
            ) if self.is_opening => {
                self.notice("A conversation is being opened: wait until it is open.")
            }
            ("plan", None) => self.notice("`/plan` needs the request to plan."),
            ("plan", Some(text)) if !self.is_working() => self.request(format!("/plan {text}")),
            ("later", Some(text)) if self.is_working() => vec![Effect::FollowUp(text)],
            ("later", Some(text)) => self.request(text),
            ("later", None) => self.notice("`/later` needs the text to queue."),
            ("continue", _) if self.is_working() => self.notice("The agent is already working."),
            ("continue", _) => vec![Effect::Continue],
            ("model", None) => {
                self.notice("`/model` needs a model, such as anthropic/claude-sonnet-4-5.")
            }
            ("sessions", None) => self.notice("`/sessions` needs the name of a session."),
            ("model" | "thinking" | "sessions" | "new" | "fork" | "plan", _)
                if self.is_working() =>
            {
                self.notice(
                    "The agent is working: press Esc to interrupt it, or wait until it is done.",
                )
            }
            ("model", Some(name)) => self.request_session(Effect::SwitchModel(name)),
            ("thinking", level) => match level.unwrap_or_default().parse() {
                Ok(level) => self.request_session(Effect::SwitchThinking(level)),
                Err(_) => {
                    let levels = ThinkingLevel::ALL.map(ThinkingLevel::name).join(", ");
                    self.notice(&format!("`/thinking` needs a level: {levels}."))
                }
            },
            ("sessions", name) => self.request_session(Effect::Open(name)),
            ("new", _) => self.request_session(Effect::Open(None)),
            ("fork", None) => self.request_session(Effect::Fork(None)),
            ("fork", Some(id)) => match id.trim_start_matches('m').parse() {
                Ok(number) => self.request_session(Effect::Fork(Some(MessageId(number)))),
                Err(_) => self.notice("`/fork` needs the number of a message, such as m7."),
            },
            (own, text) if self.is_own_command(own) => {
                let arguments = text.unwrap_or_default();
                vec![Effect::Slash { name: own.to_owned(), arguments }]
            }
            _ => Vec::new(), // `submit` admits no others
        }
    }

    /// Distils facts from the conversation, if the session remembers facts.
    fn distil(&mut self) -> Vec<Effect> {
        if !self.distils {
            return self.notice(facts::OFF);
        }
        match self.run {
            Run::Idle if !self.is_opening => self.request(DISTIL_COMMAND.into()),
            Run::Closed => self.notice_closed(),
            _ => self.notice("Facts can be distilled when the agent is idle."),
        }
    }

    /// Returns whether the app has a command of this name.
    pub(super) fn is_own_command(&self, name: &str) -> bool {
        self.own_commands.iter().any(|own| own.value == name)
    }

    fn help(&mut self) {
        let keys = KEYS.map(|(key, what)| Choice::new(key, what));
        let commands = FrontEnd::Terminal.commands();
        let commands = commands.map(|command| Choice::new(command.usage(), command.help));
        let own = self.own_commands.iter();
        let own = own.map(|own| Choice::new(format!("/{}", own.value), own.note.clone()));
        let rows = keys.into_iter().chain([Choice::new("", "")]).chain(commands).chain(own);
        let rows = rows.collect();
        self.transcript.table(rows);
    }
}
