//! [`Chat`]: the state of a conversation, and the prompts and questions that depend on it.

use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::slice;
use std::sync::Arc;

use loopwright_core::AgentHandle;
use loopwright_core::agent::InputError;
use loopwright_core::compaction::Compaction;
use loopwright_core::event::{ExternalAction, InputEvent};
use tokio::sync::mpsc;

use crate::output::{self, how_to_answer, report_pending};
use crate::program::Program;
use crate::session::{Allowed, FollowError, Session};
use crate::slash::{RunningSlash, SlashContext};
use crate::stdin::Hidden;

pub(super) type Done = Result<(), FollowError>;
pub(super) type Compacted = Result<Vec<Arc<Compaction>>, InputError>;

/// The state of the chat, which gives the next line its meaning.
pub(super) enum State {
    /// The next line is a request.
    Idle,
    /// The next line is a steer.
    Running,
    /// The next line is the decision on this call.
    Deciding(ExternalAction),
    /// The next line contains the new arguments of this call.
    Editing(ExternalAction),
    /// The next line is the answer to this question; a secret is hidden while it is typed.
    Answering(ExternalAction, Option<Hidden>),
}

impl State {
    /// Returns whether the next line is a secret, which must not be shown.
    pub(super) fn asks_for_a_secret(&self) -> bool {
        let State::Answering(action, _) = self else { return false };
        action.question().is_some_and(|question| question.is_secret())
    }
}

/// The state of a conversation that is typed line by line.
pub(super) struct Chat {
    pub(super) handle: AgentHandle,
    pub(super) allowed: Allowed,
    pub(super) lines: mpsc::Receiver<String>,
    pub(super) state: State,
    /// An abort was requested and the run has not ended yet.
    pub(super) aborting: bool,
    /// The end of the input was reached.
    pub(super) input_ended: bool,
    /// The name of the session, if it is stored.
    pub(super) stored_name: Option<Arc<str>>,
    /// Standard input is a terminal.
    pub(super) keyboard: bool,
    /// The session remembers facts.
    pub(super) remembers: bool,
    /// Facts can be distilled from the conversation.
    pub(super) distils: bool,
    pub(super) program: Arc<Program>,
    /// The context of the app's slash commands.
    pub(super) context: SlashContext,
    /// The app's slash command that runs.
    pub(super) slash: Option<RunningSlash>,
    pub(super) compaction: Option<Pin<Box<dyn Future<Output = Compacted>>>>,
    /// The input that was sent while the session moved to another process.
    pub(super) unsent: Option<InputEvent>,
    pub(super) exit_code: Option<u8>,
}

impl Chat {
    pub(super) fn new(
        handle: AgentHandle,
        allowed: Allowed,
        session: &Session,
        context: SlashContext,
        lines: mpsc::Receiver<String>,
    ) -> Self {
        Chat {
            handle,
            allowed,
            lines,
            state: State::Idle,
            aborting: false,
            input_ended: false,
            stored_name: session.is_stored.then(|| session.name.clone()),
            keyboard: io::stdin().is_terminal(),
            remembers: false,
            distils: false,
            program: Arc::default(),
            context,
            slash: None,
            compaction: None,
            unsent: None,
            exit_code: None,
        }
    }

    /// Shows the prompt for a request, if the user types.
    pub(super) fn prompt(&self) {
        if self.keyboard {
            output::question(">");
        }
    }

    /// Repeats the current question.
    pub(super) fn repeat_question(&self) {
        match &self.state {
            State::Deciding(action) if !action.path.is_empty() => {
                output::question("Run it? [y]es [n]o [e]dit:");
            }
            State::Deciding(_) => output::question("Run it? [y]es [n]o [e]dit [a]lways:"),
            State::Editing(_) => output::question("New arguments, as JSON on one line:"),
            State::Answering(action, _) => {
                let how = action.question().map(|question| how_to_answer(&question));
                output::question(&format!(
                    "Your answer, {} (/decline REASON declines):",
                    how.unwrap_or("a text")
                ));
            }
            State::Idle => self.prompt(),
            State::Running => {}
        }
    }

    /// Becomes idle and shows the prompt, or leaves at the end of the input.
    pub(super) fn wait_for_request(&mut self) {
        self.state = State::Idle;
        if self.slash.is_some() {
            return; // its reply comes first
        }
        if self.input_ended {
            self.exit_code = Some(0);
        } else {
            self.prompt();
        }
    }

    /// Sends a request.
    pub(super) async fn request(&mut self, text: &str) -> Done {
        self.state = State::Running;
        self.send(InputEvent::UserRequest(text.into())).await?;
        Ok(())
    }

    /// Sends an input, or keeps it if the session has just moved.
    pub(super) async fn send(&mut self, event: InputEvent) -> Result<(), InputError> {
        let sent = self.handle.send(event.clone()).await;
        if sent.is_err() && self.handle.has_ended() {
            self.unsent = Some(event);
        }
        sent.map(drop)
    }

    /// Leaves while a call waits, since no more input can decide it.
    pub(super) fn leave_pending(&mut self) {
        match (&self.state, &self.stored_name) {
            (State::Answering(action, _), Some(session)) => {
                output::info("The input has ended, so the question waits.");
                report_pending(slice::from_ref(action), Some(session));
            }
            (State::Answering(..), None) => {
                output::info("The input has ended, so the question is not answered.");
            }
            (State::Deciding(action) | State::Editing(action), Some(session)) => {
                output::info("The input has ended, so the call waits.");
                report_pending(slice::from_ref(action), Some(session));
            }
            _ => output::info("The input has ended, so the call is not run."),
        }
        self.exit_code = Some(0);
    }
}
