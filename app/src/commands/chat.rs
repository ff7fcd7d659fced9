//! `loopwright chat` in a pipe, on a dumb terminal, or with `--plain`: a conversation line by line.
//!
//! The meaning of a line depends on the state: it is a request while the agent is idle, a steer
//! during a run, and the decision if a call waits. `run` shares the loop over the session's events:
//! see [`follow`].

mod commands;
mod confirm;
mod enter;
mod lines;
mod state;

use std::future::pending;
use std::pin::Pin;

use loopwright_core::AgentEvent;
use loopwright_core::agent::InputError;
use loopwright_core::event::InputEvent;

use crate::args::ChatArgs;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::exit_code::{ABORTED, FAILED};
use crate::facts::MemoryCommand;
use crate::interrupt::Interrupt;
use crate::output::{self, EventView, Printer, Verbosity};
use crate::session::{
    Allowed, FollowError, Live, Operator, Prefer, Session, build, distil_at_end, follow,
};
use crate::slash::{RunningSlash, SlashReply};

use state::{Chat, Compacted, Done, State};

/// Chats until the user leaves, and returns the exit code.
pub(crate) async fn chat(args: &ChatArgs, config: &Config) -> Result<u8, StartError> {
    let allowed = Allowed::default();
    let mut given = args.options.clone();
    let mut session = Session::choose(&args.session, &given, config).await?;
    let settings = session.settings(&given, config, Verbosity::Normal)?;
    let mut built = build(&settings, &allowed, config, Verbosity::Normal).await?;
    session.announce(&built, Verbosity::Normal);
    let (handle, events) = session.start(&built, Prefer::Opening).await?;
    // Until here Ctrl-C ends the process at once, as the store may wait.
    let mut interrupt = Interrupt::listen()?;
    let context = session.slash_context(&built.settings, &handle);
    let mut chat = Chat::new(handle.clone(), allowed.clone(), &session, context, lines::read()?);
    chat.remembers = settings.active.memory.unwrap_or_default();
    chat.distils = built.distils;
    chat.program = config.program.clone();
    let view = EventView::Text(Printer::new());
    let mut live = Live::new(handle, events, session.store.clone(), view);
    let mut entered = chat.greet(session.info.is_some()).await;
    let followed = loop {
        let followed = match entered {
            Ok(()) => follow(&mut live, Some(&mut interrupt), &mut chat).await,
            Err(why) => Err(why),
        };
        match followed {
            Err(FollowError::Session(_)) if live.has_moved().await => {}
            followed => break followed,
        }
        if !live.handle.is_attached() {
            given = given.not_stored();
        }
        let prefer = Prefer::after_move(&live.handle);
        session.reload().await?;
        let settings = session.settings(&given, config, Verbosity::Quiet)?;
        built = build(&settings, &allowed, config, Verbosity::Quiet).await?;
        let (handle, events) = session.start(&built, prefer).await?;
        let context = session.slash_context(&built.settings, &handle);
        live.continue_with(handle.clone(), events);
        entered = chat.continue_with(handle, context).await;
    };
    let code = match followed {
        Ok(code) => code,
        Err(why) => {
            output::error(&why);
            return Ok(FAILED);
        }
    };
    let is_attached = live.handle.is_attached();
    if code == 0 && built.distils_at_end && !is_attached {
        distil_at_end(&live.handle).await;
    }
    // Closing waits for a run in progress, even for one that another process has just started.
    let is_idle = live.handle.state().await.is_ok_and(|state| !state.is_running);
    let is_kept = !is_idle
        || tokio::select! {
            is_kept = session.close(&live.handle) => is_kept,
            () = interrupt.pressed() => true,
        };
    if session.is_stored && is_kept && chat.keyboard {
        output::info(&format!(
            "This is session {0}: `{1} --session {0}` continues it.",
            output::quoted(&session.name),
            started_as()
        ));
    }
    Ok(code)
}

/// An input of the chat, besides the session's events.
enum Input {
    /// A line, or `None` at the end of the input.
    Line(Option<String>),
    /// The result of a compaction that the user requested.
    Compacted(Compacted),
    /// The reply of one of the app's slash commands.
    Replied(Result<SlashReply, String>),
}

impl Operator for Chat {
    type Input = Input;

    fn exit_code(&self) -> Option<u8> {
        self.exit_code
    }

    fn observe(&mut self, event: &AgentEvent) {
        if !matches!(event, AgentEvent::AgentStart { .. }) {
            return;
        }
        if let State::Deciding(_) | State::Editing(_) | State::Answering(..) = self.state {
            output::info("It was decided elsewhere.");
        }
        self.state = State::Running;
    }

    async fn input(&mut self) -> Input {
        // While a slash command runs, only decisions and answers are read, since it may wait for
        // them.
        let waits = self.slash.is_some() && matches!(self.state, State::Idle | State::Running);
        let reads = !self.input_ended && !waits;
        tokio::select! { biased;
            done = compaction(&mut self.compaction) => Input::Compacted(done),
            reply = reply(&mut self.slash) => Input::Replied(reply),
            line = self.lines.recv(), if reads => Input::Line(line),
        }
    }

    async fn handle(&mut self, input: Input, live: &mut Live) -> Done {
        let done = match input {
            Input::Line(Some(line)) => self.line(&line).await,
            Input::Line(None) => {
                self.input_ended();
                Ok(())
            }
            Input::Compacted(done) => self.compacted(done, live).await,
            Input::Replied(reply) => self.replied(reply).await,
        };
        match done {
            Err(FollowError::Session(why)) => self.refused(why).await,
            done => done,
        }
    }

    /// Aborts the run, or leaves if the agent is idle or already aborting.
    async fn interrupted(&mut self, _: &mut Live) -> Done {
        match self.state {
            State::Idle if self.slash.take().is_some() => {
                output::info("The command was cancelled.");
                self.wait_for_request();
            }
            State::Idle => self.exit_code = Some(0),
            _ if self.aborting => self.exit_code = Some(ABORTED),
            _ => {
                self.aborting = true;
                self.state = State::Running;
                match self.handle.abort().await {
                    // If nothing is left to abort, another process has the session and shows how
                    // the run ended.
                    Ok(()) | Err(InputError::NothingToAbort(_)) => {}
                    Err(why) => return Err(why.into()),
                }
            }
        }
        Ok(())
    }

    /// Asks for a decision if a call waits, and for the next request otherwise.
    async fn idle(&mut self, live: &mut Live) -> Done {
        let state = self.handle.state().await?;
        if state.is_running {
            return Ok(());
        }
        self.aborting = false;
        if let Some(action) = state.pending_actions.into_iter().next() {
            return self.ask(action).await;
        }
        let is_queued = !state.steering_queue.is_empty() || !state.follow_up_queue.is_empty();
        let is_done = live.outcome().is_some_and(|outcome| outcome.has_finished());
        if is_queued && is_done {
            // The message was sent before this end was observed, and arrived after it.
            match self.send(InputEvent::Continue(None)).await {
                Ok(()) | Err(InputError::Busy) => {
                    self.state = State::Running;
                    return Ok(());
                }
                Err(InputError::NothingToContinue) => {} // another process has continued
                Err(why) => return Err(why.into()),
            }
        }
        if is_queued {
            output::info("Your messages during the run are queued until your next request.");
        }
        self.wait_for_request();
        Ok(())
    }
}

/// Waits for the compaction, or forever if none runs.
async fn compaction(running: &mut Option<Pin<Box<dyn Future<Output = Compacted>>>>) -> Compacted {
    match running {
        Some(compaction) => compaction.await,
        None => pending().await,
    }
}

/// Waits for the reply of a slash command, or forever if none runs.
async fn reply(running: &mut Option<RunningSlash>) -> Result<SlashReply, String> {
    match running {
        Some(running) => running.ended().await,
        None => pending().await,
    }
}

impl Chat {
    async fn line(&mut self, typed: &str) -> Done {
        let line = typed.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if let State::Answering(_, Some(_)) = self.state {
            output::notice(""); // the typed line end was hidden
        }
        match (word, &self.state) {
            ("", State::Idle) => self.wait_for_request(),
            ("", State::Running) => {}
            ("/quit", _) => self.quit().await?,
            ("/help", _) => {
                output::info(&self.help());
                self.repeat_question();
            }
            ("/continue", State::Idle) => self.continue_run().await?,
            ("/continue", State::Running) => output::info("The agent is already running."),
            ("/compact", State::Idle | State::Running) => self.compact(rest),
            ("/memory", State::Idle | State::Running) if MemoryCommand::is_distil(rest) => {
                self.distil().await?;
            }
            ("/memory", _) if MemoryCommand::is_distil(rest) => {
                output::info("Facts can be distilled when you have answered.");
                self.repeat_question();
            }
            ("/memory", _) => {
                self.memory(rest).await;
                self.repeat_question();
            }
            ("/plan", State::Idle) if !rest.is_empty() => self.request(line).await?,
            ("/later", State::Idle) if !rest.is_empty() => self.request(rest).await?,
            ("/later", _) if !rest.is_empty() => {
                self.send(InputEvent::FollowUp(rest.into())).await?;
                output::info("Queued as a follow-up.");
                self.repeat_question();
            }
            ("/decline", State::Answering(action, _)) => {
                let action = action.clone();
                self.decline(action, rest).await?;
            }
            (command, state) if !state.asks_for_a_secret() && self.own(command).is_some() => {
                self.start_slash(command, rest);
            }
            (command, state) if is_command(command) && !state.asks_for_a_secret() => {
                output::info(&format!("`{line}` is not a command; /help lists the commands."));
                self.repeat_question();
            }
            (_, State::Idle) => self.request(line).await?,
            (_, State::Running) => {
                self.send(InputEvent::Steer(line.into())).await?;
                output::info("Queued for the next model request.");
            }
            (_, State::Deciding(action)) => {
                let action = action.clone();
                self.decision(action, word, rest).await?;
            }
            (_, State::Editing(action)) => {
                let action = action.clone();
                self.edit(action, line).await?;
            }
            (_, State::Answering(action, _)) => {
                let action = action.clone();
                self.answer(action, typed).await?;
            }
        }
        Ok(())
    }

    /// Continues a run that was interrupted or has failed, or delivers queued messages.
    async fn continue_run(&mut self) -> Done {
        match self.send(InputEvent::Continue(None)).await {
            Ok(()) => self.state = State::Running,
            Err(why @ InputError::NothingToContinue) => {
                output::info(&format!("{why}."));
                self.wait_for_request();
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }

    fn input_ended(&mut self) {
        self.input_ended = true;
        match self.state {
            State::Running => {}
            State::Idle => self.exit_code = Some(0),
            State::Deciding(_) | State::Editing(_) | State::Answering(..) => self.leave_pending(),
        }
    }

    /// Leaves the chat. Aborts a run of this process; pending calls stay open.
    async fn quit(&mut self) -> Done {
        if matches!(self.state, State::Running) && !self.handle.is_attached() {
            self.handle.abort().await?;
            self.handle.wait_for_idle().await;
        }
        self.exit_code = Some(0);
        Ok(())
    }
}

fn is_command(word: &str) -> bool {
    word.strip_prefix('/').is_some_and(|name| name.chars().all(char::is_alphabetic))
}
