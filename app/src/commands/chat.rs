//! `loopwright chat` in a pipe, on a dumb terminal, or with `--plain`: a conversation line by line.
//!
//! The meaning of a line depends on the state of the conversation: while the agent is idle it is a
//! request, during a run it is a steer, and if a call waits it is the decision. The loop over the
//! session's events is shared with `run`: see [`follow`].

mod confirm;
mod lines;
mod state;

use std::future::pending;
use std::pin::Pin;

use loopwright_core::AgentEvent;
use loopwright_core::agent::InputError;
use loopwright_core::event::{InputEvent, Role};
use loopwright_memory::long_term::DISTIL_COMMAND;

use crate::args::ChatArgs;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::exit_code::{ABORTED, FAILED};
use crate::facts::{self, MemoryCommand};
use crate::interrupt::Interrupt;
use crate::output::{self, EventView, Printer, Verbosity};
use crate::session::{Allowed, FollowError, Live, Operator, Session, build, distil_at_end, follow};
use crate::slash::{RunningSlash, SlashCommand, SlashContext, SlashReply};
use crate::wording::has_finished;

use state::{Chat, Compacted, Done, State};

const HELP: &str = "\
A line is a request; while the agent works, a line steers it.
/compact TEXT summarise older turns, following the instructions in TEXT if given
/continue     continue a run that was interrupted or has failed
/decline TEXT decline to answer a question, with a reason
/later TEXT   queue a follow-up
/memory       list what is remembered about you; `find WORDS`, `forget ID`, `forget all`,
              `distil` (stores what this conversation says about you), `export FILE`
/plan TEXT    plan a request first: nothing is changed before you accept the plan
/help         show this text
/quit         leave: a run is aborted, pending calls stay open
Ctrl-C        abort the run; a second one, or one while idle, leaves";

/// Returns whether the chat has a command of this name.
pub(crate) fn is_built_in(name: &str) -> bool {
    HELP.lines()
        .filter_map(|line| line.split_whitespace().next()?.strip_prefix('/'))
        .any(|own| own == name)
}

/// Chats until the user leaves, and returns the exit code.
pub(crate) async fn chat(args: &ChatArgs, config: &Config) -> Result<u8, StartError> {
    let allowed = Allowed::default();
    let session = Session::choose(&args.session, &args.options, config).await?;
    let settings = session.settings(&args.options, config, Verbosity::Normal)?;
    let built = build(&settings, &allowed, config, Verbosity::Normal).await?;
    session.announce(&built, Verbosity::Normal);
    let (handle, events) = built.agent.run(session.context(&built).await?).await?;
    // Before, while the session may wait for another process, Ctrl-C ends this one at once.
    let interrupt = Interrupt::listen()?;
    let context = SlashContext::new(&session, &built.settings, handle.clone());
    let mut chat = Chat::new(handle.clone(), allowed, &session, context, lines::read()?);
    chat.remembers = settings.active.memory.unwrap_or_default();
    chat.distils = built.distils;
    chat.program = config.program.clone();
    let mut live = Live::new(handle, events, EventView::Text(Printer::new()));
    let followed = match chat.greet(session.info.is_some()).await {
        Ok(()) => follow(&mut live, Some(interrupt), &mut chat).await,
        Err(why) => Err(why),
    };
    let code = match followed {
        Ok(code) => code,
        Err(why) => {
            output::error(&why);
            return Ok(FAILED);
        }
    };
    if code == 0 && built.distils_at_end {
        distil_at_end(&live.handle).await;
    }
    let state = chat.handle.state().await;
    let is_unused = !chat.has_request
        && session.info.is_none()
        && state.is_ok_and(|now| now.messages.is_empty());
    if session.is_stored && is_unused {
        drop(chat);
        live.close().await;
        session.store.delete(&session.name).await?;
    } else if session.is_stored && chat.keyboard {
        output::info(&format!(
            "This is session {0}: `{1} --session {0}` continues it.",
            output::quoted(&session.name),
            started_as()
        ));
    }
    Ok(code)
}

/// What the chat waits for besides events.
enum Input {
    /// A line, or `None` at the end of the input.
    Line(Option<String>),
    /// The result of a compaction that the user requested.
    Compacted(Compacted),
    /// The reply of a slash command of the app.
    Replied(Result<SlashReply, String>),
}

impl Operator for Chat {
    type Input = Input;

    fn exit_code(&self) -> Option<u8> {
        self.exit_code
    }

    fn observe(&mut self, event: &AgentEvent) {
        if matches!(event, AgentEvent::AgentStart { .. }) {
            self.state = State::Running;
        }
    }

    async fn input(&mut self) -> Input {
        // While a slash command runs, only decisions and answers are read: it may wait for them.
        let waits = self.slash.is_some() && matches!(self.state, State::Idle | State::Running);
        let reads = !self.input_ended && !waits;
        tokio::select! { biased;
            done = compaction(&mut self.compaction) => Input::Compacted(done),
            reply = reply(&mut self.slash) => Input::Replied(reply),
            line = self.lines.recv(), if reads => Input::Line(line),
        }
    }

    async fn handle(&mut self, input: Input, live: &mut Live) -> Done {
        match input {
            Input::Line(Some(line)) => self.line(&line).await,
            Input::Line(None) => {
                self.input_ended();
                Ok(())
            }
            Input::Compacted(done) => self.compacted(done, live).await,
            Input::Replied(reply) => self.replied(reply).await,
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
                self.handle.abort().await?;
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
        let is_done = live.outcome().is_some_and(|outcome| has_finished(outcome.end));
        if is_queued && is_done {
            // A message that was sent before this end was observed arrived after it.
            self.state = State::Running;
            self.handle.send(InputEvent::Continue(None)).await?;
            return Ok(());
        }
        if is_queued {
            output::info("Your messages during the run are queued until your next request.");
        }
        self.wait_for_request();
        Ok(())
    }
}

/// Waits for the compaction, if there is one.
async fn compaction(running: &mut Option<Pin<Box<dyn Future<Output = Compacted>>>>) -> Compacted {
    match running {
        Some(compaction) => compaction.await,
        None => pending().await,
    }
}

/// Waits for the reply of a slash command, if one runs.
async fn reply(running: &mut Option<RunningSlash>) -> Result<SlashReply, String> {
    match running {
        Some(running) => running.ended().await,
        None => pending().await,
    }
}

impl Chat {
    /// Shows the state of the conversation, and asks for a decision if a call waits.
    async fn greet(&mut self, is_continued: bool) -> Done {
        if self.keyboard {
            output::info("Type a request; /help lists the commands, /quit leaves.");
        }
        if is_continued {
            let state = self.handle.state().await?;
            output::info(&format!("The conversation has {} messages.", state.messages.len()));
            let replies =
                state.messages.iter().rev().filter(|message| message.role() == Role::Assistant);
            let mut texts = replies.map(|reply| reply.text());
            if let Some(last) = texts.find(|text| !text.trim().is_empty()) {
                output::notice(last.trim_end());
            }
            if let Some(run) = state.interrupted_run {
                output::info(&format!(
                    "Run {run} was interrupted; /continue continues it, a new request ends it."
                ));
            }
            if let Some(action) = state.pending_actions.into_iter().next() {
                return self.ask(action).await;
            }
        }
        self.prompt();
        Ok(())
    }

    fn wait_for_request(&mut self) {
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

    async fn line(&mut self, typed: &str) -> Done {
        let line = typed.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if let State::Answering(_, Some(_)) = self.state {
            output::notice(""); // the line end was not shown
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
                self.handle.follow_up(rest).await?;
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
                self.handle.steer(line).await?;
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

    /// Returns the commands and keys, with those of the app.
    fn help(&self) -> String {
        let own = self.program.slash_commands.iter();
        let own = own.map(|own| format!("\n/{:<12} {}", own.name, own.help));
        HELP.to_owned() + &own.collect::<String>()
    }

    /// Returns the slash command of the app that this word names.
    fn own(&self, word: &str) -> Option<&SlashCommand> {
        self.program.slash_command(word.strip_prefix('/')?)
    }

    /// Starts a slash command of the app, one at a time.
    fn start_slash(&mut self, word: &str, arguments: &str) {
        if self.slash.is_some() {
            output::info("A command is still running: wait until it is done.");
            return;
        }
        self.slash = self.own(word).map(|own| own.start(arguments, self.context.clone()));
    }

    /// Shows or sends the reply of a slash command.
    async fn replied(&mut self, reply: Result<SlashReply, String>) -> Done {
        self.slash = None;
        match reply {
            Ok(SlashReply::Send(text)) if matches!(self.state, State::Idle) => {
                return self.request(&text).await;
            }
            Ok(SlashReply::Send(text)) => {
                self.handle.steer(text.as_str()).await?;
                output::info("Queued for the next model request.");
            }
            Ok(SlashReply::Show(text)) => output::text(&text).map_err(FollowError::Output)?,
            Err(why) => output::error(&why),
        }
        match self.state {
            State::Idle => self.wait_for_request(),
            _ => self.repeat_question(),
        }
        Ok(())
    }

    /// Shows or deletes remembered facts.
    async fn memory(&self, rest: &str) {
        let command = match MemoryCommand::read(rest) {
            Ok(command) => command,
            Err(why) => return output::info(why),
        };
        match command.run(self.remembers, &self.program.names).await {
            Ok(answer) => {
                for fact in answer.facts {
                    output::notice(&format!("{:>5}  {}", fact.id, fact.text));
                }
                answer.notes.iter().for_each(|note| output::info(note));
            }
            Err(why) => output::error(&why.0),
        }
    }

    /// Distils facts from the conversation, if the session remembers facts: after the run, if there
    /// is one.
    async fn distil(&mut self) -> Done {
        if self.distils {
            return self.request(DISTIL_COMMAND).await;
        }
        output::info(facts::OFF);
        if matches!(self.state, State::Idle) {
            self.wait_for_request();
        }
        Ok(())
    }

    async fn request(&mut self, text: &str) -> Done {
        self.state = State::Running;
        self.has_request = true;
        self.handle.send(InputEvent::UserRequest(text.into())).await?;
        Ok(())
    }

    /// Continues a run that was interrupted or has failed, or delivers queued messages.
    async fn continue_run(&mut self) -> Done {
        match self.handle.send(InputEvent::Continue(None)).await {
            Ok(_) => {
                self.state = State::Running;
                self.has_request = true;
            }
            Err(why @ InputError::NothingToContinue) => {
                output::info(&format!("{why}."));
                self.wait_for_request();
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }

    /// Starts a compaction. An event shows its result.
    fn compact(&mut self, instructions: &str) {
        self.state = State::Running;
        let handle = self.handle.clone();
        let instructions = Some(instructions.to_owned()).filter(|text| !text.is_empty());
        self.compaction =
            Some(Box::pin(async move { handle.compact(instructions.as_deref()).await }));
    }

    /// Handles the end of a compaction, which may have been a separate run or a part of a run.
    async fn compacted(&mut self, done: Compacted, live: &mut Live) -> Done {
        self.compaction = None;
        match done {
            Ok(done) if done.is_empty() => output::info("There is nothing to summarise yet."),
            Ok(_) => {}
            Err(why) => output::error(&format!("{why}.")),
        }
        live.show_arrived(self)?;
        let is_running = matches!(self.state, State::Running);
        if is_running && !live.awaits_idle() && !self.handle.state().await?.is_running {
            self.wait_for_request();
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

    /// Leaves. A run is aborted, pending calls stay open.
    async fn quit(&mut self) -> Done {
        if matches!(self.state, State::Running) {
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
